"""Find the change of a few characters with which a statement that does not parse does."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix, QueryRefused, QuerySyntaxError
from dpsql.language.outline import Outline
from dpsql.language.parse import parse
from dpsql.language.tokens import closing

_KEYWORDS = frozenset(
    """
    SELECT FROM WHERE GROUP ORDER HAVING QUALIFY LIMIT OFFSET BY JOIN LEFT RIGHT FULL INNER CROSS ON USING
    AND OR NOT IN IS NULL LIKE BETWEEN EXISTS DISTINCT AS WITH UNION CASE WHEN THEN ELSE END ASC DESC
    INTERVAL FILTER OVER PARTITION DIFFERENTIAL_PRIVACY OPTIONS
    """.split()  # noqa: SIM905  a table of words
)
_Repair = tuple[Fix, str]
"""A change, and the hint that shows it; an empty one shows the words around the change."""
_NO_WORDS = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER)
_NEXT = re.compile(r"(?i)\s+(?:and|or|group|order|having|limit)\b|\s*[;)]|\s*\Z")
"""What follows a text whose closing quote is missing."""


def repair(text: str, error: QuerySyntaxError) -> tuple[str, Fix] | None:
    """Return the hint and the fix of a syntax error; None if no small change makes the statement parse.

    >>> repair("SELECT a FORM t", QuerySyntaxError("no", line=1, col=15))[0]
    'did you mean FROM?'
    """
    if error.line is None or error.col is None:
        return None
    lines = text.split("\n")[: error.line - 1]
    at = sum(len(line) + 1 for line in lines) + error.col - 1
    outline = Outline.of(text)
    found = _candidates(text, outline.tokens, at) if outline.tokens else _close_quote(text, at)
    for fix, hint in found:
        changed = text
        for one in sorted((fix, *fix.also), key=lambda f: f.start, reverse=True):
            changed = changed[: one.start] + one.text + changed[one.end :]
        try:
            parse(changed)
        except QueryRefused:
            pass
        except QuerySyntaxError:
            continue
        return hint or _around(changed, fix), fix
    return None


def _around(text: str, fix: Fix) -> str:
    """Return the changed words with those beside them."""
    tokens = Outline.of(text).tokens
    i = next((i for i, t in enumerate(tokens) if t.end >= fix.start), len(tokens) - 1)
    j = next((j for j, t in enumerate(tokens) if t.end + 1 >= fix.start + len(fix.text)), i)
    return text[tokens[max(i - 1, 0)].start : tokens[min(j + 1, len(tokens) - 1)].end + 1]


def _insert(text: str, at: int) -> Fix:
    return Fix(text, at, at)


def _close_quote(text: str, at: int) -> Iterator[_Repair]:
    """Close a quote before the word that may follow the text, or at the end."""
    quote = text[at : at + 1]
    if quote in ("'", '"'):
        for match in _NEXT.finditer(text, at + 1):
            yield _insert(quote, match.start()), text[at : match.start()] + quote


def _candidates(text: str, tokens: list[Token], at: int) -> Iterator[_Repair]:
    """Yield changes around the token that could not be read, the likeliest first."""
    i = next((n for n, t in enumerate(tokens) if t.start <= at <= t.end), len(tokens) - 1)
    here, before = tokens[i], tokens[max(i - 1, 0)]
    yield from _move_clause(text, tokens, i)
    for token, after in pairwise(tokens):
        if token.text.upper() == "DIFFERENTIAL_PRIVACY" and after.token_type == TokenType.L_PAREN:
            yield _insert("OPTIONS ", after.start), ""
    for n in (i, i - 1, i + 1, i - 2):
        if 0 <= n < len(tokens) and tokens[n].token_type not in _NO_WORDS:
            yield from _find_spellings(tokens[n])
    if before.text.upper() in ("GROUP", "ORDER"):
        yield _insert(" BY", before.end + 1), ""
    if before.token_type == TokenType.COMMA:
        yield Fix("", before.start, before.end + 1), ""
    for token in tokens[max(i - 2, 0) : i][::-1]:
        yield _insert(",", token.end + 1), ""
    if here.token_type == TokenType.R_PAREN:
        yield Fix("", here.start, here.end + 1), ""
    words = {token.text.upper() for token in tokens}
    for word in (")", " END") if "CASE" in words else (")",):
        yield _insert(word, before.end + 1), ""
        yield _insert(word, tokens[-1].end + 1), ""


def _find_spellings(token: Token) -> Iterator[_Repair]:
    """Yield the keywords that a word may be a mistyped spelling of."""
    word = token.text.upper()
    if word not in _KEYWORDS and word.isascii() and word.replace("_", "").isalpha():
        for close in difflib.get_close_matches(word, sorted(_KEYWORDS), 2, 0.7):
            yield Fix(close, token.start, token.end + 1), f"did you mean {close}?"


def _move_clause(text: str, tokens: list[Token], i: int) -> Iterator[_Repair]:
    """Yield the clause of the token behind the first SELECT, where it belongs."""
    words = [t.text.upper() for t in tokens[i : i + 4]]
    select = next((t for t in tokens if t.token_type == TokenType.SELECT), None)
    if words[:2] != ["WITH", "DIFFERENTIAL_PRIVACY"] or select is None:
        return
    end = closing(tokens, i + 3) if words[2:] == ["OPTIONS", "("] else i + 1
    if end > 0:
        start, stop = tokens[i].start, tokens[end].end + 1
        clause = text[start:stop]
        removed = Fix("", start - (text[start - 1] == " "), stop)
        yield Fix(f" {clause}", select.end + 1, select.end + 1, also=(removed,)), f"SELECT {clause} ..."
