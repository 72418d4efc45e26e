"""Rules for WIDTH_BUCKET, for seconds since 1970 as points of time, AGE, and EXTRACT.

WIDTH_BUCKET of whole numbers and DECIMAL is exact. Bucket i begins at `lo + (i - 1)(hi - lo)/n`, and a number
of s decimals has reached that if it has reached the next number of s decimals. Of DOUBLE it is computed as
`floor(n * (x - lo) / (hi - lo)) + 1`, in this order, as other engines do, which may differ at a border. No
expression here fails on a row: a number that is no point of time is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import scalar_functions
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import Rule, StatementCompiler, call_name, read_number
from dpsql.analysis.conversions import cast, unify
from dpsql.analysis.facts_of_values import build_typed
from dpsql.analysis.scalar_rules import SECONDS, build_comparison
from dpsql.analysis.typed_expression import Bounds, KeyDomain, Typed, make_constant
from dpsql.kernel.tree import Call, Case, Cast, Column, Constant, Expr, IsNull, Item, Paren, Range, Select
from dpsql.language import MARK, copy_tree
from dpsql.policy import Assumed
from dpsql.types import BIGINT, DOUBLE, INTEGER, NULL, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

_MOST_BUCKETS = 2_000
_MOST_BORDERS = 200
"""How many buckets are chosen by comparisons with borders: of DECIMAL, and of ends that are not whole."""
_EXAMPLE = "WIDTH_BUCKET(cost, 0, 100, 10)"


def compile_width_bucket(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile WIDTH_BUCKET(x, lo, hi, n): 0 below lo, n + 1 from hi on; above and up to them if lo > hi."""
    arguments = node.expressions
    ends = [read_number(each) for each in arguments[1:]]
    if len(arguments) != 4 or None in ends:
        raise compiler.source.refuse("WIDTH_BUCKET takes a value, two numbers and how many", node, _EXAMPLE)
    low, high, count = (end for end in ends if end is not None)
    if count.denominator != 1 or not 1 <= count <= _MOST_BUCKETS:
        raise compiler.source.refuse(
            f"WIDTH_BUCKET makes 1 to {_MOST_BUCKETS} buckets", arguments[3], _EXAMPLE
        )
    if low == high:
        raise compiler.source.refuse("WIDTH_BUCKET takes two different ends", arguments[2], _EXAMPLE)
    value, number = compiler.expression(arguments[0], scope), int(count)
    if value.type == DOUBLE:
        chosen = _bucket_of_double(compiler, node, value, low, high, number)
    elif (
        value.type.integer
        and max(abs(low), abs(high)) < 10**15
        and {low.denominator, high.denominator} == {1}
    ):
        chosen = _bucket_of_whole(compiler, node, value, int(low), int(high), number)
    elif number > _MOST_BORDERS:
        raise compiler.source.refuse(
            f"WIDTH_BUCKET of these numbers makes 1 to {_MOST_BORDERS} buckets", arguments[3], _EXAMPLE
        )
    elif value.type.integer or value.type.name == "DECIMAL":
        borders = [low + (high - low) * i / number for i in range(number + 1)]
        chosen = _choose_bucket(compiler, node, value, borders, 0, number + 1)
    else:
        raise compiler.source.refuse(
            f"WIDTH_BUCKET takes a number, this is {value.type}", arguments[0], _EXAMPLE
        )
    i = Column("", "i")
    query = Select((Item(Cast(i, BIGINT), "v"), Item(i, "o")), Range(0, number + 2))
    domain = KeyDomain(query, ordered=True, origin="the buckets", complete=True)
    known = Case(((IsNull(value.node, negated=True), chosen),))
    bounds = Bounds(Fraction(0), Fraction(number + 1), domain.origin)
    return build_typed(Paren(known), BIGINT, value, domain=domain, bounds=bounds)


def _choose_bucket(
    compiler: StatementCompiler,
    node: exp.Expr,
    value: Typed,
    borders: Sequence[Fraction],
    first: int,
    last: int,
) -> Expr:
    """Return the choice among buckets `first` to `last` by the borders between them, half at each step."""
    if first == last:
        return Constant(first, BIGINT)
    middle = (first + last) // 2
    rising = borders[0] < borders[-1]
    border = _make_border(compiler, node, value.type, borders[middle], rising=rising)
    a, b = unify(compiler.source, compiler.catalog, value, border, node)
    before = build_comparison("<" if rising else ">", a, b).node
    low = _choose_bucket(compiler, node, value, borders, first, middle)
    return Paren(Case(((before, low),), _choose_bucket(compiler, node, value, borders, middle + 1, last)))


def _make_border(
    compiler: StatementCompiler, node: exp.Expr, sql_type: SqlType, border: Fraction, *, rising: bool
) -> Typed:
    """Return the first number of a type's decimals that has reached a border."""
    scale = sql_type.scale if sql_type.name == "DECIMAL" else 0
    steps = border * 10**scale
    whole = math.ceil(steps) if rising else math.floor(steps)
    if abs(whole) >= 10**18:
        raise compiler.source.refuse("this border has more than 18 digits", node, _EXAMPLE)
    if not scale:
        return make_constant(whole, BIGINT)
    digits = max(len(str(abs(whole))), scale + 1)
    return make_constant(Decimal(whole).scaleb(-scale), SqlType("DECIMAL", digits, scale))


def _bucket_of_whole(
    compiler: StatementCompiler, node: exp.Expr, value: Typed, low: int, high: int, number: int
) -> Expr:
    """Return the bucket of a whole number between whole ends, by its distance from the first end."""

    def call(name: str, *arguments: Typed) -> Typed:
        return scalar_functions.compile_call(compiler.source, compiler.catalog, name, arguments, node)

    start, width, size = (make_constant(n, BIGINT) for n in (low, abs(high - low), number))
    wide, (least, most) = cast(value, BIGINT), sorted((low, high))
    cut = Call("greatest", (Call("least", (wide.node, Constant(most, BIGINT))), Constant(least, BIGINT)))
    inside = replace(wide, node=cut, bounds=Bounds(Fraction(least), Fraction(most), "the ends"), domain=None)
    far = call("-", inside, start) if low < high else call("-", start, inside)
    place = call("+", call("//", call("*", far, size), width), make_constant(1, BIGINT))
    before = build_comparison("<" if low < high else ">", wide, start).node
    return Case(((before, Constant(0, BIGINT)),), place.node)


def _bucket_of_double(
    compiler: StatementCompiler, node: exp.Expr, value: Typed, low: Fraction, high: Fraction, number: int
) -> Expr:
    def call(name: str, *arguments: Typed) -> Typed:
        return scalar_functions.compile_call(compiler.source, compiler.catalog, name, arguments, node)

    start, end, width, size = (make_constant(float(n), DOUBLE) for n in (low, high, abs(high - low), number))
    far = call("-", value, start) if low < high else call("-", start, value)
    inside = cast(call("floor", call("/", call("*", size, far), width)), BIGINT)
    place = call("+", inside, make_constant(1, BIGINT))
    less, reached = ("<", ">=") if low < high else (">", "<=")
    last = Constant(number, BIGINT)
    return Case(
        (
            (call("isnan", value).node, Constant(None, NULL)),
            (build_comparison(less, value, start).node, Constant(0, BIGINT)),
            (build_comparison(reached, value, end).node, Constant(number + 1, BIGINT)),
        ),
        Call("least", (place.node, last)),
    )


def compile_instant(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile TO_TIMESTAMP(seconds): the instant a given number of seconds after 1970 began in UTC."""
    if len(node.expressions) != 1:
        raise compiler.source.refuse(
            "TO_TIMESTAMP takes seconds since 1970", node, "TRY_STRPTIME(x, '%Y-%m-%d'), of a text"
        )
    value = compiler.expression(node.expressions[0], scope)
    if not value.type.numeric:
        raise compiler.source.refuse(
            f"TO_TIMESTAMP takes seconds since 1970, this is {value.type}",
            node,
            "TRY_STRPTIME(x, '%Y-%m-%d'), of a text",
        )
    seconds = cast(value, DOUBLE)
    made = scalar_functions.compile_call(compiler.source, compiler.catalog, "to_timestamp", [seconds], node)
    return replace(made, type=TIMESTAMPTZ)


def compile_local_time(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile FROM_UNIXTIME(seconds): the time in the policy's zone at the instant of TO_TIMESTAMP."""
    if len(node.expressions) != 1:
        raise compiler.source.refuse("FROM_UNIXTIME takes seconds since 1970", node, "FROM_UNIXTIME(seconds)")
    zone = compiler.catalog.time_zone
    instant = exp.Anonymous(this=f"{MARK}to_timestamp", expressions=[copy_tree(node.expressions[0])])
    local = exp.Anonymous(this=f"{MARK}timezone", expressions=[exp.Literal.string(zone), instant])
    for made in (instant, local):
        made.meta.update(node.meta)
    found = compiler.expression(local, scope)
    note = Assumed(f"FROM_UNIXTIME: a time in {zone}")
    return replace(found, notes=(*found.notes, note))


def compile_age(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile AGE of two points of time, or of one up to the beginning of today, as seconds."""
    found = scalar_functions.compile_call(
        compiler.source, compiler.catalog, "age", _ends_of_age(compiler, node, scope), node
    )
    return replace(found, notes=(*found.notes, SECONDS))


def _compile_part_of_age(
    compiler: StatementCompiler, part: str, node: exp.Expr, scope: Scope
) -> Typed | None:
    """Compile the years, months or days of an AGE; None for other parts, and other calls."""
    if call_name(node) != "age" or part not in ("year", "month", "day"):
        return None
    ends = _ends_of_age(compiler, node, scope)
    return scalar_functions.compile_call(compiler.source, compiler.catalog, f"{part} of age", ends, node)


def _ends_of_age(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> list[Typed]:
    ends = [compiler.expression(each, scope) for each in node.expressions]
    if len(ends) == 1:
        ends.insert(0, compiler.expression(exp.CurrentDate(), scope))
    if len(ends) != 2:
        raise compiler.source.refuse("AGE takes one or two points of time", node, "AGE(later, earlier)")
    if TIMESTAMPTZ in (ends[0].type, ends[1].type):
        ends = [*unify(compiler.source, compiler.catalog, ends[0], ends[1], node)]
    return [cast(end, TIMESTAMP) if end.type.name == "DATE" else end for end in ends]


def _extract(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    age = _compile_part_of_age(compiler, node.name.lower(), node.expression.unnest(), scope)
    if age is not None:
        return age
    part = make_constant(node.name.lower(), VARCHAR)
    between = node.expression.unnest()
    if isinstance(between, exp.Sub) and node.name.lower() in _ELAPSED:
        later, earlier = (compiler.expression(n, scope) for n in (between.this, between.expression))
        if TIMESTAMPTZ in (later.type, earlier.type):
            later, earlier = unify(compiler.source, compiler.catalog, later, earlier, node)
        if {later.type.name, earlier.type.name} <= {"DATE", "TIMESTAMP", "TIMESTAMPTZ"}:
            function, unit, operator, scale = _ELAPSED[node.name.lower()]
            times = [v if v.type.moment else cast(v, TIMESTAMP) for v in (earlier, later)]
            parts = [make_constant(unit, VARCHAR), *times]
            found = scalar_functions.compile_call(compiler.source, compiler.catalog, function, parts, node)
            if not operator:
                return found
            both = [found, make_constant(scale, INTEGER)]
            return scalar_functions.compile_call(compiler.source, compiler.catalog, operator, both, node)
    value = compiler.expression(node.expression, scope)
    return scalar_functions.compile_call(compiler.source, compiler.catalog, "date_part", [part, value], node)


_ELAPSED = {
    "epoch": ("date_diff", "microsecond", "/", 1_000_000),
    "day": ("date_sub", "day", "", 1),
    "hour": ("date_sub", "hour", "%", 24),
    "minute": ("date_sub", "minute", "%", 60),
    "second": ("date_sub", "second", "%", 60),
}
"""What EXTRACT takes from the time between two points of time: all seconds, with their fraction; whole days;
and whole hours, minutes and seconds beside the days, hours and minutes, below 0 if the time is."""

TIME_RULES = (Rule(exp.Extract, _extract, frozenset({"this", "expression"})),)
