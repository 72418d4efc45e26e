"""Parse the commands DECLARE, FETCH, MOVE, CLOSE and COPY with its options."""

from __future__ import annotations

from typing import Any, Literal

from dpsql.kernel.tree import quote
from dpsql.serve.wire.command_types import CloseCursor, Copy, CopyOptions, Declare, Fetch
from dpsql.serve.wire.command_words import Words, make_copy_options

_FORMATS: tuple[Literal["text", "csv", "binary", "arrow"], ...] = ("text", "csv", "binary", "arrow")
_TRUE, _FALSE = ("TRUE", "ON", "1"), ("FALSE", "OFF", "0")


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
    return Copy(query.strip(), at + moved, _options(words))


def _options(words: Words) -> CopyOptions:
    """Read what follows TO STDOUT, to the end of the statement."""
    words.take("WITH")
    given: dict[str, Any] = {}
    listed = words.take("(")
    while listed or words.more:
        name, value = _read_listed(words) if listed else _read_older(words)
        if name in given:
            raise words.back().wrong(f"option {name} is given twice")
        given |= {name: value} if name else {}
        if listed and not words.take(","):
            words.expect(")")
            break
    words.end()
    return make_copy_options(words, given)


def _read_listed(words: Words) -> tuple[str, object]:
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


def _read_older(words: Words) -> tuple[str, object]:
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
    name = words.text("a format").lower() if words.quoted else words.name("a format")
    if name not in _FORMATS:
        raise words.back().wrong(f"COPY has no format {name[:40]}", f"the formats are {', '.join(_FORMATS)}")
    return name


def _read_boolean(words: Words) -> bool:
    if words.quoted:
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
