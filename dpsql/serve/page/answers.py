"""Answers as JSON: exact rows for programs, and beside them how people read them and what is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsql.privacy import Charge
from dpsql.render.grid import Style
from dpsql.render.readable import assumptions, ordering, orders, places, summary
from dpsql.render.table import public_columns, release_columns
from dpsql.render.values import text, values
from dpsql.serve.agent import MOST_ROWS, release_facts

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.release import Release
    from dpsql.render.grid import Column
    from dpsql.sessions import StatementResult

Facts = dict[str, Any]

MOST_BYTES = 4 << 20
"""Bytes of the rows in one answer, which are written several times over."""
MOST_BARS = 60
"""Bars that are drawn; the table has the other rows."""


def result(found: StatementResult, first: int = 0, total: Charge | None = None) -> Facts:
    """Return what a statement is answered; `total` is the whole budget, for "epsilon 1 of 10"."""
    if found.release is None:
        rows = _fitting(found.table, first)
        shown = public_columns(found.table.slice(first, rows), Style())
        return {**_rows(found.table, first, rows), "shown": _shown(shown), "epsilon": 0.0, "delta": 0.0}
    return released(found.release, first, total)


def released(release: Release, first: int = 0, total: Charge | None = None) -> Facts:
    """Return a release: its rows from one on with their intervals, its price, what is said below it."""
    rows = _fitting(release.table, first)
    part = replace(release, rows=release.rows.slice(first, rows), table=release.table.slice(first, rows))
    return {
        **_rows(release.table, first, rows),
        "keys": list(release.keys),
        "counts": list(release.counts),
        "shown": _shown(release_columns(part, Style(), none="")),
        "chart": chart(release),
        **release_facts(release),
        "selection": release.selection,
        "guarantee": release.guarantee,
        "below": [" · ".join(summary(release, total)), *assumptions(release)],
    }


def _fitting(table: pa.Table, first: int) -> int:
    """Return how many rows an answer has, from one on: fewer if they are long, but one at least."""
    rows = MOST_ROWS
    while rows > 1 and table.slice(first, rows).nbytes > MOST_BYTES:
        rows //= 2
    return rows


def _rows(table: pa.Table, first: int, rows: int) -> Facts:
    part = table.slice(first, rows)
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    listed = [list(row) for row in zip(*(values(column) for column in part.columns), strict=True)]
    return {"columns": columns, "rows": listed, "first_row": first, "rows_in_all": table.num_rows}


def _shown(columns: list[Column]) -> list[Facts]:
    """Return columns of texts as people read them; blanks align numbers in a terminal only."""
    return [
        {
            "name": column.name,
            "number": column.right,
            "cells": [" ".join(cell.split()) if column.right else cell for cell in column.cells],
            "nulls": sorted(column.nulls),
        }
        for column in columns
    ]


def beginning(release: Release, rows: int) -> Release:
    """Return the first rows of a release."""
    return replace(release, rows=release.rows.slice(0, rows), table=release.table.slice(0, rows))


def chart(release: Release) -> Facts | None:
    """Return the bars of a release: labels, numbers, ends of intervals, free gaps; None if it has none."""
    number, found_at = orders(release), places(release)
    if number is None or not release.rows.num_rows:
        return None
    name = release.rows.column_names[number.place]
    drawn = beginning(release, MOST_BARS)
    rows, table = drawn.rows, drawn.table
    keys = [values(rows.column(key)) for key in found_at.keys]
    labels = [_label(row) for row in zip(*keys, strict=True)]
    gaps = [] if found_at.gap is None else values(table.column(found_at.gap))
    written = _gap_texts(drawn, found_at.gap)
    bars = [
        {
            "label": label,
            "value": None if estimate is None else estimate.value,
            "low": None if estimate is None else estimate.low,
            "high": None if estimate is None else estimate.high,
            "text": "NULL" if estimate is None else " ".join(estimate.text()).strip(),
            "gap": gap,
            "gap_text": gap_text,
        }
        for label, estimate, gap, gap_text in zip(
            labels or [name],
            ordering(drawn),
            gaps or [None] * rows.num_rows,
            written or [""] * rows.num_rows,
            strict=True,
        )
    ]
    return {"of": name, "bars": bars, "confidence": float(release.confidence)}


def _label(keys: tuple[object, ...]) -> str:
    return ", ".join("NULL" if part is None else text(part) for part in keys)


def _gap_texts(release: Release, place: int | None) -> list[str]:
    """Return the gaps to the next group, as precise as their noise; none if the release has no gaps."""
    columns = release_columns(release, Style(), none="")
    shown = release.rows.num_columns
    if place is None or (place >= shown and len(columns) == shown):
        return []
    return [cell.strip() for cell in columns[min(place, shown)].cells]
