"""The page of a report: its last answers, the price of the next run, its numbers from part to part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import Calendar, PartSet
from dpsql.lazy_dataclass import dataclass
from dpsql.release import COMPUTED, Release, places_of

if TYPE_CHECKING:
    from dpsql.session_api import StatementResult

MOST_PARTS = 26
"""Of so many parts, the newest ones, a history shows numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class ReportHistory:
    """What the page of a report shows.

    Attributes
    ----------
    name, texts
        The report and its statements.
    part, answers
        The newest part that was measured, by name, and the answers of its run; None: none was.
    next_part, price
        The part after it, and what its run costs; None: it is not over yet, or cannot run.
    lines
        For each statement with one row, its numbers from part to part; None for the others.
    """

    name: str
    texts: tuple[str, ...]
    part: str | None
    answers: tuple[StatementResult, ...]
    next_part: str | None
    price: Charge | None
    lines: tuple[Release | None, ...]


def newest_parts(measured: PartSet, calendar: Calendar) -> list[int]:
    """Return the newest parts that were measured, in order."""
    least, most = calendar.ends
    known = measured & PartSet.of((least, most))
    every = [part for low, high in reversed(known.ranges) for part in range(high, low - 1, -1)]
    return sorted(every[:MOST_PARTS])


def follow_numbers(
    days: Sequence[date], answers: Sequence[Sequence[StatementResult]]
) -> tuple[Release | None, ...]:
    """Return, for each statement, its numbers from part to part, as a release with the first days as keys."""
    return tuple(_follow(days, [each[i].release for each in answers]) for i in range(len(answers[-1])))


def _follow(days: Sequence[date], releases: Sequence[Release | None]) -> Release | None:
    found = [each for each in releases if each is not None and each.table.num_rows == 1]
    if len(found) < len(releases) or any(
        places_of(each).keys or not places_of(each).numbers for each in found
    ):
        return None
    last = found[-1]
    columns: dict[str, pa.Array] = {"from": pa.array(days, pa.date32())}
    details: dict[str, pa.Array] = {}
    names = [last.table.column_names[number.place] for number in places_of(last).numbers]
    for place, name in enumerate(names):
        shown = [places_of(each).numbers[place] for each in found]
        columns[name] = pa.array(
            [e.table.column(n.place)[0].as_py() for e, n in zip(found, shown, strict=True)]
        )
        for end, kind in enumerate(("stddev", "low", "high")):
            at = [number.details[end] for number in shown]
            values = [
                None if own is None else each.table.column(own)[0].as_py()
                for each, own in zip(found, at, strict=True)
            ]
            details[f"{name}_{kind}"] = pa.array(values, pa.float64())
    rows = pa.table(columns)
    return replace(
        last,
        rows=rows,
        table=pa.table(columns | details),
        keys=("from",),
        counts=tuple(names),
        places=None,
        together=None,
        parts=(),
        outside=None,
        noises=None,
        warnings=(),
        assumed=(),
        properties={COMPUTED: f"{len(found)} runs"},
    )
