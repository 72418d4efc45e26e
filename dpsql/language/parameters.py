"""Values of parameters: copied to built-in types, bound as literal tokens, written out for text alone.

An instance of the analyst's own class can run code when it is read. It could close a stream, run another
statement or compare itself with a private count during a statement. So texts, numbers and containers are
copied once, at the outermost entry point, before any budget is reserved.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import ProgrammingError
from dpsql.kernel.loss import exact
from dpsql.language.statement import StatementText
from dpsql.language.tokens import has_kinds, tokenize
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

Parameters = Sequence[object] | Mapping[str, object] | None
"""The parameters of a statement: a sequence for `?` and `$1`, a mapping for `$name`."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A parameter of a type without SQL values. A statement that uses it is refused at that place."""

    kind: str


def copy_parameters(parameters: object) -> Parameters:
    """Copy parameters: a mapping to a dict, another sequence to a tuple, each value to a built-in type."""
    if parameters is None:
        return None
    if isinstance(parameters, (str, bytes, bytearray, memoryview)):
        raise ProgrammingError("parameters are a sequence or a mapping, not one text")
    if isinstance(parameters, Mapping):
        return {copy_text(name): _copy_value(parameters[name]) for name in list(parameters)}
    if isinstance(parameters, Sequence):
        return tuple(_copy_value(value) for value in list(parameters))
    raise ProgrammingError("parameters are a sequence for ? markers or a mapping for $name markers")


def copy_text(text: object) -> str:
    """Copy a text to `str`; raise `ProgrammingError` for another type."""
    if not isinstance(text, str):
        raise ProgrammingError("a statement is text (str)")
    return str.__str__(text)


def _copy_value(value: object) -> object:
    if value is None or value is True or value is False or type(value) is Unusable:
        return value
    for kind, copy in _COPIES:
        if isinstance(value, kind):
            return copy(value)
    return Unusable(str.__str__(type(value).__name__))


def _copy_integer(value: object) -> int:
    if not isinstance(value, int):
        raise ProgrammingError("a parameter is not a valid date or time")
    return int.__int__(value)


def _copy_date(value: datetime.date) -> datetime.date:
    return datetime.date(*(_copy_integer(part) for part in (value.year, value.month, value.day)))


def _copy_clock(value: datetime.time | datetime.datetime) -> tuple[int, int, int, int]:
    return (
        _copy_integer(value.hour),
        _copy_integer(value.minute),
        _copy_integer(value.second),
        _copy_integer(value.microsecond),
    )


def _copy_datetime(value: datetime.datetime) -> datetime.datetime:
    day, offset = _copy_date(value), value.utcoffset()
    moment = datetime.datetime(day.year, day.month, day.day, *_copy_clock(value))
    if offset is None:
        return moment
    if not isinstance(offset, datetime.timedelta):
        raise ProgrammingError("a parameter is not a valid date or time")
    moved = datetime.timedelta(
        *(_copy_integer(part) for part in (offset.days, offset.seconds, offset.microseconds))
    )
    try:
        return (moment - moved).replace(tzinfo=datetime.UTC)  # the same instant
    except OverflowError:
        raise ProgrammingError("in UTC, a parameter lies outside the years 1 to 9999") from None


def _copy_time(value: datetime.time) -> datetime.time:
    return datetime.time(*_copy_clock(value), tzinfo=None if value.tzinfo is None else datetime.UTC)


_COPIES: tuple[tuple[type, Callable[[Any], object]], ...] = (
    # A datetime is a date too, so it stands before it.
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (Decimal, Decimal),
    (Fraction, exact),
    (datetime.datetime, _copy_datetime),
    (datetime.date, _copy_date),
    (datetime.time, _copy_time),
    (uuid.UUID, lambda value: uuid.UUID(int=_copy_integer(value.int))),
)


_GIVE = "write its value there, or give it with the statement"


def bind_parameters(
    source: StatementText, tokens: list[Token], parameters: Parameters
) -> tuple[list[Token], tuple[object, ...]]:
    """Replace `?`, `$1` and `$name` by literals; return the tokens and the values in order of use."""
    if isinstance(parameters, (str, bytes)):
        raise ProgrammingError("parameters are a sequence or a mapping, not one text")
    named = parameters if isinstance(parameters, Mapping) else None
    given = list(parameters) if parameters is not None and named is None else []
    if not (named or given or has_kinds(tokens, TokenType.PLACEHOLDER, TokenType.PARAMETER)):
        return tokens, ()
    out: list[Token] = []
    used: list[object] = []
    taken: set[object] = set()
    position = 0
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token.token_type == TokenType.PLACEHOLDER:
            if named is not None:
                raise source.syntax("`?` needs a sequence of parameters, not a mapping", token.start)
            if position >= len(given):
                raise source.syntax(
                    f"{len(given)} parameters were given, here is one more `?`", token.start, _GIVE
                )
            value = given[position]
            taken.add(position)
            position += 1
        elif token.token_type == TokenType.PARAMETER and i + 1 < len(tokens):
            i += 1
            name = tokens[i].text
            if named is not None and name in named:
                value = named[name]
                taken.add(name)
            elif name.isdecimal() and named is None and 0 < int(name) <= len(given):
                value = given[int(name) - 1]
                taken.add(int(name) - 1)
            else:
                raise source.syntax(f"no parameter is given for ${name}", token.start, _GIVE)
        else:
            out.append(token)
            i += 1
            continue
        used.append(value)
        out.extend(_make_literal(source, value, token))
        i += 1
    unused = len(given if named is None else named) - len(taken)
    if unused:
        raise ProgrammingError(f"{unused} of the parameters given are not used by the statement")
    return out, tuple(used)


def _make_literal(source: StatementText, value: object, at: Token) -> list[Token]:
    def token(kind: TokenType, text: str) -> Token:
        return Token(kind, text, at.line, at.col, at.start, at.end)

    def number(text: str) -> list[Token]:
        if not text.startswith("-"):
            return [token(TokenType.NUMBER, text)]
        return [
            token(TokenType.L_PAREN, "("),
            token(TokenType.DASH, "-"),
            token(TokenType.NUMBER, text[1:]),
            token(TokenType.R_PAREN, ")"),
        ]

    match value:
        case None:
            return [token(TokenType.NULL, "NULL")]
        case bool():
            return [token(TokenType.TRUE, "TRUE") if value else token(TokenType.FALSE, "FALSE")]
        case int() if -(2**63) <= value < 2**63:
            return number(str(int(value)))
        case int():
            raise source.refuse("a whole number beyond 64 bits", at.start, "pass it as a text")
        case float() if math.isfinite(value):
            return number(repr(float(value)))
        case Decimal() if (
            value.is_finite() and abs(value.adjusted()) < 300 and len(value.as_tuple().digits) < 300
        ):
            return number(format(value, "f"))
        case Fraction():
            raise source.refuse("a Fraction has no SQL value", at.start, "pass a Decimal or a text")
        case str():
            if any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in value):
                raise source.refuse("a text parameter has a NUL or an invalid Unicode character", at.start)
            return [token(TokenType.STRING, value)]
        case datetime.datetime() if value.tzinfo is None:
            return [token(TokenType.TIMESTAMP, "TIMESTAMP"), token(TokenType.STRING, value.isoformat(" "))]
        case datetime.datetime():  # with a zone: an instant, which `plain` has brought to UTC
            return [
                token(TokenType.TIMESTAMPTZ, "TIMESTAMPTZ"),
                token(TokenType.STRING, value.isoformat(" ")),
            ]
        case datetime.date() if not isinstance(value, datetime.datetime):
            return [token(TokenType.DATE, "DATE"), token(TokenType.STRING, value.isoformat())]
        case datetime.time() if value.tzinfo is None:
            return [token(TokenType.TIME, "TIME"), token(TokenType.STRING, value.isoformat())]
        case uuid.UUID():
            return [token(TokenType.STRING, str(value))]
        case _:
            kind = value.kind if isinstance(value, Unusable) else type(value).__name__
            raise source.refuse(
                f"a parameter of type {kind} has no SQL value here",
                at.start,
                "pass None, bool, int, float, Decimal, str, date, datetime, time (no time zone) or UUID",
            )


_BETWEEN = lazy_pattern(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_EXPLAIN = lazy_pattern(
    _BETWEEN.pattern + r"EXPLAIN\b(\s*\(\s*FORMAT\s+\w+\s*\))?", re.DOTALL | re.IGNORECASE
)
_WORD = lazy_pattern(r"[A-Za-z_]\w*|\(")


def read_first_words(text: str, most: int) -> tuple[str, ...]:
    r"""Return the first words of a statement, in upper case, without comments; fewer if others follow.

    >>> read_first_words("-- of today\nshow privacy budget", 3), read_first_words("SET dp_epsilon = 1", 3)
    (('SHOW', 'PRIVACY', 'BUDGET'), ('SET', 'DP_EPSILON'))
    """
    found: list[str] = []
    at = 0
    while len(found) < most:
        gap = _BETWEEN.match(text, at)
        word = _WORD.match(text, at if gap is None else gap.end())
        if word is None:
            break
        found.append(word[0].upper())
        at = word.end()
    return tuple(found) or ("",)


def write_parameters(text: str, parameters: Parameters) -> str:
    """Write parameters into a statement where its markers stand; raise as `parse` does for wrong ones.

    >>> write_parameters("SELECT ?, 'why?', $2", ["it's", -1])
    "SELECT 'it''s', 'why?', (-1)"
    """
    source = StatementText(text)
    begin = _EXPLAIN.match(text)
    # The tokenizer does not split the text after EXPLAIN.
    tokens = tokenize(source if begin is None else StatementText(" " * begin.end() + text[begin.end() :]))
    bound, _ = bind_parameters(source, tokens, parameters)
    kept = {id(token) for token in tokens}
    values: dict[int, list[str]] = {}
    for token in bound:
        if id(token) not in kept:
            values.setdefault(token.start, []).append(_write_token(token))
    parts: list[str] = []
    end = 0
    for marker, following in zip(tokens, [*tokens[1:], None], strict=True):
        if marker.start in values and marker.token_type in (TokenType.PLACEHOLDER, TokenType.PARAMETER):
            named = marker.token_type == TokenType.PARAMETER and following is not None
            parts += [text[end : marker.start], _join_pieces(values[marker.start])]
            end = (following.end if named and following is not None else marker.end) + 1
    return "".join((*parts, text[end:]))


def _join_pieces(pieces: list[str]) -> str:
    if len(pieces) == 2:  # DATE '2026-01-31'
        return " ".join(pieces)
    return "".join(pieces)


def _write_token(token: Token) -> str:
    if token.token_type == TokenType.STRING:
        return "'" + token.text.replace("'", "''") + "'"
    return str(token.text)
