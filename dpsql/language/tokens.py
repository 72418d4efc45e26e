"""Split scripts into statements and statements into tokens; check size limits; mark function calls.

The tokenizer takes the dollar of `$1,` as the begin of a quoted text like `$tag$ .. $tag$`, up to the next
dollar, unless spaces or the end stand between them. So it is given `$1 ,` instead, and the places of the
tokens are those in the text as it was written.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from sqlglot.dialects import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.language.duckdb_dialect import DuckDBText
from dpsql.language.statement import StatementText
from dpsql.language.syntax_trees import MARK
from dpsql.lazy_pattern import lazy_pattern

OPAQUE = (
    r"""(?<!\w)[eE]'(?:\\.|[^'\\])*'?|'[^']*'?|"[^"]*"?|--[^\n]*"""
    r"""|\$(?P<tag>[^\W\d]\w*|)\$.*?(?:\$(?P=tag)\$|\Z)|/\*"""
)
"""A quoted text, a line of comment, or the begin of a comment, as a pattern for `re.DOTALL`."""
_COMMENT = lazy_pattern(r"/\*|\*/")
_NUMBERED = lazy_pattern(rf"{OPAQUE}|\$[0-9]+(?=[^\s0-9])", re.DOTALL)


def split_tokens(text: str, dialect: type[Dialect] = DuckDBText) -> list[Token]:
    """Return the tokens of a text; raises `TokenError` if a quote is not closed.

    >>> [token.text for token in split_tokens("($1,$2)")]
    ['(', '$', '1', ',', '$', '2', ')']
    """
    if text.count("$") < 2:
        return list(dialect().tokenize(text))
    ends = _find_ends(text)
    parts = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    tokens: list[Token] = list(dialect().tokenize(" ".join(parts)))
    added = [end + number for number, end in enumerate(ends)]
    before = [(bisect_left(added, token.start), bisect_left(added, token.end)) for token in tokens]
    if any(start != end for start, end in before):  # a space would be in a text that is quoted otherwise
        return list(dialect().tokenize(text))
    return [_move(token, count) for token, (count, _) in zip(tokens, before, strict=True)]


def _find_ends(text: str) -> list[int]:
    """Return the indices behind the parameters that something other than a space follows."""
    found: list[int] = []
    i = 0
    while match := _NUMBERED.search(text, i):
        i = match.end()
        if match[0] == "/*":
            i = find_comment_end(text, i)
        elif match[0][0] == "$" and match[0][1:].isdecimal():
            found.append(i)
    return found


def _move(token: Token, back: int) -> Token:
    if not back:
        return token
    start, end = token.start - back, token.end - back
    return Token(token.token_type, token.text, token.line, token.col, start, end, token.comments)


def find_comment_end(text: str, i: int) -> int:
    """Return the end of the comment that was opened before `i`; comments may be nested."""
    depth = 1
    while depth:
        match = _COMMENT.search(text, i)
        if match is None:
            return len(text)
        depth += 1 if match[0] == "/*" else -1
        i = match.end()
    return i


MAX_TEXT = 100_000
MAX_TOKENS = 20_000
MAX_DEPTH = 64
MAX_DIGITS = 400

_SYNTAX = frozenset(
    {"cast", "try_cast", "extract", "exists", "values", "unnest", "filter", "over", "within", "top"}
)
_KEYWORD_FUNCTIONS = frozenset(
    {"left", "right", "replace", "first", "last", "list", "format", "range", "glob", "if", "truncate", "xor"}
    | {"date", "timestamp", "datetime", "isnull"}
)
_SPELLED = frozenset({"position", "substring", "trim", "overlay"})
_STAR_MODIFIERS = frozenset({"replace", "exclude", "except", "rename"})


_OPAQUE = lazy_pattern(f"{OPAQUE}|;", re.DOTALL)
_COMMENTS = ("--", "/*", "{#")
"""How comments begin; the tokenizer knows those of Jinja, too."""
_SURROGATE = lazy_pattern("[\ud800-\udfff]")


class Cursor:
    """A place in a list of tokens; nothing is found beyond its end. `i` is the index of the current token."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.i = 0

    def kind(self, ahead: int = 0) -> TokenType | None:
        """Return the type of a token; None beyond the end."""
        return self.tokens[self.i + ahead].token_type if self.i + ahead < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        """Return a token's text in upper case; empty for a quoted text and beyond the end."""
        return (
            "" if self.kind(ahead) in (None, TokenType.STRING) else self.tokens[self.i + ahead].text.upper()
        )

    def take(self, *kinds: TokenType) -> bool:
        """Move behind the current token if it is one of these; return whether it was."""
        found = self.kind() in kinds
        self.i += found
        return found

    def text(self) -> str:
        """Move behind the current token and return its text."""
        self.i += 1
        return self.tokens[self.i - 1].text


def tokenize(source: StatementText) -> list[Token]:
    """Split a statement into tokens; refuse a statement that is too long or too deeply nested."""
    if len(source.text) > MAX_TEXT:
        raise source.refuse(f"the statement is longer than {MAX_TEXT:,} characters")
    if "\x00" in source.text:
        raise source.syntax("the statement has a NUL character", source.text.index("\x00"))
    stray = None if source.text.isascii() else _SURROGATE.search(source.text)
    if stray is not None:
        raise source.syntax("the statement has an invalid Unicode character", stray.start())
    try:
        tokens = split_tokens(source.text)
    except TokenError:
        raise source.syntax(
            "a quoted text, name or comment is not closed", _find_last_quote(source.text)
        ) from None
    if len(tokens) > MAX_TOKENS:
        raise source.refuse(f"the statement has more than {MAX_TOKENS:,} tokens")
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > MAX_DIGITS:
            raise source.refuse(f"a number has more than {MAX_DIGITS} characters", token.start)
    for before, token in pairwise(tokens):
        if before.token_type == token.token_type == TokenType.COMMA:
            dropped = Fix("", token.start, token.end + 1)
            raise source.syntax(
                "an item is missing between two commas", token.start, "leave one `,` out", dropped
            )
    depth = 0
    for token in tokens:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
            if depth > MAX_DEPTH:
                raise source.refuse(f"parentheses are nested more than {MAX_DEPTH} deep", token.start)
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
    return tokens


def _find_last_quote(text: str) -> int:
    return max(text.rfind("'"), text.rfind('"'), text.rfind("/*"), text.rfind("$$"), 0)


def split_script(script: str) -> list[str]:
    r"""Split a script into its statements, without semicolons; empty statements are left out.

    >>> split_script("SELECT ';'; -- done;\nSELECT 2;")
    ["SELECT ';'", '-- done;\nSELECT 2']
    """
    return [text for _, text in split_script_with_places(script)]


def split_script_with_places(script: str) -> list[tuple[int, str]]:
    """Split a script into its statements; each comes with the index of its first character.

    >>> split_script_with_places("SELECT 1; SELECT 2;")
    [(0, 'SELECT 1'), (10, 'SELECT 2')]
    """
    parts: list[tuple[int, str]] = []
    begin = 0
    for end in [*_find_semicolons(script), len(script)]:
        part = script[begin:end]
        text = part.strip()
        if text and _has_code(text):
            parts.append((begin + len(part) - len(part.lstrip()), text))
        begin = end + 1
    return parts


def _find_semicolons(script: str) -> list[int]:
    """Return the positions of the semicolons outside quotes and comments.

    The tokenizer cannot be used, because it does not split the text after EXPLAIN.
    """
    found: list[int] = []
    i = 0
    while match := _OPAQUE.search(script, i):
        i = match.end()
        if match[0] == ";":
            found.append(match.start())
        elif match[0] == "/*":
            i = find_comment_end(script, i)
    return found


def _has_code(part: str) -> bool:
    """Whether a text holds more than comments."""
    if not part.startswith(_COMMENTS):
        return True
    try:
        return bool(split_tokens(part))
    except TokenError:
        return True


def find_closing_parenthesis(tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at `opening`; -1 if there is none."""
    depth = 0
    for i in range(opening, len(tokens)):
        if tokens[i].token_type == TokenType.L_PAREN:
            depth += 1
        elif tokens[i].token_type == TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return i
    return -1


def has_kinds(tokens: Iterable[Token], *kinds: TokenType) -> bool:
    """Return whether some tokens are of one of some types: most statements have none of the rare ones."""
    return not {token.token_type for token in tokens}.isdisjoint(kinds)


def move_named_first(tokens: Sequence[Token]) -> list[Token]:
    """Move a named argument behind DISTINCT to the front of its call, where the parser reads it.

    >>> text = "COUNT(DISTINCT x, contribution_bounds_per_group => (0, 5))"
    >>> " ".join(t.text for t in move_named_first(tokenize(StatementText(text))))
    'COUNT ( contribution_bounds_per_group => ( 0 , 5 ) , DISTINCT x )'
    """
    found = list(tokens)
    if not has_kinds(tokens, TokenType.FARROW):
        return found
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.L_PAREN:
            opened.append(i)
        elif token.token_type == TokenType.R_PAREN and opened:
            opened.pop()
        elif token.token_type == TokenType.FARROW and opened and i + 1 < len(tokens):
            first, end = opened[-1] + 1, find_closing_parenthesis(tokens, opened[-1])
            distinct = tokens[first].token_type == TokenType.DISTINCT
            if distinct and end > i and tokens[i - 2].token_type == TokenType.COMMA and first < i - 2:
                found[first:end] = [*tokens[i - 1 : end], tokens[i - 2], *tokens[first : i - 2]]
    return found


def mark_functions(tokens: Sequence[Token]) -> list[Token]:
    """Put `MARK` before the name of every function call (not before aliases or CTE names with columns).

    >>> source = StatementText("WITH v(a) AS (SELECT lower(x)) FROM v")
    >>> [t.text for t in mark_functions(tokenize(source))][8:10]
    ['dpsql_fn_lower', '(']
    """
    return [
        _rename_token(token, MARK + token.text) if _is_call(tokens, i) else token
        for i, token in enumerate(tokens)
    ]


def quote_aliases(tokens: Sequence[Token]) -> list[Token]:
    """Put quotes around words that call a function without parentheses, where a column is named so.

    The engine takes such a word as the column. A text behind a call is a name, as MySQL and SQLite have it.

    >>> source = StatementText("SELECT current_date, current_date() FROM (SELECT a AS current_date FROM t)")
    >>> [t.token_type.name for t in quote_aliases(tokenize(source)) if t.text == "current_date"]
    ['IDENTIFIER', 'CURRENT_DATE', 'IDENTIFIER']
    """
    named = {
        token.text.upper()
        for before, token in pairwise(tokens)
        if token.token_type in _BARE_CALLS and before.token_type in _BEFORE_ALIAS
    }
    texts = set(_find_named_items(tokens)) if has_kinds(tokens, TokenType.STRING) else set()
    if not named and not texts:
        return list(tokens)
    return [
        Token(TokenType.IDENTIFIER, token.text, token.line, token.col, token.start, token.end)
        if i in texts
        or (
            token.token_type in _BARE_CALLS
            and token.text.upper() in named
            and (after is None or after.token_type != TokenType.L_PAREN)
        )
        else token
        for i, (token, after) in enumerate(zip(tokens, [*tokens, None][1:], strict=True))
    ]


def _find_named_items(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the places of texts between a call (no type), or END, and a comma or FROM."""
    opened, called = list[int](), ""
    for i, token in enumerate(tokens[:-1]):
        ends = tokens[i + 1].token_type in (TokenType.COMMA, TokenType.FROM)
        if token.token_type == TokenType.L_PAREN:
            opened.append(i)
        elif token.token_type == TokenType.R_PAREN and opened:
            called = tokens[max(opened.pop() - 1, 0)].text.upper()
        elif token.token_type == TokenType.STRING and ends and i:
            before = tokens[i - 1]
            if before.token_type == TokenType.END or (before.text == ")" and called not in _SIZED):
                yield i


_SIZED = frozenset({"DECIMAL", "DEC", "NUMERIC", "VARCHAR", "CHAR", "BPCHAR", "TEXT", "STRING", "TIMESTAMP"})
_SIZED |= {"OPTIONS", "ON", "TOP"}
"""Types that may have a size behind them, and what stands in parentheses before the first item."""


_CURRENT = ("DATE", "DATETIME", "TIME", "TIMESTAMP", "USER", "ROLE", "CATALOG")
_BARE_CALLS = frozenset(TokenType[f"CURRENT_{word}"] for word in _CURRENT)
_BARE_CALLS |= {TokenType.SESSION_USER, TokenType.LOCALTIME, TokenType.LOCALTIMESTAMP}
_BEFORE_ALIAS = frozenset(
    TokenType[name] for name in ("ALIAS", "R_PAREN", "VAR", "IDENTIFIER", "NUMBER", "STRING", "END")
)


def _rename_token(token: Token, text: str) -> Token:
    return Token(TokenType.VAR, text, token.line, token.col, token.start, token.end)


def _has_keywords(tokens: Sequence[Token], opening: int) -> bool:
    """Return whether a call has keywords among its arguments: SUBSTRING(x FROM 2), POSITION(a IN b)."""
    depth = 0
    for token in tokens[opening : find_closing_parenthesis(tokens, opening)]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 1 and token.text.upper() in ("FROM", "IN", "PLACING", "BOTH", "LEADING", "TRAILING"):
            return token.token_type != TokenType.STRING
    return False


def _is_call(tokens: Sequence[Token], i: int) -> bool:
    if i + 1 >= len(tokens) or tokens[i + 1].token_type != TokenType.L_PAREN:
        return False
    token = tokens[i]
    name = token.text.lower()
    if token.token_type != TokenType.VAR and not (
        name in _KEYWORD_FUNCTIONS and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
    ):
        return False
    if name in _SYNTAX:
        return False
    if name in _SPELLED and _has_keywords(tokens, i + 1):
        return False
    before = tokens[i - 1] if i else None
    if before is not None:
        if before.token_type in (
            TokenType.ALIAS,
            TokenType.IDENTIFIER,
            TokenType.R_PAREN,
            TokenType.DOT,
            TokenType.DCOLON,
        ):
            return False
        if before.token_type == TokenType.VAR and before.text.upper() not in ("BY", "ARGMAX"):
            return False
        if before.token_type == TokenType.STAR and name in _STAR_MODIFIERS:
            return False
    end = find_closing_parenthesis(tokens, i + 1)
    after = [t.token_type for t in tokens[end + 1 : end + 3]] if end > 0 else []
    return after != [TokenType.ALIAS, TokenType.L_PAREN]


_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_CONDITION = {
    "=",
    "<>",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "IS",
    "AND",
    "OR",
    "NOT",
    "LIKE",
    "ILIKE",
    "IN",
    "BETWEEN",
}


def close_conditions(tokens: Sequence[Token]) -> list[Token]:
    """Put parentheses around the conditions among the keys of ROLLUP and CUBE: the parser wants them.

    >>> source = StatementText("SELECT 1 GROUP BY ROLLUP (a IS NULL, f(b), (c = 1))")
    >>> "".join(t.text for t in close_conditions(tokenize(source))[3:])
    'ROLLUP((aISNULL),f(b),(c=1))'
    """
    if not has_kinds(tokens, TokenType.ROLLUP, TokenType.CUBE):
        return list(tokens)
    out = list[Token]()
    i = 0
    while i < len(tokens):
        out.append(tokens[i])
        opened = tokens[i].token_type in (TokenType.ROLLUP, TokenType.CUBE) and i + 1 < len(tokens)
        end = find_closing_parenthesis(tokens, i + 1) if opened and tokens[i + 1].text == "(" else -1
        i += 1
        if end < 0:
            continue
        depth, part, compared = 0, list[Token](), False
        for token in tokens[i : end + 1]:
            shut = depth == 1 and (token.token_type == TokenType.COMMA or token is tokens[end])
            if shut and compared:
                first, last = part[0], part[-1]
                part.insert(0, Token(TokenType.L_PAREN, "(", first.line, first.col, first.start, first.start))
                part.append(Token(TokenType.R_PAREN, ")", last.line, last.col, last.end, last.end))
            if shut or not depth:
                out += [*part, token]
                part, compared = [], False
            else:
                part.append(token)
                compared |= (
                    depth == 1 and token.text.upper() in _CONDITION and token.token_type not in _QUOTED
                )
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        i = end + 1
    return out
