"""Parse the commands SET, SHOW and RESET, and the modes of a transaction."""

from __future__ import annotations

from dpsql.serve.wire.command_types import (
    Command,
    NoOperation,
    ResetSetting,
    SetSetting,
    SetTransaction,
    ShowAll,
    ShowSetting,
)
from dpsql.serve.wire.command_words import Words
from dpsql.tree import quote

_SHOWN = frozenset({"PRIVACY", "TABLES", "RELEASES", "RELEASE"})
"""What dpsql's own SHOW is followed by."""
_IDENTITY = "the analyst is who logged in, and no other"


def read_set(words: Words) -> Command:
    """Read what follows SET."""
    if words.take("TRANSACTION"):
        if words.take("SNAPSHOT"):
            raise words.refuse("transactions have no snapshots here", "leave the statement out")
        transaction_modes(words)
        return SetTransaction()
    if words.take("SESSION", "CHARACTERISTICS"):
        words.expect("AS", "TRANSACTION")
        transaction_modes(words)
        return SetTransaction()
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


def read_show(words: Words) -> Command | None:
    """Read what follows SHOW; None if it is dpsql's own."""
    if words.word() in _SHOWN or not words.more:
        return None
    if words.take("ALL"):
        words.end()
        return ShowAll()
    name = _spelled(words) or words.dotted("the name of a setting")
    words.end()
    return ShowSetting(name)


def read_reset(words: Words) -> Command:
    """Read what follows RESET."""
    if words.take("ALL"):
        words.end()
        return ResetSetting(None)
    if words.take("SESSION", "AUTHORIZATION") or words.take("ROLE"):
        words.end()
        return NoOperation("RESET")
    name = _spelled(words) or words.dotted("the name of a setting")
    words.end()
    return ResetSetting(name)


def _spelled(words: Words) -> str:
    """Read a setting that SQL spells in several words; empty if none stands here."""
    if words.take("TIME", "ZONE"):
        return "TimeZone"
    if words.take("TRANSACTION", "ISOLATION", "LEVEL"):
        return "transaction_isolation"
    if words.take("SESSION", "AUTHORIZATION"):
        return "session_authorization"
    return ""


def transaction_modes(words: Words) -> None:
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
