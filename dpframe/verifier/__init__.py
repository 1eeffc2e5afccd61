"""Proofs of receipts, checked: a program of its own, which shares no code with what drew"""
