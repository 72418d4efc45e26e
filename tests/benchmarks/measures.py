"""Measuring two things in turn, and what came out of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Figure", "Goal", "Pairs", "alone", "beside"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should be: `ratio`, `work` or `extra` over the floor, or `ours`; at most, or at least."""

    of: str
    limit: float
    least: bool = False

    def met(self, figure: Figure) -> bool:
        """Whether a figure is as it should be."""
        value = getattr(figure, self.of)
        return value >= self.limit if self.least else value <= self.limit

    def words(self, unit: str) -> str:
        """`at most 1.05 x`, `work at most 1.3 x`, `floor + 15 ms`."""
        if self.of == "extra":
            return f"floor + {self.limit:g} {unit}"
        if self.of == "work":
            return f"work <= {self.limit:g} x"
        what = f"{self.limit:g} x" if self.of == "ratio" else f"{self.limit:g} {unit}"
        return ("at least " if self.least else "at most ") + what


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    `ours` and `floor` are medians in `unit`; `ratio` is the median of the pairwise ratios of wall time,
    `work` that of processor time, which other programs on the machine disturb less; `extra` is the median
    of the pairwise differences. What has no floor has None.
    """

    group: str
    what: str
    unit: str
    ours: float
    floor: float | None = None
    ratio: float | None = None
    work: float | None = None
    extra: float | None = None
    goal: str = ""
    met: bool | None = None
    error: str = ""
    """What the answers err by, in words; empty where nothing is random."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Wall and processor seconds of both, round by round."""

    ours: Sequence[tuple[float, float]]
    floor: Sequence[tuple[float, float]]

    def figure(
        self, group: str, what: str, unit: str = "ms", *, scale: float = 1e3, goal: Goal | None = None
    ) -> Figure:
        """Take the medians; `scale` turns seconds into the unit."""
        pairs = list(zip(self.ours, self.floor, strict=True))
        median = statistics.median
        found = Figure(
            group,
            what,
            unit,
            median(a[0] for a in self.ours) * scale,
            median(b[0] for b in self.floor) * scale,
            median(a[0] / b[0] for a, b in pairs),
            median(a[1] / b[1] for a, b in pairs) if all(b[1] for _, b in pairs) else None,
            median(a[0] - b[0] for a, b in pairs) * scale,
        )
        return judged(found, goal)


def judged(figure: Figure, goal: Goal | None) -> Figure:
    """Hold a figure to its goal."""
    if goal is None:
        return figure
    values = {name: getattr(figure, name) for name in Figure.__dataclass_fields__}
    return Figure(**values | {"goal": goal.words(figure.unit), "met": goal.met(figure)})


def beside(ours: Callable[[], object], floor: Callable[[], object], rounds: int) -> Pairs:
    """Run both in turn, after one run of each that does not count."""
    ours(), floor()
    pairs = [(_seconds(ours), _seconds(floor)) for _ in range(rounds)]
    return Pairs([a for a, _ in pairs], [b for _, b in pairs])


def alone(
    group: str,
    what: str,
    work: Callable[[], object],
    rounds: int,
    unit: str = "ms",
    *,
    scale: float = 1e3,
    goal: Goal | None = None,
) -> Figure:
    """Run what has no floor; its median."""
    work()
    median = statistics.median(_seconds(work)[0] for _ in range(rounds))
    return judged(Figure(group, what, unit, median * scale), goal)


def _seconds(work: Callable[[], object]) -> tuple[float, float]:
    begin, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - busy
