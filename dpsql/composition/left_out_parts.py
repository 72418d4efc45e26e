"""Leave out the part of a statement that nothing else helps: an item, a condition, or a clause."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import TokenType

from dpsql.errors import Fix
from dpsql.language import BlockText, Outline


def leave_out(text: str, at: int) -> Fix | None:
    """Return the change that leaves out the part around a place, and says so; None where it has none.

    >>> leave_out("SELECT a, f(b) FROM t WHERE c = 1 AND g(d) GROUP BY a", 10).asks
    'how many rows there are, not `f(b)`'
    >>> leave_out("SELECT a, COUNT(*) FROM t WHERE c = 1 AND g(d) GROUP BY a", 42).asks
    'it without `g(d)`'
    """
    outline = Outline.of(text)
    block = outline.block(at)
    if block is None or block.from_ is None:
        return None
    if at < block.from_.start:  # what others read of a subquery is not known here
        return _leave_item_out(outline, block, at) if block == outline.block(0) else None
    for clause in block.clauses:
        start, stop = clause.start, block.stop(clause)
        if not clause.end < at < stop or clause.token_type == TokenType.GROUP_BY:
            continue
        if clause.token_type in (TokenType.WHERE, TokenType.HAVING, TokenType.QUALIFY):
            return _leave_condition_out(outline, clause.end + 1, (start, stop), at)
        return Fix("", start, stop, asks=f"it without `{text[start:stop].strip()}`")
    return None


def _leave_item_out(outline: Outline, block: BlockText, at: int) -> Fix | None:
    """Leave an item of the list out, and the key of GROUP BY that it is; count rows for the only number."""
    text, first = outline.text, outline.tokens.index(block.select) + 1
    private = [t.text.upper() for t in outline.tokens[first : first + 2]] == ["WITH", "DIFFERENTIAL_PRIVACY"]
    begin = outline.tokens[first].start if private else block.select.end + 1
    begin += len(outline.options(begin)) if private else 0
    items = outline.items(begin, block.from_.start if block.from_ is not None else block.end)
    i = next((i for i, (start, end) in enumerate(items) if start <= at < end), None)
    if i is None:
        return None
    (start, end), texts = items[i], [text[a:b] for a, b in items]
    named = [re.sub(r"(?i)\s+AS\s+(?=\w+\Z)", "\0", each).partition("\0") for each in texts]
    group = block.clause(TokenType.GROUP_BY)
    keys = [] if group is None else outline.items(group.end + 1, block.stop(group))
    listed = [text[a:b].lower() for a, b in keys]
    places = [
        next(
            (n for n, key in enumerate(listed) if key in (one[0].lower(), one[2].lower() or None, str(j))), -1
        )
        for j, one in enumerate(named, 1)
    ]
    numbers = [n for n, each in enumerate(texts) if "(" in each and n != i and places[n] < 0]
    bare, _, name = named[i]
    if places[i] < 0 and not numbers:  # it is the only number
        written = f"COUNT(*){f' AS {name}' if name else ''}"
        return Fix(written, start, end, asks=f"how many rows there are, not `{bare}`")
    if len(items) == 1:
        return None
    also = tuple[Fix, ...]()
    if places[i] >= 0 and group is not None:
        place = (group.start, block.stop(group)) if len(keys) == 1 else _with_comma(keys, places[i])
        also = (Fix("", *place),)
    return Fix("", *_with_comma(items, i), also=also, asks=f"it without `{bare}`")


def _with_comma(items: list[tuple[int, int]], i: int) -> tuple[int, int]:
    """Return where an item of several stands, with the comma beside it."""
    return (items[i - 1][1], items[i][1]) if i else (items[0][0], items[1][0])


def _leave_condition_out(outline: Outline, begin: int, clause: tuple[int, int], at: int) -> Fix | None:
    """Leave one of the conditions out that AND joins; WHERE with the only one."""
    depth, between, signs = 0, False, list[tuple[int, int]]()
    for token in outline.tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if not begin <= token.start < clause[1]:
            depth = 0 if token.start < begin else depth
            continue
        between = between or token.token_type == TokenType.BETWEEN
        if depth == 0 and token.token_type == TokenType.OR:
            return None
        if depth == 0 and token.token_type == TokenType.AND:
            signs += [] if between else [(token.start, token.end + 1)]
            between = False
    ends = [(begin, begin), *signs, (clause[1], clause[1])]
    i = next(i for i, (_, end) in enumerate(ends[1:]) if at < end)
    start, stop = ends[i][1], ends[i + 1][0]
    asks = f"it without `{outline.text[start:stop].strip()}`"
    if not signs:
        return Fix("", *clause, asks=asks)
    return Fix("", ends[i][0], stop, asks=asks) if i else Fix(" ", start, ends[i + 1][1], asks=asks)
