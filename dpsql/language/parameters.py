"""Replace parameters by literal tokens before parsing, so that a value cannot inject SQL."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import ProgrammingError
from dpsql.language.plain import Parameters, Unusable
from dpsql.language.source import Source


def bind(
    source: Source, tokens: list[Token], parameters: Parameters
) -> tuple[list[Token], tuple[object, ...]]:
    """Replace `?`, `$1` and `$name` by literals; return the tokens and the values in order of use."""
    if isinstance(parameters, (str, bytes)):
        raise ProgrammingError("parameters are a sequence or a mapping, not one text")
    named = parameters if isinstance(parameters, Mapping) else None
    given = list(parameters) if parameters is not None and named is None else []
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
                raise source.syntax(f"{len(given)} parameters were given, here is one more `?`", token.start)
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
                raise source.syntax(f"no parameter is given for ${name}", token.start)
        else:
            out.append(token)
            i += 1
            continue
        used.append(value)
        out.extend(_literal(source, value, token))
        i += 1
    unused = len(given if named is None else named) - len(taken)
    if unused:
        raise ProgrammingError(f"{unused} of the parameters given are not used by the statement")
    return out, tuple(used)


def _literal(source: Source, value: object, at: Token) -> list[Token]:
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
