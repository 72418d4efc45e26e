"""`python -m tests.benchmarks`."""

import sys

from tests.benchmarks.command import main

sys.exit(main())
