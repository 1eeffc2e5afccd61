"""The question ``rollup``: several measures on the parts of one selection of nodes."""
