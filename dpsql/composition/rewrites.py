"""Search a statement that is accepted, by the changes that the obstacles of a refused one propose.

Each obstacle proposes a change, and perhaps others in its place. First the first change of each is made, and
so on with the obstacles that this brings to light; then, as long as candidates are left, one change is
replaced by another one of its obstacle, then two. At last the text is read as other dialects read it. Every
candidate is prepared like any statement before it is offered: parsed, analysed and priced, with the policy
and public tables alone.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import NamedTuple

from dpsql.engines import Cancelled
from dpsql.errors import (
    Fix,
    Obstacle,
    OperationalError,
    ProgrammingError,
    QueryRefused,
    QuerySyntaxError,
)
from dpsql.language import Outline
from dpsql.language.repair import repairs
from dpsql.lazy_pattern import lazy_pattern

_ReadWords = Callable[[str], tuple[str, str] | None]
_Refusal = QueryRefused | QuerySyntaxError
_ROUNDS = 6
"""How many times obstacles are changed of what the changes before have brought to light."""
_CANDIDATES = 20
"""How many candidates are tried, beside those of other dialects."""
_DIALECTS = 4
"""How many readings of other dialects are tried."""
LONGEST = 10_000
"""The most characters of a statement for which a rewrite is searched."""
_REPAIRS = 8
"""How many changes are tried of a statement that does not parse."""
_OTHER = lazy_pattern(r"\bfunctions?\b|\bis not supported\b|\bis not allowed (?:with|in this form)\b")
"""Words of messages about what another dialect may have."""
_SIGNS = frozenset({"=", "AND", ",", "the comma"})
"""Guesses of a sign that a text lacks: with several other changes it would hardly be the one meant."""
_NO_SQL = lazy_pattern(
    r"^(?:this is not SQL|one statement|SHOW does not support|cannot read `|the function |syntax error: )"
)
_RELATION = lazy_pattern(r"(?i)\bFROM\s+[\w{\[]")
"""What a statement has that is a SELECT, if it means one."""
_WITHOUT = "it without "
_CLAUSES = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")
"""Clauses in the order in which they stand; others stand before them."""


class Rewrite(NamedTuple):
    """A statement that is accepted, and all obstacles of the refused one, with those its search showed.

    A statement that asks something else, or the same only on a condition that nobody has declared, is no
    rewrite: it is the hint of the obstacles that force it.
    """

    text: str | None
    obstacles: tuple[Obstacle, ...]
    hint: str | None = None
    """The accepted statement, if it is no rewrite."""


class Edit(NamedTuple):
    """A part of a text, and what is written in its place."""

    start: int
    end: int
    text: str


class _State(NamedTuple):
    """A candidate that is refused, or None in the place of its error; and how it was made."""

    text: str
    error: _Refusal | None
    fixes: tuple[Fix, ...] = ()
    later: tuple[Obstacle, ...] = ()
    """The obstacles that were found on the way, at their places in the analyst's text."""
    made: tuple[Sequence[Edit], ...] = ()


def rewrite(
    text: str,
    refused: _Refusal,
    prepare: Callable[[str], object],
    read_words: _ReadWords = lambda _: None,
) -> Rewrite | None:
    """Return a statement that `prepare` accepts, made by changing the obstacles; None if none was found.

    `read_words` reads a text that is no SQL.
    """
    if len(text) > LONGEST:
        return None
    from dpsql.language.dataframe_forms import read_fragments  # noqa: PLC0415  most statements are accepted

    framed = read_fragments(text)
    if framed is not None:
        read = Fix(framed, 0, len(text))
        found = _search(text, _State(framed, refusal(framed, prepare), (read,)), prepare, _ROUNDS)
        if found is not None:
            return _make_rewrite(found.text.strip() + _remark(found.fixes), refused, (), found.fixes)
    spelled = [Edit(*edit) for edit in Outline.of(text).respellings()]
    candidate = apply_edits(text, spelled)
    error = refusal(candidate, prepare) if spelled else refused
    found = _search(text, _State(candidate, error, made=(spelled,)), prepare, _CANDIDATES)
    if (
        found is not None
        and _count_asks(found.fixes) > 1
        and error is refused
        and _is_undone(text, found.made)
    ):
        less = _search(text, _State(text, _with_less(text, error)), prepare, _CANDIDATES, less=True)
        if less is not None and _count_asks(less.fixes) < _count_asks(found.fixes):
            found, refused = less, _with_less(text, error)
    if found is not None:
        whole = found.text.strip() + _remark(found.fixes)
        return _make_rewrite(whole, refused, found.later, found.fixes) if found.text != text else None
    for written, guess in _readings(text, refused, read_words):
        read = Fix(written, 0, len(text), guess=guess)
        found = _search(text, _State(written, refusal(written, prepare), (read,)), prepare, _ROUNDS)
        if found is not None:
            whole = found.text.strip() + _remark(found.fixes)
            return _make_rewrite(whole, refused, (), found.fixes)
    return None


def rewrite_less(text: str, refused: _Refusal, prepare: Callable[[str], object]) -> Rewrite | None:
    """Return a statement without the parts of which nothing is said; None if it is not accepted, either."""
    unread = isinstance(refused, QuerySyntaxError)  # where its change is a hint, more of the text is read
    told = [o.hint and not (unread and o.fix) and not o.hint.startswith("leave ") for o in refused.obstacles]
    if len(text) > LONGEST or all(told):
        return None
    less = _with_less(text, refused)
    most = min(_CANDIDATES, 1 + LONGEST // max(len(text), 1)) if unread else _CANDIDATES
    found = _search(text, _State(text, less), prepare, most, less=True)
    for written, guess in () if found is not None else _readings(text, refused, lambda _: None):
        read = _State(written, refusal(written, prepare), (Fix(written, 0, len(text), guess=guess),))
        found = found or _search(text, read, prepare, _ROUNDS, less=True)
    if found is None:
        return None
    return _make_rewrite(found.text.strip() + _remark(found.fixes), less, (), found.fixes)


def _with_less(text: str, error: _Refusal, typed: str = "", made: Sequence[Sequence[Edit]] = ()) -> _Refusal:
    """Return an error whose obstacles have changes that leave their parts out.

    What the changes before have written into the text that was typed is not left out again, but of a whole
    statement that stands in its place. A column that
    does not exist any more is left out before another one is written, and so is what does not parse.
    """
    from dpsql.composition.left_out_parts import leave_out, with_others  # noqa: PLC0415  most have other changes

    def wrote(fix: Fix) -> bool:
        parts = (at for each in (fix, *fix.also) for at in range(each.start, each.end))
        return bool(made) and any(_find_typed(at, made) is None for at in parts)

    if any(edit.start == 0 and edit.end == len(typed) for edit in (made[0] if made else ())):
        made = ()
    unread, less, helped = isinstance(error, QuerySyntaxError), type(error)(error.message), list[Obstacle]()
    for one in error.obstacles:
        first = unread or bool(made and one.unknown == "column")
        left = [fix for fix in leave_out(text, offset(one, text), unread=unread) if not wrote(fix)]
        helped.append(with_others(one, left, first=first))
    less.obstacles = tuple(helped)
    return less


def _readings(text: str, refused: _Refusal, read_words: _ReadWords) -> Iterator[tuple[str, str]]:
    """Yield what a text is in other dialects, or by its words, each with what is guessed."""
    if isinstance(refused, QuerySyntaxError) or any(_OTHER.search(o.message) for o in refused.obstacles):
        from dpsql.language.other_dialects import read_as_others  # noqa: PLC0415  it loads all dialects

        for written, dialect in islice(read_as_others(text), _DIALECTS):
            yield written, f"that it is {dialect}'s SQL"
    words = None if _RELATION.search(text) or not _NO_SQL.search(refused.message) else read_words(text)
    if words is not None:
        yield words


def _search(
    text: str, start: _State, prepare: Callable[[str], object], candidates: int, *, less: bool = False
) -> _State | None:
    """Return the first candidate that is accepted; those with the fewest other changes come first.

    With `less`, what is in the way of a candidate may be left out; those that ask the least else come first.
    """
    from dpsql.composition.left_out_parts import tell_left_out  # noqa: PLC0415  most statements are accepted

    seen, order, waiting = {start.text}, count(), list[tuple[float, int, int, _State, list[Fix]]]()

    def add(state: _State, others: float) -> None:
        for i, fixes in enumerate(_choices(state.error) if len(state.made) <= 2 * _ROUNDS else ()):
            cost = others + (i > 0) if not less else _count_asks([*state.fixes, *fixes]) + (i > 0) / 4
            heapq.heappush(waiting, (cost, -len(state.made), next(order), state, fixes))

    if start.error is None:
        return start
    add(start, 0)
    while waiting and candidates:
        others, _, _, state, fixes = heapq.heappop(waiting)
        made, used = edits(state.text, fixes)
        used = [tell_left_out(fix, state.text) for fix in used]
        changed = apply_edits(state.text, made)
        spelled = [Edit(*edit) for edit in Outline.of(changed).respellings()]
        candidate = apply_edits(changed, spelled)
        if candidate in seen:
            continue
        seen.add(candidate)
        candidates -= 1
        error, all_made = refusal(candidate, prepare), (*state.made, made, spelled)
        new = () if error is None else error.obstacles
        later = (o for one in new if (o := _move_back(one, candidate, text, all_made)))
        found = _State(candidate, error, (*state.fixes, *used), (*state.later, *later), all_made)
        if error is None and not (len(found.fixes) > 2 and any(f.guess in _SIGNS for f in found.fixes)):
            return found
        if error is not None and less:
            found = found._replace(error=_with_less(candidate, error, text, all_made))
        add(found, others)
    return None


def _is_undone(text: str, made: Sequence[Sequence[Edit]]) -> bool:
    """Return whether changes only take away, and what changes before them had written into a text."""
    for k, step in enumerate(made):
        less = all(_texts(edit.text) <= _texts(text[edit.start : edit.end]) for edit in step)
        places = [at for edit in step for at in range(edit.start, edit.end)]
        if less and any(_find_typed(at, made[:k]) is None for at in places):
            return True
        text = apply_edits(text, step)
    return False


def _count_asks(fixes: Sequence[Fix]) -> int:
    """Return of how many changes a statement asks something else."""
    return sum(bool(fix.asks) for fix in fixes)


def _choices(error: _Refusal | None) -> Iterator[list[Fix]]:
    """Yield the first changes of all obstacles, those with another change of one of them, and each alone."""
    obstacles = () if error is None else error.obstacles
    first = [one.fix for one in obstacles if one.fix is not None]
    if first:
        yield first
    for one in obstacles:
        for _, other in one.others:
            yield [fix for fix in first if fix is not one.fix] + [other]
    if len(first) > 1:  # one alone, of those that replace each other
        yield from ([fix] for fix in first)


def _make_rewrite(
    whole: str,
    refused: _Refusal,
    later: Sequence[Obstacle],
    fixes: Sequence[Fix],
) -> Rewrite:
    """Return an accepted statement as the rewrite; as a hint, if it asks the same on a condition or never."""
    obstacles = tuple(_take_used(one, fixes) for one in _merge_obstacles(refused, later))
    left = _texts(whole)
    found = tuple(
        # What another change replaces, then or later, has no change of its own.
        o
        if o.fix is None
        or (not fixes and (o.hint or "") in whole)
        or (o.fix in fixes and _texts(o.fix.text) <= left)
        else replace(o, hint=None)
        for o in obstacles
    )
    if not any(f.asks or f.provided for f in fixes):
        return Rewrite(whole, found)
    forced = [o.fix is not None and bool(o.fix.asks or o.fix.provided) for o in found]
    if not any(forced) and (found[0].unknown in ("", "function") or found[0].fix in fixes):
        forced[0] = True  # what forces it came to light at the place of another one
    hinted = tuple(replace(o, hint=whole) if is_so else o for o, is_so in zip(found, forced, strict=True))
    return Rewrite(None, hinted, whole)


def _texts(text: str) -> set[str]:
    return {token.text for token in Outline.of(text).tokens}


def refusal(text: str, prepare: Callable[[str], object]) -> _Refusal | None:
    """Return the error of a candidate; None if it is accepted."""
    try:
        prepare(text)
    except (QueryRefused, QuerySyntaxError) as error:
        return repair(text, error, prepare)
    except Cancelled:
        raise
    except (ProgrammingError, OperationalError) as error:  # it took a parameter's marker away, or fails
        return QueryRefused(str(error))
    return None


def repair(text: str, error: _Refusal, prepare: Callable[[str], object]) -> _Refusal:
    """Return the error; of a text that does not parse, with the change after which the least is wrong."""
    if isinstance(error, QuerySyntaxError) and error.obstacles[0].fix is None:
        found = [*islice(repairs(text, error), _REPAIRS)]
        if found[1:]:
            found.sort(key=lambda each: _count_left(text, each[1], prepare))
        for hint, fix in found[:1]:
            first, others = error.obstacles[0], tuple(found[1:])
            changed = replace(first, hint=first.hint or hint, fix=fix, others=others)
            error.obstacles = (changed, *error.obstacles[1:])
    return error


def _take_used(one: Obstacle, fixes: Sequence[Fix]) -> Obstacle:
    """Return an obstacle with the change that was made of it, if that is one of its others."""
    for hint, fix in ((one.hint, one.fix), *one.others):
        used = next(
            (f for f in fixes if fix is not None and replace(f, asks=fix.asks, guess=fix.guess) == fix), None
        )
        if used is not None:
            return replace(one, hint=hint, fix=used)
    return one


def _count_left(text: str, fix: Fix, prepare: Callable[[str], object]) -> int:
    """Return how many obstacles without a change of their own are left after a change."""
    try:
        prepare(apply_edits(text, edits(text, [fix])[0]))
    except QuerySyntaxError:
        return len(text)
    except QueryRefused as error:
        return 1 + sum(2 * (one.fix is None) + (one.unknown == "column") for one in error.obstacles)
    except Cancelled:
        raise
    except (ProgrammingError, OperationalError):
        return len(text)
    return 0


def edits(text: str, fixes: Sequence[Fix]) -> tuple[list[Edit], list[Fix]]:
    """Return the changes of the fixes, and the fixes that are made: of those that overlap, the largest."""
    outline = Outline.of(text)
    end = outline.end() if outline.tokens else len(text)
    kept, used = list[Edit](), list[Fix]()
    groups = [([_edit(f, end) for f in (fix, *fix.also)], fix) for fix in fixes if not fix.option]
    for group, fix in sorted(groups, key=lambda g: -max(e.end - e.start for e in g[0])):
        if not any(_overlap(new, old) for new in group for old in kept):
            kept += [edit for edit in group if edit not in kept]
            used.append(fix)
    options = {f.option: f.text for f in fixes if f.option}
    added = outline.with_options(", ".join(f"{name} = {value}" for name, value in options.items()))
    if options and added is not None and not any(e.start < added[0] < e.end for e in kept):
        kept.append(Edit(added[0], added[0], added[1]))
        used += [f for f in fixes if f.option]
    used.sort(key=fixes.index)
    return sorted(kept, key=lambda e: (e.start, e.end, _rank(e.text))), used


def _edit(fix: Fix, end: int) -> Edit:
    return Edit(end, end, f" {fix.text}") if fix.start < 0 else Edit(fix.start, fix.end, fix.text)


def _overlap(a: Edit, b: Edit) -> bool:
    """Return whether two changes exclude each other; two insertions at one place do not."""
    return a != b and a.start < b.end and b.start < a.end


def _rank(text: str) -> int:
    word = text.split(maxsplit=1)[0] if text.split() else ""
    return _CLAUSES.index(word) + 1 if word in _CLAUSES else 0


def apply_edits(text: str, made: Sequence[Edit]) -> str:
    """Return a text with changes, which are in the order of their places."""
    for start, end, new in reversed(made):
        text = text[:start] + new + text[end:]
    return text


def _merge_obstacles(refused: _Refusal, later: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
    """Return the obstacles with later ones, in reading order; what does not exist is named alone."""
    first = refused.obstacles
    if isinstance(refused, QuerySyntaxError) or first[0].message.startswith("there is no table "):
        return first
    known = {one.message for one in first} | {(one.line, one.col) for one in first}
    new = {o.message: o for o in later if o.message not in known and (o.line, o.col) not in known}
    return tuple(sorted((*first, *new.values()), key=lambda o: (o.line or 0, o.col or 0)))


def offset(one: Obstacle, text: str) -> int:
    """Return the place of an obstacle in a text; -1 if it has none there."""
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    if one.line is None or one.col is None or one.line > len(lines):
        return -1
    return lines[one.line - 1] + one.col - 1


def _move_back(one: Obstacle, candidate: str, text: str, made: Sequence[Sequence[Edit]]) -> Obstacle | None:
    """Return an obstacle of a candidate at its place in the analyst's text; None if it is about a change."""
    at = _find_typed(offset(one, candidate), made)
    if at is None or at < 0:
        return None
    line = text.count("\n", 0, at) + 1
    col = at - (text.rfind("\n", 0, at) + 1) + 1
    return replace(one, line=line, col=col, source=text.split("\n")[line - 1], fix=None)


def _find_typed(at: int, made: Sequence[Sequence[Edit]]) -> int | None:
    """Return the place in the text before changes that a place behind them is; None if they wrote it."""
    for edits in reversed(made):
        shift = 0
        for start, end, new in edits:
            if at < start + shift:
                break
            if at < start + shift + len(new):
                return None
            shift += len(new) - (end - start)
        at -= shift
    return at


def _remark(fixes: Sequence[Fix]) -> str:
    """Return the comment that names the numbers nobody said, and what is asked instead or on a condition."""
    guesses = list(dict.fromkeys(f.guess for f in fixes if f.guess))
    left = [f.asks.removeprefix(_WITHOUT) for f in fixes if f.asks.startswith(_WITHOUT)]
    asks = [f.asks for f in fixes if f.asks and not f.asks.startswith(_WITHOUT)]
    asks += [f"{_WITHOUT}{', '.join(dict.fromkeys(left))}"] if left else []
    parts = [f"asks something else: {'; '.join(dict.fromkeys(asks))}"] if asks else []
    parts += dict.fromkeys(f"the same if {f.provided}" for f in fixes if f.provided)
    if guesses:
        parts.append(f"{' and '.join(guesses)} {'is a guess' if len(guesses) == 1 else 'are guesses'}")
    return f" -- {'; '.join(parts)}" if parts else ""
