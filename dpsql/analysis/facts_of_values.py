"""Facts about the value of an expression, from those of its parts: bounds, grain of time, NULL.

The results hold for numbers; where a part is NULL or NaN, or beyond its own bounds, the value of the
expression may lie outside of them. That costs accuracy, never privacy: an aggregate cuts each value.

A declared range says that a column's values lie on these days, at any time of the day. Its values are too
many to list. An expression that depends on them only through `date_trunc('hour', ts)` is a function of the
hour: evaluated on all hours of the range it takes every value that it can take. The grain of an expression
for a column is the finest part of time that it depends on; an expression that depends on the exact time has
none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import GRAINS, TRUTH, Bounds, KeyDomain, Span, Typed, join_notes
from dpsql.kernel.check.proof import is_null
from dpsql.kernel.tree import (
    Aggregate,
    Apply,
    Between,
    Binary,
    Call,
    Canonical,
    Case,
    Cast,
    Column,
    Constant,
    Expr,
    InList,
    Interval,
    IsNull,
    IsTruth,
    Like,
    Not,
    Paren,
    Saturated,
    Try,
)
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import Table, fit_bounds
from dpsql.types import BOOLEAN, DOUBLE, SqlType

DAY = 86_400_000_000
_LARGEST = 2048
"""The most bits of an end: DOUBLE has 1,024, and products of products would grow without a limit."""

Ends = tuple[Fraction, Fraction]


def bounds_of(value: Typed) -> Bounds | None:
    """Return the bounds of the values of an expression; a BOOLEAN lies within 0 and 1."""
    return TRUTH if value.type == BOOLEAN else value.bounds


def hull_of_bounds(values: Iterable[Typed]) -> Bounds | None:
    """Return the least interval with the bounds of all expressions, without bare NULLs; None if one has none.

    A step is kept if all have the same.
    """
    parts = [bounds_of(v) for v in values if not is_null(v.node)]  # NULL needs no bounds
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts):
        return None
    steps = {p.step for p in known}
    step = steps.pop() if len(steps) == 1 else None
    loose = any(p.loose for p in known)
    return Bounds(min(p.low for p in known), max(p.high for p in known), _join_origins(known), step, loose)


def bounds_of_greatest(name: str, values: Sequence[Typed]) -> Bounds | None:
    """Return the bounds of GREATEST or LEAST, which skip NULL: at least one of the values is the result.

    A constant is never skipped.
    """
    found = hull_of_bounds(values)
    constants = [b for v in values if not v.reads and (b := v.bounds) is not None]
    if found is None or not constants:
        return found
    if name == "greatest":
        return replace(found, low=max(found.low, *(b.low for b in constants)), step=None)
    high = min(found.high, *(b.high for b in constants))
    return replace(found, high=high, step=None, loose=found.loose and high == found.high)


def bounds_of_cast(value: Typed, sql_type: SqlType) -> Bounds | None:
    """Return the bounds of an expression after a conversion to another type."""
    found = bounds_of(value)
    if found is None:
        return None
    if value.type == sql_type:
        return found
    pair = (value.type.held.name, sql_type.held.name)
    if sql_type.numeric and (value.type.numeric or value.type == BOOLEAN):
        if sql_type == DOUBLE:
            return replace(found, step=None)
        return _make_bounds(_round_outward(found, 0 if sql_type.integer else sql_type.scale), [found])
    if pair == ("DATE", "TIMESTAMP"):
        return _make_bounds((found.low * DAY, found.high * DAY), [found])
    if pair == ("TIMESTAMP", "DATE"):
        return _make_bounds((Fraction(found.low // DAY), Fraction(found.high // DAY)), [found])
    return None


def bounds_of_call(name: str, arguments: Sequence[Typed], sql_type: SqlType) -> Bounds | None:
    """Return the bounds of a call of an operator or function; None if its rule or a part is not known.

    The time between two dates has none: a column's range says little of it, which is often far shorter.
    """
    rule = _RULES.get((name.lower(), len(arguments)))
    parts = [b for a in arguments if a.type.numeric and (b := a.bounds) is not None]
    if rule is None or len(parts) < len(arguments) or not sql_type.numeric:
        return None
    found = _make_bounds(rule(*parts), parts)
    loose = name.lower() in ("*", "/") and sum(bool(a.reads) for a in arguments) > 1
    return replace(found, loose=True) if found is not None and loose else found


def _make_bounds(ends: Ends | None, parts: Sequence[Bounds]) -> Bounds | None:
    if ends is None or _is_long(ends[0]) or _is_long(ends[1]):
        return None
    only, origin = parts[0] if len(parts) == 1 else None, _join_origins(parts)
    if only is not None and ends == (only.low, only.high) and only.step is None and origin == only.origin:
        return only
    return Bounds(*ends, origin, loose=any(p.loose for p in parts))


def _is_long(end: Fraction) -> bool:
    return end.numerator.bit_length() > _LARGEST or end.denominator.bit_length() > _LARGEST


def _join_origins(parts: Iterable[Bounds]) -> str:
    texts = dict.fromkeys(p.origin for p in parts if p.origin)
    if len(texts) > 1 or any(" and " in text for text in texts):
        texts = dict.fromkeys(origin for text in texts for origin in text.split(" and "))
    return " and ".join(texts)


def _round_outward(x: Bounds, digits: int) -> Ends:
    """Round the ends outward: engines differ in how they round halves."""
    if digits >= 0 and x.low.denominator == 1 == x.high.denominator:
        return x.low, x.high
    unit = Fraction(10) ** -digits
    return math.floor(x.low / unit) * unit, math.ceil(x.high / unit) * unit


def _add(x: Bounds, y: Bounds) -> Ends:
    return x.low + y.low, x.high + y.high


def _subtract(x: Bounds, y: Bounds) -> Ends:
    return x.low - y.high, x.high - y.low


def _multiply(x: Bounds, y: Bounds) -> Ends:
    found = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return min(found), max(found)


def _divide(x: Bounds, y: Bounds) -> Ends | None:
    if y.low <= 0 <= y.high:
        return None
    found = [a / b for a in (x.low, x.high) for b in (y.low, y.high)]
    return min(found), max(found)


def _divide_whole(x: Bounds, y: Bounds) -> Ends | None:
    found = _divide(x, y)
    return None if found is None else (Fraction(math.trunc(found[0])), Fraction(math.trunc(found[1])))


def _negate(x: Bounds) -> Ends:
    return -x.high, -x.low


def _take_absolute(x: Bounds) -> Ends:
    return max(Fraction(0), x.low, -x.high), max(x.high, -x.low)


def _apply_to_ends(function: Callable[[Fraction], int]) -> Callable[[Bounds], Ends]:
    """Return the rule of a function that never decreases."""
    return lambda x: (Fraction(function(x.low)), Fraction(function(x.high)))


def _to_digits(x: Bounds, digits: Bounds) -> Ends | None:
    return _round_outward(x, int(digits.low)) if digits.low == digits.high and abs(digits.low) <= 30 else None


_RULES: dict[tuple[str, int], Callable[..., Ends | None]] = {
    ("+", 2): _add,
    ("-", 2): _subtract,
    ("*", 2): _multiply,
    ("/", 2): _divide,
    ("//", 2): _divide_whole,
    ("neg", 1): _negate,
    ("abs", 1): _take_absolute,
    ("floor", 1): _apply_to_ends(math.floor),
    ("ceil", 1): _apply_to_ends(math.ceil),
    ("trunc", 1): _apply_to_ends(math.trunc),
    ("round", 1): lambda x: _round_outward(x, 0),
    ("round", 2): _to_digits,
    ("trunc", 2): _to_digits,
}
"""The rule of each function, by its name and its number of arguments."""


def join_grains(parts: Iterable[Typed]) -> dict[str, str]:
    """Return the grains of an expression, joined from the grains of its parts.

    A column whose exact time one part depends on has no grain.
    """
    finest: dict[str, int] = {}
    whole: set[str] = set()
    for part in parts:
        for name in part.reads:
            if name in part.grains:
                finest[name] = max(finest.get(name, 0), GRAINS.index(part.grains[name]))
            else:
                whole.add(name)
    return {name: GRAINS[place] for name, place in finest.items() if name not in whole}


def mark_grain(value: Typed, grain: str | None) -> Typed:
    """Return a column of moments marked as read only to a grain of time; any other value unchanged.

    The local time of a column depends on it at the grain of the zone's offsets at least.
    """
    column = value if value.zoned is None else value.zoned.of
    if grain is None or not value.type.moment or not column.is_column:
        return value
    if value.zoned is not None:
        grain = GRAINS[max(GRAINS.index(grain), GRAINS.index(value.zoned.grain))]
    return replace(value, grains=dict.fromkeys(value.reads, grain))


_DAYS = (
    *("year", "month", "day", "quarter", "week", "weekday", "weekofyear", "yearweek", "isoyear", "isodow"),
    *("dow", "doy", "dayofweek", "dayofmonth", "dayofyear", "dayname", "monthname", "decade", "century"),
    "last_day",
)
_PARTS = {**dict.fromkeys(_DAYS, "day"), "hour": "hour", "minute": "minute", "second": "second"}
"""The grain that determines each part of a date or time."""

_PART_FIRST = ("date_part", "datepart", "date_trunc", "datetrunc", "date_diff", "datediff")
_FORMATS = {
    **dict.fromkeys("%YyCmbBdejaAwuUWVGxDF", "day"),
    **dict.fromkeys("HIp", "hour"),
    **dict.fromkeys("MR", "minute"),
    **dict.fromkeys("STXc", "second"),
}


def find_call_grains(name: str, arguments: Sequence[Typed]) -> dict[str, str]:
    """Return how finely (day, hour, ..) a function call reads each time column of its arguments."""
    grain = find_part_grain(name, [a.text for a in arguments if a.text is not None])
    if name == "time_bucket":
        grain = next((_bucket_grain(a.node) for a in arguments if isinstance(a.node, Interval)), None)
    return join_grains(mark_grain(a, grain) if a.type.moment else a for a in arguments)


def find_part_grain(name: str, texts: Sequence[str]) -> str | None:
    """Return how finely a function of a time and these texts reads the time."""
    if name == "strftime":
        return _format_grain(texts[0]) if len(texts) == 1 else None
    return _PARTS.get(name if name not in _PART_FIRST else texts[0].lower() if texts else "")


def list_format_codes(text: str) -> list[str]:
    """Return the codes of a time format, `%` for `%%`.

    >>> list_format_codes("%-d. %b %%Y")
    ['d', 'b', '%']
    """
    return re.findall(r"%-?(.)", text, re.DOTALL)


def _format_grain(text: str) -> str | None:
    """Return the finest grain among the codes of a time format."""
    grains = [_FORMATS.get(code) for code in list_format_codes(text)]
    if not grains or None in grains:
        return None
    return GRAINS[max(GRAINS.index(grain) for grain in grains if grain is not None)]


def _bucket_grain(interval: Interval) -> str | None:
    """Return the coarsest grain whose grid has the start of every time bucket; one starts at midnight."""
    found = re.fullmatch(r"\d+ (second|minute|hour|day|week|month|quarter|year)s?", interval.text)
    if found is None:
        return None
    return found[1] if found[1] in GRAINS else "day"


UTC_PARTS = frozenset({*_PARTS, *_PART_FIRST, "strftime", "time_bucket"})
"""Functions whose results depend on the zone in which a moment is looked at."""

_MAY_BE_NULL = lazy_pattern(
    r"\b(NULL|NULLIF|TRY|TRY_CAST|CASE|list_\w+|json\w*|array_\w+)\b|->|\[", re.IGNORECASE
)
"""What is in the forms of functions that return NULL for arguments that are not NULL."""


def never_null(node: Expr, column: Callable[[str], bool], sure: Collection[Expr] = ()) -> bool:
    """Return whether an expression has a value where its columns have one.

    `column` says by its generated name whether a column is never NULL; `sure` are expressions that are not
    NULL on the rows that count. A value that a function does not have (a part of an infinite date) is none
    that this is about: a row with it is outside of all candidates.
    """

    def there(part: Expr) -> bool:
        return never_null(part, column, sure)

    if node in sure:
        return True
    match node:
        case Column(table, name):
            return column(f"{table}.{name}")
        case Constant(value):
            return value is not None
        case IsNull() | IsTruth() | Binary("IS DISTINCT FROM" | "IS NOT DISTINCT FROM"):
            return True
        case Paren(inner) | Try(inner) | Not(inner) | Canonical(inner) | Saturated(inner):
            return there(inner)
        case Cast(operand, _, safe, bounded):
            return (bounded or not safe) and there(operand)
        case Binary("AND" | "OR" | "=" | "<>" | "<" | "<=" | ">" | ">=", left, right):
            return there(left) and there(right)
        case Between(operand, low, high):
            return there(operand) and there(low) and there(high)
        case Like(operand, _, pattern):
            return there(operand) and there(pattern)
        case InList(operand, items):
            return there(operand) and all(map(there, items))
        case Case(branches, default):
            return default is not None and there(default) and all(there(then) for _, then in branches)
        case Call("COALESCE" | "coalesce" | "ifnull", arguments):
            return any(map(there, arguments))
        case Apply(form, arguments):
            return not _MAY_BE_NULL.search(form.template) and all(map(there, arguments))
    return False


_KEEPS_SIGN = frozenset(("+", "*", "/", "//", "%", "ceil", "ceiling", "floor", "round", "sqrt", "trunc"))
"""Functions and operators whose value is not below 0 where no argument is."""


def never_negative(node: Expr, column: Callable[[str], bool]) -> bool:
    """Return whether a number is not below 0 where its columns are not; NULL and NaN are not.

    `column` says it of each column, by its generated name.
    """

    def holds(part: Expr) -> bool:
        return never_negative(part, column)

    match node:
        case Column(table, name):
            return column(f"{table}.{name}")
        case Constant(value):
            return value is None or (isinstance(value, int | float | Decimal) and value >= 0)
        case Paren(inner) | Try(inner) | Canonical(inner) | Saturated(inner) | Cast(inner):
            return holds(inner)
        case Binary("+" | "*" | "/" | "//" | "%", left, right):
            return holds(left) and holds(right)
        case Apply(form, arguments) if form.name.lower() != "abs":
            return form.name.lower() in _KEEPS_SIGN and all(map(holds, arguments))
        case Case(branches, default):
            return (default is None or holds(default)) and all(holds(then) for _, then in branches)
        case Call("abs", _) | Apply() | Aggregate("COUNT"):
            return True
        case Aggregate("SUM" | "AVG" | "MEDIAN" | "MIN" | "MAX", (argument,)):
            return holds(argument)
        case Call("COALESCE" | "coalesce" | "ifnull" | "LEAST" | "least", arguments):
            return all(map(holds, arguments))
        case Call("GREATEST" | "greatest", arguments):
            least = [each for each in arguments if isinstance(each, Constant) and each.value is not None]
            return all(map(holds, arguments)) or any(map(holds, least))
    return False


def is_never_negative(value: Typed, columns: Mapping[str, Typed]) -> bool:
    """Return whether an expression of columns is a number that is not below 0, as the policy says."""

    def column(name: str) -> bool:
        known = columns.get(name)
        return known is not None and (known.not_negative or not has_negatives(known.type))

    return value.type.numeric and (not has_negatives(value.type) or never_negative(value.node, column))


def has_negatives(kind: SqlType) -> bool:
    """Return whether a type has values below 0."""
    return not kind.integer or kind.signed


def bounds_of_column(catalog: Catalog, table: Table, column: str, sql_type: SqlType) -> Bounds | None:
    """Return the bounds of a declared table's column; None if nothing public is known of its values."""
    place = f"{table.name}.{column}"
    if sql_type == BOOLEAN:
        return TRUTH
    if not (sql_type.numeric or sql_type.moment or sql_type.name == "DATE"):
        return None
    if column in table.bounds:
        stated = fit_bounds(table.bounds[column], sql_type, table.place("bounds", column))
        step = None if stated.step is None else Fraction(stated.step)
        return Bounds(*stated.ends, f"the declared bounds of {place}", step)
    known = "complete" if catalog.complete(table.name, column) else "declared"
    domain = f"the {known} domain of {place}"
    days = catalog.span(table.name, column)
    if days is not None:
        span = Span.of_days(*days)
        return Bounds(Fraction(span.first), Fraction(span.last), domain)
    ends = catalog.integers(table.name, column)
    if ends is not None:
        return Bounds(Fraction(ends[0]), Fraction(ends[1]), domain)
    if table.unit is not None and column not in table.domain:
        return None
    extent = catalog.extent(table.name, column)
    return (
        None
        if extent is None
        else Bounds(*extent, f"the values of {place}" if table.unit is None else domain)
    )


def build_typed(
    node: Expr,
    sql_type: SqlType,
    *parts: Typed,
    domain: KeyDomain | None = None,
    bounds: Bounds | None = None,
) -> Typed:
    """Return a typed expression over parts, with the grains, notes and clock that follow from theirs."""
    return Typed(
        node,
        sql_type,
        domain=domain,
        grains=join_grains(parts),
        bounds=bounds,
        clock=any(part.clock for part in parts),
        notes=join_notes(parts),
    )
