"""A campaign of the statement fuzz: `python -m tests.property.statement_fuzz FIRST LAST`.

Several run beside each other on ranges of seeds of their own. It prints each kind of failure, how often it
was seen, and one statement of each.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fuzz.answered import campaign

if __name__ == "__main__":
    first, last = map(int, sys.argv[1:3])
    begin = time.monotonic()
    found = campaign(range(first, last))
    print(
        f"{found.asked} asked, {found.refused} refused, {found.compared} compared, {found.rows} rows, "
        f"{time.monotonic() - begin:.0f} s"
    )
    print("refused:", found.refusals.most_common(20))
    print("features:", sorted(found.features.items()))
    shown: set[str] = set()
    for kind, times in found.kinds().most_common():
        print(f"{times} times: {kind}")
    for what, text, seed in found.failures:
        if what[:40] not in shown:
            shown.add(what[:40])
            print(f"seed {seed}: {what}\n    {text}")
