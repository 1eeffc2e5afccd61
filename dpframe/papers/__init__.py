"""Algorithms as papers print them, and what papers compare methods by; nothing here is a default"""
