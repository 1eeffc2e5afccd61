"""The questions, one room each, with the same file names in each."""
