"""Name the items of a select list that have no alias by their text, as it was typed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.copying import all_of, walked
from dpsql.language.dollars import OPAQUE, after_comment
from dpsql.language.source import Source
from dpsql.language.tokens import MARK, closing

TITLE = "title"
"""Under this key the metadata of a node have its text."""

_ENDS = frozenset(
    {
        *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY),
        *(TokenType.WINDOW, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH),
        *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.SEMICOLON),
    }
)
"""Tokens that end a select list, where they stand outside of its parentheses."""
_OPENS = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSES = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_SEVERAL = (exp.Columns, exp.Explode, exp.Unnest)
"""What may be several columns."""
_GAP = re.compile(rf"{OPAQUE}|\s+", re.DOTALL)


def title(node: exp.Expr) -> str:
    """Return the name of a column without an alias: its text, or that of what was written in its place.

    >>> from dpsql.language import parse
    >>> [title(node) for node in parse("SELECT SUM( x ),  count(*) /2, a.b FROM t").tree.selects]
    ['SUM( x )', 'count(*) /2', 'b']
    """
    if isinstance(node, exp.Column):
        return str(node.name)
    text = node.meta_get(TITLE)
    if text is None:
        text = node.sql("duckdb", normalize_functions=False, comments=False).replace(MARK, "")
    return str(text)


def keep_title(old: exp.Expr, new: exp.Expr) -> exp.Expr:
    """Give a node the title of that in whose place it stands; return it."""
    text = old.meta_get(TITLE)
    if text is not None:
        new.meta[TITLE] = text
    return new


def name_columns(tree: exp.Expr) -> None:
    """Name the columns of a query that have no alias by their text; the tree is changed.

    Otherwise they have the text of what is run, in which functions and thresholds are spelled in other ways.
    """
    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        if tree.args.get("order") is not None:  # its terms may be such names
            return
        tree = tree.this
    if isinstance(tree, exp.Select):
        tree.set("expressions", [_set_title(node) for node in tree.expressions])


def _set_title(node: exp.Expr) -> exp.Expr:
    if _is_named(node) or any(isinstance(each, _SEVERAL) for each in walked(node)):
        return node
    return exp.alias_(node, title(node), quoted=True, copy=False)


def write_titles(source: Source, tokens: Sequence[Token], tree: exp.Expr) -> None:
    """Write the text of each item of a select list into its node; `tokens` are those of the tree."""
    selects = {select.meta["select"]: select for select in all_of(tree, exp.Select)}
    for i, token in enumerate(tokens):
        select = selects.get(token.start) if token.token_type == TokenType.SELECT else None
        if select is None or all(map(_is_named, select.expressions)):
            continue
        texts = [_plain(source.text[start:end]) for start, end in _items(tokens, i + 1, len(source.text))]
        if len(texts) != len(select.expressions):
            continue  # the parser reads the list in another way
        for node, text in zip(select.expressions, texts, strict=True):
            if not _is_named(node):
                node.meta[TITLE] = text


def _is_named(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Alias, exp.Column, exp.Star))


def _items(tokens: Sequence[Token], i: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each item of a select list, whose tokens start at an index."""
    if i < len(tokens) and tokens[i].token_type in (TokenType.DISTINCT, TokenType.ALL):
        i += 1
        if i < len(tokens) and tokens[i].token_type == TokenType.ON:
            i = max(closing(tokens, i + 1), i) + 1
    start, depth = -1, 0
    while i < len(tokens):
        kind, token = tokens[i].token_type, tokens[i]
        if start < 0:
            start = token.start
        depth += (kind in _OPENS) - (kind in _CLOSES)
        if depth < 0 or (not depth and kind in _ENDS and not _inside(tokens, i)):
            yield start, token.start
            return
        if not depth and kind == TokenType.COMMA:
            yield start, token.start
            start = -1
        i += 1
    if start >= 0:
        yield start, end


def _inside(tokens: Sequence[Token], i: int) -> bool:
    """Return whether a word that may end a list belongs to an item: IS DISTINCT FROM, * EXCEPT (x)."""
    before = tokens[i - 1].token_type
    kind = tokens[i].token_type
    return (kind == TokenType.FROM and before == TokenType.DISTINCT) or (
        kind == TokenType.EXCEPT and before == TokenType.STAR
    )


def _plain(text: str) -> str:
    """Return a text without comments, with one blank for the blanks and line ends between its words."""
    parts: list[str] = []
    at = 0

    def add(part: str) -> None:
        if part and not (part == " " and parts and parts[-1] == " "):
            parts.append(part)

    while match := _GAP.search(text, at):
        add(text[at : match.start()])
        at = match.end()
        if match[0] == "/*":
            at = after_comment(text, at)
        add(" " if match[0].isspace() or match[0].startswith(("--", "/*")) else match[0])
    add(text[at:])
    return "".join(parts).strip().rstrip("; ")
