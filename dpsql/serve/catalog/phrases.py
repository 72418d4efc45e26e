"""The rules of functions that are written with key words among their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.casts import cast, string
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.names import trim_function
from dpsql.serve.catalog.pg_types import TEXT
from dpsql.serve.catalog.values import Scope, Value, refuse_others

if TYPE_CHECKING:
    from dpsql.serve.catalog.context import Context


def trimmed(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `trim(BOTH x FROM y)`."""
    refuse_others(node.args, ("this", "expression", "position"), "trim")
    arguments = [part for part in (node.this, node.expression) if part is not None]
    return t.call(trim_function(node), arguments, scope)


def part_of_text(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `substring(x FROM a FOR b)` and `substring(x FROM pattern)`."""
    refuse_others(node.args, ("this", "start", "length"), "substring")
    start, length = node.args.get("start"), node.args.get("length")
    if isinstance(start, exp.Literal) and start.args.get("is_string") and length is None:
        value, pattern = t.convert(t.expression(node.this, scope), TEXT).sql, str(start.this)
        group = int("(" in pattern.replace("\\(", "").replace("(?:", ""))
        found = f"regexp_extract(pg_let, {string(pattern)}, {group})"
        test = f"CASE WHEN regexp_matches(pg_let, {string(pattern)}) THEN {found} END"
        return Value(f"list_extract(list_transform([{value}], lambda pg_let: {test}), 1)", TEXT)
    parts = [node.this, start or exp.Literal.number(1), *([] if length is None else [length])]
    return t.call("substring", parts, scope)


def position(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `position(x IN y)`."""
    refuse_others(node.args, ("this", "substr"), "position")
    return t.call("position", [node.args["substr"], node.this], scope)


_DATE_PARTS = frozenset(
    [
        "EPOCH",
        "YEAR",
        "MONTH",
        "DAY",
        "HOUR",
        "MINUTE",
        "SECOND",
        "DOW",
        "DOY",
        "QUARTER",
        "WEEK",
        "MILLISECONDS",
        "MICROSECONDS",
    ]
)


def extract(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `extract(epoch FROM x)`."""
    part = str(node.this.this).upper()
    value = t.expression(node.expression, scope)
    times = {pg_types.TIMESTAMP, pg_types.TIMESTAMPTZ, pg_types.DATE, pg_types.TIME, pg_types.INTERVAL}
    if part not in _DATE_PARTS or value.type not in times:
        raise UnknownQuestion("extract")
    return Value(cast(f"date_part({string(part.lower())}, {value.sql})", pg_types.NUMERIC), pg_types.NUMERIC)


def interval(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `interval '1 day'`."""
    unit = "" if node.args.get("unit") is None else f" {node.args['unit'].this}"
    if not isinstance(node.this, exp.Literal):
        raise UnknownQuestion("interval")
    return Value(cast(string(f"{node.this.this}{unit}"), pg_types.INTERVAL), pg_types.INTERVAL)
