"""Applies the plain SELECT around a private statement to the released rows, at no further cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.analysis import fold
from dpsql.language import Query, Statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


def _place(names: Sequence[str], wanted: str) -> int | None:
    """Return the index of the column that a name, or a number from 1, stands for."""
    if wanted.isdecimal():
        return int(wanted) - 1 if 1 <= int(wanted) <= len(names) else None
    return next((i for i, n in enumerate(names) if fold(n) == fold(wanted)), None)


def check_wrapper(query: Query, names: list[str]) -> None:
    """Refuse a wrapper that names a column which is not released; called before anything is charged."""
    if query.wrapper is None:
        return
    for wanted in [*(query.wrapper.columns or ()), *(name for name, _ in query.wrapper.order)]:
        if _place(names, wanted) is None:
            raise query.source.refuse(
                f"there is no column {wanted[:60]}", None, "released are " + ", ".join(names)
            )


def present(statement: Statement, rows: pa.Table) -> pa.Table:
    """Select columns, sort and limit the released rows as the wrapper says."""
    if not isinstance(statement, Query) or statement.wrapper is None:
        return rows
    wrapper, names = statement.wrapper, rows.column_names
    selected, places = names, list(range(len(names)))
    if wrapper.columns is not None:
        selected, places = wrapper.columns, [_place(names, name) or 0 for name in wrapper.columns]
    by = []
    for name, descending in wrapper.order:
        # A name or number stands for a selected column first, then for any released one.
        within = _place(selected, name)
        place = _place(names, name) if within is None else places[within]
        by.append((str(place), "descending" if descending else "ascending"))
    if by:
        # Numbers instead of names, of which two may be equal.
        numbered = rows.rename_columns([str(i) for i in range(len(names))])
        rows = numbered.sort_by(by).rename_columns(names)
    return rows.select(places).slice(0, wrapper.limit)
