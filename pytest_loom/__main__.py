"""``python -m pytest_loom``: the same as the console script ``pytest-loom``."""

import sys

from pytest_loom.cli import main

sys.exit(main())
