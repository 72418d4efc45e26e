"""Read what DuckDB's parser cannot: quotes, clauses and arguments of other dialects, token by token."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.source import Source
from dpsql.language.tokens import closing

_PER_ROW = ("PERCENTILE_CONT", "QUANTILES", "VAR_POP", "STDDEV_POP")
"""Aggregates whose bounds hold for each row; those of the others hold for each group."""
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


def standard_tokens(source: Source, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of a statement, with those of other dialects as dpsql reads them.

    >>> from dpsql.language.tokens import tokenize
    >>> text = "SELECT WITH ANONYMIZATION `a b`, ANON_COUNT(* CLAMPED BETWEEN 0 AND 5) FROM `db.t`"
    >>> " ".join(t.text for t in standard_tokens(Source(text), tokenize(Source(text))))[:60]
    'SELECT WITH DIFFERENTIAL_PRIVACY a b , COUNT ( * , contribut'
    """
    out: list[Token] = []
    i = 0
    while i < len(tokens):
        token, word = tokens[i], tokens[i].text.upper()
        called = i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN
        if token.text == "`" and token.token_type == TokenType.UNKNOWN:
            last = next((j for j in range(i + 1, len(tokens)) if tokens[j].text == "`"), None)
            if last is not None:
                out += _names(source, token, tokens[last])
                i = last + 1
                continue
        elif token.token_type not in _QUOTED:
            if word == "ANONYMIZATION" and [t.token_type for t in out[-2:]] == [
                TokenType.SELECT,
                TokenType.WITH,
            ]:
                token = _as(token, "DIFFERENTIAL_PRIVACY")
            elif called and word == "SAFE_CAST":
                token = _as(token, "TRY_CAST")
            elif called and word.startswith("ANON_") and (end := closing(tokens, i + 1)) > 0:
                inside = standard_tokens(source, tokens[i + 2 : end])
                out += [_as(token, token.text[5:]), tokens[i + 1], *_name_bounds(word[5:], inside)]
                i = end
                continue
        out.append(token)
        i += 1
    return out


def _as(token: Token, text: str, kind: TokenType = TokenType.VAR) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)


def _names(source: Source, opening: Token, end: Token) -> list[Token]:
    """Return the names between two backticks; a dot separates them."""
    out: list[Token] = []
    start = opening.start + 1
    for name in source.text[start : end.start].split("."):
        column = opening.col + start - opening.start
        if out:
            out.append(Token(TokenType.DOT, ".", opening.line, column - 1, start - 1, start - 1))
        out.append(Token(TokenType.IDENTIFIER, name, opening.line, column, start, start + len(name) - 1))
        start += len(name) + 1
    return out


def _name_bounds(name: str, inside: Sequence[Token]) -> list[Token]:
    """Return the arguments of an aggregate, with CLAMPED BETWEEN a AND b as a named argument."""
    words = [t.text.upper() if t.token_type not in _QUOTED else "" for t in inside]
    if "CLAMPED" not in words:
        return list(inside)
    i = words.index("CLAMPED")
    if words[i + 1 : i + 2] != ["BETWEEN"] or "AND" not in words[i:]:
        return list(inside)
    at, middle = inside[i], words.index("AND", i)
    bounds = "contribution_bounds_per_" + ("row" if name in _PER_ROW else "group")
    comma = _as(at, ",", TokenType.COMMA)
    return [
        *inside[:i],
        comma,
        _as(at, bounds),
        _as(at, "=>", TokenType.FARROW),
        _as(at, "(", TokenType.L_PAREN),
        *inside[i + 2 : middle],
        comma,
        *inside[middle + 1 :],
        _as(at, ")", TokenType.R_PAREN),
    ]
