"""``python -m dpframe``."""

import sys

from dpframe.frontends.cli import main

if __name__ == "__main__":
    sys.exit(main())
