"""Parse a question as PostgreSQL reads it, within limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.dollars import split_tokens
from dpsql.serve.catalog.data import SCHEMAS
from dpsql.serve.catalog.errors import UnknownQuestion

MAX_TEXT = 65_536
MAX_TOKENS = 16_000
MAX_DEPTH = 40
MAX_BRACKETS = 6
"""The parser's time doubles with each array inside an array."""

BEGINNINGS = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN})


class _Dialect(Postgres):
    """PostgreSQL's dialect; subscripts stay as they are typed, and names of types are plain words."""

    INDEX_OFFSET = 0

    class Tokenizer(Postgres.Tokenizer):
        """PostgreSQL's tokens, without the key words of sqlglot that are names of types and of a function."""

        KEYWORDS: ClassVar = {
            word: kind
            for word, kind in Postgres.Tokenizer.KEYWORDS.items()
            if kind not in (TokenType.OBJECT_IDENTIFIER, TokenType.UNNEST)
        }


class _Parser(PostgresParser):
    """PostgreSQL's parser without the functions that it knows: each is a plain call, with its own name."""

    FUNCTIONS: ClassVar = {
        name: PostgresParser.FUNCTIONS[name] for name in ("ARRAY", "COALESCE", "NULLIF", "GREATEST", "LEAST")
    }
    FUNCTION_PARSERS: ClassVar = {
        name: PostgresParser.FUNCTION_PARSERS[name]
        for name in ("CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")
    }


def tokenize(text: str) -> list[Token]:
    """Return the tokens of one question without its last semicolons; raise `UnknownQuestion` for others."""
    if len(text) > MAX_TEXT or "\x00" in text:
        raise UnknownQuestion("too long")
    try:
        tokens = split_tokens(text, _Dialect)
    except SqlglotError:
        raise UnknownQuestion("tokens") from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens or len(tokens) > MAX_TOKENS:
        raise UnknownQuestion("empty or too long")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise UnknownQuestion("several statements")
    if _depth(tokens, TokenType.L_PAREN, TokenType.R_PAREN) > MAX_DEPTH:
        raise UnknownQuestion("too deep")
    if _depth(tokens, TokenType.L_BRACKET, TokenType.R_BRACKET) > MAX_BRACKETS:
        raise UnknownQuestion("too deep")
    return tokens


def _depth(tokens: Sequence[Token], opening: TokenType, closing: TokenType) -> int:
    depth = deepest = 0
    for token in tokens:
        depth += (token.token_type == opening) - (token.token_type == closing)
        deepest = max(deepest, depth)
    return deepest


def parse(text: str, tokens: list[Token] | None = None) -> exp.Expr:
    """Return the tree of one question: a query, or VALUES."""
    tokens = tokenize(text) if tokens is None else tokens
    if tokens[0].token_type not in BEGINNINGS:
        raise UnknownQuestion("no query")
    parser = _Parser(error_level=ErrorLevel.IMMEDIATE, dialect=_Dialect())
    try:
        trees = parser.parse(list(_plain(tokens)), text)
    except (SqlglotError, RecursionError, ValueError):
        raise UnknownQuestion("syntax") from None
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
        raise UnknownQuestion("no query")
    return trees[0]


_KINDS = {
    TokenType.BYTE_STRING: TokenType.STRING,  # E'..', whose escapes are already read
    TokenType.HEREDOC_STRING: TokenType.STRING,
    TokenType.RAW_STRING: TokenType.STRING,
}
_NAMES_TOO = frozenset({TokenType.SELECT, TokenType.INSERT, TokenType.GRANT, TokenType.TABLE})
"""Key words that may be names of columns after `AS` or a dot."""


def _plain(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens as the parser expects them, `OPERATOR(pg_catalog.~)` as `~`."""
    place = 0
    while place < len(tokens):
        token = tokens[place]
        words = [one.text.lower() for one in tokens[place : place + 4]]
        if words[:2] == ["operator", "("] and words[2] in SCHEMAS and words[3] == ".":
            yield tokens[place + 4]
            place += 6
            continue
        before = tokens[place - 1].token_type if place else None
        if token.token_type in _NAMES_TOO and before in (TokenType.ALIAS, TokenType.DOT):
            yield _changed(token, TokenType.IDENTIFIER)
        else:
            yield _changed(token, _KINDS.get(token.token_type, token.token_type))
        place += 1


def _changed(token: Token, kind: TokenType) -> Token:
    if token.token_type == kind:
        return token
    text = token.text.lower() if kind == TokenType.IDENTIFIER else token.text
    return Token(kind, text, token.line, token.col, token.start, token.end)
