"""Applies the plain SELECT around a private statement to the released rows, at no further cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.analysis import fold
from dpsql.language import Query, Statement

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_wrapper", "present"]


def _place(names: list[str], wanted: str) -> int | None:
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
    wrapper = statement.wrapper
    names = list(rows.column_names)
    places = (
        range(len(names)) if wrapper.columns is None else [_place(names, c) or 0 for c in wrapper.columns]
    )
    shown = rows.select(list(places))
    order = wrapper.columns or tuple(names)
    if wrapper.order:
        within = [(_place(list(order), name), down) for name, down in wrapper.order]
        anywhere = [(_place(names, name), down) for name, down in wrapper.order]
        keyed = rows.rename_columns([f"c{i}" for i in range(len(names))])
        by = []
        for (inside, down), (outside, _) in zip(within, anywhere, strict=True):
            place = list(places)[inside] if inside is not None else outside
            by.append((f"c{place}", "descending" if down else "ascending"))
        shown = shown.take(_order(keyed, by))
    return shown if wrapper.limit is None else shown.slice(0, wrapper.limit)


def _order(table: pa.Table, by: list[tuple[str, str]]) -> pa.Array:
    import pyarrow.compute as pc  # noqa: PLC0415  only wrapped statements need it

    return pc.sort_indices(table, sort_keys=by)
