"""How much is below the nodes of a hierarchy: several measures on the parts of one selection."""
