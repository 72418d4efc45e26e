"""Recorded sessions of the protocol, and mutations of their bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.serve import frontend as f

QUERY = "SELECT 1 AS one, 'two' AS two, NULL AS three"
ROWS = "SELECT * FROM range(7)"

SESSIONS: tuple[tuple[bytes, ...], ...] = (
    (f.query(QUERY), f.query("SELECT 1; SELECT 'a;b'; -- c"), f.query("")),
    (f.query("BEGIN"), f.query("SELECT oops"), f.query("SELECT 1"), f.query("ROLLBACK")),
    (f.query("SAVEPOINT a"), f.query("BEGIN; SAVEPOINT a; SELECT oops"), f.query("ROLLBACK TO a; COMMIT")),
    (f.query(f"COPY ({ROWS}) TO STDOUT"), f.query(f"COPY ({ROWS}) TO STDOUT (FORMAT binary)")),
    (f.query(f"BEGIN; DECLARE c CURSOR FOR {ROWS}"), f.query("FETCH 3 FROM c; CLOSE c; END")),
    (f.query("SET application_name = 'x'; SHOW ALL"), f.query("RESET ALL; DISCARD ALL")),
    (f.parse(QUERY), f.describe(b"S"), f.bind(), f.describe(b"P"), f.execute(), f.SYNC),
    (
        f.parse("SELECT $1::int + 1, $2", "s", [23, 25]),
        f.bind([b"41", b"x"], statement="s", portal="p", codes=[0], columns=[1, 0]),
        f.bind([struct.pack("!i", 7), None], statement="s", codes=[1, 0]),
        f.execute("p", 1),
        f.execute(),
        f.close(b"S", "s"),
        f.close(b"P", "p"),
        f.SYNC,
    ),
    (
        f.query("BEGIN"),
        f.parse(ROWS),
        f.bind(),
        f.execute("", 2),
        f.FLUSH,
        f.execute("", 2),
        f.SYNC,
        f.query("END"),
    ),
    (
        f.parse("SELECT oops"),
        f.bind(),
        f.execute(),
        f.SYNC,
        f.parse("SELECT 2"),
        f.bind(),
        f.execute(),
        f.SYNC,
    ),
    (f.message(b"d", b"1\n"), f.message(b"c"), f.message(b"f", b"no\0"), f.message(b"F", b"\0" * 14)),
)
"""What a client sends behind its login, message by message."""

STARTS: tuple[tuple[bytes, ...], ...] = (
    (f.SSL_REQUEST, f.GSS_REQUEST, f.startup({"user": "alice", "database": "shop", "options": "-c a=b"})),
    (f.startup({"user": "alice", "_pq_.x": "1"}, 3 << 16 | 9),),
    (f.cancel_request(12345, b"abcd"),),
    (
        f.startup({"user": "mallory"}),
        f.message(b"p", f.text("SCRAM-SHA-256"), struct.pack("!i", 27), b"n,,n=,r=fyko+d2lbbFgONRv9qk"),
        f.message(b"p", b"c=biws,r=fyko+d2lbbFgONRv9qk,p=" + b"A" * 43 + b"="),
    ),
    (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(160),),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",),
)
"""What a client sends before it has logged in."""

LENGTHS = (
    *(-(2**31), -(2**16), -1, 0, 1, 3, 4, 5, 7, 8, 255, 1024, 1025, 10_000, 10_001),
    *(2**16, 2**20, 2**20 + 1, 2**24, 2**31 - 5, 2**31 - 1),
)

Mutation = Callable[[random.Random, list[bytes]], list[bytes]]


def _length(draw: random.Random, messages: list[bytes]) -> list[bytes]:
    """Give one message another length."""
    at = draw.randrange(len(messages))
    whole = messages[at]
    begin = 0 if whole[:1] in (b"\0", b"") else 1
    changed = whole[:begin] + struct.pack("!i", draw.choice(LENGTHS)) + whole[begin + 4 :]
    return [*messages[:at], changed, *messages[at + 1 :]]


def _number(draw: random.Random, messages: list[bytes]) -> list[bytes]:
    """Put a number at the border of what fits anywhere in a message."""
    at = draw.randrange(len(messages))
    whole = bytearray(messages[at])
    size = draw.choice((1, 2, 4))
    place = draw.randrange(max(1, len(whole) - size + 1))
    number = draw.choice((0, 1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1))
    whole[place : place + size] = number.to_bytes(size)
    return [*messages[:at], bytes(whole), *messages[at + 1 :]]


def _byte(draw: random.Random, messages: list[bytes]) -> list[bytes]:
    """Change single bytes."""
    whole = bytearray(b"".join(messages))
    for _ in range(draw.randint(1, 4)):
        whole[draw.randrange(len(whole))] = draw.randrange(256)
    return [bytes(whole)]


def _removed(draw: random.Random, messages: list[bytes]) -> list[bytes]:
    """Leave out a stretch of bytes."""
    whole = b"".join(messages)
    begin = draw.randrange(len(whole))
    return [whole[:begin] + whole[begin + draw.randint(1, 12) :]]


def _inserted(draw: random.Random, messages: list[bytes]) -> list[bytes]:
    """Put random bytes anywhere."""
    whole = b"".join(messages)
    at = draw.randrange(len(whole) + 1)
    return [whole[:at] + draw.randbytes(draw.randint(1, 40)) + whole[at:]]


def _cut(draw: random.Random, messages: list[bytes]) -> list[bytes]:
    """End early."""
    whole = b"".join(messages)
    return [whole[: draw.randrange(len(whole))]]


def _shuffled(draw: random.Random, messages: list[bytes]) -> list[bytes]:
    """Send the messages of two sessions in another order, some of them several times."""
    mixed = [*messages, *draw.choice(SESSIONS)]
    draw.shuffle(mixed)
    return [one for one in mixed for _ in range(draw.choice((0, 1, 1, 1, 2, 9)))]


def _text(draw: random.Random, messages: list[bytes]) -> list[bytes]:
    """Ask random text."""
    words = (
        "SELECT",
        "1",
        "'",
        '"',
        "$1",
        "$$",
        "/*",
        "*/",
        "--",
        ";",
        "\n",
        "COPY",
        "(",
        ")",
        "BEGIN",
        "é",
        "\x01",
    )
    sent = " ".join(draw.choice(words) for _ in range(draw.randint(1, 30)))
    at = draw.randrange(len(messages) + 1)
    made = f.query(sent) if draw.random() < 0.5 else f.parse(sent) + f.bind() + f.execute() + f.SYNC
    return [*messages[:at], made, *messages[at:]]


def _unchanged(_draw: random.Random, messages: list[bytes]) -> list[bytes]:
    return messages


MUTATIONS: tuple[Mutation, ...] = (
    _length,
    _number,
    _byte,
    _removed,
    _inserted,
    _cut,
    _shuffled,
    _text,
    _unchanged,
)


def mutated(draw: random.Random, messages: tuple[bytes, ...]) -> list[bytes]:
    """Return a session, changed once or several times."""
    found = list(messages)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        found = draw.choice(MUTATIONS)(draw, found) or [b"X"]
        found = [one for one in found if one] or [b"X"]
    return found


def parts(draw: random.Random, data: bytes) -> list[bytes]:
    """Divide bytes as a network could."""
    if draw.random() < 0.3:
        return [data]
    places = sorted(draw.randrange(len(data) + 1) for _ in range(draw.randint(1, 6)))
    return [data[begin:end] for begin, end in zip([0, *places], [*places, len(data)], strict=True)]
