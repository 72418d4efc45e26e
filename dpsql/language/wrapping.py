"""Recognise a plain SELECT around a statement, as BI tools and pandas send it.

The outer SELECT only chooses, orders and limits the released rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.tokens import Cursor, closing

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
    at = Cursor(tokens)
    if not at.take(TokenType.SELECT):
        return None
    columns = None if at.take(TokenType.STAR) else _columns(at)
    if columns == () or not at.take(TokenType.FROM) or at.kind() != TokenType.L_PAREN:
        return None
    end = closing(tokens, at.i)
    inner = tokens[at.i + 1 : end]
    if end < 0 or not inner or inner[0].token_type not in (TokenType.SELECT, TokenType.WITH, TokenType.FROM):
        return None
    at.i = end + 1
    at.take(TokenType.ALIAS)
    at.take(*_NAMES)
    order = _order(at) if at.take(TokenType.ORDER_BY) else ()
    limit = None
    if at.kind(1) is not None and at.kind() == TokenType.LIMIT and tokens[at.i + 1].text.isdecimal():
        limit = int(tokens[at.i + 1].text[:18])
        at.i += 2
    return (inner, Wrapper(columns, order, limit)) if order is not None and at.i == len(tokens) else None


def _columns(at: Cursor) -> tuple[str, ...]:
    names: list[str] = []
    while at.kind() in _NAMES:
        name = at.text()
        if at.kind() == TokenType.DOT and at.kind(1) in _NAMES:
            at.i += 1
            name = at.text()
        names.append(name)
        if not at.take(TokenType.COMMA):
            break
    return tuple(names)


def _order(at: Cursor) -> tuple[tuple[str, bool], ...] | None:
    """Take the terms of ORDER BY; None for anything but names and places."""
    terms: list[tuple[str, bool]] = []
    while at.kind() in (*_NAMES, TokenType.NUMBER):
        name = at.text()
        if at.kind() == TokenType.DOT and at.kind(1) is not None:
            at.i += 1
            name = at.text()
        down = at.kind() == TokenType.DESC
        at.take(TokenType.ASC, TokenType.DESC)
        terms.append((name, down))
        if not at.take(TokenType.COMMA):
            return tuple(terms)
    return None
