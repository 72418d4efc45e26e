"""The command line of the benchmarks: what to run, and how to show it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from .charges import charges
from .events import SIZES, Events, Size
from .growth import growth
from .measures import Figure
from .processes import cold_start, memory
from .refusals import refusals
from .samplers import samplers
from .selections import opendp, selections
from .sparse import sparse
from .statements import end_to_end, fixed_cost, kept, sums

__all__ = ["main"]

LINE = "{:<48} {:>11} {:>11} {:>8} {:>8}  {:<16} {}"


def groups(size: str, folder: Path, rounds: int) -> dict[str, Callable[[], Iterator[Figure]]]:
    """Name all groups of figures; the largest data are made for those that are run alone."""
    events = Events(folder / size, SIZES[size])
    tiny = Events(folder / "tiny", Size(1000, 100, 20))
    counts = (10_000, 1_000_000) if size != "L" else (10_000, 1_000_000, 10_000_000)
    most = {"S": 10**5, "M": 10**6, "L": 10**7}[size]
    entries = {"S": 2_000, "M": 10_000, "L": 100_000}[size]
    return {
        "statements": lambda: end_to_end(events, size, rounds),
        "sums": lambda: sums(events, size, rounds),
        "kept": lambda: kept(events, size, rounds),
        "fixed": lambda: fixed_cost(tiny, 8 * rounds),
        "refusals": lambda: refusals(tiny, rounds),
        "cold": lambda: cold_start(folder, rounds),
        "memory": lambda: memory(events, size),
        "noise": lambda: samplers(rounds),
        "selections": lambda: selections(counts, rounds),
        "opendp": lambda: opendp((10_000, 50_000), 3),
        "ledger": lambda: charges(entries),
        "sparse": lambda: sparse(folder / "sparse", min(rounds, 5)),
        "growth": lambda: growth(folder, max(3, rounds // 2), most=most),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, print the table, write the JSON, compare with an earlier run."""
    reader = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    reader.add_argument("--size", choices=sorted(SIZES, reverse=True), default="S", help="of the made data")
    reader.add_argument("--only", nargs="+", metavar="GROUP", help="run these groups alone")
    reader.add_argument("--rounds", type=int, default=9, help="how often both sides of a ratio run")
    reader.add_argument("--folder", type=Path, help="where data are made, and kept; else a temporary one")
    reader.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    reader.add_argument("--against", type=Path, metavar="FILE", help="compare with the figures written there")
    given = reader.parse_args(arguments)
    before = _read(given.against) if given.against else {}
    with tempfile.TemporaryDirectory(prefix="dpsql-benchmarks-") as temporary:
        known = groups(given.size, given.folder or Path(temporary), given.rounds)
        unknown = set(given.only or ()) - set(known)
        if unknown:
            reader.error(f"unknown groups {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        figures = _show(work for name, work in known.items() if not given.only or name in given.only)
    if before:
        _compare(figures, before)
    if given.json:
        given.json.write_text(
            json.dumps({"machine": _machine(), "figures": [asdict(f) for f in figures]}, indent=1)
        )
    return 0


def _show(works: Iterable[Callable[[], Iterator[Figure]]]) -> list[Figure]:
    figures: list[Figure] = []
    print(" · ".join(f"{name} {value}" for name, value in _machine().items()))
    print("ratio: median of the pairwise ratios of wall time; work: the same of processor time")
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        print("other programs keep this machine busy: believe the work, not the times")
    group = ""
    for work in works:
        for figure in work():
            if figure.group != group:
                group = figure.group
                print("\n" + LINE.format(group, "ours", "floor", "ratio", "work", "goal", "").rstrip())
            print(_line(figure), flush=True)
            figures.append(figure)
    judged = [f for f in figures if f.met is not None]
    print(f"\n{sum(bool(f.met) for f in judged)} of {len(judged)} goals are met")
    return figures


def _line(figure: Figure) -> str:
    def number(value: float | None, unit: str = "") -> str:
        return "" if value is None else f"{value:,.{2 if value < 100 else 0}f} {unit}".strip()

    met = "" if figure.met is None else "met" if figure.met else "NOT MET"
    return LINE.format(
        f"  {figure.what}"[:48],
        number(figure.ours, figure.unit),
        number(figure.floor, figure.unit),
        number(figure.ratio),
        number(figure.work),
        figure.goal,
        met,
    ).rstrip()


def _machine() -> dict[str, str]:
    load = "/".join(f"{x:.1f}" for x in os.getloadavg())
    versions = {name: version(name) for name in ("duckdb", "pyarrow", "numpy", "sqlglot")}
    return {"python": platform.python_version(), **versions, "cores": str(os.cpu_count()), "load": load}


def _read(path: Path) -> dict[tuple[str, str], dict[str, float | None]]:
    return {(f["group"], f["what"]): f for f in json.loads(path.read_text())["figures"]}


def _compare(figures: Sequence[Figure], before: dict[tuple[str, str], dict[str, float | None]]) -> None:
    """Print by how much each figure changed: its ratio to the floor where it has one, else itself."""
    print("\n" + "{:<64} {:>10} {:>10} {:>8}".format("against the earlier run", "then", "now", "change"))
    for figure in figures:
        old = before.get((figure.group, figure.what))
        if old is None:
            continue
        name = "ratio" if figure.ratio is not None else "ours"
        then, now = old[name], getattr(figure, name)
        if then:
            where = f"{figure.group}: {figure.what}"[:64]
            print(f"{where:<64} {then:>10.2f} {now:>10.2f} {now / then - 1:>+8.0%}")


if __name__ == "__main__":
    sys.exit(main())
