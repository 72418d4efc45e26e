"""Read the value of a query over public tables as a constant: it narrows candidates as a literal does."""

from __future__ import annotations

import math

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.public_statements import write_public_sql
from dpsql.analysis.typed_expression import Typed, make_constant
from dpsql.errors import Error
from dpsql.kernel.tree import Cast, Constant, Paren
from dpsql.language import Clause, Options, Query, copy_tree, find_nodes
from dpsql.types import NULL, SqlType, column_type

_CONSTANTS = frozenset({"VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN"})


def read_public_row(compiler: StatementCompiler, select: exp.Expr, scope: Scope) -> Typed | None:
    """Return the value of a query over public tables that is no aggregate; None for other queries.

    It is run now, before anything is charged: without a row it is NULL, and of several rows it is no value.
    """
    if not isinstance(select, exp.Select) or len(select.expressions) != 1 or scope.block is None:
        return None
    tables = find_nodes(select, exp.Table)
    known = [compiler.policy.table(t.name) for t in tables if t.name.isascii() and t.args.get("db") is None]
    if contains_aggregate(select.expressions[0]) or not tables or len(known) < len(tables):
        return None
    if not all(table is not None and table.public for table in known) or scope.block.ctes:
        return None
    query = Query(compiler.source, copy_tree(select), Options(), Clause(), False)
    try:
        sql = write_public_sql(query, compiler.policy, compiler.catalog)
        rows = compiler.catalog.run(f"SELECT r.v, typeof(r.v) AS t FROM ({sql}) AS r(v) LIMIT 2")
    except (Error, ValueError):
        return None  # it reads a column of the row around it
    compiler.used.update(table.name for table in known if table is not None)
    if rows.num_rows > 1:
        raise compiler.source.refuse(
            "a subquery used as a value has one row, and this has several", select, "ORDER BY .. LIMIT 1"
        )
    value = rows.column(0)[0].as_py() if rows.num_rows else None
    kind = _read_type(str(rows.column(1)[0].as_py())) if rows.num_rows else NULL
    if kind is None:
        return None
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return make_constant(None, NULL) if kind == NULL else Typed(Cast(Constant(None, NULL), kind), kind)
    made = make_constant(value, kind)
    return Typed(Paren(made.node), kind, literal=made.literal, bounds=made.bounds)


def _read_type(text: str) -> SqlType | None:
    """Return a type whose values are constants; None for others."""
    try:
        kind = column_type(text)
    except ValueError:
        return None
    return kind if kind.numeric or kind.name in _CONSTANTS else None
