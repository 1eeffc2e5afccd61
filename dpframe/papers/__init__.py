"""Algorithms as papers print them, and what papers compare methods by; none is a default."""
