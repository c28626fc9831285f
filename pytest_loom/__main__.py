"""``python -m pytest_loom``: the same as the console script ``pytest-loom``."""

import sys

from pytest_loom.cli import main

if __name__ == "__main__":
    sys.exit(main())
