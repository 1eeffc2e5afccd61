"""One published algorithm a file: what it costs, and how it runs on true counts."""
