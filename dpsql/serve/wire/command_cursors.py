"""Parse the commands DECLARE, FETCH, MOVE, CLOSE and COPY."""

from __future__ import annotations

from dpsql.serve.wire.command_types import CloseCursor, Copy, Declare, Fetch
from dpsql.serve.wire.command_words import Words
from dpsql.serve.wire.copy_options import read_options
from dpsql.tree import quote


def read_declare(words: Words) -> Declare:
    """Read what follows DECLARE."""
    name = words.name("the name of a cursor")
    binary = False
    while not words.take("CURSOR"):
        if words.take("BINARY"):
            binary = True
        elif words.word() == "SCROLL":
            raise words.refuse("cursors read forward only", f"DECLARE {quote(name)} CURSOR FOR SELECT ...")
        elif not (words.take("NO", "SCROLL") or words.either("INSENSITIVE", "ASENSITIVE")):
            raise words.wrong("expected CURSOR", f"DECLARE {name} CURSOR FOR SELECT ...")
    hold = words.take("WITH", "HOLD")
    if not hold:
        words.take("WITHOUT", "HOLD")
    words.expect("FOR")
    if not words.more:
        raise words.wrong("expected a SELECT statement")
    query, at = words.rest()
    return Declare(name, query, at, words.source.text, hold, binary)


def read_fetch(words: Words, *, move: bool) -> Fetch:
    """Read what follows FETCH or MOVE; raise for a direction that goes back, or to a row by its number."""
    place, back, everything = words.place, False, False
    count = words.whole()
    # A cursor may have the name of a direction: `FETCH next` reads from it.
    if count is None and words.left > 1 and not words.take("NEXT"):
        back = bool(words.either("PRIOR", "FIRST", "LAST", "BACKWARD", "ABSOLUTE", "RELATIVE"))
        words.take("FORWARD")
        everything = words.take("ALL")
        count = None if everything else words.whole()
    if count is None and not everything:
        count = 1
    words.either("FROM", "IN")
    name = words.name("the name of a cursor")
    words.end()
    if back or (count is not None and count < 1):
        raise words.source.refuse(
            "cursors read forward only: NEXT, a number of rows above 0, or ALL",
            place,
            f"FETCH 10 FROM {quote(name)} reads on, and MOVE 10 FROM {quote(name)} skips rows; to begin "
            "anew, declare another cursor: the same statement is answered from what is stored, free",
        )
    return Fetch(name, count, move)


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
