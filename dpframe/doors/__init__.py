"""Doors, where calls come in: they parse, call and format."""
