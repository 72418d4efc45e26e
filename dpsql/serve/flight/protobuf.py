"""Read and write the few Protocol Buffers messages of Flight SQL, by tables of their fields.

A message is read to a dictionary of the fields that it has. Fields that the table does not know are left out,
as the format wants it; a known field in another form, a length beyond the message or a text that is no UTF-8
is an error. Messages within messages stay bytes until somebody reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

Kind = Literal["bytes", "text", "int", "bool", "ints", "list"]
"""How a field is written; `ints` are several numbers, `list` several texts or messages (as bytes)."""
Fields = Mapping[int, tuple[str, Kind]]
"""The fields of a message by number: name and kind."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_WORD = 1 << 64
_HALF = 1 << 63


class MalformedMessageError(ValueError):
    """The bytes are no such message."""


def read(fields: Fields, data: bytes) -> dict[str, Any]:
    r"""Read a message; of a field that comes twice the last one counts, as the format wants it.

    >>> read({1: ("query", "text"), 2: ("limit", "int")}, b"\x0a\x02hi\x10\x96\x01")
    {'query': 'hi', 'limit': 150}
    """
    found: dict[str, Any] = {}
    for number, form, value in _raw(data):
        if number not in fields:
            continue
        name, kind = fields[number]
        if kind == "ints":
            found.setdefault(name, []).extend(_ints(form, value))
            continue
        expected = _VARINT if kind in ("int", "bool") else _LENGTH
        if form != expected:
            raise MalformedMessageError(f"field {name} has another form")
        match kind:
            case "text":
                found[name] = _text(value)
            case "bool":
                found[name] = bool(value)
            case "int":
                found[name] = value - _WORD if value >= _HALF else value
            case "list":
                found.setdefault(name, []).append(value)
            case _:
                found[name] = value
    return found


def write(fields: Fields, values: Mapping[str, Any]) -> bytes:
    r"""Write a message of these fields; a field without a value is left out.

    >>> write({1: ("query", "text"), 2: ("limit", "int")}, {"query": "hi", "limit": 150})
    b'\n\x02hi\x10\x96\x01'
    """
    parts: list[bytes] = []
    for number, (name, kind) in fields.items():
        value = values.get(name)
        if value is None:
            continue
        match kind:
            case "int" | "bool":
                parts += [varint(number << 3 | _VARINT), varint(int(value) % _WORD)]
            case "ints":
                packed = b"".join(varint(each % _WORD) for each in value)
                parts += [varint(number << 3 | _LENGTH), varint(len(packed)), packed]
            case _:
                for each in value if kind == "list" else (value,):
                    part = each.encode() if isinstance(each, str) else bytes(each)
                    parts += [varint(number << 3 | _LENGTH), varint(len(part)), part]
    return b"".join(parts)


def chunks(number: int, data: memoryview | bytes) -> tuple[bytes, bytes, memoryview | bytes]:
    """Return the parts of a field of bytes, which are not copied."""
    return varint(number << 3 | _LENGTH), varint(len(data)), data


def varint(value: int) -> bytes:
    """Write a number in as few bytes as it takes."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _raw(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, form and value of each field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, form = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise MalformedMessageError("a field has no valid number")
        if form == _VARINT:
            value, at = _varint(data, at)
            yield number, form, value
            continue
        if form == _LENGTH:
            size, at = _varint(data, at)
        elif form in (_FIXED32, _FIXED64):
            size = 4 if form == _FIXED32 else 8
        else:
            raise MalformedMessageError("a field has an unknown form")
        if size > len(data) - at:
            raise MalformedMessageError("a field is longer than the message")
        yield number, form, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if value >= _WORD:
                break
            return value, at + place + 1
    raise MalformedMessageError("a number is malformed")


def _ints(form: int, value: Any) -> Iterable[int]:  # noqa: ANN401  a number or bytes
    if form == _VARINT:
        return (value,)
    if form != _LENGTH:
        raise MalformedMessageError("a list of numbers has another form")
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedMessageError("a text is not UTF-8") from None
