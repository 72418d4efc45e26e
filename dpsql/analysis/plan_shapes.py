"""The shape of counting SQL: its text without the constants that say nothing of how the engine binds it.

A statement that is asked again with another constant in WHERE has the same bound plan but for that constant.
The check of a plan (`compiled_query.confirm`) reads no constant, so what it found holds for the shape.

*Claim:* two texts of one shape have the same bound plan but for the values of constants. *Proof:* texts of
one shape differ in operands of comparisons alone: =, <>, <, <=, >, >=, BETWEEN, IN, IS [NOT] DISTINCT FROM.
Each is a whole number that is cast to a written type which has it, a DATE or a TIMESTAMP, or a text. The
binder finds the types of a comparison, and so its conversions, by the types of its operands. The type of a
whole number before its cast follows from its size, and the shape keeps that: below 2^31, or below 2^63. A
text may be converted: one that could be a DATE or a TIMESTAMP stays, and whether any other one converts is
found by its value, so that what is found holds for that text alone. What an argument of a function or a
position (ORDER BY 1) means can depend on its value: those stay.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from functools import cache

_TEXT = r"'(?:[^']|'')*'"
_NUMBER = r"CAST\(-?[0-9]{1,19} AS (?:INTEGER|BIGINT|HUGEINT)\)"
_CONSTANT = rf"(?:{_NUMBER}|(?:DATE |TIMESTAMP )?{_TEXT})"
_SMALL, _LARGE = 2**31, 2**63


def shape_of(sql: str) -> str:
    """Return the text with the size in place of each constant that is compared.

    >>> shape_of("SELECT a, round(b, 2) FROM t WHERE a <= CAST(70 AS BIGINT) AND b IN ('x', 'y')")
    'SELECT a, round(b, 2) FROM t WHERE a <= CAST(?4 AS BIGINT) AND b IN (?, ?)'
    """
    return _compared().sub(_replace_constants, sql)


def omit_constants(sql: str) -> str:
    """Return the text without texts and whole numbers: a key for texts that may be alike, and nothing else.

    >>> omit_constants("SELECT round(c2, 2) FROM t WHERE a <= 70 AND b = 'x'")
    'SELECT round(c2, ?) FROM t WHERE a <= ? AND b = ?'
    """
    return _every_constant().sub("?", sql)


@cache
def _every_constant() -> re.Pattern[str]:
    return re.compile(rf"{_TEXT}|\b[0-9]+\b")


@cache
def _compared() -> re.Pattern[str]:
    """Return what finds names and texts as a whole, and the constants that are compared."""
    name = r'"(?:[^"]|"")*"'
    compared = rf"(?:=|<>|<=?|>=?|BETWEEN|AND|DISTINCT FROM) {_CONSTANT}"
    listed = rf" IN \({_CONSTANT}(?:, {_CONSTANT})*\)"
    return re.compile(rf"{name}|{compared}|{listed}|{_TEXT}")


@cache
def _constants() -> re.Pattern[str]:
    return re.compile(rf"(CAST\(-?)([0-9]+)( AS [A-Z]+)|(DATE |TIMESTAMP )?({_TEXT})")


def _replace_constants(found: re.Match[str]) -> str:
    text = found[0]
    return text if text[0] in "'\"" else _constants().sub(_replace_constant, text)


def _replace_constant(found: re.Match[str]) -> str:
    begin, digits, end, kind, quoted = found.groups()
    if digits is None:
        text = quoted[1:-1]
        if kind is None:
            return found[0] if is_moment("DATE", text) or is_moment("TIMESTAMP", text) else "?"
        return f"{kind}?" if is_moment(kind.strip(), text) else found[0]
    size = int(digits)
    if size < _SMALL:
        return f"{begin}?4{end}"
    return f"{begin}?8{end}" if _SMALL < size < _LARGE and end != " AS INTEGER" else found[0]


def is_moment(kind: str, text: str) -> bool:
    """Whether a text is certainly that of a DATE or a TIMESTAMP of the years 1 to 9999.

    >>> is_moment("DATE", "2024-02-29"), is_moment("DATE", "2023-02-29"), is_moment("DATE", "infinity")
    (True, False, False)
    """
    try:
        if kind == "DATE":
            return len(text) == 10 and str(date.fromisoformat(text)) == text
        return kind == "TIMESTAMP" and str(datetime.fromisoformat(text)) == text and "+" not in text
    except ValueError:
        return False
