"""Remove the private clauses from the tokens of a statement, so that the parser gets standard SQL.

A clause that remained in the tree could be overlooked and generated as ordinary SQL. So it becomes a typed
value before anything is parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.options import MAX_INTEGER, parse_options
from dpsql.language.source import Source
from dpsql.language.statement import Clause, Options
from dpsql.language.tokens import Cursor, closing
from dpsql.privacy import exact

_STOPS = frozenset(
    {
        TokenType.LIMIT,
        TokenType.ORDER_BY,
        TokenType.HAVING,
        TokenType.QUALIFY,
        TokenType.FETCH,
        TokenType.OFFSET,
        TokenType.SEMICOLON,
        TokenType.UNION,
        TokenType.EXCEPT,
        TokenType.INTERSECT,
        TokenType.WINDOW,
    }
)
_WORDS = frozenset({"TOP", "ABOVE", "ARGMAX"})


@dataclass(frozen=True, slots=True)
class Lifted:
    """The remaining tokens, and the clauses that were removed."""

    tokens: list[Token]
    options: Options
    has_options: bool
    clause: Clause


class _Lifter(Cursor):
    """One pass over the tokens of a statement."""

    def __init__(self, source: Source, tokens: list[Token], parse: Callable[[list[Token]], exp.Expr]) -> None:
        super().__init__(tokens)
        self.source = source
        self.parse = parse
        self.kept: list[Token] = []
        self.options: Options | None = None
        self.top: int | None = None
        self.argmax = False
        self.by: exp.Expr | None = None
        self.threshold: Fraction | None = None
        self.spelling: list[str] = []
        self.at = 0

    def run(self) -> Lifted:
        depth = 0
        selected = grouped = from_seen = False
        while self.i < len(self.tokens):
            token = self.tokens[self.i]
            kind = token.token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0 and kind == TokenType.SELECT and not selected:
                selected = True
                self.kept.append(token)
                self.i += 1
                self.head()
                continue
            from_seen = from_seen or (depth == 0 and kind == TokenType.FROM)
            grouped = grouped or (depth == 0 and kind == TokenType.GROUP_BY)
            if self.is_options():
                raise self.source.syntax(
                    "WITH DIFFERENTIAL_PRIVACY belongs right after the outermost SELECT, once", token.start
                )
            if (
                kind == TokenType.VAR
                and token.text.upper() in _WORDS
                and self.clause(depth, grouped, from_seen)
            ):
                continue
            self.kept.append(token)
            self.i += 1
        clause = Clause(self.top, self.argmax, self.by, self.threshold, " ".join(self.spelling), self.at)
        return Lifted(self.kept, self.options or Options(), self.options is not None, clause)

    def is_options(self) -> bool:
        return self.kind() == TokenType.WITH and self.word(1) == "DIFFERENTIAL_PRIVACY"

    def head(self) -> None:
        """Take the options clause and TOP k, right after the outermost SELECT."""
        if self.is_options():
            at = self.tokens[self.i].start
            self.i += 2
            inner: list[Token] = []
            if self.word() == "OPTIONS" and self.kind(1) == TokenType.L_PAREN:
                end = closing(self.tokens, self.i + 1)
                if end < 0:
                    raise self.source.syntax("the options clause is not closed", self.tokens[self.i].start)
                inner = self.tokens[self.i + 2 : end]
                self.i = end + 1
            elif self.word() == "OPTIONS":
                raise self.source.syntax(
                    "expected `(` after OPTIONS", self.tokens[self.i].start, "write OPTIONS (epsilon = 1)"
                )
            self.options = parse_options(self.source, inner) if inner else Options(at={"options": at})
        if self.word() == "TOP" and self.kind() == TokenType.VAR:
            number = self.number_ahead()
            follows = self.kind(number - self.i)
            # TOP (5), or TOP (5) AS x, is a column: the call of a function named top
            call = self.kind(1) == TokenType.L_PAREN and follows in (
                None,
                TokenType.COMMA,
                TokenType.FROM,
                TokenType.ALIAS,
            )
            if number > 0 and not call:
                self.take_top()
                if self.word() == "BY":
                    raise self.source.syntax(
                        "BY is allowed only with TOP after GROUP BY", self.tokens[self.i].start
                    )

    def number_ahead(self) -> int:
        """Return the index after the number that follows TOP or THRESHOLD; -1 if no number follows."""
        bracketed = self.kind(1) == TokenType.L_PAREN
        j = 1 + bracketed
        j += self.kind(j) == TokenType.DASH
        if self.kind(j) != TokenType.NUMBER or (bracketed and self.kind(j + 1) != TokenType.R_PAREN):
            return -1
        return self.i + j + 1 + bracketed

    def take_number(self, what: str) -> Fraction:
        """Take the number after the word at `i`, and move `i` behind it."""
        end = self.number_ahead()
        if end < 0:
            at = self.tokens[min(self.i + 1, len(self.tokens) - 1)].start
            raise self.source.syntax(f"expected a number after {what}", at, f"for example {what} 10")
        text = "".join(t.text for t in self.tokens[self.i + 1 : end] if t.text not in "()")
        try:
            value = exact(text)
        except ValueError:
            raise self.source.syntax(f"{what} needs a number", self.tokens[self.i + 1].start) from None
        self.i = end
        return value

    def take_top(self) -> None:
        at = self.tokens[self.i].start
        if self.top is not None or self.argmax:
            raise self.source.syntax("the selection is given twice", at)
        value = self.take_number("TOP")
        if value.denominator != 1 or not 1 <= value <= MAX_INTEGER:
            raise self.source.refuse("TOP needs a positive whole number", at, "for example TOP 10")
        if self.word() in ("PERCENT", "%") or (self.word() == "WITH" and self.word(1) == "TIES"):
            raise self.source.refuse(
                f"TOP k {'WITH TIES' if self.word() == 'WITH' else 'PERCENT'} depends on the data",
                self.tokens[self.i].start,
                "TOP 10 names the number of groups",
            )
        self.top = int(value)
        self.spelling.append("TOP")
        self.at = at

    def clause(self, depth: int, grouped: bool, from_seen: bool) -> bool:
        """Take TOP, ABOVE THRESHOLD or ARGMAX at `i` if it is one; False if the word is a plain name."""
        word, at = self.word(), self.tokens[self.i].start
        if word == "TOP" and self.number_ahead() < 0:
            return False
        if word == "ABOVE" and self.word(1) != "THRESHOLD":
            return False
        ends = self.kind(1) is None or self.word(1) in ("BY", "ABOVE") or self.kind(1) in _STOPS
        if word == "ARGMAX" and not (ends and depth == 0 and grouped):
            return False
        if word == "TOP" and depth > 0 and self.kind(1) == TokenType.L_PAREN:
            return False  # a call of some function named top; refused by its name later
        if depth > 0:
            raise self.source.refuse(f"{word} is allowed only at the outermost level, after GROUP BY", at)
        if not grouped:
            raise self.source.refuse(
                f"{word} selects groups and needs a GROUP BY before it", at, "GROUP BY page TOP 10"
            )
        if word == "TOP":
            self.take_top()
            self.take_by()
        elif word == "ARGMAX":
            if self.top is not None or self.argmax:
                raise self.source.syntax("the selection is given twice", at)
            self.argmax = True
            self.at = at
            self.i += 1
            self.spelling.append("ARGMAX")
            self.take_by()
        else:
            if self.threshold is not None:
                raise self.source.syntax("the threshold is given twice", at)
            self.i += 1
            self.threshold = self.take_number("ABOVE THRESHOLD")
            self.at = at
            self.spelling.append("ABOVE THRESHOLD")
        return True

    def take_by(self) -> None:
        if self.word() != "BY":
            return
        self.i += 1
        begin, depth = self.i, 0
        while self.i < len(self.tokens):
            token = self.tokens[self.i]
            if depth == 0 and (token.token_type in _STOPS or self.word() in _WORDS):
                break
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            self.i += 1
        expression = self.tokens[begin : self.i]
        if expression and expression[-1].token_type == TokenType.DESC:
            expression = expression[:-1]
        if not expression:
            raise self.source.syntax("expected a count after BY", self.tokens[begin - 1].start, "TOP 10 BY n")
        self.by = self.parse(expression)


def lift(source: Source, tokens: list[Token], parse: Callable[[list[Token]], exp.Expr]) -> Lifted:
    """Remove the private clauses from a query's tokens; `parse` parses the expression after BY."""
    return _Lifter(source, tokens, parse).run()
