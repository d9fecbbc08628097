"""``python -m rushlight``: the command line."""

import sys

from rushlight.cli import main

sys.exit(main())
