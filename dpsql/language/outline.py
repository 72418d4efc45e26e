"""Places in a statement's text where something can be added."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.language.respelling import respellings
from dpsql.language.source import Source
from dpsql.language.tokens import closing, tokenize

_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s*\(\s*FORMAT\s+\w+\s*\))?", re.IGNORECASE)


class Outline:
    """The tokens of a SELECT; empty for a text that has no tokens."""

    def __init__(self, text: str) -> None:
        explain = _EXPLAIN.match(text)  # the tokenizer does not split what follows it
        blank = " " * explain.end() if explain is not None else ""
        try:
            tokens = tokenize(Source(blank + text[len(blank) :]))
        except (QueryRefused, QuerySyntaxError):
            tokens = []
        if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens = tokens[:-1]
        self.text = text
        self.tokens: list[Token] = tokens

    def respellings(self) -> list[tuple[int, int, str]]:
        """Return what dpsql spells otherwise: from where to where in the text, and its own spelling."""
        return respellings(self.text, self.tokens)

    def respelled(self) -> str:
        r"""Return the text with the spellings of other dialects as dpsql reads them.

        >>> Outline("SELECT NVL(page, 'x') FROM `visits`").respelled()
        'SELECT COALESCE(page, \'x\') FROM "visits"'
        """
        text = self.text
        for start, end, new in reversed(self.respellings()):
            text = text[:start] + new + text[end:]
        return text

    def end(self) -> int:
        """Return the place behind the statement."""
        return self.tokens[-1].end + 1

    def with_options(self, options: str) -> tuple[int, str] | None:
        """Return the place for further options of the statement, and the text to add there."""
        depth = 0
        for i, token in enumerate(self.tokens):
            kind = token.token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth or kind != TokenType.SELECT:
                continue
            after = [t.text.upper() for t in self.tokens[i + 1 : i + 6]]
            if after[:2] != ["WITH", "DIFFERENTIAL_PRIVACY"]:
                return token.end + 1, f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})"
            if after[2:4] != ["OPTIONS", "("]:
                return self.tokens[i + 2].end + 1, f" OPTIONS ({options})"
            more = "" if after[4:] == [")"] else ", "
            return self.tokens[i + 4].end + 1, options + more
        return None

    def moved(self, at: int, *, keep: bool) -> str | None:
        """Return the text with the options clause at a position moved to the outermost SELECT.

        Without `keep` it is left out.
        """
        i = next((i for i, token in enumerate(self.tokens) if token.start == at), -1)
        if i < 0 or [t.text.upper() for t in self.tokens[i + 2 : i + 4]] != ["OPTIONS", "("]:
            return None
        end = closing(self.tokens, i + 3)
        start, behind = self.tokens[i + 3].end + 1, self.tokens[end].end + 1
        options = self.text[start : self.tokens[end].start]
        added = self.with_options(options) if keep and options.strip() else None
        edits = [(at, behind + (self.text[behind : behind + 1] == " "), "")]
        edits += [(added[0], added[0], added[1])] if added is not None else []
        text = self.text
        for low, high, new in sorted(edits, reverse=True):
            text = text[:low] + new + text[high:]
        return text
