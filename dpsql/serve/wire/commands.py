"""Recognise and parse the commands of a session: transactions, settings, cursors, COPY with its options.

A statement is one of them by its tokens. What belongs to dpsql's own language (SELECT, EXPLAIN, DESCRIBE,
SHOW TABLES, ..) is none, and goes to the analysis.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from dpsql.kernel.tree import quote
from dpsql.lazy_pattern import lazy_pattern
from dpsql.serve.wire.command_words import (
    CloseCursor,
    Command,
    Copy,
    CopyIn,
    CopyOptions,
    Deallocate,
    Declare,
    Discard,
    Fetch,
    NoOperation,
    ResetSetting,
    SetSetting,
    ShowSetting,
    Transaction,
    Words,
    make_copy_options,
)
from dpsql.serve.wire.copy_in import read_copy_in

_FORMATS: tuple[Literal["text", "csv", "binary", "arrow"], ...] = ("text", "csv", "binary", "arrow")
_TRUE, _FALSE = ("TRUE", "ON", "1"), ("FALSE", "OFF", "0")


def read_declare(words: Words) -> Declare:
    """Return the cursor that a DECLARE statement asks for, from the words after DECLARE."""
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


def read_close(words: Words) -> CloseCursor | None:
    """Return the cursor that a CLOSE statement names; None for CLOSE STREAM, a statement of dpsql."""
    if words.take("STREAM"):
        if words.more:
            return None
        return CloseCursor("stream")
    name = None if words.take("ALL") else words.name("the name of a cursor")
    words.end()
    return CloseCursor(name)


def read_copy(words: Words) -> Copy | CopyIn:
    """Read what follows COPY: a query to the client, or an upload from it."""
    if words.word() != "(":
        return read_copy_in(words, _read_copy_options)
    query, at = words.inside()
    if not query.strip():
        raise words.wrong("expected a SELECT statement in the parentheses")
    if words.take("FROM"):
        raise words.refuse("COPY .. FROM writes: dpsql only reads", "COPY (SELECT ...) TO STDOUT")
    words.expect("TO")
    if not words.take("STDOUT"):
        raise words.refuse("COPY writes to the client only", "COPY (SELECT ...) TO STDOUT")
    moved = len(query) - len(query.lstrip())
    return Copy(query.strip(), at + moved, _read_copy_options(words))


def _read_copy_options(words: Words) -> CopyOptions:
    """Read what follows TO STDOUT, to the end of the statement."""
    words.take("WITH")
    given: dict[str, Any] = {}
    listed = words.take("(")
    while listed or words.more:
        name, value = _read_listed_option(words) if listed else _read_older_option(words)
        if name in given:
            raise words.back().wrong(f"option {name} is given twice")
        given |= {name: value} if name else {}
        if listed and not words.take(","):
            words.expect(")")
            break
    words.end()
    return make_copy_options(words, given)


def _read_listed_option(words: Words) -> tuple[str, object]:
    """Read one option of `FORMAT csv, HEADER, ..)`: its name and value; none of ENCODING."""
    at = words.word()
    name = words.name("an option of COPY")
    match at:
        case "FREEZE" | "FORCE_NOT_NULL" | "FORCE_NULL":
            raise words.back().refuse(f"COPY .. TO has no option {name}", "leave the option out")
        case "ENCODING":
            return _check_encoding(words)
        case "FORMAT":
            return name, _read_format(words)
        case "HEADER" | "RELEASE":
            return name, _read_boolean(words)
        case "FORCE_QUOTE":
            return name, _read_columns(words, brackets=True)
        case "DELIMITER" | "NULL" | "QUOTE" | "ESCAPE":
            return name, words.text(f"a text for {name}")
    raise words.back().wrong(
        f"COPY has no option {name[:40]}",
        "the options are FORMAT, HEADER, DELIMITER, NULL, QUOTE, ESCAPE, FORCE_QUOTE, ENCODING and RELEASE",
    )


def _read_older_option(words: Words) -> tuple[str, object]:
    """Read one option of `CSV HEADER DELIMITER AS ';'`."""
    if form := words.either("BINARY", "CSV"):
        return "format", form.lower()
    if words.take("HEADER"):
        return "header", True
    if words.take("ENCODING"):
        return _check_encoding(words)
    if words.take("FORCE", "QUOTE"):
        return "force_quote", _read_columns(words, brackets=False)
    name = words.either("DELIMITER", "NULL", "QUOTE", "ESCAPE").lower()
    if not name:
        raise words.wrong("expected an option of COPY", "write WITH (FORMAT csv, HEADER)")
    words.take("AS")
    return name, words.text(f"a text for {name}")


def _read_format(words: Words) -> str:
    name = words.text("a format").lower() if words.is_quoted else words.name("a format")
    if name not in _FORMATS:
        raise words.back().wrong(f"COPY has no format {name[:40]}", f"the formats are {', '.join(_FORMATS)}")
    return name


def _read_boolean(words: Words) -> bool:
    if words.is_quoted:
        shown = words.text("TRUE or FALSE").upper()
        if shown not in _TRUE + _FALSE:
            raise words.back().wrong("expected TRUE or FALSE")
        return shown in _TRUE
    if words.word() in (",", ")"):
        return True
    found = words.either(*_TRUE, *_FALSE)
    if not found:
        raise words.wrong("expected TRUE or FALSE")
    return found in _TRUE


def _check_encoding(words: Words) -> tuple[str, None]:
    if words.text("an encoding").upper().replace("-", "") not in ("UTF8", "UNICODE"):
        raise words.back().refuse("COPY writes UTF8 only", "ENCODING 'UTF8'")
    return "", None


def _read_columns(words: Words, *, brackets: bool) -> tuple[str, ...] | None:
    """Read names of columns, or `*` for all."""
    if words.take("*"):
        return None
    if brackets:
        words.expect("(")
    names = [words.name("the name of a column")]
    while words.take(","):
        names.append(words.name("the name of a column"))
    if brackets:
        words.expect(")")
    return tuple(names)


_SHOWN = frozenset({"PRIVACY", "BUDGET", "TABLES", "RELEASES", "RELEASE", "STREAMS", "REPORTS"})
"""What dpsql's own SHOW is followed by."""
_REPORT = lazy_pattern(r"\s*(CREATE|EXPLAIN|EXECUTE|DROP)\s+REPORT\b", re.IGNORECASE)
_IDENTITY = "the analyst is who logged in, and no other"


def read_command(text: str) -> Command | None:
    """Return the command that one statement is, or None.

    Raises
    ------
    QuerySyntaxError
        It begins as a command and does not go on as one.
    QueryRefused
        It is a command that dpsql does not do.

    >>> read_command("FETCH 10 FROM c")
    Fetch(name='c', count=10, move=False)
    """
    words = Words(text)
    read = _READERS.get(words.word())
    if read is None or _REPORT.match(text):  # EXECUTE REPORT is a statement, which dpsql reads
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


def _end_command(words: Words, command: Command) -> Command:
    """Return a command behind which nothing follows."""
    words.end()
    return command


def _read_end_of_transaction(words: Words, kind: Literal["COMMIT", "ROLLBACK"]) -> Transaction:
    """Read what follows COMMIT or ROLLBACK: `TO SAVEPOINT name`, or `AND [NO] CHAIN`."""
    if words.word() == "PREPARED":
        raise words.refuse("transactions cannot be prepared", "BEGIN and COMMIT")
    words.either("WORK", "TRANSACTION")
    if kind == "ROLLBACK" and words.take("TO"):
        return _read_savepoint(words, "ROLLBACK TO")
    chain = False
    if words.take("AND"):
        chain = not words.take("NO")
        words.expect("CHAIN")
    words.end()
    return Transaction(kind, chain=chain)


def _read_savepoint(words: Words, kind: Literal["SAVEPOINT", "RELEASE", "ROLLBACK TO"]) -> Transaction:
    if kind != "SAVEPOINT":
        words.take("SAVEPOINT")
    name = words.name("the name of a savepoint")
    words.end()
    return Transaction(kind, name)


def _read_discard(words: Words) -> Command:
    what = words.either("ALL", "PLANS", "SEQUENCES", "TEMPORARY", "TEMP")
    if not what:
        raise words.wrong("expected ALL, PLANS, SEQUENCES or TEMP")
    return _end_command(words, Discard("TEMP" if what == "TEMPORARY" else what))  # type: ignore[arg-type]  # one of the words above


def _read_deallocate(words: Words) -> Command:
    words.take("PREPARE")
    return _end_command(
        words, Deallocate(None if words.take("ALL") else words.name("the name of a prepared statement"))
    )


def _read_listen(words: Words, tag: Literal["LISTEN", "UNLISTEN"]) -> Command:
    if tag == "LISTEN" or not words.take("*"):
        words.name("the name of a channel")
    return _end_command(words, NoOperation(tag))


def _refuse_prepare(words: Words) -> Command:
    raise words.refuse(
        "statements are not prepared by SQL",
        "prepare it by the driver (the protocol's Parse and Bind), or send the statement itself",
    )


def _read_set(words: Words) -> Command:
    """Read what follows SET."""
    if words.take("SESSION", "CHARACTERISTICS"):
        words.expect("AS", "TRANSACTION")
        return _read_modes(words, NoOperation("SET"))
    if words.take("TRANSACTION"):
        if words.take("SNAPSHOT"):
            raise words.refuse("transactions have no snapshots here", "leave the statement out")
        return _read_modes(words, NoOperation("SET"))
    if words.take("CONSTRAINTS"):
        words.rest()
        return NoOperation("SET CONSTRAINTS")
    local = words.take("LOCAL")
    if not local and words.word(1) not in ("=", "TO", "."):
        words.take("SESSION")
    if words.take("SESSION", "AUTHORIZATION") or words.take("AUTHORIZATION") or words.take("ROLE"):
        if words.either("DEFAULT", "NONE"):
            return _end_command(words, NoOperation("SET"))
        raise words.refuse(f"a session cannot change its user: {_IDENTITY}", "log in as the other user")
    if words.take("TIME", "ZONE"):
        return SetSetting("TimeZone", _read_time_zone(words), local)
    if words.take("NAMES"):
        return SetSetting("client_encoding", _read_value(words), local)
    if words.take("SCHEMA"):
        return SetSetting("search_path", _read_value(words, names=True), local)
    name = words.dotted_name("the name of a setting")
    if not words.either("=", "TO"):
        raise words.wrong("expected = or TO", f"write SET {name} = ...")
    return SetSetting(name, _read_value(words, names=name.lower() == "search_path"), local)


def _read_value(words: Words, *, names: bool = False) -> str | None:
    """Read a value, or several with commas between, to the end; None for DEFAULT.

    In a list of `names` those that need quotes keep them.
    """
    if words.take("DEFAULT"):
        words.end()
        return None
    parts = [_read_single_value(words, names=names)]
    while words.take(","):
        parts.append(_read_single_value(words, names=names))
    words.end()
    return ", ".join(parts)


def _read_single_value(words: Words, *, names: bool) -> str:
    found = words.text("a value") if words.is_quoted else words.number() or words.name("a value")
    plain = found.isidentifier() and found == found.lower()
    return found if plain or not names else quote(found)


def _read_time_zone(words: Words) -> str | None:
    """Read a time zone: a name, an offset in hours, or INTERVAL '+02:00' HOUR TO MINUTE."""
    if words.either("LOCAL", "DEFAULT"):
        words.end()
        return None
    if words.take("INTERVAL"):
        found = words.text("an offset")
        if words.take("HOUR"):
            words.take("TO", "MINUTE")
    elif words.is_quoted:
        found = words.text("a time zone")
    else:
        found = words.number() or words.dotted_name("a time zone")
    words.end()
    return found


def _read_show(words: Words) -> Command | None:
    """Read what follows SHOW; None if it is dpsql's own."""
    if words.word() in _SHOWN or not words.more:
        return None
    return _end_command(words, ShowSetting(_read_setting_name(words)))


def _read_reset(words: Words) -> Command:
    """Read what follows RESET."""
    no_setting = words.take("SESSION", "AUTHORIZATION") or words.take("ROLE")
    return _end_command(
        words, NoOperation("RESET") if no_setting else ResetSetting(_read_setting_name(words))
    )


def _read_setting_name(words: Words) -> str | None:
    """Read the name of a setting, also one that SQL spells in several words; None for ALL."""
    if words.take("ALL"):
        return None
    spelled = next((name for name, spelling in _SPELLED.items() if words.take(*spelling)), None)
    return spelled or words.dotted_name("the name of a setting")


def _read_modes(words: Words, command: Command) -> Command:
    """Read the modes of a transaction, with commas between them or without, to the end."""
    while words.more:
        modes = _LEVELS if words.take("ISOLATION", "LEVEL") else _MODES
        if not any(words.take(*mode) for mode in modes):
            raise words.wrong("expected ISOLATION LEVEL, READ ONLY, READ WRITE or DEFERRABLE")
        if words.take(",") and not words.more:
            raise words.wrong("expected a mode of the transaction")
    return command


def _read_begin(words: Words) -> Command:
    words.either("WORK", "TRANSACTION")
    return _read_modes(words, Transaction("BEGIN"))


def _read_start(words: Words) -> Command:
    words.expect("TRANSACTION")
    return _read_modes(words, Transaction("START TRANSACTION"))


_SPELLED = {
    "TimeZone": ("TIME", "ZONE"),
    "transaction_isolation": ("TRANSACTION", "ISOLATION", "LEVEL"),
    "session_authorization": ("SESSION", "AUTHORIZATION"),
}
_LEVELS = (("SERIALIZABLE",), ("REPEATABLE", "READ"), ("READ", "COMMITTED"), ("READ", "UNCOMMITTED"))
_MODES = (("READ", "ONLY"), ("READ", "WRITE"), ("DEFERRABLE",), ("NOT", "DEFERRABLE"))

_FIRST = lazy_pattern(r"(?>(?:[ \t\r\n]|--[^\n]*\n)*)([A-Za-z_][A-Za-z0-9_$]*|\()")
"""A first word behind spaces and comments of one line; comments that may be nested are left to the tokens."""

_READERS: dict[str, Callable[[Words], Command | None]] = {
    "BEGIN": _read_begin,
    "START": _read_start,
    **dict.fromkeys(("COMMIT", "END"), lambda words: _read_end_of_transaction(words, "COMMIT")),
    **dict.fromkeys(("ROLLBACK", "ABORT"), lambda words: _read_end_of_transaction(words, "ROLLBACK")),
    "SAVEPOINT": lambda words: _read_savepoint(words, "SAVEPOINT"),
    "RELEASE": lambda words: _read_savepoint(words, "RELEASE"),
    "SET": _read_set,
    "SHOW": _read_show,
    "RESET": _read_reset,
    "DISCARD": _read_discard,
    "DEALLOCATE": _read_deallocate,
    "LISTEN": lambda words: _read_listen(words, "LISTEN"),
    "UNLISTEN": lambda words: _read_listen(words, "UNLISTEN"),
    "DECLARE": read_declare,
    "FETCH": lambda words: read_fetch(words, move=False),
    "MOVE": lambda words: read_fetch(words, move=True),
    "CLOSE": read_close,
    "COPY": read_copy,
    **dict.fromkeys(("PREPARE", "EXECUTE"), _refuse_prepare),
}
