"""Parse a question as PostgreSQL reads it, within limits."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.dollars import split_tokens
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.tokens import CHANGES

MAX_TEXT = 65_536
MAX_TOKENS = 16_000
MAX_DEPTH = 40
MAX_BRACKETS = 6
"""The parser's time doubles with each array inside an array."""


def tokenize(text: str) -> list[Token]:
    """Return the tokens of one question without its last semicolons; raise `UnknownQuestion` for others."""
    if len(text) > MAX_TEXT or "\x00" in text:
        raise UnknownQuestion("too long")
    try:
        tokens = split_tokens(text, Postgres)
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
    for change in CHANGES:
        tokens = change(tokens)
    dialect = Postgres()
    dialect.INDEX_OFFSET = 0  # subscripts stay as they are typed
    try:
        trees = dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
    except (SqlglotError, RecursionError, ValueError):
        raise UnknownQuestion("syntax") from None
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
        raise UnknownQuestion("no query")
    return trees[0]


BEGINNINGS = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN})
