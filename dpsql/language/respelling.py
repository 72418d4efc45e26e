"""Write the spellings of other dialects as dpsql reads them; each pair means the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.tokens import closing

_PART = re.compile(r"(?i)(year|quarter|month|day|hour|minute|second)\Z")
"""Parts of a date that all dialects cut at the same places; weeks begin on different days."""

_CALLS = {
    ("nvl", 2): "COALESCE({0}, {1})",
    ("safe_cast", 1): "TRY_CAST({0})",
    ("getdate", 0): "now()",
    ("date", 1): "CAST({0} AS DATE)",
    ("safe_divide", 2): "(({0}) / nullif({1}, 0))",
    ("approx_count_distinct", 1): "COUNT(DISTINCT {0})",
    ("anon_count", 1): "COUNT({0})",
}
"""A function's name and number of arguments -> the form that dpsql knows."""

_PARTS = {
    "date_trunc": (1, "date_trunc('{1}', {0})"),
    "timestamp_trunc": (1, "date_trunc('{1}', {0})"),
    "datetime_trunc": (1, "date_trunc('{1}', {0})"),
    "date_diff": (2, "date_diff('{2}', {1}, {0})"),
    "datediff": (0, "date_diff('{0}', {1}, {2})"),
}
"""Functions that name a part of a date without quotes: the place of the part, and the form."""

_CLAMPED = re.compile(r"(?is)(.*\S)\s+CLAMPED\s+BETWEEN\s+0\s+AND\s+(\d+)\s*\Z")
_TEXTS = (TokenType.STRING, TokenType.IDENTIFIER)


class _Respeller:
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text, self.tokens = text, tokens

    def written(self, low: int, high: int) -> str:
        """Return the text of the tokens from `low` to before `high`."""
        out: list[str] = []
        i = low
        while i < high:
            new, after = self.one(i, high)
            if i > low:
                out.append(self.text[self.tokens[i - 1].end + 1 : self.tokens[i].start])
            out.append(new)
            i = after
        return "".join(out)

    def one(self, i: int, high: int) -> tuple[str, int]:
        """Return the spelling of what begins at a token, and the index behind it."""
        token = self.tokens[i]
        own = self.text[token.start : token.end + 1]
        if token.token_type in _TEXTS:
            return own, i + 1
        words = [t.text.upper() for t in self.tokens[i : min(i + 5, high)]]
        if words[:2] == ["WITH", "ANONYMIZATION"]:
            return f"{own} DIFFERENTIAL_PRIVACY", i + 2
        if words[:2] == ["KAPPA", "="]:
            return "max_groups_contributed", i + 1
        if words[:2] == ["PRIVACY_UNIT_COLUMN", "="] and words[3:4] == ["."] and i + 4 < high:
            return f"{own} = {self.tokens[i + 4].text}", i + 5
        if own == "`" and words[2:3] == ["`"] and self.tokens[i + 1].text.isidentifier():
            return f'"{self.tokens[i + 1].text}"', i + 3
        if own == "&&":
            return "AND", i + 1
        if own == "[" and words[2:3] == ["]"] and self._begins_item(i):
            return f'"{self.tokens[i + 1].text}"', i + 3
        end = closing(self.tokens, i + 1) if words[1:2] == ["("] else -1
        found = self.call(token.text.lower(), i + 2, end) if 0 < end < high else None
        return (own, i + 1) if found is None else (found, end + 1)

    def _begins_item(self, i: int) -> bool:
        """Return whether a bracket around one word begins an expression, as T-SQL quotes a name."""
        before, inside = self.tokens[i - 1] if i else None, self.tokens[i + 1]
        operands = (TokenType.VAR, TokenType.R_PAREN, TokenType.R_BRACKET, *_TEXTS)
        begins = before is not None and before.token_type not in operands
        return begins and inside.token_type == TokenType.VAR and inside.text.isidentifier()

    def call(self, name: str, low: int, end: int) -> str | None:
        """Return the other spelling of a call with the arguments from `low` to before `end`."""
        if name not in _PARTS and all(name != known for known, _ in _CALLS):
            return None
        arguments = self.arguments(low, end)
        if name in _PARTS:
            place, form = _PARTS[name]
            parts = [i for i, a in enumerate(arguments) if _PART.match(a)]
            if parts != [place] or len(arguments) != form.count("{"):
                return None  # a column may have the name of a part, too
            arguments[place] = arguments[place].lower()
            return form.format(*arguments)
        known = _CALLS.get((name, len(arguments)))
        if known is None:
            return None
        clamped = _CLAMPED.match(arguments[0]) if name == "anon_count" else None
        if clamped is not None:
            return f"COUNT({clamped[1]}, contribution_bounds_per_group => (0, {clamped[2]}))"
        return known.format(*arguments)

    def arguments(self, low: int, end: int) -> list[str]:
        found: list[str] = []
        depth, begin = 0, low
        for i in range(low, end):
            kind = self.tokens[i].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0 and kind == TokenType.COMMA:
                found.append(self.written(begin, i))
                begin = i + 1
        return [*found, self.written(begin, end)] if low < end else []


def respellings(text: str, tokens: Sequence[Token]) -> list[tuple[int, int, str]]:
    """Return what dpsql spells otherwise: from where to where in the text, and its own spelling."""
    respeller, found, i = _Respeller(text, tokens), [], 0
    while i < len(tokens):
        new, after = respeller.one(i, len(tokens))
        start, end = tokens[i].start, tokens[after - 1].end + 1
        if new != text[start:end]:
            found.append((start, end, new))
        i = after
    return found
