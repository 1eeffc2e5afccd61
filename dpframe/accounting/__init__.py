"""What noise costs and how much is needed; every bound rounds to the private side."""
