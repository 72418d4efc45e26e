"""The argument of a sum, average or quantile in words, and the note that a policy's bounds cut its values."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cache

from sqlglot import Dialect, exp

from dpsql.analysis.parsed import call_arguments
from dpsql.analysis.released.aggregate import AggregateCall
from dpsql.analysis.typed import Bounds
from dpsql.errors import Fix
from dpsql.estimates import decimal
from dpsql.language import MARK, call_end, copied
from dpsql.policy import Assumed
from dpsql.types import SqlType

_LONGEST = 60
"""Characters after which the text of an argument is cut."""


def argument_text(argument: exp.Expr) -> str:
    """Return an argument as the statement writes it, on one line and shortened."""
    text = re.sub(f"(?i){MARK}", "", _dialect().generate(copied(argument), copy=False, comments=False))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 2] + ".."


@cache
def _dialect() -> Dialect:
    return Dialect.get_or_raise("duckdb")


def ends_text(sql_type: SqlType, low: Fraction, high: Fraction) -> str:
    """Return two bounds in words: of dates and timestamps as such, from days and microseconds since 1970.

    >>> ends_text(SqlType("DATE"), Fraction(0), Fraction(31))
    '1970-01-01 to 1970-02-01'
    """
    return f"{_end(sql_type, low)} to {_end(sql_type, high)}"


def _end(sql_type: SqlType, end: Fraction) -> str:
    match sql_type.name:
        case "DATE":
            return str(date(1970, 1, 1) + timedelta(days=int(end)))
        case "TIMESTAMP" | "TIMESTAMPTZ":
            moment = datetime(1970, 1, 1) + timedelta(microseconds=int(end))
            return f"{moment}+00" if sql_type.name == "TIMESTAMPTZ" else str(moment)
    return decimal(end)


def with_bounds(call: AggregateCall, bound: str, ends: str, guess: str) -> tuple[str, Fix | None]:
    """Return an aggregate's call with a bound added, for a hint, and the fix that adds it to the statement.

    There is no fix for a call that has a named argument already.
    """
    source, start = call.compiler.source, call.compiler.source.position(call.node)
    end, added = call_end(source, start), f", {bound} => {ends}"
    if end < 0 or call_arguments(call.node)[0]:
        value = "*" if call.name.startswith("count") else "x"
        return f"{call.name.upper()}({value}{added})", None
    text = " ".join(source.text[start:end].split())
    if text.endswith("("):
        added = f"*{added}"
    return f"{text}{added})", Fix(added, end, end, guess=guess)


def assume_cut(call: AggregateCall, argument: str, sql_type: SqlType, bounds: Bounds) -> None:
    """Note that values are cut, if the policy declares the bounds: other bounds no value exceeds."""
    if bounds.declared:
        ends = ends_text(sql_type, bounds.low, bounds.high)
        call.compiler.assume(Assumed(f"values of {argument} outside {ends} are cut", where="policy"))
