"""Let the property tests share their generator of statements: it lies beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
