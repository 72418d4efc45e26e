"""Edits of certified trees: `python -m tests.property.kernel.campaign --edits 20000 --seed 1 --workers 1`.

It prints how many did not bind, were refused and were accepted, and each accepted one that does not hold what
is certified of it. `--out FOLDER` writes these to files.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernel.attack import FILLS, Attack, Figures, Finding
from kernel.grounds import grounds


def run(edits: int, seed: int, fills: int, out: Path | None) -> Figures:
    """Edit as many trees in this process."""
    found = grounds()
    attack = Attack(found, seed)
    try:
        while attack.figures.edits < edits:
            known = len(attack.figures.findings)
            attack.round(fills=fills)
            for number, finding in enumerate(attack.figures.findings[known:], known):
                _write(out, f"edit_{seed}_{number}.txt", finding)
            if attack.rounds % 10 == 0:
                print(f"seed {seed}: {attack.figures}", file=sys.stderr, flush=True)
    finally:
        for ground in found:
            ground.close()
    return attack.figures


def _write(out: Path | None, name: str, finding: Finding) -> None:
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(f"{finding}\n", "utf-8")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=Random().randrange(2**32))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--fills", type=int, default=FILLS, help="databases for each accepted tree")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    begin, total = time.monotonic(), Figures()
    if asked.workers == 1:
        total = run(asked.edits, asked.seed, asked.fills, asked.out)
    else:
        tasks = [
            (asked.edits // asked.workers, asked.seed + i, asked.fills, asked.out)
            for i in range(asked.workers)
        ]
        with multiprocessing.get_context("spawn").Pool(asked.workers) as pool:
            for figures in pool.starmap(run, tasks):
                total.add(figures)
    print(f"seed {asked.seed}, {time.monotonic() - begin:.0f} s: {total}")
    print(f"not edited and not certified: {total.unproved}")
    print("refused:", *(f"{times} {rule}" for rule, times in total.refused.most_common(40)), sep="\n  ")
    print("accepted:", *(f"{times} {edit}" for edit, times in total.accepted.most_common()), sep="\n  ")
    for number, finding in enumerate(total.findings):
        print(f"\nFINDING {number}: {finding}")
    sys.exit(bool(total.findings))


if __name__ == "__main__":
    main()
