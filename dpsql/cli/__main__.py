"""`python -m dpsql.cli` is `dpsql`."""

import sys

from dpsql.cli.app import main

sys.exit(main())
