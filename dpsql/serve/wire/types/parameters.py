"""Decode the values that a client binds, from PostgreSQL's text and binary formats to Python's types.

A value is read strictly: what PostgreSQL reads with the session's help (`'yesterday'`, `'5.3.2020'`), dates
before the year 1 and infinite dates are refused with the form to send instead. The text format comes first,
then the binary one.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal

from dpsql.lazy_pattern import lazy_pattern
from dpsql.serve.limits import MOST_DIGITS, MOST_SCALAR, VALUE, DecodingBudget, size_of
from dpsql.serve.wire.types import (
    INTEGERS,
    MAX_ITEMS,
    REFERENCES,
    UNSIGNED,
    ParameterError,
    WireType,
    out_of_range,
    parameter_wire_type,
)
from dpsql.serve.wire.types.number_texts import DAY, EPOCH_DAYS, numeric_digits, numeric_value

_SPACE = " \t\n\r\v\f"
_GAP = "[ \\t\\n\\r\\v\\f]*"
_TRUE = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"})
_FALSE = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})
_WHOLE = lazy_pattern(r"[+-]?[0-9]{1,400}")
_DECIMAL = lazy_pattern(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,5})?")
_SPECIAL = lazy_pattern(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DATE = r"(?P<year>[0-9]{4,6})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_TIME = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(:(?P<second>[0-9]{2})(\.(?P<fraction>[0-9]{0,9}))?)?"
_ZONE = r"(?P<zone> *Z| *UTC| *[+-][0-9]{1,2}(:?[0-9]{2}(:?[0-9]{2})?)?)?"
_MOMENT = lazy_pattern(rf"{_DATE}([ T] *{_TIME})?{_ZONE}(?P<era> *BC)?", re.IGNORECASE)
_CLOCK = lazy_pattern(_TIME)
_UUID = lazy_pattern(r"(?P<open>\{)?(?P<digits>([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4})(?P<close>\})?")
_ESCAPED = lazy_pattern(rb"\\(\\|[0-3][0-7]{2})|\\")
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "char", "unknown", "json", "bytea"})
"""Types whose texts may be long."""


def decode_utf8(data: bytes) -> str:
    """Decode a text; raise `ParameterError` if it is not UTF-8 or has a NUL character."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ParameterError("a parameter is not valid UTF-8", "22021") from None
    if "\x00" in text:
        raise ParameterError("a text parameter has a NUL character", "22021")
    return text


def text_value(text: str, kind: WireType, budget: DecodingBudget) -> object:
    """Return the value that a text in UTF-8 stands for; raises `LimitExceeded` before it is beyond `budget`.

    The text itself was taken from that before.
    """
    if kind.element is not None:
        element = kind.element
        parts = split_elements(text, kind, budget)
        return [None if part is None else text_value(part, element, budget) for part in parts]
    if kind.name not in _TEXTS and len(text) > MOST_SCALAR:
        raise ParameterError(
            f"a parameter of type {kind.name} is longer than {MOST_SCALAR:,} characters", "54000"
        )
    budget.take(VALUE, text.count("\\") if kind.name == "bytea" and not text.startswith("\\x") else 1)
    if kind.name in INTEGERS:
        return _read_integer(text, kind)
    reader = _TEXT_READERS.get(kind.name)
    return text if reader is None else reader(text, kind)


def _syntax_error(
    text: str, kind: WireType, sqlstate: str = "22P02", hint: str | None = None
) -> ParameterError:
    shown = text if len(text) <= 40 else text[:40] + "..."
    return ParameterError(f'invalid input syntax for type {kind.name}: "{shown}"', sqlstate, hint)


def _read_integer(text: str, kind: WireType) -> int:
    found = _WHOLE.fullmatch(text.strip(_SPACE))
    if found is None:
        raise _syntax_error(text, kind)
    value, bits = int(found[0]), INTEGERS[kind.name]
    low, high = (0, 2**bits) if kind.name in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not low <= value < high:
        raise out_of_range(kind.name)
    return value


def _read_boolean(text: str, kind: WireType) -> bool:
    word = text.strip(_SPACE).lower()
    if word not in _TRUE | _FALSE:
        raise _syntax_error(text, kind)
    return word in _TRUE


def _read_float(text: str, kind: WireType) -> float:
    shown = text.strip(_SPACE)
    if not (_DECIMAL.fullmatch(shown) or _SPECIAL.fullmatch(shown)):
        raise _syntax_error(text, kind)
    value = _round_to_float4(float(shown), kind) if kind.name == "float4" else float(shown)
    if not _SPECIAL.fullmatch(shown):
        zero = not any(c in "123456789" for c in re.split("[eE]", shown)[0])
        if math.isinf(value) or (value == 0 and not zero):
            raise out_of_range(kind.name)
    return value


def _round_to_float4(value: float, kind: WireType) -> float:
    """Return the float4 that is nearest to a number."""
    try:
        return float(struct.unpack("!f", struct.pack("!f", value))[0])
    except OverflowError:
        raise out_of_range(kind.name) from None


def _read_numeric(text: str, kind: WireType) -> Decimal:
    shown = text.strip(_SPACE)
    if _DECIMAL.fullmatch(shown):
        if len(shown) > MOST_DIGITS or not -MOST_DIGITS < (value := Decimal(shown)).adjusted() < MOST_DIGITS:
            raise out_of_range(kind.name)
        return value
    if _SPECIAL.fullmatch(shown) and not re.fullmatch("[+-]nan", shown, re.IGNORECASE):
        return Decimal(shown)
    raise _syntax_error(text, kind)


def _match_form(form: re.Pattern[str], text: str, kind: WireType, hint: str) -> re.Match[str]:
    found = form.fullmatch(text.strip(_SPACE))
    if found is None:
        raise _syntax_error(text, kind, "22007", hint)
    return found


def _read_date(text: str, kind: WireType) -> datetime.date:
    found = _match_form(_MOMENT, text, kind, "send a date as 2026-12-31")
    # As in PostgreSQL, a time zone is ignored: pgjdbc sends one. A time of the day would be lost.
    moment = _moment_of(found, kind)
    if moment.time() != datetime.time():
        raise _syntax_error(text, kind, "22007", "send a date without a time of the day, as 2026-12-31")
    return moment.date()


def _read_timestamp(text: str, kind: WireType) -> datetime.datetime:
    found = _match_form(_MOMENT, text, kind, "send a timestamp as 2026-12-31 23:59:59")
    moment = _moment_of(found, kind)
    if kind.name == "timestamp":
        if found["zone"]:  # PostgreSQL ignores it, so that the moment is another one
            hint = "send it without an offset, or compare an instant: ts AT TIME ZONE 'UTC' = $1::timestamptz"
            raise _syntax_error(text, kind, "22007", hint)
        return moment
    offset = _read_offset(found["zone"], kind) if found["zone"] else datetime.timedelta()
    try:
        return (moment - offset).replace(tzinfo=datetime.UTC)
    except OverflowError:
        raise out_of_range(kind.name, "22008") from None


def _read_offset(zone: str, kind: WireType) -> datetime.timedelta:
    found = re.fullmatch(r"([+-])([0-9]{1,2}):?([0-9]{2})?:?([0-9]{2})?", zone.strip())
    if found is None:
        return datetime.timedelta()
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    if hours > 15 or minutes > 59 or seconds > 59:
        raise out_of_range(kind.name, "22009")
    offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return offset if found[1] == "+" else -offset


def _read_time(text: str, kind: WireType) -> datetime.time:
    return _make_time(_match_form(_CLOCK, text, kind, "send a time as 23:59:59"), kind)


def _moment_of(found: re.Match[str], kind: WireType) -> datetime.datetime:
    """Return the moment of a match of `_DATE` and possibly `_TIME`; raise if there is none in Python."""
    parts = found.groupdict()
    clock = _make_time(found, kind) if parts.get("hour") else datetime.time()
    try:
        # A year before the first is none of Python's.
        year = 0 if parts["era"] else int(parts["year"])
        day = datetime.date(year, int(parts["month"]), int(parts["day"]))
    except ValueError:
        raise out_of_range(kind.name, "22008") from None
    return datetime.datetime.combine(day, clock)


def _make_time(found: re.Match[str], kind: WireType) -> datetime.time:
    # PostgreSQL rounds to microseconds; what is more precise is refused here rather than changed.
    fraction = (found["fraction"] or "").ljust(6, "0")
    if fraction[6:].strip("0"):
        raise ParameterError(f"a parameter of type {kind.name} is more precise than microseconds", "22008")
    try:
        return datetime.time(
            int(found["hour"]), int(found["minute"]), int(found["second"] or 0), int(fraction[:6])
        )
    except ValueError:
        raise out_of_range(kind.name, "22008") from None


def _read_uuid(text: str, kind: WireType) -> uuid.UUID:
    found = _UUID.fullmatch(text)
    if found is None or (found["open"] is None) != (found["close"] is None):
        raise _syntax_error(text, kind)
    return uuid.UUID(found["digits"].replace("-", ""))


def _read_bytea(text: str, kind: WireType) -> bytes:
    if text.startswith("\\x"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            raise _syntax_error(text, kind, "22023") from None

    def unescape(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            raise _syntax_error(text, kind)
        return found[1] if found[1] == b"\\" else bytes([int(found[1], 8)])

    return _ESCAPED.sub(unescape, text.encode())


_TEXT_READERS: dict[str, Callable[[str, WireType], object]] = {
    "bool": _read_boolean,
    "float4": _read_float,
    "float8": _read_float,
    "numeric": _read_numeric,
    "date": _read_date,
    "time": _read_time,
    "timestamp": _read_timestamp,
    "timestamptz": _read_timestamp,
    "uuid": _read_uuid,
    "bytea": _read_bytea,
}

_ITEM = lazy_pattern(
    rf'{_GAP}+(?:"(?P<quoted>[^"\\]*+(?:\\.[^"\\]*+)*+)"|(?P<plain>(?:[^",{{}}\\]++|\\.)++)){_GAP}+',
    re.DOTALL,
)


def split_elements(text: str, kind: WireType, budget: DecodingBudget) -> list[str | None]:
    """Split an array `{a,"b",NULL}` into its elements' texts; arrays within arrays are refused.

    >>> from dpsql.serve.wire.types import TYPES
    >>> split_elements('{a, "b,c", NULL}', TYPES[1009], DecodingBudget("bind"))
    ['a', 'b,c', None]
    """
    inner = text.strip(_SPACE)
    if not (inner.startswith("{") and inner.endswith("}") and len(inner) > 1):
        raise _syntax_error(text, kind, "22P02", "send an array as {1,2,3}")
    # Before the expression below goes through it: each escape is a step of its own.
    budget.take(size_of(inner), inner.count("\\"))
    end = len(inner) - 1
    found: list[str | None] = []
    at = 1
    if not inner[1:end].strip(_SPACE):
        return found
    while True:
        item = _ITEM.match(inner, at, end)
        if item is None or len(found) == MAX_ITEMS:
            raise _syntax_error(text, kind, "22P02", "send an array of one dimension, as {1,2,3}")
        found.append(_unescape_item(item, text, kind))
        at = item.end()
        if at == end:
            return found
        if inner[at] != ",":
            raise _syntax_error(text, kind)
        at += 1


def _unescape_item(item: re.Match[str], text: str, kind: WireType) -> str | None:
    quoted = item["quoted"] is not None
    shown = item["quoted"] if quoted else item["plain"].strip(_SPACE)
    if not quoted and not shown:
        raise _syntax_error(text, kind)
    if not quoted and shown.upper() == "NULL":
        return None
    return re.sub(r"\\(.)", r"\1", shown, flags=re.DOTALL)


def decode_parameter(data: bytes | None, oid: int, code: int, budget: DecodingBudget | None = None) -> object:
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
    kind = parameter_wire_type(oid)
    if data is None:
        return None
    budget = budget or DecodingBudget("bind")
    if code:
        return _read_binary(data, kind, budget)
    budget.take(size_of(data), 0)
    return text_value(decode_utf8(data), kind, budget)


def _read_binary(data: bytes, kind: WireType, budget: DecodingBudget) -> object:
    """Return the value that bytes stand for; raises `LimitExceeded` before it goes beyond its budget."""
    if kind.element is not None:
        return _read_binary_array(data, kind, kind.element, budget)
    budget.take(VALUE + size_of(data) + (numeric_digits(data) if kind.name == "numeric" else 0))
    if kind.length in (1, 2, 4, 8, 16) and len(data) != kind.length and kind.name != "char":
        raise _binary_error(kind, f"it has {len(data)} bytes, not {kind.length}")
    reader = _BINARY_READERS.get(kind.name)
    return decode_utf8(data) if reader is None else reader(data, kind)


def _binary_error(kind: WireType, why: str) -> ParameterError:
    return ParameterError(f"incorrect binary data for type {kind.name}: {why}", "22P03")


def _read_binary_integer(data: bytes, kind: WireType) -> int:
    return int.from_bytes(data, "big", signed=kind.name not in UNSIGNED)


def _read_binary_float(data: bytes, kind: WireType) -> float:
    return float(struct.unpack("!f" if kind.name == "float4" else "!d", data)[0])


def _read_binary_numeric(data: bytes, kind: WireType) -> Decimal:
    try:
        return numeric_value(data)
    except ValueError as error:
        raise _binary_error(kind, str(error)) from None
    except OverflowError:
        raise out_of_range(kind.name) from None


def _read_binary_date(data: bytes, kind: WireType) -> datetime.date:
    days = _read_binary_integer(data, kind) + EPOCH_DAYS
    return _make_moment(days * DAY, kind).date()


def _read_binary_timestamp(data: bytes, kind: WireType) -> datetime.datetime:
    return _make_moment(_read_binary_integer(data, kind) + EPOCH_DAYS * DAY, kind)


def _make_moment(micros: int, kind: WireType) -> datetime.datetime:
    try:
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    except OverflowError:
        raise out_of_range(kind.name, "22008") from None


def _read_binary_time(data: bytes, kind: WireType) -> datetime.time:
    micros = _read_binary_integer(data, kind)
    if not 0 <= micros < DAY:
        raise out_of_range(kind.name, "22008")
    return _make_moment(micros, kind).time()


_BINARY_READERS: dict[str, Callable[[bytes, WireType], object]] = {
    **dict.fromkeys((*INTEGERS, *REFERENCES), _read_binary_integer),
    "bool": lambda data, _: data != b"\x00",
    "float4": _read_binary_float,
    "float8": _read_binary_float,
    "numeric": _read_binary_numeric,
    "date": _read_binary_date,
    "time": _read_binary_time,
    "timestamp": _read_binary_timestamp,
    "timestamptz": lambda data, kind: _read_binary_timestamp(data, kind).replace(tzinfo=datetime.UTC),
    "uuid": lambda data, _: uuid.UUID(bytes=data),
    "bytea": lambda data, _: data,
}


def _read_binary_array(
    data: bytes, kind: WireType, element: WireType, budget: DecodingBudget
) -> list[object]:
    """Read an array of at most one dimension."""
    if len(data) < 12:
        raise _binary_error(kind, "it is too short")
    dimensions, _, oid = struct.unpack_from("!iii", data)
    if oid != element.oid:
        raise _binary_error(kind, f"its elements have the type with OID {oid}")
    if dimensions == 0 and len(data) == 12:
        return []
    if dimensions != 1 or len(data) < 20:
        raise _binary_error(kind, "it has not one dimension")
    (count,) = struct.unpack_from("!i", data, 12)
    if not 0 <= count <= MAX_ITEMS:
        raise _binary_error(kind, f"it has {count} elements, the most are {MAX_ITEMS:,}")
    budget.take(VALUE + 8 * count, 0)
    found: list[object] = []
    at = 20
    for _ in range(count):
        size = struct.unpack_from("!i", data, at)[0] if at + 4 <= len(data) else -2
        at += 4
        if size < -1 or at + max(size, 0) > len(data):
            raise _binary_error(kind, "an element ends behind it")
        found.append(None if size < 0 else _read_binary(data[at : at + size], element, budget))
        at += max(size, 0)
    if at != len(data):
        raise _binary_error(kind, "there are bytes behind its last element")
    return found
