"""Hierarchical heavy hitters."""
