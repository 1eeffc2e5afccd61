"""Where calls come in: parse, call, format."""
