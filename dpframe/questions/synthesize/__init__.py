"""Synthetic rows."""
