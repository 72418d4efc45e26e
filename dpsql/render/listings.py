"""Fits what EXPLAIN, SHOW RELEASES and --dry-run list to a width: long texts, times, statements."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.render.cells import wrap
from dpsql.render.grid import TextColumn, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.render.grid import Style


_EXPLAINED = ["property", "value"]
"""The columns of EXPLAIN, whose values (a guarantee, SQL) are of no use when cut."""
_RELEASES = ["number", "when", "selection", "epsilon", "part", "statement"]
"""The columns of SHOW RELEASES."""
_PRICES = ["statement", "place", "epsilon", "delta", "text"]
"""The columns of --dry-run."""
_STATEMENTS = {tuple(_RELEASES): "statement", tuple(_PRICES): "text"}
"""The column of a listing that holds statements."""
_NARROWEST_TEXT = 20
"""Cells below which text is not folded."""
_HEAD, _TAIL = 4, 3
"""Lines at the start and the end of long SQL that EXPLAIN shows."""
_MINUTES = len("2026-01-31 12:00")


def statements_of(names: Sequence[str]) -> str | None:
    """Return the name of the column with statements, if these are the columns of a listing with one."""
    return _STATEMENTS.get(tuple(names))


def fit_listing(names: Sequence[str], columns: list[TextColumn], style: Style) -> list[TextColumn]:
    """Return the columns as they are drawn in the style's width; those of other results stay as they are."""
    if list(names) == _EXPLAINED and style.columns is not None:
        return _break_values(columns, style)
    if list(names) == _RELEASES:
        number, when, selection, epsilon, part, statement = columns
        minutes = replace(when, name="when (UTC)", cells=[cell[:_MINUTES] for cell in when.cells], firm=True)
        parts = [part] if len(part.nulls) < len(part.cells) else []
        return [number, minutes, replace(selection, firm=True), epsilon, *parts, statement]
    return columns


def _break_values(columns: list[TextColumn], style: Style) -> list[TextColumn]:
    """Break long values into as many lines as they need; of long SQL, leave out the middle."""
    names, found = columns
    room = (style.columns or 0) - span([names.width, 0])
    if room < _NARROWEST_TEXT:
        return columns
    pairs = [
        (name if i == 0 else "", line)
        for name, value in zip(names.cells, found.cells, strict=True)
        for i, line in enumerate(_lines(name, value, room, style))
    ]
    return [
        TextColumn(names.name, [name for name, _ in pairs]),
        TextColumn(found.name, [line for _, line in pairs]),
    ]


def _lines(name: str, value: str, room: int, style: Style) -> list[str]:
    lines = wrap(value, room)
    more = len(lines) - _HEAD - _TAIL
    if not name.endswith("_sql") or more < 2:
        return lines
    note = wrap(f"{style.ellipsis} {more} more lines: EXPLAIN (FORMAT JSON) has all {style.ellipsis}", room)
    return [*lines[:_HEAD], *note, *lines[-_TAIL:]]
