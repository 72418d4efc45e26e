"""Search for a statement that would be accepted in the place of one that was refused.

Every candidate is the analyst's own text with the fixes that its obstacles name. It is prepared like any
statement before it is offered: parsed, analysed and priced, with the policy and public tables alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from dpsql.errors import Fix, Obstacle, ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.language import Outline, repair

_ROUNDS = 6
"""How many candidates are tried: each may bring the next obstacles to light."""
_LONGEST = 10_000
"""The most characters of a statement for which a rewrite is searched."""
_TRIED = 12
"""The most obstacles of a statement whose hints are tried."""
_STATEMENT = re.compile(r"SELECT\s.*\sFROM\s|WITH\s.*\sSELECT\s|FROM\s.*\sSELECT\s", re.DOTALL)
"""How a hint begins that is a whole statement; `..` stands for what is left out of a part of one."""
_SAID = ("epsilon", "delta", "max_groups_contributed")
"""Options that a statement without its options may lack."""
_CLAUSES = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")
"""Clauses in the order in which they stand; others stand before them."""


class Rewrite(NamedTuple):
    """A statement that is accepted, and all obstacles of the refused one, with those its search showed.

    A statement that asks something else is no rewrite: it is the hint of the obstacles that force it.
    """

    text: str | None
    obstacles: tuple[Obstacle, ...]


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def rewrite(
    text: str, refused: QueryRefused | QuerySyntaxError, prepare: Callable[[str], object]
) -> Rewrite | None:
    """Return a statement that `prepare` accepts, made by fixing the obstacles; None if none was found."""
    if len(text) > _LONGEST:
        return None
    error: QueryRefused | QuerySyntaxError | None = refused
    spelled = [_Edit(*edit) for edit in Outline.of(text).respellings()]
    candidate, made = _edited(text, spelled), [spelled]
    later, fixes = list[Obstacle](), list[Fix]()
    if spelled:
        error = _refusal(candidate, prepare)
    for _ in range(_ROUNDS):
        if error is None:
            whole = candidate.rstrip() + _remark(fixes)
            return _offered(whole, refused, later, fixes) if candidate != text else None
        found = [o.fix for o in error.obstacles if o.fix is not None]
        edits, used = _edits(candidate, found)
        changed = _edited(candidate, edits)
        if changed == candidate:
            return None
        candidate, fixes = changed, fixes + used
        made.append(edits)
        error = _refusal(candidate, prepare)
        if error is not None:
            later += [o for one in error.obstacles if (o := _moved_back(one, candidate, text, made))]
    return None


def tried(
    text: str,
    refused: QueryRefused | QuerySyntaxError,
    prepare: Callable[[str], object],
    analyse: Callable[[str], object],
) -> tuple[Obstacle, ...]:
    """Return the obstacles without the hints that lead nowhere; words alone cannot be tried.

    A hint that is a statement stays if `prepare` accepts it. One that shows a change stays if `analyse` finds
    nothing wrong with the changed statement that it did not find before.
    """
    if len(text) > _LONGEST:
        return refused.obstacles
    known = {one.message for one in refused.obstacles}

    def leads(one: Obstacle) -> bool:
        hint, fix = one.hint or "", one.fix
        if is_statement(hint):
            return _refusal(hint, prepare) is None
        if fix is None or fix.option or one.unknown or not any(t in hint for t in _texts(fix)):
            return True
        candidate = _edited(text, _edits(text, [fix])[0])
        error = _refusal(candidate, analyse)
        if isinstance(refused, QuerySyntaxError):
            return not isinstance(error, QuerySyntaxError)
        left = () if error is None else error.obstacles
        return candidate != text and {o.message for o in left} < known

    return tuple(
        one if one.hint is None or i >= _TRIED or leads(one) else replace(one, hint=None)
        for i, one in enumerate(refused.obstacles)
    )


def _texts(fix: Fix) -> list[str]:
    """Return what a fix writes."""
    return [text for each in (fix, *fix.also) if (text := each.text.strip())]


def is_statement(hint: str) -> bool:
    """Whether a hint is a whole statement, which can be run as it stands.

    >>> [is_statement(hint) for hint in ("SELECT a FROM t", "SELECT a FROM .. EXCEPT ..", "GROUP BY a")]
    [True, False, False]
    """
    return _STATEMENT.match(hint) is not None and ".." not in hint


def beside(
    text: str, refused: QueryRefused | QuerySyntaxError, prepare: Callable[[str], object]
) -> tuple[Obstacle, ...]:
    """Return the obstacles, of a wrong option with those of the statement without its options."""
    first = refused.obstacles
    inside = Outline.of(text).options_around(_offset(first[0], text)) if len(text) <= _LONGEST else None
    if inside is None or not first[0].message.startswith(("option ", "there is no option ")):
        return first  # what is no option's own fault was found together with the others
    start, end = inside
    error = _refusal(text[:start] + re.sub(r"\S", " ", text[start:end]) + text[end:], prepare)
    if not isinstance(error, QueryRefused):
        return first
    lines = text.split("\n")
    others = [replace(o, source=lines[o.line - 1]) for o in error.obstacles if o.line is not None]
    kept = [o for o in others if not any(f"OPTIONS ({name}" in (o.hint or "") for name in _SAID)]
    return tuple(sorted((*first, *kept), key=lambda o: (o.line or 0, o.col or 0)))


def _offered(
    whole: str,
    refused: QueryRefused | QuerySyntaxError,
    later: Sequence[Obstacle],
    fixes: Sequence[Fix],
) -> Rewrite:
    """Return an accepted statement as the rewrite; one that asks something else as a hint."""
    found = _merged(refused, later)
    if not any(f.asks for f in fixes):
        return Rewrite(whole, found)
    return Rewrite(
        None, tuple(replace(o, hint=whole) if o.fix is not None and o.fix.asks else o for o in found)
    )


def hinted(text: str, refused: QueryRefused | QuerySyntaxError) -> tuple[Obstacle, ...]:
    """Return the obstacles; of a spelling of another dialect, the hint is dpsql's own."""
    if len(text) > _LONGEST:
        return refused.obstacles
    spelled = Outline.of(text).respellings()
    refused = _repaired(text, refused)
    out = []
    for one in refused.obstacles:
        # A refusal to refine a release may point into the statement of that release.
        at = _offset(one, text)
        new = next((new for start, end, new in spelled if start <= at < end), None)
        out.append(one if new is None else replace(one, hint=new))
    return tuple(out)


def _refusal(text: str, prepare: Callable[[str], object]) -> QueryRefused | QuerySyntaxError | None:
    """Return the error of a candidate; None if it is accepted."""
    try:
        prepare(text)
    except (QueryRefused, QuerySyntaxError) as error:
        return _repaired(text, error)
    except ProgrammingError as error:  # the change took a parameter's marker away
        return QueryRefused(str(error))
    return None


def _repaired(text: str, error: QueryRefused | QuerySyntaxError) -> QueryRefused | QuerySyntaxError:
    """Return the error; of a text that does not parse, with the change after which it does."""
    if isinstance(error, QuerySyntaxError) and error.obstacles[0].fix is None:
        found = repair(text, error)
        if found is not None:
            hint, fix = found
            first = error.obstacles[0]
            error.obstacles = (replace(first, hint=first.hint or hint, fix=fix), *error.obstacles[1:])
    return error


def _edits(text: str, fixes: Sequence[Fix]) -> tuple[list[_Edit], list[Fix]]:
    """Return the changes of the fixes, and the fixes that are made: of those that overlap, the largest."""
    outline = Outline.of(text)
    end = outline.end() if outline.tokens else len(text)
    kept, used = list[_Edit](), list[Fix]()
    groups = [([_edit(f, end) for f in (fix, *fix.also)], fix) for fix in fixes if not fix.option]
    for group, fix in sorted(groups, key=lambda g: -max(e.end - e.start for e in g[0])):
        if not any(_overlap(new, old) for new in group for old in kept):
            kept += [edit for edit in group if edit not in kept]
            used.append(fix)
    options = {f.option: f.text for f in fixes if f.option}
    added = outline.with_options(", ".join(f"{name} = {value}" for name, value in options.items()))
    if options and added is not None and not any(e.start < added[0] < e.end for e in kept):
        kept.append(_Edit(added[0], added[0], added[1]))
        used += [f for f in fixes if f.option]
    used.sort(key=fixes.index)
    return sorted(kept, key=lambda e: (e.start, e.end, _rank(e.text))), used


def _edit(fix: Fix, end: int) -> _Edit:
    return _Edit(end, end, f" {fix.text}") if fix.start < 0 else _Edit(fix.start, fix.end, fix.text)


def _overlap(a: _Edit, b: _Edit) -> bool:
    """Return whether two changes exclude each other; two insertions at one place do not."""
    return a != b and a.start < b.end and b.start < a.end


def _rank(text: str) -> int:
    word = text.split(maxsplit=1)[0] if text.split() else ""
    return _CLAUSES.index(word) + 1 if word in _CLAUSES else 0


def _edited(text: str, edits: Sequence[_Edit]) -> str:
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


def _merged(refused: QueryRefused | QuerySyntaxError, later: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
    """Return the obstacles with later ones, in reading order; what does not exist is named alone."""
    first = refused.obstacles
    if isinstance(refused, QuerySyntaxError) or first[0].message.startswith("there is no table "):
        return first
    known = {one.message for one in first} | {(one.line, one.col) for one in first}
    new = {o.message: o for o in later if o.message not in known and (o.line, o.col) not in known}
    return tuple(sorted((*first, *new.values()), key=lambda o: (o.line or 0, o.col or 0)))


def _offset(one: Obstacle, text: str) -> int:
    """Return the place of an obstacle in a text; -1 if it has none there."""
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    if one.line is None or one.col is None or one.line > len(lines):
        return -1
    return lines[one.line - 1] + one.col - 1


def _moved_back(one: Obstacle, candidate: str, text: str, made: Sequence[Sequence[_Edit]]) -> Obstacle | None:
    """Return an obstacle of a candidate at its place in the analyst's text; None if it is about a change."""
    at = _offset(one, candidate)
    for edits in reversed(made):
        shift = 0
        for start, end, new in edits:
            if at < start + shift:
                break
            if at < start + shift + len(new):
                return None
            shift += len(new) - (end - start)
        at -= shift
    if at < 0:
        return None
    line = text.count("\n", 0, at) + 1
    col = at - (text.rfind("\n", 0, at) + 1) + 1
    return replace(one, line=line, col=col, source=text.split("\n")[line - 1], fix=None)


def _remark(fixes: Sequence[Fix]) -> str:
    """Return the comment that names the numbers nobody said, and what is asked instead."""
    guesses = list(dict.fromkeys(f.guess for f in fixes if f.guess))
    parts = list(dict.fromkeys(f"asks something else: {f.asks}" for f in fixes if f.asks))
    if guesses:
        parts.append(f"{' and '.join(guesses)} {'is a guess' if len(guesses) == 1 else 'are guesses'}")
    return f" -- {'; '.join(parts)}" if parts else ""
