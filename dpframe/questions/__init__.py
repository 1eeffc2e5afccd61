"""The questions: one room for each, with the same file names in every room."""
