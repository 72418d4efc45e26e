"""Rewrite the tokens of a statement to standard SQL: other dialects, and the private clauses.

A clause that remained in the tree could be overlooked and generated as ordinary SQL. So it becomes a typed
value before anything is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from fractions import Fraction

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.kernel.loss import exact
from dpsql.language.options import MAX_INTEGER, parse_options
from dpsql.language.statement import Clause, Clauses, Options, StatementText
from dpsql.language.tokens import Cursor, find_closing_parenthesis, has_kinds
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

_PER_ROW = ("PERCENTILE_CONT", "QUANTILES", "VAR_POP", "STDDEV_POP")
"""Aggregates whose bounds hold for each row; those of the others hold for each group."""
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


def standardize_tokens(source: StatementText, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of a statement, with words of other dialects replaced by dpsql's words.

    >>> from dpsql.language.tokens import tokenize
    >>> text = "SELECT WITH ANONYMIZATION `a b`, ANON_COUNT(* CLAMPED BETWEEN 0 AND 5) FROM `db.t`"
    >>> source = StatementText(text)
    >>> " ".join(t.text for t in standardize_tokens(source, tokenize(source)))[:60]
    'SELECT WITH DIFFERENTIAL_PRIVACY a b , COUNT ( * , contribut'
    """
    written = source.text.upper()
    if not any(word in written for word in ("`", "ANON", "SAFE_CAST")):
        return list(tokens)
    out: list[Token] = []
    i = 0
    while i < len(tokens):
        token, word = tokens[i], tokens[i].text.upper()
        called = i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN
        if token.text == "`" and token.token_type == TokenType.UNKNOWN:
            last = next((j for j in range(i + 1, len(tokens)) if tokens[j].text == "`"), None)
            if last is not None:
                out += _split_names(source, token, tokens[last])
                i = last + 1
                continue
        elif token.token_type not in _QUOTED:
            if word == "ANONYMIZATION" and [t.token_type for t in out[-2:]] == [
                TokenType.SELECT,
                TokenType.WITH,
            ]:
                token = _retype(token, "DIFFERENTIAL_PRIVACY")
            elif called and word == "SAFE_CAST":
                token = _retype(token, "TRY_CAST")
            elif called and word.startswith("ANON_") and (end := find_closing_parenthesis(tokens, i + 1)) > 0:
                inside = standardize_tokens(source, tokens[i + 2 : end])
                out += [_retype(token, token.text[5:]), tokens[i + 1], *_name_bounds(word[5:], inside)]
                i = end
                continue
        out.append(token)
        i += 1
    return out


def join_names(source: StatementText, tokens: Sequence[Token], dialect: str) -> list[Token]:
    """Return tokens of which a name in brackets (T-SQL, SQLite), or with dashes (BigQuery), is one.

    >>> from dpsql.language.tokens import tokenize
    >>> source = StatementText("SELECT [the key], a - b FROM my-project.shop.t")
    >>> [t.text for t in join_names(source, tokenize(source), "TSQL")][1:4]
    ['the key', ',', 'a']
    >>> [t.text for t in join_names(source, tokenize(source), "BIGQUERY")][-6:]
    ['FROM', 'my-project', '.', 'shop', '.', 't']
    """
    brackets = dialect in {"TSQL", "SQLITE"} and has_kinds(tokens, TokenType.L_BRACKET)
    dashes = dialect == "BIGQUERY" and has_kinds(tokens, TokenType.DASH)
    if not brackets and not dashes:
        return list(tokens)
    out: list[Token] = []
    for token in tokens:
        if out and token.start <= out[-1].end:
            continue  # a part of the name before it
        end = -1
        if brackets and token.token_type == TokenType.L_BRACKET:
            end = source.text.find("]", token.start)
        elif dashes and out and out[-1].token_type in {TokenType.FROM, TokenType.JOIN}:
            found = _DASHED.match(source.text, token.start)
            end = found.end() - 1 if found else -1
        if end > token.start:
            text = source.text[token.start : end + 1].strip("[]")
            token = Token(TokenType.IDENTIFIER, text, token.line, token.col, token.start, end)  # noqa: PLW2901
        out.append(token)
    return out


_DASHED = lazy_pattern(r"[A-Za-z_]\w*(-\w+)+(?=\.)")


def _retype(token: Token, text: str, kind: TokenType = TokenType.VAR) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)


def _split_names(source: StatementText, opening: Token, end: Token) -> list[Token]:
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
    comma = _retype(at, ",", TokenType.COMMA)
    return [
        *inside[:i],
        comma,
        _retype(at, bounds),
        _retype(at, "=>", TokenType.FARROW),
        _retype(at, "(", TokenType.L_PAREN),
        *inside[i + 2 : middle],
        comma,
        *inside[middle + 1 :],
        _retype(at, ")", TokenType.R_PAREN),
    ]


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
_BRANCHES = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})


@dataclass(frozen=True, slots=True)
class Lifted:
    """The remaining tokens, and the clauses that were removed, by the position of their SELECT."""

    tokens: list[Token]
    clauses: dict[int, Clauses]


@dataclass(slots=True)
class _Select:
    """What is known of the SELECT whose tokens are read."""

    at: int = -1
    """The position of its word SELECT; -1 before it."""
    grouped: bool = False
    options: Options | None = None
    options_at: int = 0
    top: int | None = None
    argmax: bool = False
    by: exp.Expr | None = None
    threshold: Fraction | None = None
    spelling: list[str] = field(default_factory=list)
    clause_at: int = 0

    def clauses(self) -> Clauses | None:
        """Return its private clauses; None if it has none."""
        if self.options is None and not self.spelling:
            return None
        clause = Clause(
            self.top, self.argmax, self.by, self.threshold, " ".join(self.spelling), self.clause_at
        )
        at = self.options_at if self.options is not None else self.clause_at
        return Clauses(self.options or Options(), clause, self.options is not None, at)


class _Lifter(Cursor):
    """One pass over a statement's tokens that takes the private clauses out."""

    def __init__(
        self, source: StatementText, tokens: list[Token], parse: Callable[[list[Token]], exp.Expr]
    ) -> None:
        super().__init__(tokens)
        self.source = source
        self.parse = parse
        self.kept: list[Token] = []
        self.found: dict[int, Clauses] = {}
        self.around: list[_Select] = []
        """The SELECTs around the current one, from the outside; one for each open parenthesis."""
        self.select = _Select()

    def run(self) -> Lifted:
        while self.i < len(self.tokens):
            token = self.tokens[self.i]
            kind = token.token_type
            if kind == TokenType.SELECT:
                self.begin_select(token)
                continue
            if kind == TokenType.L_PAREN:
                self.around.append(self.select)
                self.select = _Select()
            elif kind == TokenType.R_PAREN and self.around:
                self.end_select(self.around.pop())
            elif kind in _BRANCHES:
                self.end_select(_Select())
            self.select.grouped |= kind == TokenType.GROUP_BY
            if kind == TokenType.WITH and self.is_options():
                raise self.source.syntax(
                    "WITH DIFFERENTIAL_PRIVACY belongs right after a SELECT, once", token.start
                )
            if kind == TokenType.VAR and token.text.upper() in _WORDS and self.take_clause():
                continue
            self.kept.append(_replace_comments(token, []) if token.comments else token)
            self.i += 1
        self.end_select(_Select())
        return Lifted(self.kept, self.found)

    def begin_select(self, token: Token) -> None:
        """Take the word SELECT with its position, and the clauses right after it."""
        if self.select.at >= 0:
            self.end_select(_Select())
        self.select.at = token.start
        self.kept.append(_replace_comments(token, [str(token.start)]))
        self.i += 1
        self.take_head()

    def end_select(self, following: _Select) -> None:
        """Write down the clauses of the current SELECT; go on with another one."""
        clauses = self.select.clauses()
        if clauses is not None:
            self.found[self.select.at] = clauses
        self.select = following

    def is_options(self) -> bool:
        return self.kind() == TokenType.WITH and self.word(1) == "DIFFERENTIAL_PRIVACY"

    def take_head(self) -> None:
        """Take the options clause and TOP k, right after a SELECT."""
        if self.is_options():
            at = self.tokens[self.i].start
            self.i += 2
            inner: list[Token] = []
            if self.word() == "OPTIONS" and self.kind(1) == TokenType.L_PAREN:
                end = find_closing_parenthesis(self.tokens, self.i + 1)
                if end < 0:
                    raise self.source.syntax("the options clause is not closed", self.tokens[self.i].start)
                inner = self.tokens[self.i + 2 : end]
                self.i = end + 1
            elif self.word() == "OPTIONS":
                raise self.source.syntax(
                    "expected `(` after OPTIONS", self.tokens[self.i].start, "write OPTIONS (epsilon = 1)"
                )
            elif self.kind() == TokenType.L_PAREN and self.word(1) in ("EPSILON", "DELTA", "ERROR", "EPS"):
                at = self.tokens[self.i].start
                raise self.source.syntax(
                    "OPTIONS is missing", at, "write OPTIONS (epsilon = 1)", Fix("OPTIONS ", at, at)
                )
            found = parse_options(self.source, inner) if inner else Options(at={"options": at})
            self.select.options, self.select.options_at = found, at
        if self.word() == "TOP" and self.kind() == TokenType.VAR:
            number = self.find_number_end()
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

    def find_number_end(self) -> int:
        """Return the index after the number that follows TOP or THRESHOLD; -1 if no number follows."""
        bracketed = self.kind(1) == TokenType.L_PAREN
        j = 1 + bracketed
        j += self.kind(j) == TokenType.DASH
        if self.kind(j) != TokenType.NUMBER or (bracketed and self.kind(j + 1) != TokenType.R_PAREN):
            return -1
        return self.i + j + 1 + bracketed

    def take_number(self, what: str) -> Fraction:
        """Take the number after the word at `i`, and move `i` behind it."""
        end = self.find_number_end()
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
        if self.select.top is not None or self.select.argmax:
            raise self.source.syntax("the selection is given twice", at)
        value = self.take_number("TOP")
        if value.denominator != 1 or not 1 <= value <= MAX_INTEGER:
            raise self.source.refuse("TOP needs a positive whole number", at, "for example TOP 10")
        if self.word() in ("PERCENT", "%") or (self.word() == "WITH" and self.word(1) == "TIES"):
            ties = self.word() == "WITH"
            at, end = self.tokens[self.i].start, self.tokens[self.i + ties].end + 1
            asks = f"{int(value)} groups"
            raise self.source.refuse(
                f"TOP k {'WITH TIES' if ties else 'PERCENT'} depends on the data",
                at,
                f"TOP {int(value)}",
                Fix("", at - 1, end, asks=asks),
            )
        self.select.top = int(value)
        self.select.spelling.append("TOP")
        self.select.clause_at = at

    def take_clause(self) -> bool:
        """Take TOP, ABOVE THRESHOLD or ARGMAX at `i` if it is one; False if the word is a plain name."""
        word, at = self.word(), self.tokens[self.i].start
        if word == "TOP" and self.find_number_end() < 0:
            return False
        if word == "ABOVE" and self.word(1) != "THRESHOLD":
            return False
        ends = self.kind(1) is None or self.word(1) in ("BY", "ABOVE") or self.kind(1) in _STOPS
        named = bool(self.kept) and self.kept[-1].token_type in (TokenType.GROUP_BY, TokenType.COMMA)
        if self.around:
            ends = not named and (ends or self.kind(1) == TokenType.R_PAREN)
        if word == "ARGMAX" and not (ends and self.select.grouped):
            return False
        if word == "TOP" and self.around and self.kind(1) == TokenType.L_PAREN:
            return False  # a call of some function named top; refused by its name later
        if self.select.at < 0 and self.around:
            raise self.source.refuse(f"{word} is allowed only after the GROUP BY of a SELECT", at)
        if not self.select.grouped:
            raise self.source.refuse(f"{word} selects groups and needs a GROUP BY before it", at)
        if word == "TOP":
            self.take_top()
            self.take_by()
        elif word == "ARGMAX":
            if self.select.top is not None or self.select.argmax:
                raise self.source.syntax("the selection is given twice", at)
            self.select.argmax = True
            self.select.clause_at = at
            self.i += 1
            self.select.spelling.append("ARGMAX")
            self.take_by()
        else:
            if self.select.threshold is not None:
                raise self.source.syntax("the threshold is given twice", at)
            self.i += 1
            self.select.threshold = self.take_number("ABOVE THRESHOLD")
            self.select.clause_at = at
            self.select.spelling.append("ABOVE THRESHOLD")
        return True

    def take_by(self) -> None:
        if self.word() != "BY":
            return
        self.i += 1
        begin, depth = self.i, 0
        while self.i < len(self.tokens):
            token = self.tokens[self.i]
            ends = token.token_type in _STOPS or token.token_type == TokenType.R_PAREN
            if depth == 0 and (ends or self.word() in _WORDS):
                break
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            self.i += 1
        expression = self.tokens[begin : self.i]
        if expression and expression[-1].token_type == TokenType.DESC:
            expression = expression[:-1]
        if not expression:
            raise self.source.syntax("expected a count after BY", self.tokens[begin - 1].start, "TOP 10 BY n")
        self.select.by = self.parse(expression)


def _replace_comments(token: Token, comments: list[str]) -> Token:
    """Return a token with other comments: the parser keeps them at the node that the token begins."""
    return Token(token.token_type, token.text, token.line, token.col, token.start, token.end, comments)


def lift_clauses(
    source: StatementText, tokens: list[Token], parse: Callable[[list[Token]], exp.Expr]
) -> Lifted:
    """Remove the private clauses from a query's tokens; `parse` parses the expression after BY."""
    return _Lifter(source, tokens, parse).run()
