"""The process `python -m dpsql`: the command line, as the script `dpsql` starts it."""

from __future__ import annotations

import sys

from dpsql.cli.__main__ import start

if __name__ == "__main__":
    sys.exit(start())
