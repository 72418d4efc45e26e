"""The rule of VALUES."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.values import Column, Scope, Translated
from dpsql.tree import quote

if TYPE_CHECKING:
    from dpsql.serve.catalog.context import Context


def constant_rows(
    t: Context, node: exp.Expr, scope: Scope, targets: Sequence[int] | None = None
) -> Translated:  # fmt: skip
    """Translate `VALUES (..), (..)`: columns named `column1` and so on."""
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    found = [[t.expression(part, scope) for part in row] for row in rows]
    if not found or len({len(row) for row in found}) != 1:
        raise UnknownQuestion("values")
    columns, listed = [], []
    for place, cells in enumerate(zip(*found, strict=True)):
        oid, sqls = t.common(cells)
        if targets is not None:
            oid, sqls = targets[place], [t.convert(cell, targets[place]).sql for cell in cells]
        columns.append(Column(f"column{place + 1}", oid))
        listed.append(sqls)
    body = ", ".join(f"({', '.join(row)})" for row in zip(*listed, strict=True))
    names = ", ".join(quote(column.name) for column in columns)
    return Translated(f"SELECT * FROM (VALUES {body}) AS v({names})", tuple(columns))
