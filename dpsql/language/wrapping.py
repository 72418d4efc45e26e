"""Recognise a plain SELECT around a statement, as BI tools and pandas send it.

The outer SELECT only chooses, orders and limits the released rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.tokens import closing

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The outer SELECT: the columns, order and limit of the released rows."""

    columns: tuple[str, ...] | None
    """The column names in order; None for `*`."""
    order: tuple[tuple[str, bool], ...]
    """Column names or places (as text), and whether descending."""
    limit: int | None


def unwrap(tokens: list[Token]) -> tuple[list[Token], Wrapper] | None:
    """Split `SELECT * | names FROM (statement) [alias] [ORDER BY names] [LIMIT n]`; None for other tokens."""
    if not tokens or tokens[0].token_type != TokenType.SELECT:
        return None
    i, columns = _columns(tokens, 1)
    if i < 0 or i + 1 >= len(tokens) or tokens[i].token_type != TokenType.FROM:
        return None
    if tokens[i + 1].token_type != TokenType.L_PAREN:
        return None
    end = closing(tokens, i + 1)
    inner = tokens[i + 2 : end]
    if end < 0 or not inner or inner[0].token_type not in (TokenType.SELECT, TokenType.WITH, TokenType.FROM):
        return None
    i = end + 1
    if i < len(tokens) and tokens[i].token_type == TokenType.ALIAS:
        i += 1
    if i < len(tokens) and tokens[i].token_type in _NAMES:
        i += 1
    order: tuple[tuple[str, bool], ...] = ()
    if i < len(tokens) and tokens[i].token_type == TokenType.ORDER_BY:
        i, order = _order(tokens, i + 1)
        if i < 0:
            return None
    limit = None
    if i + 1 < len(tokens) and tokens[i].token_type == TokenType.LIMIT and tokens[i + 1].text.isdecimal():
        limit = int(tokens[i + 1].text[:18])
        i += 2
    return (inner, Wrapper(columns, order, limit)) if i == len(tokens) else None


def _columns(tokens: list[Token], i: int) -> tuple[int, tuple[str, ...] | None]:
    if i < len(tokens) and tokens[i].token_type == TokenType.STAR:
        return i + 1, None
    names: list[str] = []
    while i < len(tokens) and tokens[i].token_type in _NAMES:
        name = tokens[i].text
        i += 1
        if (
            i + 1 < len(tokens)
            and tokens[i].token_type == TokenType.DOT
            and tokens[i + 1].token_type in _NAMES
        ):
            name, i = tokens[i + 1].text, i + 2
        names.append(name)
        if i >= len(tokens) or tokens[i].token_type != TokenType.COMMA:
            break
        i += 1
    return (i, tuple(names)) if names else (-1, None)


def _order(tokens: list[Token], i: int) -> tuple[int, tuple[tuple[str, bool], ...]]:
    terms: list[tuple[str, bool]] = []
    while i < len(tokens) and tokens[i].token_type in (*_NAMES, TokenType.NUMBER):
        name, down = tokens[i].text, False
        i += 1
        if i + 1 < len(tokens) and tokens[i].token_type == TokenType.DOT:
            name, i = tokens[i + 1].text, i + 2
        if i < len(tokens) and tokens[i].token_type in (TokenType.ASC, TokenType.DESC):
            down = tokens[i].token_type == TokenType.DESC
            i += 1
        terms.append((name, down))
        if i >= len(tokens) or tokens[i].token_type != TokenType.COMMA:
            return i, tuple(terms)
        i += 1
    return -1, ()
