"""The only readers of private data. They return counts, such as a CountTree."""
