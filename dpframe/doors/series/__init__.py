"""A door for schedulers: questions that are asked again every period."""
