"""Search for a statement that would be accepted in the place of one that was refused.

Every candidate is the analyst's own text with the fixes that its obstacles name. It is prepared like any
statement before it is offered: parsed, analysed and priced, with the policy and public tables alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from dpsql.errors import Fix, Obstacle, QueryRefused, QuerySyntaxError
from dpsql.language import Outline

_ROUNDS = 4
"""How many candidates are tried: each may bring the next obstacles to light."""
_LONGEST = 10_000
"""The most characters of a statement for which a rewrite is searched."""


def rewrite(
    text: str, refused: QueryRefused | QuerySyntaxError, prepare: Callable[[str], object]
) -> str | None:
    """Return a statement that `prepare` accepts, made by fixing all obstacles; None if one has no fix."""
    if len(text) > _LONGEST:
        return None
    error: QueryRefused | QuerySyntaxError | None = refused
    candidate, guesses = Outline(text).respelled(), list[str]()
    if candidate != text:
        error = _refusal(candidate, prepare)
    for _ in range(_ROUNDS):
        if error is None:
            return candidate.rstrip() + _remark(guesses) if candidate != text else None
        fixes = [o.fix for o in error.obstacles if o.fix is not None]
        if len(fixes) < len(error.obstacles):
            return None
        changed = _fixed(candidate, fixes)
        if changed is None or changed == candidate:
            return None
        guesses = [*dict.fromkeys((*guesses, *(f.guess for f in fixes if f.guess)))]
        candidate = changed
        error = _refusal(candidate, prepare)
    return None


def hinted(text: str, refused: QueryRefused | QuerySyntaxError) -> tuple[Obstacle, ...]:
    """Return the obstacles; of a spelling of another dialect, the hint is dpsql's own."""
    if len(text) > _LONGEST:
        return refused.obstacles
    spelled = Outline(text).respellings()
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    out = []
    for one in refused.obstacles:
        # A refusal to refine a release may point into the statement of that release.
        inside = one.line is not None and one.col is not None and one.line <= len(lines)
        at = lines[(one.line or 1) - 1] + (one.col or 1) - 1 if inside else -1
        new = next((new for start, end, new in spelled if start <= at < end), None)
        out.append(one if new is None else replace(one, hint=new))
    return tuple(out)


def _refusal(text: str, prepare: Callable[[str], object]) -> QueryRefused | QuerySyntaxError | None:
    """Return the error of a candidate; None if it is accepted."""
    try:
        prepare(text)
    except (QueryRefused, QuerySyntaxError) as error:
        return error
    return None


def _fixed(text: str, fixes: Sequence[Fix]) -> str | None:
    """Return the text with all fixes; None if the text has no place for one."""
    outline = Outline(text)
    if not outline.tokens:
        return None
    edits: list[tuple[int, int, str]] = []
    options = {f.option: f.text for f in fixes if f.option}
    for fix in fixes:
        if fix.option:
            continue
        edit = (fix.start, fix.end, fix.text)
        if fix.start < 0:
            end = outline.end()
            edit = (end, end, f" {fix.text}")
        if edit not in edits:
            edits.append(edit)
    if options:
        added = outline.with_options(", ".join(f"{name} = {value}" for name, value in options.items()))
        if added is None:
            return None
        edits.append((added[0], added[0], added[1]))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _remark(guesses: Sequence[str]) -> str:
    """Return the comment that names the numbers nobody said."""
    if not guesses:
        return ""
    return f" -- {' and '.join(guesses)} {'is a guess' if len(guesses) == 1 else 'are guesses'}"
