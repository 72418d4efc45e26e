"""Leave out the part of a statement that nothing else helps: an item, key, join, condition or clause."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.language import BlockText, Outline
from dpsql.lazy_pattern import lazy_pattern

_AGGREGATE = lazy_pattern(r"(?i)\b(?:COUNT|SUM|AVG|MEDIAN|MIN|MAX|STDDEV\w*|VAR\w*|COUNT_?IF)\s*(?=\()")
_JOINS = frozenset(
    """
    NATURAL LEFT RIGHT FULL INNER CROSS OUTER SEMI ANTI ASOF POSITIONAL GLOBAL ARRAY JOIN STRAIGHT_JOIN APPLY
    LATERAL PIVOT UNPIVOT MATCH_RECOGNIZE TABLESAMPLE SAMPLE FOR CONNECT START PREWHERE
    """.split()  # noqa: SIM905  a table of words
)
"""Words that begin a further part of FROM, in this dialect or in another one."""
_CONDITIONS = (TokenType.WHERE, TokenType.HAVING, TokenType.QUALIFY)


def leave_out(text: str, at: int) -> Iterator[Fix]:
    """Yield the changes that leave out a part around a place, and say so; that of the innermost SELECT first.

    >>> next(leave_out("SELECT a, f(b) FROM t WHERE c = 1 AND g(d) GROUP BY a", 10)).asks
    'how many rows there are, not `f(b)`'
    >>> next(leave_out("SELECT a, COUNT(*) FROM t WHERE c = 1 AND g(d) GROUP BY a", 42)).asks
    'it without `g(d)`'
    >>> [fix.asks for fix in leave_out("SELECT COUNT(*) FROM t WHERE b IN (SELECT g(b) FROM t)", 43)]
    ['it without `b IN (SELECT g(b) FROM t)`']
    """
    outline = Outline.of(text)
    block, outermost = outline.block(at), outline.block(0)
    while block is not None and block.from_ is not None and at > block.select.start:
        fix = _leave_part_out(outline, block, at, counts=block == outermost)
        if fix is not None:
            yield fix
        place = outline.parentheses(block)
        if place is None:
            return
        at = place[0]
        block = outline.block(at - 1)  # around it


def _leave_part_out(outline: Outline, block: BlockText, at: int, *, counts: bool) -> Fix | None:
    """Leave out the part of a block around a place; count rows in the place of its only number if asked."""
    assert block.from_ is not None  # noqa: S101  the caller has looked
    clause = next((c for c in reversed(block.clauses) if c.start <= at), None)
    items, keys = _list_items(outline, block), _list_keys(outline, block)
    if at < block.from_.start:
        i = next((i for i, (start, end) in enumerate(items) if start <= at < end), None)
        return None if i is None else _leave_item_out(outline, block, i, counts=counts)
    if clause is None:
        return _leave_join_out(outline, block, at)
    start, stop = clause.start, block.stop(clause)
    if clause.token_type in _CONDITIONS and at > clause.end:
        return _leave_condition_out(outline, clause.end + 1, (start, stop), at)
    if clause.token_type == TokenType.GROUP_BY:
        key = next((n for n, (begin, end) in enumerate(keys) if begin <= at < end), None)
        if key is None:
            return None
        listed = _match_keys(outline, items, keys)
        if key in listed:
            return _leave_item_out(outline, block, listed.index(key), counts=counts)
        place = (start, stop) if len(keys) == 1 else _with_comma(keys, key)
        return Fix("", *place, asks=_tell(outline, *keys[key]))
    terms = outline.items(clause.end + 1, stop) if clause.token_type == TokenType.ORDER_BY else []
    term = next((n for n, (begin, end) in enumerate(terms) if begin <= at < end), None)
    if term is not None and len(terms) > 1:
        return Fix("", *_with_comma(terms, term), asks=f"{_tell(outline, *terms[term])} in the order")
    return Fix("", start, stop, asks=_tell(outline, start, stop))


def _tell(outline: Outline, start: int, stop: int) -> str:
    """Return what is asked without a part, in one line."""
    return f"it without `{' '.join(outline.text[start:stop].strip(' ,').split())}`"


def _list_items(outline: Outline, block: BlockText) -> list[tuple[int, int]]:
    """Return where the items of a select list stand."""
    first = outline.tokens.index(block.select) + 1
    private = [t.text.upper() for t in outline.tokens[first : first + 2]] == ["WITH", "DIFFERENTIAL_PRIVACY"]
    begin = outline.tokens[first].start if private else block.select.end + 1
    begin += len(outline.options(begin)) if private else 0
    return outline.items(begin, block.from_.start if block.from_ is not None else block.end)


def _list_keys(outline: Outline, block: BlockText) -> list[tuple[int, int]]:
    """Return where the keys of GROUP BY stand."""
    group = block.clause(TokenType.GROUP_BY)
    return [] if group is None else outline.items(group.end + 1, block.stop(group))


def _split_name(item: str) -> tuple[str, str]:
    """Return an item without its name, and the name.

    >>> [_split_name(item) for item in ("f(a) AS b", "f(a) b", "c", "f(a) END")]
    [('f(a)', 'b'), ('f(a)', 'b'), ('c', ''), ('f(a) END', '')]
    """
    named = re.fullmatch(r"(?is)(.*?)(?:\s+AS\s+|(?<=[)\]])\s+(?!END\Z))(\w+)", item)
    return (item, "") if named is None else (named[1], named[2])


def _match_keys(outline: Outline, items: list[tuple[int, int]], keys: list[tuple[int, int]]) -> list[int]:
    """Return for each item which key of GROUP BY it is; -1 for a number."""
    listed, found = [outline.text[a:b].lower() for a, b in keys], list[int]()
    for j, (start, end) in enumerate(items, 1):
        bare, name = _split_name(outline.text[start:end].lower())
        alike = {bare, str(j)} | ({name} if name else set())
        found.append(next((n for n, key in enumerate(listed) if key in alike), -1))
    return found


def _leave_item_out(outline: Outline, block: BlockText, i: int, *, counts: bool) -> Fix | None:
    """Leave an item of the list out, and the key of GROUP BY that it is; count rows for the only number."""
    text, items, keys = outline.text, _list_items(outline, block), _list_keys(outline, block)
    (start, end), places = items[i], _match_keys(outline, items, keys)
    numbers = [n for n, (a, b) in enumerate(items) if "(" in text[a:b] and n != i and places[n] < 0]
    bare, name = _split_name(text[start:end])
    if counts and places[i] < 0 and not numbers:  # it is the only number
        inner = next((m.start() for m in _AGGREGATE.finditer(bare) if m.start() > 0), None)
        close = None if inner is None else outline.call(start + inner)
        said = " ".join(bare.split())
        if close is not None and inner is not None and close < end:
            kept = text[start + inner : close + 1]
            written = f"{kept}{f' AS {name}' if name else ''}"
            return Fix(written, start, end, asks=f"`{' '.join(kept.split())}` alone, not `{said}`")
        return Fix("COUNT(*)", start, end, asks=f"how many rows there are, not `{said}`")
    if len(items) == 1:
        return None
    also = list[Fix]()
    group, order = block.clause(TokenType.GROUP_BY), block.clause(TokenType.ORDER_BY)
    if places[i] >= 0 and group is not None:
        place = (group.start, block.stop(group)) if len(keys) == 1 else _with_comma(keys, places[i])
        also.append(Fix("", *place))
    terms = [] if order is None else outline.items(order.end + 1, block.stop(order))
    words = [text[a:b].split()[0].lower() for a, b in terms]
    if order is not None and {name.lower() or bare.lower(), bare.lower(), str(i + 1)} & {*words}:
        also.append(Fix("", order.start, block.stop(order)))
        terms = []
    for a, b in (*keys, *terms):  # what is counted by its place
        place_ = re.match(r"\d+", text[a:b])
        if place_ is not None and int(place_[0]) > i + 1:
            also.append(Fix(str(int(place_[0]) - 1), a, a + place_.end()))
    return Fix("", *_with_comma(items, i), also=tuple(also), asks=_tell(outline, start, start + len(bare)))


def _with_comma(items: list[tuple[int, int]], i: int) -> tuple[int, int]:
    """Return where an item of several stands, with the comma beside it."""
    return (items[i - 1][1], items[i][1]) if i else (items[0][0], items[1][0])


def _leave_join_out(outline: Outline, block: BlockText, at: int) -> Fix | None:
    """Leave one of the joined relations out, or what follows one; None for the first relation."""
    assert block.from_ is not None  # noqa: S101  as above
    stop = block.clauses[0].start if block.clauses else block.end
    starts, depth, before = list[int](), 0, ""
    for token in outline.tokens:
        if not block.from_.end < token.start < stop:
            continue
        word = token.text.upper().split()[0] if token.token_type != TokenType.STRING else ""
        if not depth and (token.token_type == TokenType.COMMA or _begins(word, before)):
            starts.append(token.start)
        depth += _deepen(token)
        before = word
    part = next(((a, b) for a, b in pairwise((*starts, stop)) if a <= at < b), None)
    if part is None:
        return None
    start, end = (len(outline.text[:place].rstrip()) for place in part)
    return Fix("", start, end, asks=_tell(outline, start, end))


def _begins(word: str, before: str) -> bool:
    """Return whether a word begins a further part of FROM, behind another word."""
    return word in _JOINS and before not in _JOINS and before not in ("", ",")


def _deepen(token: Token) -> int:
    return (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)


def _leave_condition_out(outline: Outline, begin: int, clause: tuple[int, int], at: int) -> Fix:
    """Leave one of the conditions out that AND joins; the clause with the only one, or with OR."""
    depth, between, either, signs = 0, False, False, list[tuple[int, int]]()
    for token in outline.tokens:
        if not begin <= token.start < clause[1]:
            continue
        depth += _deepen(token)
        between = between or token.token_type == TokenType.BETWEEN
        either = either or (depth == 0 and token.token_type == TokenType.OR)
        if depth == 0 and token.token_type == TokenType.AND:
            signs += [] if between else [(token.start, token.end + 1)]
            between = False
    ends = [(begin, begin), *signs, (clause[1], clause[1])]
    i = next(i for i, (_, end) in enumerate(ends[1:]) if at < end)
    start, stop = ends[i][1], ends[i + 1][0]
    if not signs or either:
        return Fix("", *clause, asks=_tell(outline, *(clause if either else (start, stop))))
    asks = _tell(outline, start, stop)
    return Fix("", ends[i][0], stop, asks=asks) if i else Fix(" ", start, ends[i + 1][1], asks=asks)
