"""Say where in the text of a statement its words, calls, clauses and options stand."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix, QueryRefused, QuerySyntaxError
from dpsql.language.statement import StatementText
from dpsql.language.syntax_trees import walk_tree
from dpsql.language.tokens import find_closing_parenthesis, tokenize
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

_EXPLAIN = lazy_pattern(r"\s*EXPLAIN\b(\s*\(\s*FORMAT\s+\w+\s*\))?", re.IGNORECASE)

_PRIVATE = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")
"""The words of the private clause."""
_CLAUSES = (
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.QUALIFY,
    TokenType.WINDOW,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.OFFSET,
    TokenType.FETCH,
    TokenType.UNION,
    TokenType.EXCEPT,
    TokenType.INTERSECT,
)
_RELEASED = lazy_pattern(r'"r\d+"\."((?:[^"]|"")*)"')
_OPERANDS = (
    TokenType.VAR,
    TokenType.R_PAREN,
    TokenType.R_BRACKET,
    TokenType.STRING,
    TokenType.IDENTIFIER,
)
_PLAIN = (
    exp.Column,
    exp.Identifier,
    exp.Anonymous,
    exp.Literal,
    exp.Star,
    exp.Distinct,
    exp.Binary,
    exp.Kwarg,
)
"""Nodes that begin and end with a part whose place is known, or with the parenthesis of a call."""


@dataclass(frozen=True, slots=True)
class BlockText:
    """The places of one SELECT block in the text: its SELECT, FROM, and clauses."""

    select: Token
    from_: Token | None
    clauses: tuple[Token, ...]
    end: int

    def clause(self, kind: TokenType) -> Token | None:
        """Return the first word of a clause; None if the block does not have it."""
        return next((t for t in self.clauses if t.token_type == kind), None)

    def before(self, kind: TokenType) -> int:
        """Return the place before which a clause of this kind belongs: behind those that precede it."""
        later = _CLAUSES[_CLAUSES.index(kind) + 1 :]
        return next((t.start for t in self.clauses if t.token_type in later), self.end)

    def stop(self, clause: Token) -> int:
        """Return the place where a clause ends."""
        return next((t.start for t in self.clauses if t.start > clause.start), self.end)


class Outline:
    """The tokens of a SELECT; empty for a text that has no tokens."""

    def __init__(self, text: str) -> None:
        explain = _EXPLAIN.match(text)  # the tokenizer does not split what follows it
        blank = " " * explain.end() if explain is not None else ""
        try:
            tokens = tokenize(StatementText(blank + text[len(blank) :]))
        except (QueryRefused, QuerySyntaxError):
            tokens = []
        if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens = tokens[:-1]
        self.text = text
        self.tokens: list[Token] = tokens

    @staticmethod
    @lru_cache(maxsize=8)
    def of(text: str) -> Outline:
        """Return the outline of a whole statement; each part of its refusal asks for it."""
        return Outline(text)

    def respellings(self) -> list[tuple[int, int, str]]:
        """Return what dpsql spells otherwise: from where to where in the text, and its own spelling.

        >>> Outline("SELECT [page] FROM visits WHERE a && b").respellings()
        [(7, 13, '"page"'), (34, 36, 'AND')]
        """
        return _find_respellings(self.text, self.tokens)

    def end(self) -> int:
        """Return the place in the text behind the statement."""
        return self.tokens[-1].end + 1

    def span(self, node: exp.Expr) -> tuple[int, int] | None:
        """Return where a plain expression stands: names, literals, calls and operators between them."""
        nodes = walk_tree(node)
        metas = [n.meta for n in nodes if "start" in n.meta]
        if not metas or not all("end" in m for m in metas) or not all(isinstance(n, _PLAIN) for n in nodes):
            return None
        calls = [self.call(n.meta["start"]) for n in nodes if isinstance(n, exp.Anonymous) and n.meta]
        ends = [m["end"] + 1 for m in metas] + [c + 1 for c in calls if c is not None]
        return min(m["start"] for m in metas), max(ends)

    def call(self, start: int) -> int | None:
        """Return the place of the parenthesis that closes the call whose name begins at `start`."""
        i = bisect_left(self.tokens, start, key=lambda token: token.start)
        if i + 1 >= len(self.tokens) or self.tokens[i + 1].token_type != TokenType.L_PAREN:
            return None
        end = find_closing_parenthesis(self.tokens, i + 1)
        return self.tokens[end].start if end > 0 else None

    def call_around(self, at: int, name: str) -> tuple[int, int, tuple[str, ...]] | None:
        """Return the innermost call of a function that a place is in: from where to where, and its arguments.

        >>> Outline("SELECT f(1, EXTRACT(YEAR FROM age(a, g(b))))").call_around(35, "extract")
        (12, 43, ('YEAR FROM age(a, g(b))',))
        >>> Outline("SELECT f(1, g(b, (SELECT 2)))").call_around(7, "F")
        (7, 29, ('1', 'g(b, (SELECT 2))'))
        """
        found = None
        for i, token in enumerate(self.tokens[:-1]):
            opened = self.tokens[i + 1].token_type == TokenType.L_PAREN
            if not opened or token.text.upper() != name.upper() or token.start > at:
                continue
            end = find_closing_parenthesis(self.tokens, i + 1)
            if end > 0 and at <= self.tokens[end].end:
                found = token.start, self.tokens[end].end + 1, self._arguments(i + 1, end)
        return found

    def items(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return where the items of a list stand that is between two places, without the commas between them.

        >>> text = "SELECT a, f(b, c) AS d FROM t"
        >>> [text[i:j] for i, j in Outline(text).items(6, 23)]
        ['a', 'f(b, c) AS d']
        """
        found, depth, first, last = list[tuple[int, int]](), 0, None, None
        for token in self.tokens:
            if not start <= token.start < end:
                continue
            depth += token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
            depth -= token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
            if depth == 0 and token.token_type == TokenType.COMMA:
                found += [] if first is None or last is None else [(first.start, last.end + 1)]
                first = None
            else:
                first, last = first or token, token
        return found if first is None or last is None else [*found, (first.start, last.end + 1)]

    def _arguments(self, opened: int, closed: int) -> tuple[str, ...]:
        """Return the texts between two parentheses, which commas separate."""
        found, depth, start = list[str](), 0, self.tokens[opened].end + 1
        for token in self.tokens[opened + 1 : closed]:
            opens = token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
            closes = token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
            depth += opens - closes
            if depth == 0 and token.token_type == TokenType.COMMA:
                found.append(self.text[start : token.start].strip())
                start = token.end + 1
        last = self.text[start : self.tokens[closed].start].strip()
        return (*found, last) if found or last else ()

    def options_around(self, at: int) -> tuple[int, int] | None:
        """Return where the options stand that a place is in; None for other places."""
        for i, token in enumerate(self.tokens[2:], 2):
            words = [t.text.upper() for t in self.tokens[i - 2 : i]]
            if token.token_type == TokenType.L_PAREN and words == ["DIFFERENTIAL_PRIVACY", "OPTIONS"]:
                end = find_closing_parenthesis(self.tokens, i)
                if end > 0 and token.start < at < self.tokens[end].start:
                    return token.end + 1, self.tokens[end].start
        return None

    def parentheses(self, block: BlockText) -> tuple[int, int] | None:
        """Return where a subquery stands, with its parentheses; None for a SELECT behind a WITH, or alone."""
        i = self.tokens.index(block.select) - 1
        end = (
            find_closing_parenthesis(self.tokens, i)
            if i >= 0 and self.tokens[i].token_type == TokenType.L_PAREN
            else -1
        )
        return (self.tokens[i].start, self.tokens[end].end + 1) if end > 0 else None

    def block(self, at: int) -> BlockText | None:
        """Return the innermost SELECT block around a place."""
        opened: list[int] = []
        for i, token in enumerate(self.tokens):
            if token.start > at:
                break
            if token.token_type == TokenType.L_PAREN:
                opened.append(i)
            elif token.token_type == TokenType.R_PAREN and opened:
                opened.pop()
        inside = [i + 1 for i in opened if self.tokens[i + 1 : i + 2] and self._is_query_start(i + 1)]
        return self._block(inside[-1] if inside else 0)

    def _is_query_start(self, i: int) -> bool:
        return self.tokens[i].token_type in (TokenType.SELECT, TokenType.WITH, TokenType.FROM)

    def _block(self, begin: int) -> BlockText | None:
        depth, select, from_, end = 0, None, None, None
        clauses: list[Token] = []
        kind: TokenType | None = None
        for token in self.tokens[begin:]:
            before, kind = kind, token.token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth < 0:
                break
            if depth == 0 and select is None and kind == TokenType.SELECT:
                select = token
            elif depth == 0 and select is not None and from_ is None and kind == TokenType.FROM:
                from_ = token
            elif depth == 0 and kind in _CLAUSES and before != TokenType.STAR:  # * EXCEPT (..)
                clauses.append(token)
            end = token.end + 1
        return BlockText(select, from_, tuple(clauses), end) if select is not None and end else None

    def with_options(self, options: str) -> tuple[int, str] | None:
        """Return the place for further options of the statement, and the text to add there.

        It is the statement's only options clause, or else the outermost SELECT.
        """
        words = [t.text.upper() for t in self.tokens if t.token_type != TokenType.STRING]
        alone = sum(map(words.count, _PRIVATE)) == 1
        depth = 0
        for i, token in enumerate(self.tokens):
            kind = token.token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            after = [t.text.upper() for t in self.tokens[i + 1 : i + 6]]
            clause = after[:1] == ["WITH"] and after[1:2] in ([word] for word in _PRIVATE)
            if kind != TokenType.SELECT or (alone and not clause) or (depth and not alone):
                continue
            if not clause:
                return token.end + 1, f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})"
            if after[2:4] != ["OPTIONS", "("]:
                return self.tokens[i + 2].end + 1, f" OPTIONS ({options})"
            more = "" if after[4:] == [")"] else ", "
            return self.tokens[i + 4].end + 1, options + more
        return None

    def options(self, at: int) -> str:
        """Return the text of the options clause that begins at a place."""
        i = next((i for i, token in enumerate(self.tokens) if token.start == at), len(self.tokens))
        words = [t.text.upper() for t in self.tokens[i + 2 : i + 4]]
        end = find_closing_parenthesis(self.tokens, i + 3) if words == ["OPTIONS", "("] else i + 1
        return self.text[at : self.tokens[end].end + 1] if 0 < end < len(self.tokens) else ""


def call_end(source: StatementText, start: int) -> int:
    """Return the position of the parenthesis that closes the call at `start`; -1 if there is none.

    >>> call_end(StatementText("SELECT COUNT(lower(x)) FROM t"), 7)
    21
    """
    end = Outline.of(source.text).call(start)
    return -1 if end is None else end


def refuse_unclear(source: StatementText, node: exp.Expr) -> QueryRefused | None:
    """Return the refusal of a call of another dialect that has several meanings; None for other calls."""
    from dpsql.language.unclear_calls import explain_unclear  # noqa: PLC0415  most calls are clear

    doubt = explain_unclear(node)
    if doubt is None:
        return None
    start = source.position(node)
    # Beside released numbers their columns have names of their own.
    hint = _RELEASED.sub(lambda match: match[1].replace('""', '"'), doubt.hint)
    written = hint if doubt.same else _RELEASED.sub(r"\1", doubt.written)
    end = call_end(source, start) + 1 if written else 0
    fix = Fix(written, start, end, guess=doubt.guess, provided=doubt.provided) if end > 0 else None
    return source.refuse(doubt.what, node, hint, fix)


def _find_respellings(text: str, tokens: Sequence[Token]) -> list[tuple[int, int, str]]:
    """Return what DuckDB reads otherwise, `&&` and `[name]`: where it stands, and how dpsql spells it."""
    found = []
    for i, token in enumerate(tokens):
        typeset = (
            token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) and not token.text.isascii()
        )
        if typeset and text[token.start] not in _CURLED:
            signs = [n for n in range(token.start, token.end + 1) if text[n] in _TYPESET]
            found += [(n, n + 1, _TYPESET[text[n]]) for n in signs]
        if text[token.start : token.end + 1] == "&&":
            found.append((token.start, token.end + 1, "AND"))
        elif text[token.start : token.start + 2] in ("=!", "=<") and not text.startswith("=!=", token.start):
            found.append((token.start, token.start + 2, text[token.start + 1] + "="))
        elif token.text.upper() in _IGNORED and token.token_type == TokenType.VAR:
            found.append((token.start, token.end + 1 + (text[token.end + 1 : token.end + 2] == " "), ""))
        elif token.text.upper() == "UNIQUE" and i and tokens[i - 1].text.upper() in ("SELECT", "("):
            found.append((token.start, token.end + 1, "DISTINCT"))
        elif text[token.start] in _CURLED and (closed := _CURLED_TEXT.match(text, token.start)):
            found.append((token.start, closed.end(), f"'{closed[1]}'"))
        elif token.text.upper() == "IN" and (end := _end_of_list(tokens, i + 1)) is not None:
            found.append((tokens[i + 1].start, end, f"({text[tokens[i + 1].start : end]})"))
        elif token.token_type == TokenType.USING and _joins(tokens, i):
            found.append((tokens[i + 1].start, tokens[i + 1].end + 1, f"({tokens[i + 1].text})"))
        elif token.token_type == TokenType.L_BRACKET and _is_quoting(tokens, i):
            found.append((token.start, tokens[i + 2].end + 1, f'"{tokens[i + 1].text}"'))
    excel = re.finditer(
        r"(?i)\b(STDEV|VAR|PERCENTILE|QUARTILE|MODE|COVARIANCE)\.(S|P|INC|EXC|SNGL)(?=\()", text
    )
    found += [(*m.span(), _SPREADSHEET[m[1].upper()].format(_SAMPLE.get(m[2].upper(), ""))) for m in excel]
    return sorted(found)


def _joins(tokens: Sequence[Token], i: int) -> bool:
    """Return whether the USING of a join names a column without parentheses."""
    joined = any(token.token_type == TokenType.JOIN for token in tokens[max(i - 3, 0) : i])
    return joined and i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.VAR


_SPREADSHEET = {"STDEV": "STDDEV_{}", "VAR": "VAR_{}", "PERCENTILE": "PERCENTILE", "QUARTILE": "QUARTILE"}
_SPREADSHEET |= {"MODE": "MODE", "COVARIANCE": "COVAR_{}"}
_SAMPLE = {"S": "SAMP", "P": "POP"}
"""Functions of spreadsheets with a dot in their names."""
_IGNORED = ("SQL_CALC_FOUND_ROWS", "SQL_NO_CACHE", "SQL_SMALL_RESULT", "SQL_BIG_RESULT", "HIGH_PRIORITY")
"""Words that tell MySQL how to run a statement."""
_TYPESET = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\uff0d", "-")
_TYPESET |= dict.fromkeys("\u00a0\u2007\u202f\u3000\u200b\ufeff", " ")
_TYPESET |= {"\u2264": "<=", "\u2265": ">=", "\u2260": "<>", "\u00d7": "*", "\u00f7": "/", "\u2217": "*"}
_TYPESET |= {"\u20ac": "", "\u00a3": "", "\u00a5": ""}
_TYPESET |= {
    "\uff0c": ",",
    "\uff08": "(",
    "\uff09": ")",
    "\uff1b": ";",
    "\uff1d": "=",
    "\uff1e": ">",
    "\uff1c": "<",
}
"""Signs that word processors and other keyboards write, and what SQL has for them."""
_CURLED = "\u2018\u201c"
_CURLED_TEXT = lazy_pattern("[\u2018\u201c]([^'\u2018-\u201d]*)[\u2019\u201d]")
"""A text in the quotes that word processors write."""


def _end_of_list(tokens: Sequence[Token], i: int) -> int | None:
    """Return where the texts or numbers end that a list without parentheses has; None if there is none."""
    end, values = None, (TokenType.STRING, TokenType.NUMBER)
    while i < len(tokens) and tokens[i].token_type in values and tokens[i].text[-1:] != ".":
        end = tokens[i].end + 1
        if i + 1 >= len(tokens) or tokens[i + 1].token_type != TokenType.COMMA:
            break
        i += 2
    return end


def _is_quoting(tokens: Sequence[Token], i: int) -> bool:
    """Return whether a bracket quotes one name where an expression begins, or behind TOP and its number."""
    near = tokens[max(i - 1, 0) : i + 3]
    if len(near) < 4 or near[3].token_type != TokenType.R_BRACKET:
        return False
    before, name = near[0], near[2]
    if i > 1 and tokens[i - 2].text.upper() == "TOP" and before.token_type == TokenType.NUMBER:
        return name.text.isidentifier()
    return (
        before.token_type not in _OPERANDS and name.token_type == TokenType.VAR and name.text.isidentifier()
    )
