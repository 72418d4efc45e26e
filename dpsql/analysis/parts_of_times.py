"""Parts of dates and times, and the values that they can have: these are public, whatever times there are.

A number has a range, such as hours from 0 to 23. A text, such as `dayname(d)` or `strftime(t, '%m-%d')`, has
the texts of all days of 28 years, in which each day of a year falls on each day of the week, or of all
minutes of a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fractions import Fraction

from dpsql.analysis.facts_of_values import list_format_codes
from dpsql.analysis.typed_expression import TEXTS_OF_TIMES, Bounds, KeyDomain, Span, Typed
from dpsql.kernel.tree import Cast, Column, Derived, Expr, Form, Item, Range, Select, map_parts
from dpsql.lazy_dataclass import replace
from dpsql.types import VARCHAR

_RANGES = {
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
    "dow": (0, 6),
    "dayofweek": (0, 6),
    "weekday": (0, 6),
    "isodow": (1, 7),
    "month": (1, 12),
    "quarter": (1, 4),
    "day": (1, 31),
    "dayofmonth": (1, 31),
    "doy": (1, 366),
    "dayofyear": (1, 366),
    "week": (1, 53),
    "weekofyear": (1, 53),
}
"""Parts of dates and times with the range of their values."""
_CYCLE = Span.of_days(date(2000, 1, 1), date(2027, 12, 31))
_DAY = Span.of_days(date(2000, 1, 1), date(2000, 1, 1))
_OF_DAYS, _OF_MINUTES = frozenset("aAwubBmdej"), frozenset("HIpM")
"""The codes of a format of times whose texts depend on the day of the year and of the week, or on minutes."""


def add_part_domain(form: Form, arguments: Sequence[Typed], typed: Typed) -> Typed:
    """Return the result of a function with its public values, if it is a part of a date or time."""
    part = form.arguments[0][1:] if form.name == "date_part" and form.arguments[0][0] == "=" else form.name
    if part in _RANGES and typed.type.integer:
        low, high = _RANGES[part]
        if part == "hour" and form.arguments[-1] == "TIME":
            high = 24  # TIME '24:00:00' is one
        i = Column("", "i")
        query = Select((Item(Cast(i, typed.type), "v"), Item(i, "o")), Range(low, high + 1))
        domain = KeyDomain(query, ordered=True, origin=f"the {part}s")
        return replace(typed, domain=domain, bounds=Bounds(Fraction(low), Fraction(high), domain.origin))
    texts = _list_texts(part, arguments, typed) if typed.type == VARCHAR else None
    return typed if texts is None else replace(typed, domain=texts)


def _list_texts(part: str, arguments: Sequence[Typed], typed: Typed) -> KeyDomain | None:
    """Return the texts of a time that do not depend on its year; None for other texts."""
    times = [argument for argument in arguments if argument.type.moment or argument.type.name == "DATE"]
    formats = [argument.text for argument in arguments if argument.text is not None]
    if len(times) != 1 or part not in ("dayname", "monthname", "strftime"):
        return None
    codes = frozenset(list_format_codes(formats[0])) - {"%"} if formats else frozenset("A")
    days = codes <= _OF_DAYS
    moments = (_CYCLE.grid("day") if days else _DAY.grid("minute")) if codes else None
    if moments is None or not (days or codes <= _OF_MINUTES):
        return None
    moment = Cast(Column("d", "v"), times[0].type)

    def put(node: Expr) -> Expr:
        return moment if node == times[0].node else map_parts(node, put)

    texts = Select((Item(put(typed.guarded_node), "v"),), Derived(moments.query, "d"), distinct=True)
    return KeyDomain(texts, origin=TEXTS_OF_TIMES, null=True)


def map_texts(arguments: Sequence[Typed], typed: Typed) -> Typed:
    """Return a text that is made of one text of a time and of constants, with what its values are."""
    rows = [argument for argument in arguments if argument.reads]
    if len(rows) != 1 or rows[0].domain is None or typed.type != VARCHAR:
        return typed
    text = Cast(Column("d", "v"), rows[0].type)

    def put(node: Expr) -> Expr:
        return text if node == rows[0].node else map_parts(node, put)

    query = Select((Item(put(typed.guarded_node), "v"),), Derived(rows[0].domain.query, "d"), distinct=True)
    return replace(typed, domain=KeyDomain(query, origin=TEXTS_OF_TIMES, null=True))
