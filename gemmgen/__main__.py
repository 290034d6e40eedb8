"""`python -m gemmgen`: the command line without an installed script."""

import sys

from gemmgen.cli import main

sys.exit(main())
