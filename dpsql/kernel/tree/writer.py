"""Write the query tree as DuckDB's SQL, in time linear in the length of the text."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import cache, reduce
from typing import TYPE_CHECKING

from dpsql.errors import InternalError
from dpsql.kernel.tree import expressions as e
from dpsql.kernel.tree import relations as r
from dpsql.kernel.tree.node import Lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from dpsql.kernel.tree.node import Node
    from dpsql.types import SqlType

    Pieces = Sequence[str | Node]


def duckdb_sql(node: Node) -> str:
    """Return the SQL of an expression, a query or an item of FROM."""
    if isinstance(node, e.Column):  # the most frequent one
        return _column(node)
    written: list[str] = []
    pending: list[Iterator[str | Node]] = [iter((node,))]  # the rest of each node, innermost last
    while pending:
        for piece in pending[-1]:
            if isinstance(piece, str):
                written.append(piece)
                continue
            pieces = RULES.get(type(piece), _other)(piece)
            if isinstance(pieces, str):
                written.append(pieces)
                continue
            pending.append(iter(pieces))
            break
        else:
            pending.pop()
    return "".join(written)


def _other(node: Node) -> Pieces:
    if isinstance(node, Lowered):
        return (node.lowered,)
    raise InternalError(f"{_BUG}: {type(node).__name__}")


def with_text(item: r.Item) -> r.Item:
    """Return an item that keeps its SQL: for one that very many queries have."""
    object.__setattr__(item, "_text", duckdb_sql(item))
    return item


def literal_sql(text: str) -> str:
    """Write a text as a SQL literal.

    >>> literal_sql("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def quote(name: str) -> str:
    """Write a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def _join_nodes(nodes: Iterable[Node]) -> list[str | Node]:
    """Return the nodes of a list, with a comma between two of them."""
    return [piece for node in nodes for piece in (", ", node)][1:]


def _column(node: e.Column) -> str:
    shown = quote(node.name) if node.stored else node.name
    return f"{node.table}.{shown}" if node.table else shown


def _apply(node: e.Apply) -> Pieces:
    return [
        piece if isinstance(piece, str) else node.arguments[piece] for piece in _split(node.form.template)
    ]


def _case(node: e.Case) -> Pieces:
    whens = [piece for when, then in node.branches for piece in (" WHEN ", when, " THEN ", then)]
    return "CASE", *whens, *_clause(" ELSE ", node.default), " END"


def _canonical(node: e.Canonical) -> Pieces:
    x = node.operand
    return "(CASE WHEN isnan(", x, ") THEN CAST('nan' AS DOUBLE) ELSE ", x, " + 0.0 END)"


_UTC_TIME = (
    "(CASE WHEN isfinite({0}) THEN make_timestamp(epoch_us({0})) "
    "WHEN {0} > make_timestamptz(0) THEN TIMESTAMP 'infinity' "
    "WHEN {0} IS NOT NULL THEN TIMESTAMP '-infinity' END)"
)
"""An instant as the TIMESTAMP of UTC: a conversion would depend on the zone of the session."""


def utc_time_sql(cell: str) -> str:
    """Write the TIMESTAMP of UTC of an instant; an infinite one stays infinite."""
    return _UTC_TIME.format(cell)


def _utc_time(node: e.UtcTime) -> Pieces:
    return [piece if isinstance(piece, str) else node.operand for piece in _split(_UTC_TIME)]


def _values(node: r.Values) -> Pieces:
    listed = [piece for row in node.rows for piece in (", (", *_join_nodes(row), ")")]
    return "(VALUES (", *listed[1:], f") AS {node.alias}({', '.join(node.columns)})"


def _range(node: r.Range) -> str:
    more = "" if node.step is None else f", {node.step}"
    return f"range({node.start}, {node.stop}{more}) AS {node.alias}({node.column})"


def _parameter(node: e.Parameter) -> str:
    return reduce(lambda of, field: f"struct_extract({of}, {literal_sql(field)})", node.path, node.name)


def _order_term(node: e.OrderTerm) -> Pieces:
    direction, nulls = node.direction, node.nulls
    return node.expr, f" {direction}" if direction else "", f" NULLS {nulls}" if nulls else ""


def _constant(node: e.Constant) -> str:
    value, sql_type = node.value, node.type
    if type(value) is int:
        return str(value)
    match value:
        case None:
            return "NULL"
        case str():
            return literal_sql(value)
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return f"CAST({value!r} AS DOUBLE)"
        case date():
            return f"{sql_type.held} '{value}'"
        case Decimal():
            fits = 0 < sql_type.scale < sql_type.precision  # the number alone has a digit before its point
            return f"{'CAST' if fits else 'TRY_CAST'}({value:f} AS {sql_type})"
    return str(value)


@cache
def _split(form: str) -> tuple[str | int, ...]:
    """Split a form into texts and the places of arguments.

    >>> _split("pow({0},{1})")
    ('pow(', 0, ',', 1, ')')
    """
    parts = re.split(r"\{(\d+)\}", form)
    return tuple(int(part) if i % 2 else part for i, part in enumerate(parts) if part)


def _clause(word: str, part: Node | None) -> Pieces:
    return () if part is None else (word, part)


def _list_clause(word: str, parts: Iterable[Node]) -> Pieces:
    pieces = _join_nodes(parts)
    return (word, *pieces) if pieces else ()


def _item(node: r.Item) -> Pieces | str:
    kept: str | None = getattr(node, "_text", None)
    return kept if kept is not None else (node.expr, f" AS {node.name}" if node.name else "")


def _aggregate(node: e.Aggregate) -> Pieces:
    arguments = _join_nodes(node.arguments) or ["*"]
    order = _list_clause(" ORDER BY ", node.order)
    where = () if node.filter is None else (" FILTER (WHERE ", node.filter, ")")
    return f"{node.name}(DISTINCT " if node.distinct else f"{node.name}(", *arguments, *order, ")", *where


def _steps(node: e.Steps) -> Pieces:
    ends = (float(node.low * node.step), float(node.high * node.step))
    constants = (*ends, float(1 / node.step), 0.5, "'inf'")
    low, high, factor, half, infinity = (f"CAST({x} AS DOUBLE)" for x in constants)
    x = node.operand
    inside = ("TRY_CAST(floor(", x, f" * {factor} + {half}) AS {'HUGEINT' if node.wide else 'BIGINT'})")
    # Most values are inside, and of these one condition is computed. NaN is greater than infinity, and only
    # NaN and NULL meet no condition.
    below, above = (f" < {low} THEN {node.low} WHEN ", f" <= {infinity} THEN {node.high} END)")
    return "(CASE WHEN ", x, f" BETWEEN {low} AND {high} THEN ", *inside, " WHEN ", x, below, x, above


def _unscaled(node: e.Unscaled) -> Pieces:
    operand, sql_type = node.operand, node.type
    scale, factor = sql_type.scale, 10**sql_type.scale
    kind = "BIGINT" if sql_type.precision <= 18 else "HUGEINT"
    # The product has a digit more than both have; of two 64-bit numbers, the engine makes a 64-bit product.
    if sql_type.precision + scale < 18:
        return "TRY_CAST(", operand, f" * {factor} AS {kind})"
    if sql_type.precision + scale < 38:
        return "TRY_CAST(TRY_CAST(", operand, f" AS DECIMAL(38,{scale})) * {factor} AS {kind})"
    whole = ("TRY_CAST(trunc(", operand, ") AS ")
    rest = ("(", operand, " - ", *whole, f"DECIMAL(38,{scale})))")
    return "(", *whole, f"HUGEINT) * {factor} + TRY_CAST(", *rest, f" * {factor} AS HUGEINT))"


def _saturated(node: e.Saturated) -> Pieces:
    """Write each operand once or twice: without NULL for NULL, LEAST and GREATEST would be shorter."""
    x, kind = node.operand, str(node.type)
    if node.fits:
        return "TRY_CAST(", x, f" AS {kind})"
    low, high = _ENDS.get(node.type.name) or _nines(node.type)
    if node.near is None:
        positive = (x, " > 0") if node.type.name == "BIGINT" else ("TRY_CAST(", x, " AS DOUBLE) > 0")
        cases = f") WHEN TRUE THEN {high} WHEN FALSE THEN {low} END)"
        return "COALESCE(TRY_CAST(", x, f" AS {kind}), CASE (", *positive, cases
    # A HUGEINT beyond what other engines have is not exact here, either.
    inner = f"{kind}))" if node.type.name == "BIGINT" else "DECIMAL(38,0)))"
    exact: tuple[str | Node, ...] = ("TRY(TRY_CAST(", x, f" AS {inner}")
    exact = exact if node.type.name == "BIGINT" else ("TRY_CAST(", *exact, f" AS {kind})")
    d, top = node.near, f"CAST({float(int(high))!r} AS DOUBLE)"
    whens = (" WHEN ", d, f" >= {top} THEN {high} WHEN ", d, f" <= -{top} THEN {low}")
    return "COALESCE(", *exact, ", CASE", *whens, " ELSE TRY_CAST(", d, f" AS {kind}) END)"


def _mean(node: e.Mean) -> Pieces:
    s, n = node.total, node.number
    double = " AS BIGINT) AS DOUBLE)"  # DuckDB does not round a HUGEINT to the nearest DOUBLE
    number = ("TRY_CAST(", n, " AS DOUBLE)")
    near = ("TRY_CAST(TRY_CAST(", s, double, " / ", *number)
    whole = ("TRY_CAST(TRY_CAST(", s, " // ", n, double)
    rest = ("TRY_CAST(TRY_CAST(", s, " % ", n, double, " / ", *number)
    exact = f" BETWEEN -{e.EXACT} AND {e.EXACT} THEN "
    return "(CASE WHEN ", s, exact, *near, " ELSE ", *whole, " + ", *rest, " END)"


_ENDS = {
    "BIGINT": ("(-9223372036854775807 - 1)", "9223372036854775807"),
    "HUGEINT": (f"-{e.MOST}", str(e.MOST)),
}
"""The ends of whole numbers, in literals of their own type."""


def _nines(sql_type: SqlType) -> tuple[str, str]:
    """Return the least and the greatest value of a DECIMAL type."""
    digits = Decimal(10**sql_type.precision - 1).scaleb(-sql_type.scale)
    return f"TRY_CAST('-{digits:f}' AS {sql_type})", f"TRY_CAST('{digits:f}' AS {sql_type})"


def _window(node: e.Window) -> Pieces:
    partition = [*_list_clause("PARTITION BY ", node.partition)]
    order = [*_list_clause(" ORDER BY " if partition else "ORDER BY ", node.order)]
    frame = _frame(node.frame) if node.frame is not None else ""
    space = " " if frame and (partition or order) else ""
    return node.function, " OVER (", *partition, *order, f"{space}{frame})"


def _frame(frame: e.Frame) -> str:
    if frame.end is None:
        return f"{frame.unit} {write_bound(frame.start)}"
    return f"{frame.unit} BETWEEN {write_bound(frame.start)} AND {write_bound(frame.end)}"


def write_bound(bound: e.Bound) -> str:
    """Write an end of a window's frame."""
    if bound.side == "CURRENT ROW":
        return bound.side
    return f"{'UNBOUNDED' if bound.offset is None else bound.offset} {bound.side}"


def _select(node: r.Select) -> Pieces:
    return (
        "SELECT DISTINCT " if node.distinct else "SELECT ",
        *_join_nodes(node.items),
        *_clause(" FROM ", node.source),
        *_clause(" WHERE ", node.where),
        *_list_clause(" GROUP BY ", node.group),
        *_list_clause(" ORDER BY ", node.order),
        "" if node.limit is None else f" LIMIT {node.limit}",
    )


_BUG = "this is a bug of dpsql, nothing was run or charged"

RULES: dict[type[Node], Callable[[Any], Pieces | str]] = {
    e.Column: _column,
    e.Paren: lambda n: ("(", n.inner, ")"),
    e.Binary: lambda n: (n.left, f" {n.operator} ", n.right),
    e.Constant: _constant,
    e.Apply: _apply,
    e.Cast: lambda n: ("TRY_CAST(" if n.safe else "CAST(", n.operand, f" AS {n.type.held})"),
    e.UtcTime: _utc_time,
    e.Try: lambda n: ("TRY(", n.operand, ")"),
    e.Call: lambda n: (f"{n.name}(", *_join_nodes(n.arguments), ")"),
    e.Aggregate: _aggregate,
    e.Not: lambda n: ("NOT ", n.operand),
    e.IsNull: lambda n: (n.operand, " IS NOT NULL" if n.negated else " IS NULL"),
    e.IsTruth: lambda n: (n.operand, " IS TRUE" if n.value else " IS FALSE"),
    e.InList: lambda n: (n.operand, " IN (", *_join_nodes(n.items), ")"),
    e.Between: lambda n: (n.operand, " BETWEEN ", n.low, " AND ", n.high),
    e.Like: lambda n: (n.operand, f" {n.word} ", n.pattern, *_clause(" ESCAPE ", n.escape)),
    e.Case: _case,
    e.Canonical: _canonical,
    e.Moved: lambda n: (n.operand, f" + INTERVAL '{n.seconds} second'"),
    e.Steps: _steps,
    e.Unscaled: _unscaled,
    e.Cut: lambda n: (n.written,),
    e.Saturated: _saturated,
    e.Mean: _mean,
    e.Window: _window,
    e.InQuery: lambda n: (n.operand, " IN (", n.query, ")"),
    e.Exists: lambda n: ("EXISTS (", n.query, ")"),
    e.ScalarQuery: lambda n: ("(", n.query, ")"),
    e.Unary: lambda n: (n.operator, n.operand),
    e.Interval: lambda n: f"INTERVAL '{n.text}'",
    e.ListOf: lambda n: ("[", *_join_nodes(n.items), "]"),
    e.Element: lambda n: (n.operand, "[", n.index, "]"),
    e.Slice: lambda n: (n.operand, f"[{n.low}:{n.high}]"),
    e.Parameter: _parameter,
    e.Lambda: lambda n: (f"lambda {n.parameter}: ", n.body),
    e.OrderTerm: _order_term,
    r.Item: _item,
    r.Derived: lambda n: ("(", n.query, f") AS {n.alias}"),
    r.Select: _select,
    r.Join: lambda n: (n.left, f" {n.kind} JOIN " if n.kind else " JOIN ", n.right, *_clause(" ON ", n.on)),
    r.Scan: lambda n: f"main.{quote(n.table)} AS {n.alias}",
    r.DomainScan: lambda n: f"{r.DOMAIN_SCHEMA}.{n.name}",
    r.SetOperation: lambda n: (n.left, f" {n.word} ", n.right),
    r.Values: _values,
    r.Range: _range,
    r.Unnest: lambda n: ("UNNEST(", n.items, f") AS {n.alias}(c0)"),
}
"""The rule that writes each node type: its texts and the nodes between them, or its whole text."""
