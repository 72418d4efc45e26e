"""What is drawn of an answer: its labels, its numbers with their ranges, and what kind of picture it is.

===========  ==========================================================================================
kind         of what
===========  ==========================================================================================
``number``   an answer without keys: each number with its range
``marks``    quantiles, which are places on the axis of a column and no amounts from zero
``line``     a key of dates, times or numbered months, all of it: a line, and a band over its intervals
``lines``    the same for up to `MOST_LINES` groups in one frame
``panels``   the same for more groups: a small frame each, with one scale
``grouped``  two keys with few values: bars in groups
``cells``    two keys with more values: a table whose cells are shaded by their numbers
``bars``     everything else: a bar for each row
===========  ==========================================================================================
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from dpsql.lazy_dataclass import dataclass
from dpsql.render.figures import LEAST_DRAWN, Estimate, number

Kind = Literal["number", "marks", "line", "lines", "panels", "grouped", "cells", "bars"]

MOST = 30
"""Groups that are drawn; of more, the largest."""
MOST_LINES = 5
"""Lines in one frame."""


@dataclass(frozen=True, slots=True)
class Series:
    """The numbers of one group, line, panel or column of a picture, one for each of its labels."""

    name: str
    estimates: tuple[Estimate | None, ...]

    @property
    def top(self) -> float:
        """The largest number."""
        return max((e.value for e in self.estimates if e is not None), default=0.0)


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn of an answer, and how: the same for the page, a notebook, a terminal, files, plots."""

    kind: Kind
    of: str
    """The name of the number."""
    by: tuple[str, ...]
    """The names of the keys: of the labels, then of the series."""
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    note: str
    """The price, the mechanism, and the level of the intervals."""
    left_out: str = ""
    """The answer's line on what it leaves out."""
    at: tuple[float, ...] = ()
    """Where the labels stand on the axis of a line."""
    threshold: float | None = None
    gaps: tuple[str, ...] = ()
    """What the statement asked for between a row and the next."""
    folded: str = ""
    """What is not drawn."""
    dated: bool = False
    """Whether the numbers are days since 0001-01-01: a quantile of dates."""
    level: str = ""
    """The level of the intervals, such as `95%`; empty without any."""

    @property
    def every(self) -> list[Estimate]:
        """All numbers that there are."""
        return [e for each in self.series for e in each.estimates if e is not None]

    def text(self, estimate: Estimate | None) -> str:
        """Write a number with its range."""
        if estimate is None:
            return "NULL"
        if self.dated:
            return str(datetime.date.fromordinal(round(estimate.value)))
        return " ".join(estimate.text()).strip()

    @property
    def title(self) -> str:
        """What is drawn, in words: `n by month and clinic, 95% intervals`."""
        by = " and ".join(self.by)
        level = f", {self.level} interval{'s' * (len(self.every) != 1)}" if self.level else ""
        return f"{self.of} by {by}{level}" if by else f"{self.of}{level}"

    @property
    def axis_note(self) -> str:
        """What is said of an axis of numbers that does not begin at 0."""
        ends = extent(self)
        return "the axis of numbers does not begin at 0" if self.at and ends and ends[0] > 0 else ""

    def describe(self) -> str:
        """Say in words what is to be seen, for who does not see it: the kind, the extent, the ends."""
        kind = {
            "number": "Number with its range",
            "marks": "Marks on an axis",
            "line": "Line",
            "lines": f"{len(self.series)} lines",
            "panels": f"{len(self.series)} small line charts with one scale",
            "grouped": "Grouped bars",
            "cells": "Table shaded by number",
            "bars": "Bars",
        }[self.kind]
        found = [
            (label, each.name, e)
            for each in self.series
            for label, e in zip(self.labels, each.estimates, strict=True)
            if e is not None
        ]

        def named(one: tuple[str, str, Estimate]) -> str:
            where = ", ".join(part for part in one[:2] if part and part != self.of)
            return f"{where} {self.text(one[2])}".strip()

        if self.kind in ("number", "marks") and len(found) <= MOST_LINES:
            said = "; ".join(map(named, found))
        elif found:
            low, high = min(found, key=lambda f: f[2].value), max(found, key=lambda f: f[2].value)
            said = f"largest {named(high)}; smallest {named(low)}"
        else:
            said = "no rows"
        extent = f", {self.labels[0]} to {self.labels[-1]}" if self.at and self.labels else ""
        bar = "" if self.threshold is None else f"; the rule is at {number(self.threshold)}"
        folded = f"; {self.folded}" if self.folded else ""
        return f"{kind}: {self.title}{extent}: {said}{bar}{folded}"


def without_infinite(picture: Picture) -> Picture:
    """Return a picture without numbers that have no place on an axis; it says how many these are."""
    series = tuple(
        Series(each.name, tuple(None if e is None else e.drawn() for e in each.estimates))
        for each in picture.series
    )
    made = replace(picture, series=series)
    missing = len(picture.every) - len(made.every)
    if missing and picture.kind in ("bars", "number"):  # where a row without a number shows NULL
        pairs = zip(picture.series[0].estimates, series[0].estimates, strict=True)
        kept = [i for i, (before, after) in enumerate(pairs) if before is None or after is not None]
        shown = Series(series[0].name, tuple(series[0].estimates[i] for i in kept))
        labels = tuple(picture.labels[i] for i in kept)
        made = replace(made, series=(shown,), labels=labels, gaps=())
    said = f"{missing:,} infinite or very large number{'s' * (missing != 1)}: in the table alone"
    return replace(made, folded="; ".join(filter(None, (picture.folded, said)))) if missing else made


def segments(picture: Picture, series: Series) -> list[list[int]]:
    """Return the places of a line that follow each other; it breaks where a number or a period is missing."""
    steps = sorted(after - before for before, after in pairwise(picture.at))
    usual = steps[len(steps) // 2] * 1.6 if steps else 0.0
    found: list[list[int]] = []
    last: int | None = None
    for i, estimate in enumerate(series.estimates):
        if estimate is None:
            last = None
            continue
        if last is None or picture.at[i] - picture.at[last] > usual:
            found.append([])
        found[-1].append(i)
        last = i
    return found


def extent(picture: Picture) -> tuple[float, float] | None:
    """Return the ends of a picture's axis of numbers; None if there is nothing to draw.

    Bars start at zero. A line does so, too, unless all of it is in the upper third; marks never need to.
    An end that an interval lacks does not stretch it: of counts, noise alone is below 0.
    """
    there = picture.every
    if not there:
        return None
    highs = [e.reach for e in there]
    lows = [e.value if e.low is None else min(e.low, e.value) for e in there]
    if picture.threshold is not None:
        highs.append(picture.threshold)
    top, low = max(highs), min(lows)
    if picture.kind == "marks" or (picture.at and low > 2 / 3 * top > 0):
        pad = (top - low) * 0.06 or (15.0 if picture.dated else abs(top) * 0.05 or 1.0)
        return (low - pad, top + pad) if top - low + 2 * pad > LEAST_DRAWN else (low - 1.0, top + 1.0)
    bottom = min(low, 0.0) if any(e.negative for e in there) else 0.0
    return (bottom, max(top, 0.0)) if max(top, 0.0) - bottom > LEAST_DRAWN else (bottom, bottom + 1.0)
