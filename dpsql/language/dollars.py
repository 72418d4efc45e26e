"""Split a text into tokens with `$1` as a parameter wherever it stands.

The tokenizer takes the dollar of `$1,` as the begin of a quoted text like `$tag$ .. $tag$`, up to the next
dollar, unless spaces or the end stand between them. So it is given `$1 ,` instead, and the places of the
tokens are those in the text as it was written.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from sqlglot.dialects import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import Token

OPAQUE = (
    r"""(?<!\w)[eE]'(?:\\.|[^'\\])*'?|'[^']*'?|"[^"]*"?|--[^\n]*"""
    r"""|\$(?P<tag>[^\W\d]\w*|)\$.*?(?:\$(?P=tag)\$|\Z)|/\*"""
)
"""A quoted text, a line of comment, or the begin of a comment, as a pattern for `re.DOTALL`."""
_COMMENT = re.compile(r"/\*|\*/")
_NUMBERED = re.compile(rf"{OPAQUE}|\$[0-9]+(?=[^\s0-9])", re.DOTALL)


def split_tokens(text: str, dialect: type[Dialect] = DuckDB) -> list[Token]:
    """Return the tokens of a text; raises `TokenError` if a quote is not closed.

    >>> [token.text for token in split_tokens("($1,$2)")]
    ['(', '$', '1', ',', '$', '2', ')']
    """
    if text.count("$") < 2:
        return list(dialect().tokenize(text))
    ends = _ends(text)
    parts = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    tokens: list[Token] = list(dialect().tokenize(" ".join(parts)))
    added = [end + number for number, end in enumerate(ends)]
    before = [(bisect_left(added, token.start), bisect_left(added, token.end)) for token in tokens]
    if any(start != end for start, end in before):  # a space would be in a text that is quoted otherwise
        return list(dialect().tokenize(text))
    return [_move(token, count) for token, (count, _) in zip(tokens, before, strict=True)]


def _ends(text: str) -> list[int]:
    """Return the indices behind the parameters that something other than a space follows."""
    found: list[int] = []
    i = 0
    while match := _NUMBERED.search(text, i):
        i = match.end()
        if match[0] == "/*":
            i = after_comment(text, i)
        elif match[0][0] == "$" and match[0][1:].isdecimal():
            found.append(i)
    return found


def _move(token: Token, back: int) -> Token:
    if not back:
        return token
    start, end = token.start - back, token.end - back
    return Token(token.token_type, token.text, token.line, token.col, start, end, token.comments)


def after_comment(text: str, i: int) -> int:
    """Return the end of the comment that was opened before `i`; comments may be nested."""
    depth = 1
    while depth:
        match = _COMMENT.search(text, i)
        if match is None:
            return len(text)
        depth += 1 if match[0] == "/*" else -1
        i = match.end()
    return i
