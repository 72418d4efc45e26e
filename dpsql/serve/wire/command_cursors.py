"""Parse the commands DECLARE, FETCH, MOVE, CLOSE and COPY."""

from __future__ import annotations

from dpsql.serve.wire.command_types import CloseCursor, Copy, Declare, Direction, Fetch
from dpsql.serve.wire.command_words import Words
from dpsql.serve.wire.copy_options import read_options


def read_declare(words: Words) -> Declare:
    """Read what follows DECLARE."""
    name = words.name("the name of a cursor")
    binary, scroll = False, None
    while not words.take("CURSOR"):
        if words.take("BINARY"):
            binary = True
        elif words.take("NO", "SCROLL"):
            scroll = False
        elif words.take("SCROLL"):
            scroll = True
        elif not words.either("INSENSITIVE", "ASENSITIVE"):
            raise words.wrong("expected CURSOR", f"DECLARE {name} CURSOR FOR SELECT ...")
    hold = words.take("WITH", "HOLD")
    if not hold:
        words.take("WITHOUT", "HOLD")
    words.expect("FOR")
    if not words.more:
        raise words.wrong("expected a SELECT statement")
    query, at = words.rest()
    return Declare(name, query, at, words.source.text, hold, scroll, binary)


def read_fetch(words: Words, *, move: bool) -> Fetch:
    """Read what follows FETCH or MOVE."""
    direction, count = _direction(words)
    words.either("FROM", "IN")
    name = words.name("the name of a cursor")
    words.end()
    return Fetch(name, direction, count, move)


def _direction(words: Words) -> tuple[Direction, int | None]:
    count = words.whole()
    if count is not None:
        return _signed("FORWARD", count)
    # A cursor may have the name of a direction: `FETCH next` reads from it.
    if words.left == 1:
        return "FORWARD", 1
    if words.take("NEXT"):
        return "FORWARD", 1
    if words.take("PRIOR"):
        return "BACKWARD", 1
    if words.take("FIRST"):
        return "ABSOLUTE", 1
    if words.take("LAST"):
        return "ABSOLUTE", -1
    if words.take("ALL"):
        return "FORWARD", None
    if words.take("ABSOLUTE"):
        return "ABSOLUTE", _needed(words)
    if words.take("RELATIVE"):
        return "RELATIVE", _needed(words)
    way = words.either("FORWARD", "BACKWARD")
    if not way:
        return "FORWARD", 1
    direction: Direction = "FORWARD" if way == "FORWARD" else "BACKWARD"
    if words.take("ALL"):
        return direction, None
    count = words.whole()
    return (direction, 1) if count is None else _signed(direction, count)


def _signed(direction: Direction, count: int) -> tuple[Direction, int]:
    """Turn the direction around for a negative number of rows."""
    if count >= 0:
        return direction, count
    return ("BACKWARD" if direction == "FORWARD" else "FORWARD"), -count


def _needed(words: Words) -> int:
    count = words.whole()
    if count is None:
        raise words.wrong("expected a whole number")
    return count


def read_close(words: Words) -> CloseCursor:
    """Read what follows CLOSE."""
    name = None if words.take("ALL") else words.name("the name of a cursor")
    words.end()
    return CloseCursor(name)


def read_copy(words: Words) -> Copy:
    """Read what follows COPY; only a query can be copied, and only to the client."""
    if words.word() != "(":
        raise words.refuse("COPY takes a query, not a table", "COPY (SELECT ...) TO STDOUT")
    query, at = words.inside()
    if not query.strip():
        raise words.wrong("expected a SELECT statement in the parentheses")
    if words.take("FROM"):
        raise words.refuse("COPY .. FROM writes: dpsql only reads", "COPY (SELECT ...) TO STDOUT")
    words.expect("TO")
    if not words.take("STDOUT"):
        raise words.refuse("COPY writes to the client only", "COPY (SELECT ...) TO STDOUT")
    moved = len(query) - len(query.lstrip())
    return Copy(query.strip(), at + moved, read_options(words))
