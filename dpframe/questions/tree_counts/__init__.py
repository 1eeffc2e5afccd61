"""Counts of all nodes."""
