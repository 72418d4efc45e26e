"""The text of a statement with its parameters written out as literals, for an engine that gets text alone."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.parameters import bind
from dpsql.language.plain import Parameters
from dpsql.language.source import Source
from dpsql.language.tokens import tokenize

_BETWEEN = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_EXPLAIN = re.compile(_BETWEEN.pattern + r"EXPLAIN\b(\s*\(\s*FORMAT\s+\w+\s*\))?", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_]\w*|\(")


def words(text: str, most: int) -> tuple[str, ...]:
    r"""Return the first words of a statement, in upper case, without comments; fewer if others follow.

    >>> words("-- of today\nshow privacy budget", 3), words("SET dp_epsilon = 1", 3)
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


def written_out(text: str, parameters: Parameters) -> str:
    """Write parameters into a statement where its markers stand; raise as `parse` does for wrong ones.

    >>> written_out("SELECT ?, 'why?', $2", ["it's", -1])
    "SELECT 'it''s', 'why?', (-1)"
    """
    source = Source(text)
    begin = _EXPLAIN.match(text)
    # The tokenizer does not split the text after EXPLAIN.
    tokens = tokenize(source if begin is None else Source(" " * begin.end() + text[begin.end() :]))
    bound, _ = bind(source, tokens, parameters)
    kept = {id(token) for token in tokens}
    values: dict[int, list[str]] = {}
    for token in bound:
        if id(token) not in kept:
            values.setdefault(token.start, []).append(_text(token))
    parts: list[str] = []
    end = 0
    for marker, following in zip(tokens, [*tokens[1:], None], strict=True):
        if marker.start in values and marker.token_type in (TokenType.PLACEHOLDER, TokenType.PARAMETER):
            named = marker.token_type == TokenType.PARAMETER and following is not None
            parts += [text[end : marker.start], _join(values[marker.start])]
            end = (following.end if named and following is not None else marker.end) + 1
    return "".join((*parts, text[end:]))


def _join(pieces: list[str]) -> str:
    if len(pieces) == 2:  # DATE '2026-01-31'
        return " ".join(pieces)
    return "".join(pieces)


def _text(token: Token) -> str:
    if token.token_type == TokenType.STRING:
        return "'" + token.text.replace("'", "''") + "'"
    return str(token.text)
