"""Sketches that are updated, merged and released."""
