"""Rules for CAST and TRY_CAST: which conversions there are, and those that need a zone or a day."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime

from sqlglot import exp

from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.conversions import OF_UTC, cast, convert_implicitly, refuse_text, refuse_without_zone
from dpsql.analysis.facts_of_values import build_typed, mark_grain
from dpsql.analysis.total_forms import cut_text
from dpsql.analysis.typed_expression import Literal, Typed
from dpsql.kernel.tree import Apply, Between, Canonical, Case, Constant, Paren
from dpsql.kernel.tree.forms import LONGEST, UTC_OFFSET
from dpsql.language import copy_tree
from dpsql.types import BOOLEAN, DOUBLE, INTERVAL, JSON, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType, column_type

_PRINTED = (
    Constant(date(1, 1, 1), TIMESTAMP),
    Constant(datetime(9999, 12, 31, 23, 59, 59, 999999), TIMESTAMP),
)
"""The first and last TIMESTAMP that is converted to text."""

_PLAIN_ITEMS = frozenset({"VARCHAR", "BIGINT", "INTEGER", "DATE", "BOOLEAN"})
"""Item types whose equal values have one text, so that equal lists have equal texts."""


_PARTS = frozenset({"year", "quarter", "month", "week", "day", "hour"})
"""What is no type, but a part of time to which moments are cut."""


def compile_cast(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile CAST and TRY_CAST."""
    value = compiler.expression(node.this, scope)
    text = copy_tree(node.args["to"]).sql("duckdb", copy=False)
    if text.upper() == "JSON":
        if value.type != VARCHAR:
            raise compiler.source.refuse("only VARCHAR is read as JSON", node)
        return cast(value, JSON)
    try:
        sql_type = column_type(text)
    except ValueError as error:
        part, moment = text.lower(), value.type.moment or value.type.name == "DATE"
        hint = f"date_trunc('{part}', {node.this.sql('duckdb')})" if moment and part in _PARTS else None
        raise compiler.source.refuse(str(error), node, hint) from None
    if sql_type.name in ("LIST", "STRUCT", "ENUM", "BLOB") or value.type in (JSON, INTERVAL):
        raise compiler.source.refuse(f"{value.type} is not cast to {sql_type.name}", node)
    if value.type.name == "STRUCT" or (
        value.type.item is not None and value.type.item.name not in _PLAIN_ITEMS
    ):
        raise compiler.source.refuse(f"{value.type} is not cast to {sql_type}", node)
    if sql_type == value.type:
        return value
    if value.text is not None:
        converted = convert_implicitly(compiler.catalog, value, sql_type)
        if converted is None:
            raise refuse_text(compiler.source, value.text, sql_type, node)
        # A constant still, but no text any more that could become something else.
        return replace(converted, literal=Literal((sql_type.name, value.text)))
    if not isinstance(node, exp.TryCast) and _is_number(value.type) != _is_number(sql_type):
        _refuse_numbered_day(compiler, value.type, sql_type, node)
    if TIMESTAMPTZ in (value.type, sql_type):
        return _cast_instant(compiler, value, sql_type, node)
    if value.type == TIMESTAMP and sql_type == VARCHAR:
        value = build_typed(Paren(Case(((Between(value.node, *_PRINTED), value.node),))), TIMESTAMP, value)
    result = cast(mark_grain(value, "day") if sql_type.name == "DATE" else value, sql_type)
    if sql_type.name == "DATE" and value.zoned is not None and value.zoned.note is not None:
        result = replace(result, notes=(*result.notes, value.zoned.note))
    if value.type.name == "LIST" and sql_type == VARCHAR:
        # Quotes and separators make the text of a list longer than its items.
        return cut_text(result, LONGEST)
    return make_canonical(result)


def _is_number(kind: SqlType) -> bool:
    return kind.numeric or kind == BOOLEAN


def _refuse_numbered_day(
    compiler: StatementCompiler, given: SqlType, wanted: SqlType, node: exp.Expr
) -> None:
    """Refuse a conversion between numbers and days or times, which no value has: all would be NULL."""
    day = given if _is_number(wanted) else wanted
    if not (day.moment or day.name in ("DATE", "TIME")):
        return
    plain = node.this.sql("duckdb") if isinstance(node.this, exp.Column) else "x"
    form = "make_date({}, 1, 1)" if day is wanted else "epoch({})" if day.moment else "year({})"
    raise compiler.source.refuse(f"{given} is not cast to {wanted}", node, form.format(plain))


def _cast_instant(compiler: StatementCompiler, value: Typed, sql_type: SqlType, node: exp.Expr) -> Typed:
    """Compile a conversion from or to TIMESTAMPTZ; of one that needs a zone, the zone is to be written."""
    if sql_type == TIMESTAMPTZ:
        converted = convert_implicitly(compiler.catalog, value, TIMESTAMPTZ)
        if converted is None:
            raise refuse_without_zone(compiler.source, value.type, node)
        return replace(converted, literal=value.literal)
    if sql_type == VARCHAR:
        inside = Case(((Between(value.node, *_PRINTED), value.node),))
        text = cast(build_typed(Paren(inside), TIMESTAMP, value), VARCHAR)
        return replace(text, node=Apply(UTC_OFFSET, (text.node,)))
    if sql_type == TIMESTAMP:
        raise refuse_without_zone(compiler.source, value.type, node)
    day = cast(mark_grain(value, "day"), sql_type)
    return replace(day, notes=(*day.notes, OF_UTC)) if sql_type.name == "DATE" else day


def make_canonical(value: Typed) -> Typed:
    """Normalise a DOUBLE expression so that equal values have equal bits: one zero, one NaN.

    Every stored or compared DOUBLE passes through here: where equal values are merged (DISTINCT, GROUP BY,
    MIN), the engine keeps the bits of the first one, and which is first depends on the rows of all units.
    Columns are canonical already.
    """
    if value.type != DOUBLE or value.is_column:
        return value
    return replace(value, node=Canonical(value.node))
