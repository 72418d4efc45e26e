"""Hold what the kernel's checker derives of values to what DuckDB binds and computes on a random database."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import duckdb

from dpsql.kernel.check import NotCertified
from dpsql.kernel.check.derive import Around, Rows, Scope, Value, derive
from dpsql.kernel.check.totality import Checked
from dpsql.kernel.tree import (
    Aggregate,
    Constant,
    Expr,
    Item,
    Lambda,
    Node,
    Parameter,
    Query,
    Select,
    Source,
    Try,
    Window,
    duckdb_sql,
    facts,
    parts,
    plain,
    walk,
)
from dpsql.types import DOUBLE, NULL

__all__ = ["Seen", "hold", "queries_of"]


@dataclass
class Seen:
    """What was compared, and what did not hold."""

    types: int = 0
    ends: int = 0
    tight: int = 0
    """Ends of intervals that a value reached, of numbers whose type is wider."""
    unique: int = 0
    wrong: list[str] = field(default_factory=list)


def queries_of(node: Node) -> Iterator[Query]:
    """Yield the queries among nodes, those included that others are written as."""
    for each in walk(node):
        if isinstance(each, Query):
            yield each
            if each is not (written := plain(each)):
                yield from queries_of(written)


def hold(checked: Checked, query: Query, connection: duckdb.DuckDBPyConnection, seen: Seen) -> None:
    """Compare the types, ends, NULLs and zeros of all expressions of a query with those on a database."""
    nodes = {id(node) for node in queries_of(query)}
    for select, scope in checked.scopes.values():
        if id(select) in nodes and scope.outer is None:
            _expressions(select, scope, connection, seen)


def _expressions(select: Select, scope: Scope, connection: duckdb.DuckDBPyConnection, seen: Seen) -> None:
    groups: dict[str, list[tuple[Expr, Value]]] = {"row": [], "group": [], "window": []}
    every = {node for part in (*select.items, select.where, *select.group) if part for node in _inside(part)}
    for node in every:
        below = [*walk(node)]
        if any(isinstance(part, (Lambda, Parameter)) for part in below):
            continue
        kind = "window" if any(isinstance(n, Window) for n in below) else "row"
        if kind == "row" and any(isinstance(n, Aggregate) for n in _inside(node)):
            kind = "group"
        try:
            groups[kind].append((node, derive(node, Around(scope, found=[]))))
        except NotCertified:
            if kind == "row" and not any(isinstance(part, Query) for part in below):
                caught = derive(node, Around(scope, caught=True))
                groups[kind].append((Try(node), caught._replace(nullable=True)))
    for kind, found in groups.items():
        for begin in range(0, len(found), 60):
            _compare(select, kind, found[begin : begin + 60], connection, seen)


def _inside(node: Node) -> Iterator[Expr]:
    """Return the expressions in a node that are of its own query."""
    if isinstance(node, (Query, Source)):
        return
    if isinstance(node, Expr):
        yield node
    for part in parts(node):
        if isinstance(node, Window) and part is node.function:
            for each in parts(part):
                yield from _inside(each)
        else:
            yield from _inside(part)


def _compare(
    select: Select,
    kind: str,
    found: list[tuple[Expr, Value]],
    connection: duckdb.DuckDBPyConnection,
    seen: Seen,
) -> None:
    items = tuple(Item(node, f"x{i}") for i, (node, _) in enumerate(found))
    group = select.group if kind == "group" else ()
    keys = [
        select.items[e.value - 1].expr if isinstance(e, Constant) and type(e.value) is int else e
        for e in group
    ]
    group = tuple(key for key in keys if not isinstance(key, Constant))
    inner = duckdb_sql(replace(select, items=items, group=group, order=(), limit=None, distinct=False))
    described = connection.execute(f"DESCRIBE {inner}").fetchall()
    asked = []
    for i, ((_, value), row) in enumerate(zip(found, described, strict=True)):
        seen.types += 1
        if value.type != NULL and str(value.type) != row[1]:
            seen.wrong.append(f"type {value.type}, not {row[1]}: {duckdb_sql(items[i])[:300]}")
        x = f"x{i}" if value.type != DOUBLE else f"CASE WHEN NOT isnan(x{i}) THEN x{i} END"
        ends = math.isfinite(value.low) or math.isfinite(value.high)
        asked.append(f"MIN({x}), MAX({x})" if ends else "NULL, NULL")
        # DuckDB merges two aggregates of constants that are NaNs with different signs.
        computed = value.type == DOUBLE and bool(facts(found[i][0]).reads)
        signs = f"bool_or(signbit(x{i}) AND (x{i} = 0 OR isnan(x{i})))" if computed else "FALSE"
        nan = f"bool_or(isnan(x{i}))" if value.type == DOUBLE else "FALSE"
        asked.append(f"bool_or(x{i} IS NULL), {signs}, {nan}")
    (row,) = connection.execute(f"SELECT {', '.join(asked)} FROM ({inner})").fetchall()
    for i, (node, value) in enumerate(found):
        low, high, null, signed, nan = row[5 * i : 5 * i + 5]
        text = duckdb_sql(node)[:300]
        if null and not value.nullable:
            seen.wrong.append(f"NULL: {text}")
        if signed and value.canonical:
            seen.wrong.append(f"a second zero or NaN: {text}")
        if nan and math.isfinite(value.low) and math.isfinite(value.high):
            seen.wrong.append(f"NaN: {text}")
        if low is not None and value.low <= value.high:
            seen.ends += 1
            seen.tight += _exact(low) == value.low or _exact(high) == value.high
        if low is not None and not value.low <= _exact(low) <= _exact(high) <= value.high:
            seen.wrong.append(f"{low} to {high}, not within {value.low} to {value.high}: {text}")


def _exact(number: object) -> Fraction | float:
    if isinstance(number, float):
        return Fraction(number) if math.isfinite(number) else number
    return Fraction(str(int(number) if isinstance(number, bool) else number))


def unique_in(query: Query, rows: Rows, connection: duckdb.DuckDBPyConnection, seen: Seen) -> None:
    """Compare the sets of columns that tell the rows of a query apart."""
    sql = duckdb_sql(query)
    for columns in rows.unique:
        seen.unique += 1
        listed = ", ".join(f'"{name}"' for name in sorted(columns))
        twice = connection.execute(
            f"SELECT COUNT(*) FROM (SELECT 1 FROM ({sql}) GROUP BY {listed} HAVING COUNT(*) > 1)"
        ).fetchall()
        if twice != [(0,)]:
            seen.wrong.append(f"not unique {listed}: {sql[:300]}")
    if rows.single and connection.execute(f"SELECT COUNT(*) <= 1 FROM ({sql})").fetchall() != [(True,)]:
        seen.wrong.append(f"several rows: {sql[:300]}")
