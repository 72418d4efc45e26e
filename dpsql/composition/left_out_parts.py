"""Leave out the part of a statement that nothing else helps: an item, key, join, condition or clause."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix, Obstacle
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


_OTHER_TEXT = lazy_pattern(r"(?is)(?!.*\bSELECT\b)|\s*DECLARE\b")
"""Data frames, and scripts with types of variables: what is read of them has other words and numbers."""
_NAME = lazy_pattern(r'[\w."]+ [\w."]+')
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_VALUES = (TokenType.STRING, TokenType.NUMBER)
_OPPOSITE = lazy_pattern(r"(?i)(?:is_)?(?:in|un|non_?|not_|no_|dis)(\w{4,})\Z")
"""A name that says the opposite of the one in it."""
_ALIKE = 0.5
"""How alike two names are of which one is written for the other as a matter of course, from 0 to 1."""


def with_others(one: Obstacle, left: list[Fix], *, first: bool) -> Obstacle:
    """Return an obstacle with further changes, before its own ones or behind them."""
    changes = [(one.hint, one.fix), *one.others] if one.fix is not None else [*one.others]
    own = [fix for _, fix in changes]
    changes[0 if first else len(changes) :] = [(None, fix) for fix in left if fix not in own]
    return replace(one, fix=changes[0][1] if changes else None, others=tuple(changes[1:]))


def leave_out(text: str, at: int, *, unread: bool = False) -> Iterator[Fix]:
    """Yield the changes that leave out a part around a place, and say so; that of the innermost SELECT first.

    From a place that is `unread`, the rest of a clause is left out before all.

    >>> next(leave_out("SELECT a, f(b) FROM t WHERE c = 1 AND g(d) GROUP BY a", 10)).asks
    'how many rows there are, not `f(b)`'
    >>> next(leave_out("SELECT a, COUNT(*) FROM t WHERE c = 1 AND g(d) GROUP BY a", 42)).asks
    'it without `g(d)`'
    >>> [fix.asks for fix in leave_out("SELECT COUNT(*) FROM t WHERE b IN (SELECT g(b) FROM t)", 43)]
    ['it without `b IN (SELECT g(b) FROM t)`']
    """
    yield from _leave_end_out(text, at) if unread else ()
    outline = Outline.of(text)
    block, outermost = outline.block(at), outline.block(0)
    if unread and block is not None and any(clause.start == at for clause in block.clauses):
        at = max(
            (token.start for token in outline.tokens if token.start < at), default=at
        )  # what ends before it
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


def _leave_end_out(text: str, at: int) -> Iterator[Fix]:
    """Yield the change that leaves out the rest of a clause, from a word on that could not be read.

    >>> [fix.asks for fix in _leave_end_out("SELECT a FROM t GROUP BY a FOR JSON PATH ORDER BY a", 27)]
    ['it without `FOR JSON PATH`']
    """
    outline = Outline.of(text)
    block = outline.block(at)
    if block is None or block.from_ is None or at <= block.from_.end:
        return
    i = next((i for i, token in enumerate(outline.tokens) if token.start >= at), 0)
    before = outline.tokens[i - 1]
    at = before.start if before.token_type == TokenType.WITH or before.text.upper() in _JOINS else at
    stop = next((clause.start for clause in block.clauses if clause.start > at), block.end)
    stop = len(text) if text[at] == ";" else stop
    if not any(clause.start == at for clause in block.clauses):
        start = len(text[:at].rstrip())
        yield Fix("", start, len(text[:stop].rstrip()), asks=_tell(outline, start, stop))


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
        here = token.start == at and not starts and before  # what is no relation
        if not depth and (token.token_type == TokenType.COMMA or _begins(word, before) or here):
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


def tell_left_out(fix: Fix, text: str) -> Fix:
    """Return a change with what is asked after it, or guessed, if it does not say that itself.

    It is told that a value is taken away, and that a name is written for one that is not like it.
    """
    if fix.asks or fix.guess or fix.provided or fix.known or _OTHER_TEXT.match(text):
        return fix
    old, new = text[fix.start : fix.end], fix.text.strip()
    tokens = [Outline.of(each).tokens[-1:] for each in (old, new)] if _NAME.fullmatch(f"{old} {new}") else []
    if (
        tokens
        and text[fix.end : fix.end + 1] not in ("(", ".")
        and all(t[0].token_type in _NAMES for t in tokens)
    ) and not _is_alike(*(t[0].text.lower() for t in tokens)):
        return replace(fix, guess=f"{new} for {old}")
    if tokens and (found := _OPPOSITE.match(tokens[0][0].text)) and found[1].lower() in new.lower():
        return replace(fix, asks=f"{new}, not {old}")
    written = " ".join(each.text for each in (fix, *fix.also))
    parts = [text[each.start : each.end] for each in (fix, *fix.also)]
    kept, given = (
        [t for t in Outline.of(each).tokens if t.token_type in _VALUES] for each in (written, " ".join(parts))
    )
    grouped = [each for each in parts if each.strip().upper().startswith("GROUP BY")]
    if grouped and "GROUP BY" not in written.upper():
        return replace(fix, asks=f"it without `{grouped[0].strip()}`")
    if "SELECT" in written.upper() and "SELECT" in " ".join(parts).upper():
        return fix  # a whole query stands for another one, of which its rule says what it asks
    computed = len(kept) == 1 and re.fullmatch(r"[\d.\s/^*()e-]+", parts[0]) is not None  # 1/2
    kinds = _VALUES[1:] if kept else _VALUES  # a text may have become a number
    for taken in () if "NULL" in written or computed or len(kept) >= len(given) else parts:
        lost = [t.text for t in Outline.of(taken).tokens if t.token_type in kinds]
        lost = [v for v in lost if v.lower() not in written.lower() and written.lower() not in v.lower()]
        if lost and not taken.strip().upper().startswith("LIMIT"):
            return replace(fix, asks=f"it without `{' '.join(lost)}`")
    return fix


def _is_alike(old: str, new: str) -> bool:
    """Return whether a name is a part of another one, or has most of its letters."""
    return old in new or new in old or SequenceMatcher(None, old, new).ratio() >= _ALIKE
