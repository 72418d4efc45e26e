"""Messages of the wire protocol, each with one length, count or part of it multiplied by 1,000."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from dpsql.serve.wire.types import TYPES

TIMES = 1_000
_MOST = {"h": 2**15 - 1, "H": 2**16 - 1, "i": 2**31 - 1, "I": 2**32 - 1}
_LARGEST = (1 << 20) - 200
"""The most bytes of a part, so that the message is read at all."""

Part = tuple[str, int] | bytes
"""A number in a form of `struct`, or bytes."""


def encoded(parts: Sequence[Part]) -> bytes:
    """Return the bytes of parts."""
    return b"".join(
        part if isinstance(part, bytes) else struct.pack("!" + part[0], part[1]) for part in parts
    )


def larger(parts: Sequence[Part]) -> Iterator[bytes]:
    """Yield the parts with each of them multiplied in turn; the parts behind a length stay as they are."""
    for place, part in enumerate(parts):
        if isinstance(part, bytes):
            kept = part.rstrip(b"\0")
            many = kept * min(TIMES, _LARGEST // max(1, len(kept))) + part[len(kept) :]
            yield encoded([*parts[:place], many, *parts[place + 1 :]])
        else:
            form, number = part
            yield encoded([*parts[:place], (form, min(number * TIMES, _MOST[form])), *parts[place + 1 :]])


def framed(tag: bytes, body: bytes, *, times: int = 1) -> bytes:
    """Return a message, whose announced length is multiplied."""
    return tag + struct.pack("!i", min((len(body) + 4) * times, _MOST["i"])) + body


NUMERIC: tuple[Part, ...] = (("h", 1), ("h", 33), ("H", 0), ("H", 17), ("H", 1))
_SCALARS: dict[str, tuple[Part, ...]] = {
    "bool": (b"\1",),
    "int2": (("h", 7),),
    "int4": (("i", 7),),
    "int8": (("i", 0), ("i", 7)),
    "float4": (b"\0\0\0\0",),
    "float8": (b"\0" * 8,),
    "numeric": NUMERIC,
    "text": (b"abcd",),
    "bytea": (b"\xff\0abc",),
    "date": (("i", 9_000),),
    "time": (("i", 0), ("i", 9_000)),
    "timestamp": (("i", 0), ("i", 9_000)),
    "timestamptz": (("i", 0), ("i", 9_000)),
    "uuid": (b"0123456789abcdef",),
    "json": (b'{"a": 1}',),
}
_TEXTS = {
    "bool": b"true",
    "int4": b"12",
    "float8": b"1.5e5",
    "numeric": b"12345.25e99",
    "text": b"ab\xc3\xa9\xf0\x9f\x98\x80",
    "bytea": b"\\000\\001",
    "date": b"2024-01-31  ",
    "timestamptz": b"2024-01-31 01:02:03.5+02 ",
    "uuid": b"01234567-89ab-cdef-0123-456789abcdef",
}
_OIDS = {kind.name: kind.oid for kind in TYPES.values()}
_ARRAYS = {
    kind.element.name: kind.oid for kind in TYPES.values() if kind.element and kind.name.startswith("_")
}


def values() -> Iterator[tuple[int, int, bytes]]:
    """Yield values of parameters with a part multiplied: their OIDs, formats and bytes."""
    for name, parts in _SCALARS.items():
        oid = _OIDS[name]
        for data in (encoded(parts), *larger(parts)):
            yield oid, 1, data
        element = encoded(parts)
        head: tuple[Part, ...] = (("i", 1), ("i", 0), ("i", oid), ("i", 2), ("i", 1))
        items: tuple[Part, ...] = (("i", len(element)), element)
        for data in larger([*head, *items, *items]):
            yield _ARRAYS[name], 1, data
        for one in (element, *larger(parts)):
            count = min(2 * TIMES, _LARGEST // (len(one) + 4))
            many = encoded([*head[:3], ("i", count), head[4]]) + encoded([("i", len(one)), one]) * count
            yield _ARRAYS[name], 1, many
    for name, text in _TEXTS.items():
        for data in larger([text]):
            yield _OIDS[name], 0, data
            yield 0, 0, data
        for data in (b'{"' + text * TIMES + b'"}', b"{" + b",".join([text] * TIMES) + b"}"):
            yield _ARRAYS[name], 0, data
    for data in (b"{" + b"a" * _LARGEST + b"}", b'{"' + b"\\a" * (_LARGEST // 2) + b'"}'):
        yield _ARRAYS["text"], 0, data
    yield _ARRAYS["text"], 0, b"{" + b"{" * TIMES + b"}" * TIMES + b"}"
    yield _OIDS["bytea"], 0, b"\\x" + b"00" * (_LARGEST // 2)


def starts() -> Iterator[bytes]:
    """Yield what a client may send first, with a part multiplied; each is sent on a connection of its own."""
    parameters: tuple[Part, ...] = (b"user\0", b"alice\0", b"options\0", b"-c a=b \0")
    for body in larger([("i", 3 << 16), *parameters, b"\0"]):
        yield framed(b"", body)
    pairs = encoded([("i", 3 << 16), *parameters]) + b"a\0b\0" * TIMES + b"\0"
    yield framed(b"", pairs)
    options = b"".join(b"_pq_.%d\0x\0" % number for number in range(TIMES))
    yield framed(b"", encoded([("i", 3 << 16), *parameters[:2]]) + options + b"\0")
    for code in (80877102, 80877103, 80877104):
        for body in larger([("i", code), ("i", 17), b"abcd"]):
            yield framed(b"", body)
    yield framed(b"", encoded([("i", 3 << 16), *parameters, b"\0"]), times=TIMES)


def proofs() -> Iterator[bytes]:
    """Yield the first message of a login with a part multiplied."""
    first = b"n,,n=,r=abcdefghijklmnop"
    for body in larger([b"SCRAM-SHA-256\0", ("i", len(first)), first]):
        yield framed(b"p", body)
    yield framed(b"p", b"SCRAM-SHA-256\0", times=TIMES)


def messages() -> Iterator[bytes]:
    """Yield the messages of a client that has logged in, with a part multiplied."""
    bodies: dict[bytes, tuple[Part, ...]] = {
        b"Q": (b"SELECT 1 AS one, 'x' AS two;\0",),
        b"P": (b"name\0", b"SELECT $1 AS one, $2 AS two\0", ("H", 2), ("I", 25), ("I", 25)),
        b"B": (
            *(b"portal\0", b"s\0", ("H", 2), ("h", 0), ("h", 0), ("H", 2)),
            *(("i", 1), b"7", ("i", 4), b"abcd", ("H", 2), ("h", 0), ("h", 0)),
        ),
        b"D": (b"S", b"s\0"),
        b"E": (b"p\0", ("i", 1)),
        b"C": (b"P", b"p\0"),
        b"F": (("i", 17), ("H", 1), ("h", 0), ("H", 1), ("i", 1), b"7", ("h", 0)),
        b"d": (b"rows",),
        b"c": (b"",),
        b"f": (b"why\0",),
        b"H": (b"",),
    }
    for tag, parts in bodies.items():
        for body in larger(parts):
            yield framed(tag, body)
    for text in (b"SHOW TimeZone;", b"SELECT ", b"(", b"1,", b"SAVEPOINT a;", b"SET application_name = b;"):
        yield framed(b"Q", text * TIMES + b"\0")
        yield framed(b"P", b"\0" + text * TIMES + b"\0\0\0")
    yield framed(b"Q", b"SELECT " + b",".join([b"1"] * 30 * TIMES) + b"\0")
    yield framed(b"P", b"\0SELECT " + b",".join([b"1"] * 30 * TIMES) + b"\0\0\0")
    many = 60 * TIMES
    yield framed(b"P", encoded([b"\0SELECT $1\0", ("H", many), b"\0\0\0\x19" * many]))
    empty: tuple[Part, ...] = (b"\0s\0", ("H", 0), ("H", 2), ("i", 0), ("i", 0), ("H", 0))
    for place in (1, 2, 5):
        size = 4 if place == 2 else 2
        yield framed(b"B", encoded([*empty[:place], ("H", many), b"\0" * size * many, *empty[place + 1 :]]))


def lengths() -> Iterator[bytes]:
    """Yield messages whose announced length is multiplied; what is sent behind them is part of them."""
    for tag in (b"Q", b"P", b"B", b"D", b"E", b"C", b"F", b"S", b"H", b"X", b"d", b"c", b"f", b"p"):
        yield framed(tag, b"abc\0", times=TIMES)
