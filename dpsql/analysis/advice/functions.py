"""Advise on functions that are not known, by what computes the same of those that are."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from dpsql.analysis.advice.statement import Advice, Statement
from dpsql.analysis.compiler import function_name
from dpsql.errors import Fix, Obstacle

_SAME_PARTS = {
    "dayofyear": "doy",
    "isoweek": "week",
    "weekofyear": "week",
    "isodayofweek": "isodow",
    "dayofweekiso": "isodow",
    "dayofmonth": "day",
}
"""Parts of a date as other systems call them."""
_SUNDAYS = ("dayofweek", "weekday", "dow")
"""Parts that count days of a week from a number that differs from system to system."""
_NUMBER = re.compile(r"\d+")


def unlisted(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write what a function computes that is not known, with functions that are."""
    name = (function_name(node) or "").lower()
    if name in _PER_DAY:
        return _day_of_number(of, node, name)
    write = _WRITTEN.get(name)
    call = of.outline.call_around(of.query.source.position(node), name) if write is not None else None
    if write is None or call is None:
        return None
    start, end, arguments = call
    written = write(arguments)
    return (written, Fix(written, start, end)) if written is not None else None


def _width_bucket(arguments: tuple[str, ...]) -> str | None:
    """Write the number of the bucket, from 0 below the first to n + 1 behind the last, as SQL defines it."""
    if len(arguments) != 4:
        return None
    x, low, high, n = (text if re.fullmatch(r"[\w.]+", text) else f"({text})" for text in arguments)
    return (
        f"CASE WHEN {x} < {low} THEN 0 WHEN {x} >= {high} THEN {n} + 1 "
        f"ELSE CAST(FLOOR(({x} - {low}) * {n} / ({high} - {low})) AS INTEGER) + 1 END"
    )


def _make_timestamp(arguments: tuple[str, ...]) -> str | None:
    """Write a point of time of year, month, day, hour, minute and second."""
    if len(arguments) != 6 or not all(_NUMBER.fullmatch(text) for text in arguments[3:]):
        return None
    day, (hour, minute, second) = arguments[:3], map(int, arguments[3:])
    if max(minute, second) > 59 or hour > 23:
        return None
    if all(_NUMBER.fullmatch(text) for text in day):
        year, month, number = map(int, day)
        return f"TIMESTAMP '{year:04}-{month:02}-{number:02} {hour:02}:{minute:02}:{second:02}'"
    parts = ((hour, "HOUR"), (minute, "MINUTE"), (second, "SECOND"))
    later = "".join(f" + INTERVAL {n} {unit}" for n, unit in parts if n)
    return f"CAST(MAKE_DATE({', '.join(day)}) AS TIMESTAMP){later}"


_PER_DAY = {"make_timestamp": 86_400_000_000, "epoch_ms": 86_400_000, "to_timestamp": 86_400}
"""Functions that make a point of time of a number since 1970, and what of it is a day."""


def _day_of_number(of: Statement, node: exp.Expr, name: str) -> Advice | None:
    """Write the day of a point of time that is a number, `CAST(MAKE_TIMESTAMP(x) AS DATE)`."""
    at = of.query.source.position(node)
    call = of.outline.call_around(at, name)
    if call is None or len(call[2]) != 1:
        written = None if call is None or name != "make_timestamp" else _make_timestamp(call[2])
        return None if written is None or call is None else (written, Fix(written, call[0], call[1]))
    start, end, (number,) = call
    after = re.match(r"\s*::\s*DATE\b", of.text[end:], re.IGNORECASE)
    around = of.outline.call_around(at, "cast")
    if after is not None:
        end += after.end()
    elif around is not None and re.fullmatch(r"(?is).*\)\s*AS\s+DATE", around[2][-1]) and len(around[2]) == 1:
        if around[2][0][: end - start] != of.text[start:end]:
            return None
        start, end, _ = around
    else:
        return None
    written = f"DATE '1970-01-01' + CAST(FLOOR(({number}) / {_PER_DAY[name]}) AS INTEGER)"
    return f"({written})", Fix(f"({written})", start, end)


_WRITTEN: dict[str, Callable[[tuple[str, ...]], str | None]] = {
    "width_bucket": _width_bucket,
}


def parts_of_dates(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Name a part of a date as it is called here, and write the years of AGE as complete years between."""
    at = of.query.source.position(node)
    of_dates = one.message.lower().startswith(("date_part is", "datepart is", "age is"))
    names = ("extract", "date_part", "datepart") if of_dates else ()
    call = next((c for name in names if (c := of.outline.call_around(at, name)) is not None), None)
    if call is None:
        return None
    start, end, arguments = call
    whole = ", ".join(arguments)
    split = re.match(r"(?is)\s*'?(\w+)'?\s*(?:\bFROM\b|,)\s*", whole)
    if split is None:
        return None
    part, value = split[1].lower(), whole[split.end() :].strip()
    return _years(of, part, value, start, end) or _part(of, part, value, start, end)


def _years(of: Statement, part: str, value: str, start: int, end: int) -> Advice | None:
    """`EXTRACT(YEAR FROM AGE(later, earlier))` is nearly the number of complete years between the two."""
    age = of.outline.call_around(of.text.find(value, start), "age")
    if part not in ("year", "years") or age is None or of.text[age[0] : age[1]] != value:
        return None
    later, earlier = (*age[2], "")[:2] if len(age[2]) > 1 else ("CURRENT_DATE", *age[2])
    if len(age[2]) not in (1, 2):
        return None
    written = f"DATE_SUB('year', {earlier}, {later})"
    # The two differ in this alone, by DuckDB's own account of both.
    asks = "complete years, of which 29 February to 28 February is one as well"
    return written, Fix(written, start, end, asks=asks)


def _part(of: Statement, part: str, value: str, start: int, end: int) -> Advice | None:
    if part in _SAME_PARTS:
        written = f"EXTRACT({_SAME_PARTS[part].upper()} FROM {value})"
        return written, Fix(written, start, end)
    if part in _SUNDAYS:
        written = f"EXTRACT(DOW FROM {value})"
        return written, Fix(written, start, end, asks="days of the week from 0, a Sunday, to 6")
    return None
