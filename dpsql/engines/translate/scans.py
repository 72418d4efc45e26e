"""The scan of a declared table: each column canonical and of its declared type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.translate.value import Column
from dpsql.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.engines.translate.value import Value
    from dpsql.policy import Table
    from dpsql.types import SqlType

__all__ = ["scan_of"]


def scan_of(
    table: Table,
    columns: tuple[tuple[str, SqlType], ...],
    cell: Callable[[str, SqlType], Value],
    source: str,
    convert: str,
) -> tuple[str, dict[str, Column]]:
    """Write the SELECT that reads the declared columns, and say what it shows.

    `cell` reads a column of `source` (as `r`) with its declared type; where it cannot, `convert` says where
    else the owner may convert it.
    """
    cells, shown = [], {}
    for i, (name, kind) in enumerate(columns):
        try:
            value = cell(name, kind)
        except Untranslatable as problem:
            raise PolicyError(
                f"tables.{table.name}: column {name} is not read as {kind}: {problem.message}",
                hint=f"leave it out of [tables.{table.name}.columns], or convert it in {convert}",
            ) from None
        cells.append(f"{value.sql} AS x{i}")
        shown[name] = Column(f"x{i}", kind, value.spread)
    return f"(SELECT {', '.join(cells)} FROM {source} AS r)", shown
