"""``python -m dpframe``."""

import sys

from dpframe.doors.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
