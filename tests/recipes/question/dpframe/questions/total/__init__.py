"""How many records there are."""
