"""Decode the values that a client binds, from PostgreSQL's two formats to Python's types.

The binary format is read here, the text format by `parameter_text`.
"""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal

from dpsql.serve.limits import VALUE, Budget, size_of
from dpsql.serve.wire.types.datetimes import DAY, EPOCH_DAYS
from dpsql.serve.wire.types.numbers import numeric_digits, numeric_value
from dpsql.serve.wire.types.oids import (
    INTEGERS,
    MAX_ITEMS,
    REFERENCES,
    UNSIGNED,
    ParameterError,
    WireType,
    out_of_range,
    parameter,
)
from dpsql.serve.wire.types.parameter_text import text_value, utf8


def decode_parameter(data: bytes | None, oid: int, code: int, budget: Budget | None = None) -> object:
    """Return the value of one parameter; None for NULL.

    Moments with a time zone come in UTC.

    Parameters
    ----------
    data
        The bytes of Bind, None for NULL.
    oid
        The type announced in Parse; 0 and 705 stand for text whose type follows from its place.
    code
        0 text, 1 binary.
    budget
        What the values of the message may take together; one of its own if it is left out.

    Raises
    ------
    LimitExceeded
        Before it allocates more than the budget has.
    ParameterError
        With the SQLSTATE that PostgreSQL has for the same mistake.

    >>> decode_parameter(b"42", 20, 0), decode_parameter(bytes.fromhex("0000002a"), 23, 1)
    (42, 42)
    """
    kind = parameter(oid)
    if data is None:
        return None
    budget = budget or Budget("bind")
    if code:
        return _binary_value(data, kind, budget)
    budget.take(size_of(data), 0)
    return text_value(utf8(data), kind, budget)


def _binary_value(data: bytes, kind: WireType, budget: Budget) -> object:
    """Return the value that bytes stand for; raises `LimitExceeded` before it goes beyond its budget."""
    if kind.element is not None:
        return _array(data, kind, kind.element, budget)
    budget.take(VALUE + size_of(data) + (numeric_digits(data) if kind.name == "numeric" else 0))
    if kind.length in (1, 2, 4, 8, 16) and len(data) != kind.length and kind.name != "char":
        raise _wrong(kind, f"it has {len(data)} bytes, not {kind.length}")
    reader = _BINARY_READERS.get(kind.name)
    return utf8(data) if reader is None else reader(data, kind)


def _wrong(kind: WireType, why: str) -> ParameterError:
    return ParameterError(f"incorrect binary data for type {kind.name}: {why}", "22P03")


def _whole(data: bytes, kind: WireType) -> int:
    return int.from_bytes(data, "big", signed=kind.name not in UNSIGNED)


def _binary_float(data: bytes, kind: WireType) -> float:
    return float(struct.unpack("!f" if kind.name == "float4" else "!d", data)[0])


def _binary_numeric(data: bytes, kind: WireType) -> Decimal:
    try:
        return numeric_value(data)
    except ValueError as error:
        raise _wrong(kind, str(error)) from None
    except OverflowError:
        raise out_of_range(kind.name) from None


def _binary_date(data: bytes, kind: WireType) -> datetime.date:
    days = _whole(data, kind) + EPOCH_DAYS
    return _moment(days * DAY, kind).date()


def _binary_timestamp(data: bytes, kind: WireType) -> datetime.datetime:
    return _moment(_whole(data, kind) + EPOCH_DAYS * DAY, kind)


def _moment(micros: int, kind: WireType) -> datetime.datetime:
    try:
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    except OverflowError:
        raise out_of_range(kind.name, "22008") from None


def _binary_time(data: bytes, kind: WireType) -> datetime.time:
    micros = _whole(data, kind)
    if not 0 <= micros < DAY:
        raise out_of_range(kind.name, "22008")
    return _moment(micros, kind).time()


_BINARY_READERS: dict[str, Callable[[bytes, WireType], object]] = {
    **dict.fromkeys((*INTEGERS, *REFERENCES), _whole),
    "bool": lambda data, _: data != b"\x00",
    "float4": _binary_float,
    "float8": _binary_float,
    "numeric": _binary_numeric,
    "date": _binary_date,
    "time": _binary_time,
    "timestamp": _binary_timestamp,
    "timestamptz": lambda data, kind: _binary_timestamp(data, kind).replace(tzinfo=datetime.UTC),
    "uuid": lambda data, _: uuid.UUID(bytes=data),
    "bytea": lambda data, _: data,
}


def _array(data: bytes, kind: WireType, element: WireType, budget: Budget) -> list[object]:
    """Read an array of at most one dimension."""
    if len(data) < 12:
        raise _wrong(kind, "it is too short")
    dimensions, _, oid = struct.unpack_from("!iii", data)
    if oid != element.oid:
        raise _wrong(kind, f"its elements have the type with OID {oid}")
    if dimensions == 0 and len(data) == 12:
        return []
    if dimensions != 1 or len(data) < 20:
        raise _wrong(kind, "it has not one dimension")
    (count,) = struct.unpack_from("!i", data, 12)
    if not 0 <= count <= MAX_ITEMS:
        raise _wrong(kind, f"it has {count} elements, the most are {MAX_ITEMS:,}")
    budget.take(VALUE + 8 * count, 0)
    found: list[object] = []
    at = 20
    for _ in range(count):
        size = struct.unpack_from("!i", data, at)[0] if at + 4 <= len(data) else -2
        at += 4
        if size < -1 or at + max(size, 0) > len(data):
            raise _wrong(kind, "an element ends behind it")
        found.append(None if size < 0 else _binary_value(data[at : at + size], element, budget))
        at += max(size, 0)
    if at != len(data):
        raise _wrong(kind, "there are bytes behind its last element")
    return found
