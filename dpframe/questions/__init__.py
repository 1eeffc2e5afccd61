"""The questions: one room for each, with the files ``ask`` and ``plan`` in every room."""
