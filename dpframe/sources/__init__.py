"""The only readers of private data. What they return is a CountTree."""
