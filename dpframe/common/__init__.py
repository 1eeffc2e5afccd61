"""What every room may use: texts, files, calls, digests. It imports errors alone."""
