"""Counts of logins and statements, as Prometheus reads them; none tells how long a private statement ran."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.kernel.loss import Charge

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the classes of times, in seconds."""
_REASONS = {
    "wrong password": "password",
    "channel binding: the client sees another certificate": "binding",
    "downgrade: the client supports channel binding and was not offered it": "downgrade",
    "timeout": "timeout",
    "08P01": "protocol",
    "28000": "authorization",
    "28P01": "password",
    "3D000": "database",
    "53300": "full",
    "57P03": "closing",
}
"""Reasons of failed logins, and their labels; others count as `other`, so that labels are few."""

REFUSED = "handshake refused"
"""The event of a client that is refused because too many log in: counted, and not logged one by one."""

Sample = tuple[str, Mapping[str, str], float]
"""A value with the ending of its name and its labels."""


class LoginCounts:
    """Counts logins, and failed ones by reason; used by the event loop alone, read from any thread."""

    def __init__(self) -> None:
        self.connected = 0
        self.failed: Counter[str] = Counter()
        self.started = time.time()
        self._lock = threading.Lock()

    def event(self, name: str, fields: Mapping[str, object]) -> None:
        """Count an event of the log."""
        with self._lock:
            if name == "connected":
                self.connected += 1
            elif name == "handshake failed":
                reasons = (str(fields.get("reason")), str(fields.get("outcome")))
                self.failed[next((_REASONS[each] for each in reasons if each in _REASONS), "other")] += 1
            elif name == REFUSED:
                self.failed["full"] += 1

    def read(self) -> tuple[int, dict[str, int]]:
        """Return how many logged in, and how many failed by reason."""
        with self._lock:
            return self.connected, dict(self.failed)


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
            return Figures(waiting, running, dict(self._statements), tuple(self._free), self._seconds)


def render(
    logins: LoginCounts,
    figures: Figures,
    *,
    connections: int,
    handshakes: int,
    remaining: Mapping[str | None, Fraction],
) -> str:
    """Return the text; `remaining` is what is left of epsilon, of the policy (None) and of analysts."""
    connected, failed = logins.read()
    lines: list[str] = []

    def add(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> None:
        lines.extend(_family(f"dpsql_{name}", kind, meaning, samples))

    add("connections", "gauge", "Clients that are logged in.", [("", {}, connections)])
    add("handshakes", "gauge", "Clients that are logging in.", [("", {}, handshakes)])
    add("logins_total", "counter", "Clients that have logged in.", [("", {}, connected)])
    by_reason = [("", {"reason": reason}, count) for reason, count in sorted(failed.items())]
    add("failed_logins_total", "counter", "LoginCounts that failed, by reason.", by_reason)
    ended = sorted(figures.statements.items())
    stored = figures.statements.get(("stored", "00000"), 0)
    by_outcome = [("", {"kind": kind, "outcome": outcome}, count) for (kind, outcome), count in ended]
    add("statements_total", "counter", "Statements that have ended, by kind and SQLSTATE.", by_outcome)
    add("statements_waiting", "gauge", "Private statements that wait.", [("", {}, figures.waiting)])
    add("statements_running", "gauge", "Private statements that run.", [("", {}, figures.running)])
    add("stored_answers_total", "counter", "Answers from stored releases.", [("", {}, stored)])
    add("free_statement_seconds", "histogram", "Times of statements that cost nothing.", _histogram(figures))
    left: list[Sample] = [
        ("", {} if analyst is None else {"analyst": analyst}, float(epsilon))
        for analyst, epsilon in remaining.items()
    ]
    add("epsilon_remaining", "gauge", "What is left of the budget's epsilon.", left)
    lines += _family("process_start_time_seconds", "gauge", "When it started.", [("", {}, logins.started)])
    if (memory := _memory()) is not None:
        lines += _family("process_resident_memory_bytes", "gauge", "Memory in use.", [("", {}, memory)])
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for ending, labels, value in samples:
        shown = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
        yield f"{name}{ending}{f'{{{shown}}}' if shown else ''} {_number(value)}"


def _histogram(figures: Figures) -> Iterator[Sample]:
    counts = list(accumulate(figures.free_counts))
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
        yield "_bucket", {"le": bound}, count
    yield "_sum", {}, figures.free_seconds
    yield "_count", {}, counts[-1]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else format(value, ".10g")


def _memory() -> int | None:
    """Return the bytes of memory that the process holds; None where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None
