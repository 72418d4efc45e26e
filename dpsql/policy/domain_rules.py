"""Check the public domains of a policy: their values fit the column's type and are not too many."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal

from dpsql.policy.names import wrong
from dpsql.policy.parts import (
    BooleanDomain,
    Domain,
    EnumDomain,
    RangeDomain,
    Value,
    ValuesDomain,
)
from dpsql.policy.values import fit, kind_of
from dpsql.types import BIGINT, DATE, VARCHAR, SqlType

MOST_VALUES = 10_000_000
"""The most values that a domain may list: each of them is stored."""
MOST_INTEGERS = 10**12
"""The most values of a range of integers, which is not stored."""


def checked_domain(domain: Domain, sql_type: SqlType | None, place: str) -> Domain:
    """Return the domain with its values converted to the column's type, if that is declared."""
    if isinstance(domain, ValuesDomain):
        return _checked_values(domain, sql_type, place)
    if isinstance(domain, RangeDomain):
        _check_range(domain, sql_type, place)
    elif isinstance(domain, BooleanDomain) and sql_type is not None and sql_type.name != "BOOLEAN":
        raise wrong(place, f"the column is {sql_type}, not BOOLEAN")
    elif isinstance(domain, EnumDomain) and sql_type is not None and sql_type.name != "ENUM":
        raise wrong(place, f"the column is {sql_type}, not ENUM", "list its values")
    return domain


def _checked_values(domain: ValuesDomain, sql_type: SqlType | None, place: str) -> ValuesDomain:
    if not domain.values:
        raise wrong(place, "a domain has at least one value")
    if len(domain.values) > MOST_VALUES:
        raise wrong(place, f"a domain has at most {MOST_VALUES} values")
    kinds = {kind_of(value) for value in domain.values}
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) > 1:
        raise wrong(place, f"the values are of different kinds: {', '.join(sorted(kinds))}")
    if "value of another kind" in kinds:
        raise wrong(
            place, "a value is a text, an integer, a Decimal, a boolean, a date, a timestamp or a time"
        )
    if sql_type is not None and sql_type.moment and any(map(_is_day, domain.values)):
        raise wrong(
            place,
            f"a date without a time is not a {sql_type}",
            "write { from = 2024-01-01, to = 2024-01-31 } for all times of these days, or times: "
            '"2024-01-01 00:00:00"',
        )
    held: list[Value] = []
    for position, value in enumerate(domain.values):
        try:
            held.append(fit(value, sql_type) if sql_type is not None else _plain(value))
        except ValueError as problem:
            raise wrong(f"{place}[{position}]", str(problem)) from None
    return ValuesDomain(tuple(held), domain.complete)


def _is_day(value: Value) -> bool:
    """Return whether a value is a date without a time; as a TIMESTAMP it would mean only its midnight."""
    if isinstance(value, str):
        return re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None
    return isinstance(value, date) and not isinstance(value, datetime)


def _plain(value: Value) -> Value:
    """Return a value of a column whose type is not known yet; `ValueError` if no type can hold it."""
    if isinstance(value, str):
        return fit(value, VARCHAR)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ValueError("an integer has at most 64 bits")
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError("not a finite number")
    if getattr(value, "tzinfo", None) is not None and not isinstance(value, datetime):
        raise ValueError("a time has no offset: write it in UTC, without one")
    return value


def _check_range(domain: RangeDomain, sql_type: SqlType | None, place: str) -> None:
    ends = (domain.start, domain.stop)
    days = all(isinstance(end, date) and not isinstance(end, datetime) for end in ends)
    integers = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    if not days and not integers:
        raise wrong(place, "a range goes from an integer to an integer, or from a date to a date")
    if sql_type is not None and not (
        sql_type.integer if integers else sql_type.moment or sql_type.name == "DATE"
    ):
        raise wrong(
            place, f"a range of {'integers' if integers else 'dates'} does not fit a column of {sql_type}"
        )
    if domain.size == 0:
        raise wrong(place, "the range is empty: it ends before it starts")
    most = MOST_INTEGERS if integers else MOST_VALUES
    if domain.size > most:
        raise wrong(place, f"a domain has at most {most} values")
    for end in ends:
        try:
            fit(end, DATE if days else sql_type or BIGINT)
        except ValueError as problem:
            raise wrong(place, str(problem)) from None
