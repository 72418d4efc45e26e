"""`python tests/benchmarks/run.py`: the same as `python -m tests.benchmarks`, from anywhere."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.benchmarks.command import main

    sys.exit(main())
