"""Rules for CAST and TRY_CAST: which conversions there are, and those that need a zone or a day.

Whole numbers beside a DECIMAL are read as DECIMALs, as the engine does: `n - 0.5` and `n * 0.5` are exact.
What is computed of whole numbers is a BIGINT, of 19 digits: of `n + 1` with an INTEGER n it is known that it
has no more than 11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.conversions import (
    OF_UTC,
    cast,
    common_decimal,
    convert_implicitly,
    refuse_text,
    refuse_without_zone,
)
from dpsql.analysis.facts_of_values import build_typed, mark_grain
from dpsql.analysis.total_forms import cut_text
from dpsql.analysis.type_rules import DIGITS
from dpsql.analysis.typed_expression import Literal, Typed, make_constant
from dpsql.kernel.tree import Apply, Between, Canonical, Case, Constant, Form, Paren
from dpsql.kernel.tree.forms import LONGEST, UTC_OFFSET
from dpsql.language import copy_tree
from dpsql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTERVAL,
    JSON,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    SqlType,
    column_type,
)

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


def read_as_decimal(form: Form, given: Typed) -> Typed:
    """Return a whole number as a DECIMAL of its digits, as the engine does beside a DECIMAL; else itself."""
    digits = _count_digits(given, natural=form.result == "sum")
    if digits is None or digits > 18 or form.result not in ("sum", "product"):
        return given
    return cast(given, SqlType("DECIMAL", digits, 0), lossless=given.digits is None)


def is_decimal_choice(values: Sequence[Typed], sql_type: SqlType) -> bool:
    """Return whether one of several numbers is a DECIMAL in SQL although it is converted to a DOUBLE."""
    numbers = [value for value in values if value.type.name != "NULL"]
    decimal = [v.type.name == "DECIMAL" or v.decimal for v in numbers]
    exact = all(d or v.type.integer for d, v in zip(decimal, numbers, strict=True))
    return sql_type == DOUBLE and any(decimal) and exact


def compute_remainder(call: Callable[[str, Sequence[Typed]], Typed], a: Typed, b: Typed) -> Typed | None:
    """Compute the remainder of DECIMALs as that of whole numbers of their least steps; None if they are none.

    `call` compiles a function of arguments.
    """
    kinds = {a.type.name, b.type.name}
    if "DECIMAL" not in kinds or not all(v.type.integer or v.type.name == "DECIMAL" for v in (a, b)):
        return None
    wanted = common_decimal(a, b)
    if wanted.name != "DECIMAL" or wanted.precision + wanted.scale + 1 > 18:
        return None
    steps = SqlType("DECIMAL", wanted.scale + 1, 0)
    many = make_constant(Decimal(10**wanted.scale), steps)
    whole = [cast(call("*", [_widen(value, wanted), many]), BIGINT) for value in (a, b)]
    rest = cast(call("%", whole), SqlType("DECIMAL", wanted.precision, 0))
    step = make_constant(Decimal(1).scaleb(-wanted.scale), SqlType("DECIMAL", wanted.scale + 1, wanted.scale))
    return cast(call("*", [rest, step]), wanted)


def _widen(value: Typed, wanted: SqlType) -> Typed:
    return value if value.type == wanted else cast(value, wanted, lossless=value.digits is None)


def is_decimal_in_sql(form: Form, arguments: Sequence[Typed]) -> bool:
    """Return whether SQL computes a DECIMAL where a form computes a DOUBLE, since 18 digits are too few."""
    if form.name not in ("+", "-", "*", "%", "neg", "abs") or form.result != "DOUBLE":
        return False
    decimal = [a.type.name == "DECIMAL" or a.decimal for a in arguments]
    return any(decimal) and all(d or a.type.integer for d, a in zip(decimal, arguments, strict=True))


def _count_digits(value: Typed, *, natural: bool = False) -> int | None:
    """Return the most digits of a whole number; of a literal its own, or (`natural`) those of its type."""
    if value.literal is not None and isinstance(value.literal.value, int) and not natural:
        return len(str(abs(value.literal.value)))
    return value.digits or DIGITS.get(value.type.name)


def count_digits_of_call(name: str, arguments: Sequence[Typed]) -> int | None:
    """Return the most digits of what an operator makes of whole numbers."""
    digits = [each for a in arguments if (each := _count_digits(a)) is not None]
    if len(digits) < len(arguments) or name not in _DIGITS_OF:
        return None
    return _DIGITS_OF[name](digits)


_DIGITS_OF: dict[str, Callable[[Sequence[int]], int]] = {
    **dict.fromkeys("+-", lambda digits: max(digits) + 1),
    **dict.fromkeys(("//", "%", "abs", "neg"), lambda digits: digits[0]),
    "*": sum,
}
