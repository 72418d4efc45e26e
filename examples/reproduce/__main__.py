"""`python examples/reproduce`: see the package."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a folder, Python takes this file for a script of no package.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from reproduce.command import main

    sys.exit(main())
