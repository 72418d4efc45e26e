"""The command line of the benchmarks: what to run, how to show it, and what to compare it with."""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from .charges import charges
from .events import SIZES, Events, Size
from .goals import Setting, discovered
from .growth import growth
from .history import Run, changes
from .measures import Figure
from .page import page
from .processes import memory
from .refusals import refusals
from .samplers import samplers
from .selections import opendp, selections
from .statements import end_to_end, preparing, sums

__all__ = ["main"]

LINE = "{:<48} {:>11} {:>11} {:>8} {:>8}  {:<16} {}"


def groups(size: str, folder: Path, rounds: int) -> dict[str, Callable[[], Iterator[Figure]]]:
    """Name all groups of figures; the largest data are made for those that are run alone."""
    events = Events(folder / size, SIZES[size])
    tiny = Events(folder / "tiny", Size(1000, 100, 20))
    counts = (10_000, 1_000_000) if size != "L" else (10_000, 1_000_000, 10_000_000)
    most = {"S": 10**5, "M": 10**6, "L": 10**7}[size]
    entries = {"S": 2_000, "M": 10_000, "L": 100_000}[size]
    setting = Setting(size, events, tiny, folder, rounds)
    goals = {name: partial(module.figures, setting) for name, module in discovered().items()}
    return goals | {
        "statements": lambda: end_to_end(events, size, rounds),
        "sums": lambda: sums(events, size, rounds),
        "preparing": lambda: preparing(tiny, 8 * rounds),
        "refusals": lambda: refusals(tiny, rounds),
        "memory": lambda: memory(events, size),
        "noise": lambda: samplers(rounds),
        "selections": lambda: selections(counts, rounds),
        "opendp": lambda: opendp((10_000, 50_000), 3),
        "ledger": lambda: charges(entries),
        "growth": lambda: growth(folder, max(3, rounds // 2), most=most),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for: print the table, write page and history, compare with an earlier run."""
    reader = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    reader.add_argument("--size", choices=sorted(SIZES, reverse=True), default="S", help="of the made data")
    reader.add_argument("--only", nargs="+", metavar="GROUP", help="run these groups alone")
    reader.add_argument("--rounds", type=int, default=9, help="how often both sides of a ratio run")
    reader.add_argument("--folder", type=Path, help="where data are made, and kept; else a temporary one")
    reader.add_argument("--html", type=Path, metavar="FILE", help="write a page with the ratios there")
    reader.add_argument("--json", type=Path, metavar="FILE", help="add all figures to the history there")
    reader.add_argument(
        "--against", type=Path, metavar="FILE", help="compare with the last run written there"
    )
    given = reader.parse_args(arguments)
    before = Run.last(given.against) if given.against else None
    with tempfile.TemporaryDirectory(prefix="dpsql-benchmarks-") as temporary:
        known = groups(given.size, given.folder or Path(temporary), given.rounds)
        unknown = set(given.only or ()) - set(known)
        if unknown:
            reader.error(f"unknown groups {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        run = Run.begun(given.size)
        _show(run, [work for name, work in known.items() if not given.only or name in given.only])
    if before:
        _compare(run, before)
    if given.json:
        run.append(given.json)
    if given.html:
        given.html.write_text(page(run, before), encoding="utf-8")
    return 0


def _show(run: Run, works: Iterable[Callable[[], Iterator[Figure]]]) -> None:
    print(" · ".join(f"{name} {value}" for name, value in run.machine.items()))
    print("ratio: median of the pairwise ratios of wall time; work: the same of processor time")
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        print("other programs keep this machine busy: believe the work, not the times")
    group = ""
    for work in works:
        for figure in work():
            if figure.group != group:
                group = figure.group
                print("\n" + LINE.format(group[:48], "ours", "floor", "ratio", "work", "goal", "").rstrip())
            print(_line(figure), flush=True)
            run.figures.append(figure)
    judged = [f for f in run.figures if f.met is not None]
    print(f"\n{sum(bool(f.met) for f in judged)} of {len(judged)} goals are met")


def _line(figure: Figure) -> str:
    def number(value: float | None, unit: str = "") -> str:
        return (
            ""
            if value is None or math.isnan(value)
            else f"{value:,.{2 if value < 100 else 0}f} {unit}".strip()
        )

    met = "" if figure.met is None else "met" if figure.met else "NOT MET"
    return LINE.format(
        f"  {figure.what}"[:48],
        number(figure.ours, figure.unit),
        number(figure.floor, figure.unit),
        number(figure.ratio),
        number(figure.work),
        figure.goal or figure.error,
        met,
    ).rstrip()


def _compare(run: Run, before: Run) -> None:
    """Print by how much each figure changed: its ratio to the floor where it has one, else itself."""
    print("\n" + "{:<64} {:>10} {:>10} {:>8}".format("against the earlier run", "then", "now", "change"))
    for (group, what), (then, now) in changes(run, before).items():
        print(f"{f'{group}: {what}'[:64]:<64} {then:>10.2f} {now:>10.2f} {now / then - 1:>+8.0%}")
