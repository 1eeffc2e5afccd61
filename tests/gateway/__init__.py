"""dpframe as a SQL user meets it."""
