"""Check the proofs of receipts: a program of its own, which shares no code with the mechanisms."""
