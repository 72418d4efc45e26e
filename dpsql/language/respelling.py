"""Write what other dialects mean by `&&` and `[name]`, which DuckDB reads otherwise, as dpsql reads it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

_OPERANDS = (
    TokenType.VAR,
    TokenType.R_PAREN,
    TokenType.R_BRACKET,
    TokenType.STRING,
    TokenType.IDENTIFIER,
)


def respellings(text: str, tokens: Sequence[Token]) -> list[tuple[int, int, str]]:
    """Return what dpsql spells otherwise: from where to where in the text, and its own spelling."""
    found = []
    for i, token in enumerate(tokens):
        if text[token.start : token.end + 1] == "&&":
            found.append((token.start, token.end + 1, "AND"))
        elif token.token_type == TokenType.L_BRACKET and _quotes(tokens[max(i - 1, 0) : i + 3]):
            found.append((token.start, tokens[i + 2].end + 1, f'"{tokens[i + 1].text}"'))
    return found


def _quotes(near: Sequence[Token]) -> bool:
    """Return whether a bracket, with the token before it, quotes one name where an expression begins."""
    if len(near) < 4 or near[3].token_type != TokenType.R_BRACKET:
        return False
    before, name = near[0], near[2]
    return (
        before.token_type not in _OPERANDS and name.token_type == TokenType.VAR and name.text.isidentifier()
    )
