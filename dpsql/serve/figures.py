"""Counts of the statements that have ended, and times of those that are not private, for metrics and log."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.privacy import Charge

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class StatementRecord:
    """One statement that has ended, for the log. Its text may only be hashed."""

    analyst: str
    user: str
    number: int
    protocol: str
    text: str
    kind: str
    """`private`, `stored`, `public`, `probe`, `catalogue`, `command`, or `data` if it was refused."""
    price: Charge | None
    outcome: str
    """The SQLSTATE: `00000` for an answer."""
    waited: float
    """Seconds for which it waited for its turn."""
    shape: str | None = None
    """The shape of a question that the catalogue did not know."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The counts at one moment."""

    waiting: int
    """Private statements that wait."""
    running: int
    """Private statements that run."""
    statements: Mapping[tuple[str, str], int]
    """Statements that have ended, by kind and SQLSTATE."""
    stored_hits: int
    """Answers from stored releases."""
    free_bounds: tuple[float, ...]
    """The upper bounds of the classes of times, in seconds."""
    free_counts: tuple[int, ...]
    """Statements that cost nothing, by class of their times; the last class has no bound."""
    free_seconds: float
    """The sum of their times."""


class Counters:
    """Counts statements; any thread may."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statements: Counter[tuple[str, str]] = Counter()
        self._free = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def count(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a statement; its time only if it read nothing private."""
        with self._lock:
            self._statements[kind, outcome] += 1
            if kind != "private":
                self._free[bisect_left(BOUNDS, seconds)] += 1
                self._seconds += seconds

    def figures(self, *, waiting: int, running: int) -> Figures:
        """Return the counts now."""
        with self._lock:
            stored = self._statements["stored", "00000"]
            return Figures(
                waiting, running, dict(self._statements), stored, BOUNDS, tuple(self._free), self._seconds
            )
