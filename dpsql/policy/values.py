"""Convert the values of a domain to the type of their column; the column itself is never converted."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal

from dpsql.policy.parts import Value
from dpsql.types import SqlType


def fit(value: Value, sql_type: SqlType) -> Value:
    """Convert a value to a column type; `ValueError` says why that is not possible.

    Text is accepted for DATE, TIMESTAMP, TIME and UUID, as in SQL. A DOUBLE is returned as its
    shortest decimal, so that two decimals that round to one double become one value.

    >>> from dpsql.types import column_type
    >>> fit("2024-01-31", column_type("DATE")), fit(5, column_type("DECIMAL(4,2)"))
    (datetime.date(2024, 1, 31), Decimal('5.00'))
    """
    if sql_type.integer:
        return _integer(value, sql_type)
    reader = _READERS.get(sql_type.name)
    if reader is None:
        raise ValueError(f"a column of type {sql_type} cannot have a domain of values")
    return reader(value, sql_type)


def kind_of(value: object) -> str:
    """Name the kind of a value: `text`, `integer`, `number`, `boolean`, `date`, `timestamp`, `time`."""
    for python, word in _KINDS:
        if isinstance(value, python):
            return word
    return "value of another kind"


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (Decimal, "number"),
    (str, "text"),
    (datetime, "timestamp"),
    (date, "date"),
    (time, "time"),
)


def _mismatch(value: object, sql_type: SqlType) -> ValueError:
    return ValueError(f"{str(value)[:40]!r} is not a valid {sql_type}")


def _integer(value: Value, sql_type: SqlType) -> Value:
    if kind_of(value) != "integer" or not isinstance(value, int):
        raise _mismatch(value, sql_type)
    low = -(1 << (sql_type.bits - 1)) if sql_type.signed else 0
    high = (1 << (sql_type.bits - 1 if sql_type.signed else sql_type.bits)) - 1
    if not low <= value <= high:
        raise _mismatch(value, sql_type)
    return value


def _boolean(value: Value, sql_type: SqlType) -> Value:
    if not isinstance(value, bool):
        raise _mismatch(value, sql_type)
    return value


def _number(value: Value, sql_type: SqlType) -> Decimal:
    if kind_of(value) not in ("integer", "number") or not isinstance(value, (int, Decimal)):
        raise _mismatch(value, sql_type)
    number = Decimal(value)
    if not number.is_finite():
        raise _mismatch(value, sql_type)
    return number


def _decimal(value: Value, sql_type: SqlType) -> Value:
    number = _number(value, sql_type)
    if number and number.adjusted() >= sql_type.precision - sql_type.scale:
        raise _mismatch(value, sql_type)
    held = number.quantize(Decimal(1).scaleb(-sql_type.scale))
    if held != number:
        raise _mismatch(value, sql_type)
    # -0 and 0 are one value in SQL.
    return abs(held) if held.is_zero() else held


def _double(value: Value, sql_type: SqlType) -> Value:
    number = _number(value, sql_type)
    try:
        nearest = float(number)
    except OverflowError:
        raise _mismatch(value, sql_type) from None
    if nearest in (float("inf"), float("-inf")):
        raise _mismatch(value, sql_type)
    return Decimal(repr(nearest + 0.0))


def _text(value: Value, sql_type: SqlType) -> Value:
    if not isinstance(value, str):
        raise _mismatch(value, sql_type)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("the text is not valid Unicode") from None
    return value


def _enum(value: Value, sql_type: SqlType) -> Value:
    if value not in sql_type.values:
        raise ValueError(f"{str(value)[:40]!r} is not among the values of the ENUM type")
    return value


def _uuid(value: Value, sql_type: SqlType) -> Value:
    hexadecimal = "[0-9a-fA-F]"
    shape = rf"{hexadecimal}{{8}}-(?:{hexadecimal}{{4}}-){{3}}{hexadecimal}{{12}}"
    if not isinstance(value, str) or not re.fullmatch(shape, value):
        raise _mismatch(value, sql_type)
    return str(uuid.UUID(value))


def _parse_text(value: Value, sql_type: SqlType, shape: str, read: Callable[[str], Value]) -> Value:
    if not isinstance(value, str) or not re.fullmatch(shape, value, re.ASCII):
        raise _mismatch(value, sql_type)
    try:
        return read(value)
    except ValueError:
        raise _mismatch(value, sql_type) from None


_DAY = r"\d{4}-\d\d-\d\d"
_HOURS = r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?"


def _day(value: Value, sql_type: SqlType) -> Value:
    if kind_of(value) == "date":
        return value
    return _parse_text(value, sql_type, _DAY, date.fromisoformat)


def _timestamp(value: Value, sql_type: SqlType) -> Value:
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            raise ValueError("a TIMESTAMP has no offset: write it in UTC, without one")
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return _parse_text(value, sql_type, rf"{_DAY}([ T]{_HOURS})?", datetime.fromisoformat)


def _instant(value: Value, sql_type: SqlType) -> Value:
    """Return an instant as a time of UTC; one without an offset is of UTC."""
    if isinstance(value, str):
        offset = r"(Z|[+-]\d\d(:?\d\d)?)?"
        value = _parse_text(value, sql_type, rf"{_DAY}([ T]{_HOURS}{offset})?", datetime.fromisoformat)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return _timestamp(value, sql_type)


def _time(value: Value, sql_type: SqlType) -> Value:
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise ValueError("a TIME has no offset: write it in UTC, without one")
        return value
    return _parse_text(value, sql_type, _HOURS, time.fromisoformat)


_READERS: dict[str, Callable[[Value, SqlType], Value]] = {
    "BOOLEAN": _boolean,
    "DECIMAL": _decimal,
    "DOUBLE": _double,
    "VARCHAR": _text,
    "ENUM": _enum,
    "UUID": _uuid,
    "DATE": _day,
    "TIMESTAMP": _timestamp,
    "TIMESTAMPTZ": _instant,
    "TIME": _time,
}
