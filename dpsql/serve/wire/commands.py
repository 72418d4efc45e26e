"""Recognise and parse the commands of a session: transactions, settings, cursors, COPY.

A statement is one of them by its tokens. What belongs to dpsql's own language (SELECT, EXPLAIN, DESCRIBE,
SHOW TABLES, ..) is none, and goes to the analysis.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dpsql.kernel.tree import quote
from dpsql.serve.wire.command_cursors import read_close, read_copy, read_declare, read_fetch
from dpsql.serve.wire.command_types import (
    Command,
    Deallocate,
    Discard,
    NoOperation,
    ResetSetting,
    SetSetting,
    ShowSetting,
    Transaction,
)
from dpsql.serve.wire.command_words import Words

_SHOWN = frozenset({"PRIVACY", "BUDGET", "TABLES", "RELEASES", "RELEASE"})
"""What dpsql's own SHOW is followed by."""
_IDENTITY = "the analyst is who logged in, and no other"


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


def _begin(words: Words) -> Transaction:
    words.either("WORK", "TRANSACTION")
    _transaction_modes(words)
    return Transaction("BEGIN")


def _start(words: Words) -> Transaction:
    words.expect("TRANSACTION")
    _transaction_modes(words)
    return Transaction("START TRANSACTION")


def _chain(words: Words) -> bool:
    """Read AND [NO] CHAIN, and the end."""
    chain = False
    if words.take("AND"):
        chain = not words.take("NO")
        words.expect("CHAIN")
    words.end()
    return chain


def _commit(words: Words) -> Transaction:
    _refuse_prepared(words)
    words.either("WORK", "TRANSACTION")
    return Transaction("COMMIT", chain=_chain(words))


def _rollback(words: Words) -> Transaction:
    _refuse_prepared(words)
    words.either("WORK", "TRANSACTION")
    if words.take("TO"):
        return Transaction("ROLLBACK TO", _savepoint_name(words))
    return Transaction("ROLLBACK", chain=_chain(words))


def _refuse_prepared(words: Words) -> None:
    if words.word() == "PREPARED":
        raise words.refuse("transactions cannot be prepared", "BEGIN and COMMIT")


def _savepoint_name(words: Words) -> str:
    words.take("SAVEPOINT")
    name = words.name("the name of a savepoint")
    words.end()
    return name


def _savepoint(words: Words) -> Transaction:
    name = words.name("the name of a savepoint")
    words.end()
    return Transaction("SAVEPOINT", name)


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


def _set(words: Words) -> Command:
    """Read what follows SET."""
    if words.take("TRANSACTION"):
        if words.take("SNAPSHOT"):
            raise words.refuse("transactions have no snapshots here", "leave the statement out")
        _transaction_modes(words)
        return NoOperation("SET")
    if words.take("SESSION", "CHARACTERISTICS"):
        words.expect("AS", "TRANSACTION")
        _transaction_modes(words)
        return NoOperation("SET")
    if words.take("CONSTRAINTS"):
        words.rest()
        return NoOperation("SET CONSTRAINTS")
    local = words.take("LOCAL")
    if not local and words.word(1) not in ("=", "TO", "."):
        words.take("SESSION")
    if words.take("SESSION", "AUTHORIZATION") or words.take("AUTHORIZATION") or words.take("ROLE"):
        if words.either("DEFAULT", "NONE"):
            words.end()
            return NoOperation("SET")
        raise words.refuse(f"a session cannot change its user: {_IDENTITY}", "log in as the other user")
    if words.take("TIME", "ZONE"):
        return SetSetting("TimeZone", _time_zone(words), local)
    if words.take("NAMES"):
        return SetSetting("client_encoding", _value(words), local)
    if words.take("SCHEMA"):
        return SetSetting("search_path", _value(words, names=True), local)
    name = words.dotted("the name of a setting")
    if not words.either("=", "TO"):
        raise words.wrong("expected = or TO", f"write SET {name} = ...")
    return SetSetting(name, _value(words, names=name.lower() == "search_path"), local)


def _value(words: Words, *, names: bool = False) -> str | None:
    """Read a value, or several with commas between, to the end; None for DEFAULT.

    In a list of `names` those that need quotes keep them.
    """
    if words.take("DEFAULT"):
        words.end()
        return None
    parts = [_single(words, names=names)]
    while words.take(","):
        parts.append(_single(words, names=names))
    words.end()
    return ", ".join(parts)


def _single(words: Words, *, names: bool) -> str:
    found = words.text("a value") if words.quoted else words.number() or words.name("a value")
    plain = found.isidentifier() and found == found.lower()
    return found if plain or not names else quote(found)


def _time_zone(words: Words) -> str | None:
    """Read a time zone: a name, an offset in hours, or INTERVAL '+02:00' HOUR TO MINUTE."""
    if words.either("LOCAL", "DEFAULT"):
        words.end()
        return None
    if words.take("INTERVAL"):
        found = words.text("an offset")
        if words.take("HOUR"):
            words.take("TO", "MINUTE")
    elif words.quoted:
        found = words.text("a time zone")
    else:
        found = words.number() or words.dotted("a time zone")
    words.end()
    return found


def _show(words: Words) -> Command | None:
    """Read what follows SHOW; None if it is dpsql's own."""
    if words.word() in _SHOWN or not words.more:
        return None
    if words.take("ALL"):
        words.end()
        return ShowSetting(None)
    name = _take_spelled_name(words) or words.dotted("the name of a setting")
    words.end()
    return ShowSetting(name)


def _reset(words: Words) -> Command:
    """Read what follows RESET."""
    if words.take("ALL"):
        words.end()
        return ResetSetting(None)
    if words.take("SESSION", "AUTHORIZATION") or words.take("ROLE"):
        words.end()
        return NoOperation("RESET")
    name = _take_spelled_name(words) or words.dotted("the name of a setting")
    words.end()
    return ResetSetting(name)


def _take_spelled_name(words: Words) -> str:
    """Read a setting that SQL spells in several words; empty if none stands here."""
    if words.take("TIME", "ZONE"):
        return "TimeZone"
    if words.take("TRANSACTION", "ISOLATION", "LEVEL"):
        return "transaction_isolation"
    if words.take("SESSION", "AUTHORIZATION"):
        return "session_authorization"
    return ""


def _transaction_modes(words: Words) -> None:
    """Read the modes of a transaction, with commas between them or without, to the end."""
    while words.more:
        if words.take("ISOLATION", "LEVEL"):
            known = words.take("SERIALIZABLE") or words.take("REPEATABLE", "READ")
            known = known or words.take("READ", "COMMITTED") or words.take("READ", "UNCOMMITTED")
        else:
            known = words.take("READ", "ONLY") or words.take("READ", "WRITE")
            known = known or words.take("DEFERRABLE") or words.take("NOT", "DEFERRABLE")
        if not known:
            raise words.wrong("expected ISOLATION LEVEL, READ ONLY, READ WRITE or DEFERRABLE")
        if words.take(",") and not words.more:
            raise words.wrong("expected a mode of the transaction")


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
    "RELEASE": lambda words: Transaction("RELEASE", _savepoint_name(words)),
    "SET": _set,
    "SHOW": _show,
    "RESET": _reset,
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
