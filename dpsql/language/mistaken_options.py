"""Say where options belong that stand in another place, and what values mean that are written otherwise."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.language.tokens import find_closing_parenthesis
from dpsql.lazy_pattern import lazy_pattern

_AT_END = lazy_pattern(
    r"(?is)\s+(?:(?:WITH|USING|PRIVACY|SET|AT|OPTIONS?)\s+)*\(?\s*(epsilon|delta|error)\s*[=:]?\s*([\d.]+(?:e-?\d+)?)\s*\)?\s*;?\s*\Z"
)
_CLAUSE = lazy_pattern(r"(?i)\bSELECT\s+WITH\s+((?:\w+\s+){0,2}?\w+)\s*(?=\()")
"""The words of a private clause before its options."""


def place_options(text: str, tokens: list[Token]) -> Iterator[tuple[Fix, str]]:
    """Yield changes after which options stand behind the first SELECT as they are written, with hints."""
    for match in _CLAUSE.finditer(text):
        if " ".join(match[1].upper().split()) != "DIFFERENTIAL_PRIVACY OPTIONS":
            hint = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (..)"
            yield Fix("DIFFERENTIAL_PRIVACY OPTIONS ", match.start(1), match.end()), hint
    yield from _open_options(text, tokens)
    for n, (token, after) in enumerate(pairwise(tokens)):
        before = tokens[max(n - 1, 0)].text.upper()
        if (token.text.upper(), after.text) == ("OPTIONS", "(") and before != "DIFFERENTIAL_PRIVACY":
            yield from _move_options(text, tokens, n)


def _open_options(text: str, tokens: list[Token]) -> Iterator[tuple[Fix, str]]:
    """Yield OPTIONS with parentheses around `name = value`, behind DIFFERENTIAL_PRIVACY or the SELECT."""
    braces = re.search(r"(?i)\bOPTIONS\s*[{\[]([^{}\[\]]*)[}\]]", text)
    if braces is not None:
        written = "OPTIONS (" + re.sub(r"['\"]?(\w+)['\"]?\s*[:=]\s*", r"\1 = ", braces[1]).strip() + ")"
        yield Fix(written, *braces.span()), written
    early = re.search(r"(?i)(?<=\bSELECT)\s+WITH\s+(EPSILON|DELTA|ERROR)\s*[=:]?\s*([\d.]+(?:e-?\d+)?)", text)
    if early is not None:
        written = f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({early[1].lower()} = {early[2]})"
        yield Fix(written, *early.span()), f"SELECT{written} .."
    last, select = _AT_END.search(text), next((t for t in tokens if t.token_type == TokenType.SELECT), None)
    if last is not None and select is not None:
        clause = f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({last[1].lower()} = {last[2]})"
        removed = Fix("", *last.span())
        yield Fix(clause, select.end + 1, select.end + 1, also=(removed,)), f"SELECT{clause} .."
    for n, token in enumerate(tokens):
        words = [t.text.upper() for t in tokens[n : n + 2]]
        if token.text.upper() != "DIFFERENTIAL_PRIVACY" or "(" in words:
            continue
        begin = n + 2 if words[1:] == ["OPTIONS"] else n + 1
        end, m = begin, begin
        while (
            m + 2 < len(tokens) and tokens[m + 1].text in ("=", ":", "=>") and tokens[m].text.isidentifier()
        ):
            end = m + 3
            m = end + (end < len(tokens) and tokens[end].text == ",")
        if end > begin and tokens[begin].text != "(":
            start, stop = token.end + 1, tokens[end - 1].end + 1
            listed = re.sub(r"\s*(?:=>|:)\s*", " = ", text[tokens[begin].start : stop])
            rest = tokens[end].end + 1 if end < len(tokens) and tokens[end].text == "," else stop
            yield Fix(f" OPTIONS ({listed})", start, rest), f"OPTIONS ({listed})"


def _move_options(text: str, tokens: list[Token], i: int) -> Iterator[tuple[Fix, str]]:
    """Yield OPTIONS from the end of a statement behind its SELECT, where they belong."""
    depth, select, end = 0, None, find_closing_parenthesis(tokens, i + 1)
    for token in tokens[:i]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        select = token if not depth and token.token_type == TokenType.SELECT and select is None else select
    if select is None or end < 0:
        return
    clause = f"WITH DIFFERENTIAL_PRIVACY {text[tokens[i].start : tokens[end].end + 1]}"
    removed = Fix("", len(text[: tokens[i].start].rstrip()), tokens[end].end + 1)
    moved = Fix(f" {clause}", select.end + 1, select.end + 1, also=(removed,))
    yield moved, f"SELECT {clause} ..."


def compute_number(text: str) -> str | None:
    """Return the number of a fraction or a power of 10; None for other texts.

    >>> compute_number("1/1000000"), compute_number("10^-6"), compute_number("x")
    ('1e-6', '1e-6', None)
    """
    divided = re.fullmatch(r"([\d.]+)\s*/\s*([\d.]+)", text)
    power = re.fullmatch(r"(?:([\d.]+)\s*\*\s*)?10\s*(?:\^|\*\*|(?=-))\s*\(?(-?\d{1,3})\)?", text)
    if divided is not None and float(divided[2]):
        return f"{float(divided[1]) / float(divided[2]):g}".replace("e-0", "e-")
    return None if power is None else f"{power[1] or 1}e{power[2]}"


def correct_value(name: str, token: Token, error: str) -> Fix | None:
    """Return the change of an option's value to what is meant: 0.95 for 95, say; None: it is not known."""
    written = token.text.strip()
    number = re.fullmatch(r"([0-9]*[.]?[0-9]+(?:e-?[0-9]+)?)\s*(%?)", written)
    allowed = error.removeprefix("expected one of ").split(", ") if "expected one of" in error else []
    close = difflib.get_close_matches(written.upper(), allowed, 1, 0.5)
    close = close or [word for word in allowed if word in written.upper()][:1]
    made, guess = "", ""
    if close:
        made = close[0]
    elif "less than 1" in error and name != "delta" and number is not None and 1 < float(number[1]) < 100:
        made = f"{float(number[1]) / 100:g}"
    elif number is not None and token.token_type == TokenType.STRING and not number[2]:
        made = number[1]
    elif name in _EXAMPLES:
        made, guess = _EXAMPLES[name], _EXAMPLES[name]
    return (
        Fix(made, token.start, token.end + 1, guess=guess)
        if made and (made != written or token.token_type == TokenType.STRING)
        else None
    )


_EXAMPLES = {
    "epsilon": "0.5",
    "delta": "1e-6",
    "error": "50",
    "max_groups_contributed": "3",
    "max_rows_contributed": "20",
}
"""Amounts that hints name where none can be read."""
