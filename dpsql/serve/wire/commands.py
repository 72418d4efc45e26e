"""Recognise the commands of a session: transactions, settings, cursors, COPY.

A statement is one of them by its tokens. What belongs to dpsql's own language (SELECT, EXPLAIN, DESCRIBE,
SHOW TABLES, ..) is none, and goes to the analysis.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dpsql.serve.wire.command_cursors import read_close, read_copy, read_declare, read_fetch
from dpsql.serve.wire.command_settings import read_reset, read_set, read_show, transaction_modes
from dpsql.serve.wire.command_types import (
    Begin,
    Command,
    Commit,
    Deallocate,
    Discard,
    NoOperation,
    Release,
    Rollback,
    RollbackTo,
    Savepoint,
)
from dpsql.serve.wire.command_words import Words


def command(text: str) -> Command | None:
    """Return the command that one statement is, or None.

    Raises
    ------
    QuerySyntaxError
        It begins as a command and does not go on as one.
    QueryRefused
        It is a command that dpsql does not do.

    >>> command("FETCH 10 FROM c")
    Fetch(name='c', count=10, move=False)
    """
    words = Words(text)
    read = _READERS.get(words.word())
    if read is None:
        return None
    words.take(words.word())
    return read(words)


def may_be_command(text: str) -> bool:
    r"""Return whether a statement begins with the word of a command; nothing behind it is read.

    >>> may_be_command(" commit"), may_be_command("-- why\nSELECT 1"), may_be_command("/* ? */ SELECT 1")
    (True, False, True)
    """
    first = _FIRST.match(text)
    return first is None or first[1].upper() in _READERS


def _begin(words: Words) -> Begin:
    words.either("WORK", "TRANSACTION")
    transaction_modes(words)
    return Begin()


def _start(words: Words) -> Begin:
    words.expect("TRANSACTION")
    transaction_modes(words)
    return Begin("START TRANSACTION")


def _chain(words: Words) -> bool:
    """Read AND [NO] CHAIN, and the end."""
    chain = False
    if words.take("AND"):
        chain = not words.take("NO")
        words.expect("CHAIN")
    words.end()
    return chain


def _commit(words: Words) -> Commit:
    _no_prepared(words)
    words.either("WORK", "TRANSACTION")
    return Commit(_chain(words))


def _rollback(words: Words) -> Rollback | RollbackTo:
    _no_prepared(words)
    words.either("WORK", "TRANSACTION")
    if words.take("TO"):
        return RollbackTo(_savepoint_name(words))
    return Rollback(_chain(words))


def _no_prepared(words: Words) -> None:
    if words.word() == "PREPARED":
        raise words.refuse("transactions cannot be prepared", "BEGIN and COMMIT")


def _savepoint_name(words: Words) -> str:
    words.take("SAVEPOINT")
    name = words.name("the name of a savepoint")
    words.end()
    return name


def _savepoint(words: Words) -> Savepoint:
    name = words.name("the name of a savepoint")
    words.end()
    return Savepoint(name)


def _discard(words: Words) -> Discard:
    what = words.either("ALL", "PLANS", "SEQUENCES", "TEMPORARY", "TEMP")
    if not what:
        raise words.wrong("expected ALL, PLANS, SEQUENCES or TEMP")
    words.end()
    return Discard("TEMP" if what == "TEMPORARY" else what)  # type: ignore[arg-type]  # one of the words above


def _deallocate(words: Words) -> Deallocate:
    words.take("PREPARE")
    name = None if words.take("ALL") else words.name("the name of a prepared statement")
    words.end()
    return Deallocate(name)


def _listen(words: Words) -> NoOperation:
    words.name("the name of a channel")
    words.end()
    return NoOperation("LISTEN")


def _unlisten(words: Words) -> NoOperation:
    if not words.take("*"):
        words.name("the name of a channel")
    words.end()
    return NoOperation("UNLISTEN")


def _prepare(words: Words) -> Command:
    raise words.refuse(
        "statements are not prepared by SQL",
        "prepare it by the driver (the protocol's Parse and Bind), or send the statement itself",
    )


_FIRST = re.compile(r"(?>(?:[ \t\r\n]|--[^\n]*\n)*)([A-Za-z_][A-Za-z0-9_$]*|\()")
"""A first word behind spaces and comments of one line; comments that may be nested are left to the tokens."""

_READERS: dict[str, Callable[[Words], Command | None]] = {
    "BEGIN": _begin,
    "START": _start,
    "COMMIT": _commit,
    "END": _commit,
    "ROLLBACK": _rollback,
    "ABORT": _rollback,
    "SAVEPOINT": _savepoint,
    "RELEASE": lambda words: Release(_savepoint_name(words)),
    "SET": read_set,
    "SHOW": read_show,
    "RESET": read_reset,
    "DISCARD": _discard,
    "DEALLOCATE": _deallocate,
    "LISTEN": _listen,
    "UNLISTEN": _unlisten,
    "DECLARE": read_declare,
    "FETCH": lambda words: read_fetch(words, move=False),
    "MOVE": lambda words: read_fetch(words, move=True),
    "CLOSE": read_close,
    "COPY": read_copy,
    "PREPARE": _prepare,
    "EXECUTE": _prepare,
}
