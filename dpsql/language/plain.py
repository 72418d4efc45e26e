"""Copy the analyst's values to built-in Python types before a statement is prepared.

An instance of the analyst's own class can run code when it is read. It could close a stream, run another
statement or compare itself with a private count during a statement. So texts, numbers and containers are
copied once, at the outermost entry point, before any budget is reserved.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from dpsql.errors import ProgrammingError
from dpsql.kernel.loss import exact
from dpsql.lazy_dataclass import dataclass

Parameters = Sequence[object] | Mapping[str, object] | None
"""The parameters of a statement: a sequence for `?` and `$1`, a mapping for `$name`."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Unusable:
    """A parameter of a type without SQL values. A statement that uses it is refused at that place."""

    kind: str


def plain(parameters: object) -> Parameters:
    """Copy parameters: a mapping to a dict, another sequence to a tuple, each value to a built-in type."""
    if parameters is None:
        return None
    if isinstance(parameters, (str, bytes, bytearray, memoryview)):
        raise ProgrammingError("parameters are a sequence or a mapping, not one text")
    if isinstance(parameters, Mapping):
        return {plain_text(name): _value(parameters[name]) for name in list(parameters)}
    if isinstance(parameters, Sequence):
        return tuple(_value(value) for value in list(parameters))
    raise ProgrammingError("parameters are a sequence for ? markers or a mapping for $name markers")


def plain_text(text: object) -> str:
    """Copy a text to `str`; raise `ProgrammingError` for another type."""
    if not isinstance(text, str):
        raise ProgrammingError("a statement is text (str)")
    return str.__str__(text)


def plain_whole(value: _T) -> _T:
    """Copy an integer to `int`; return any other value unchanged, to be refused later."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__int__(value)  # type: ignore[return-value]  # a number for a number
    return value


def _value(value: object) -> object:
    if value is None or value is True or value is False or type(value) is Unusable:
        return value
    for kind, copy in _COPIES:
        if isinstance(value, kind):
            return copy(value)
    return Unusable(str.__str__(type(value).__name__))


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise ProgrammingError("a parameter is not a valid date or time")
    return int.__int__(value)


def _date(value: datetime.date) -> datetime.date:
    return datetime.date(*(_whole(part) for part in (value.year, value.month, value.day)))


def _clock(value: datetime.time | datetime.datetime) -> tuple[int, int, int, int]:
    return (_whole(value.hour), _whole(value.minute), _whole(value.second), _whole(value.microsecond))


def _datetime(value: datetime.datetime) -> datetime.datetime:
    day, offset = _date(value), value.utcoffset()
    moment = datetime.datetime(day.year, day.month, day.day, *_clock(value))
    if offset is None:
        return moment
    if not isinstance(offset, datetime.timedelta):
        raise ProgrammingError("a parameter is not a valid date or time")
    moved = datetime.timedelta(*(_whole(part) for part in (offset.days, offset.seconds, offset.microseconds)))
    try:
        return (moment - moved).replace(tzinfo=datetime.UTC)  # the same instant
    except OverflowError:
        raise ProgrammingError("in UTC, a parameter lies outside the years 1 to 9999") from None


def _time(value: datetime.time) -> datetime.time:
    return datetime.time(*_clock(value), tzinfo=None if value.tzinfo is None else datetime.UTC)


_COPIES: tuple[tuple[type, Callable[[Any], object]], ...] = (
    # A datetime is a date too, so it stands before it.
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (Decimal, Decimal),
    (Fraction, exact),
    (datetime.datetime, _datetime),
    (datetime.date, _date),
    (datetime.time, _time),
    (uuid.UUID, lambda value: uuid.UUID(int=_whole(value.int))),
)
