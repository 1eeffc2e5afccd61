"""Frequent items of devices."""
