"""Free of charge: what may be computed from released numbers."""
