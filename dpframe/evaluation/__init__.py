"""How far releases are from the truth, for whoever has it."""
