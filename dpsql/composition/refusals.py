"""What a refused statement is told: what would be accepted in its place, and which hints lead somewhere.

Also the epsilon and delta that are offered to a statement that names none, and what a budget pays for.

Every candidate is the analyst's own text with the fixes that its obstacles name. It is prepared like any
statement before it is offered: parsed, analysed and priced, with the policy and public tables alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.engines import Cancelled
from dpsql.errors import (
    Fix,
    Obstacle,
    OperationalError,
    ProgrammingError,
    QueryRefused,
    QuerySyntaxError,
)
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.language import Outline, repairs
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.ledger import Budget, shown

_ROUNDS = 6
"""How many candidates are tried: each may bring the next obstacles to light."""
_LONGEST = 10_000
"""The most characters of a statement for which a rewrite is searched."""
_REPAIRS = 6
"""How many changes are tried of a statement that does not parse."""
_TRIED = 12
"""The most obstacles of a statement whose hints are tried."""
_STATEMENT = lazy_pattern(r"SELECT\s.*\sFROM\s|WITH\s.*\sSELECT\s|FROM\s.*\sSELECT\s", re.DOTALL)
"""How a hint begins that is a whole statement; `..` stands for what is left out of a part of one."""
_SAID = ("epsilon", "delta", "max_groups_contributed")
"""Options that a statement without its options may lack."""
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
    candidate, made = _apply_edits(text, spelled), [spelled]
    later, fixes = list[Obstacle](), list[Fix]()
    if spelled:
        error = _refusal(candidate, prepare)
    for _ in range(_ROUNDS):
        if error is None:
            whole = candidate.strip() + _remark(fixes)
            return _offered(whole, refused, later, fixes) if candidate != text else None
        found = [o.fix for o in error.obstacles if o.fix is not None]
        edits, used = _edits(candidate, found)
        changed = _apply_edits(candidate, edits)
        if changed == candidate:
            return None
        spelled = [_Edit(*edit) for edit in Outline.of(changed).respellings()]
        candidate, fixes = _apply_edits(changed, spelled), fixes + used
        made += [edits, spelled]
        error = _refusal(candidate, prepare)
        if error is not None:
            later += [o for one in error.obstacles if (o := _move_back(one, candidate, text, made))]
    return None


def keep_tried(
    text: str,
    refused: QueryRefused | QuerySyntaxError,
    prepare: Callable[[str], object],
    analyse: Callable[[str], object],
    accepted: str | None = None,
) -> tuple[Obstacle, ...]:
    """Return the obstacles without the hints that lead nowhere; words alone cannot be tried.

    A hint that is a statement stays if `prepare` accepts it, as it has `accepted`. One that shows a change
    stays if `analyse` finds nothing wrong with the changed statement that it did not find before.
    """
    if len(text) > _LONGEST:
        return refused.obstacles
    known = {one.message for one in refused.obstacles}

    def leads(one: Obstacle) -> bool:
        hint, fix = one.hint or "", one.fix
        if is_statement(hint):
            return hint == accepted or _refusal(hint, prepare) is None
        named = one.unknown not in ("", "function")  # behind which there may be more
        if fix is None or fix.option or named or not any(t in hint for t in _texts(fix)):
            return True
        candidate = _apply_edits(text, _edits(text, [fix])[0])
        error = _refusal(candidate, analyse)
        if isinstance(refused, QuerySyntaxError):
            parsed = not isinstance(error, QuerySyntaxError)
            return parsed and (
                error is None or fix.guess != "the comma" or all(o.fix for o in error.obstacles)
            )
        left = () if error is None else error.obstacles
        return candidate != text and {o.message for o in left} < known

    return tuple(
        one if one.hint is None or i >= _TRIED or leads(one) else replace(one, hint=None)
        for i, one in enumerate(refused.obstacles)
    )


def _texts(fix: Fix) -> list[str]:
    """Return the SQL that the suggested corrections of a refusal write."""
    return [text for each in (fix, *fix.also) if (text := each.text.strip())]


def is_statement(hint: str) -> bool:
    """Whether a hint is a whole statement, which can be run as it stands.

    >>> [is_statement(hint) for hint in ("SELECT a FROM t", "SELECT a FROM .. EXCEPT ..", "GROUP BY a")]
    [True, False, False]
    """
    return _STATEMENT.match(hint) is not None and ".." not in hint


def with_beside(
    text: str, refused: QueryRefused | QuerySyntaxError, prepare: Callable[[str], object]
) -> tuple[Obstacle, ...]:
    """Return the obstacles; for a wrong option also the obstacles of the statement without its options."""
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
    """Return an accepted statement as the rewrite; as a hint, if it asks the same on a condition or never."""
    obstacles = _merge_obstacles(refused, later)
    made = any(o.fix in fixes for o in obstacles if o.fix is not None)
    found = tuple(
        # What another change replaces has no change of its own.
        o if o.fix is None or not made or o.fix in fixes else replace(o, hint=None)
        for o in obstacles
    )
    if not any(f.asks or f.provided for f in fixes):
        return Rewrite(whole, found)
    forced = [o.fix is not None and bool(o.fix.asks or o.fix.provided) for o in found]
    if not any(forced) and found[0].unknown in ("", "function"):
        forced[0] = True  # what forces it came to light at the place of another one
    hinted = tuple(replace(o, hint=whole) if is_so else o for o, is_so in zip(found, forced, strict=True))
    return Rewrite(None, hinted, whole)


def with_own_hints(
    text: str, refused: QueryRefused | QuerySyntaxError, prepare: Callable[[str], object]
) -> tuple[Obstacle, ...]:
    """Return the obstacles of a refusal, with dpsql's spelling as the hint for other dialects' ones."""
    if len(text) > _LONGEST:
        return refused.obstacles
    spelled = Outline.of(text).respellings()
    refused = _repair(text, refused, prepare)
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
        return _repair(text, error, prepare)
    except Cancelled:
        raise
    except (ProgrammingError, OperationalError) as error:  # it took a parameter's marker away, or fails
        return QueryRefused(str(error))
    return None


def _repair(
    text: str, error: QueryRefused | QuerySyntaxError, prepare: Callable[[str], object]
) -> QueryRefused | QuerySyntaxError:
    """Return the error; of a text that does not parse, with the change after which the least is wrong."""
    if isinstance(error, QuerySyntaxError) and error.obstacles[0].fix is None:
        found = [*islice(repairs(text, error), _REPAIRS)]
        if found:
            hint, fix = (
                min(found, key=lambda each: _count_left(text, each[1], prepare)) if found[1:] else found[0]
            )
            first = error.obstacles[0]
            error.obstacles = (replace(first, hint=first.hint or hint, fix=fix), *error.obstacles[1:])
    return error


def _count_left(text: str, fix: Fix, prepare: Callable[[str], object]) -> int:
    """Return how many obstacles without a change of their own are left after a change."""
    try:
        prepare(_apply_edits(text, _edits(text, [fix])[0]))
    except QuerySyntaxError:
        return len(text)
    except QueryRefused as error:
        return 1 + sum(2 for one in error.obstacles if one.fix is None)
    except Cancelled:
        raise
    except (ProgrammingError, OperationalError):
        return len(text)
    return 0


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


def _apply_edits(text: str, edits: Sequence[_Edit]) -> str:
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


def _merge_obstacles(
    refused: QueryRefused | QuerySyntaxError, later: Sequence[Obstacle]
) -> tuple[Obstacle, ...]:
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


def _move_back(one: Obstacle, candidate: str, text: str, made: Sequence[Sequence[_Edit]]) -> Obstacle | None:
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
    """Return the comment that names the numbers nobody said, and what is asked instead or on a condition."""
    guesses = list(dict.fromkeys(f.guess for f in fixes if f.guess))
    parts = list(dict.fromkeys(f"asks something else: {f.asks}" for f in fixes if f.asks))
    parts += dict.fromkeys(f"the same if {f.provided}" for f in fixes if f.provided)
    if guesses:
        parts.append(f"{' and '.join(guesses)} {'is a guess' if len(guesses) == 1 else 'are guesses'}")
    return f" -- {'; '.join(parts)}" if parts else ""


_SHARE, _DELTA_SHARE = 20, 1000
"""The parts of the whole budget that are offered: a twentieth of epsilon, a thousandth of delta."""
_WRITTEN = {
    "epsilon": lazy_pattern(r"(?<=\bOPTIONS \(epsilon = )1(?=\))"),
    "delta": lazy_pattern(r"(?<=\bOPTIONS \(delta = )1e-6(?=\))"),
}
"""What stands in hints for an amount, which depends on the budget."""
_CHOICE = lazy_pattern(r",? or OPTIONS \(delta = 1e-6\)|OPTIONS \(delta = 1e-6\),? or ")
"""The words of a hint that name one of several ways."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """What is offered: amounts as text, each None where nothing of it is left."""

    epsilon: str | None
    delta: str | None

    @classmethod
    def of(cls, budget: Budget, most: Fraction | None) -> Amounts:
        """Return a small part of a budget, of which something is left; `most` is the cap of one statement.

        >>> from dpsql.kernel.loss import Charge
        >>> whole, nothing = Charge(Fraction(1), Fraction(1, 10**6)), Charge()
        >>> Amounts.of(Budget(whole, nothing, whole), None)
        Amounts(epsilon='0.05', delta='1e-9')
        >>> Amounts.of(Budget(whole, whole, nothing), None)
        Amounts(epsilon=None, delta=None)
        """
        total, left = budget.total, budget.remaining
        epsilon = min(left.epsilon, total.epsilon / _SHARE, *([] if most is None else [most]))
        return cls(_round(epsilon), _round(min(left.delta, total.delta / _DELTA_SHARE)))

    def put_into(self, obstacles: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
        """Return obstacles with the remaining amounts written into their hints and fixes."""
        return tuple(self._in(one) for one in obstacles)

    def _in(self, one: Obstacle) -> Obstacle:
        for name, amount in (("epsilon", self.epsilon), ("delta", self.delta)):
            offered = one.fix is not None and one.fix.option == name and one.fix.guess
            if amount is not None and one.hint is not None:
                one = replace(one, hint=_WRITTEN[name].sub(amount, one.hint))
            if offered and amount is not None and one.fix is not None:
                one = replace(one, fix=replace(one.fix, text=amount, guess=amount))
            elif offered:
                hint = None if name == "epsilon" else _CHOICE.sub("", one.hint or "") or None
                left = f"{one.message}, and nothing is left of the budget's {name}"
                one = replace(one, message=left, hint=hint, fix=None)
        return one


def is_paid(prepared: PreparedPrivate | PreparedComposed, budget: Budget, most: Fraction | None) -> bool:
    """Return whether a budget and the cap of one statement suffice for a statement's new releases."""
    price = prepared.price
    if most is not None and price.epsilon > most:
        return False
    losses = [
        part.method.quote.loss if part.refines is None else PrivacyLoss.of(part.price.epsilon)
        for part in prepared.parts
        if part.price != Charge()
    ]
    for scope in budget.scopes:
        totals = scope.totals
        for loss in losses:
            if not scope.filter.admits(totals, loss):
                return False
            totals += scope.filter.amounts(loss)
    return True


def _round(amount: Fraction) -> str | None:
    """Return the largest of .., 0.1, 0.2, 0.5, 1, 2, 5, .. that is no more than an amount; None for 0.

    >>> [_round(Fraction(x)) for x in ("1/3", "1", "0.05", "99", "0", "1e-9")]
    ['0.2', '1', '0.05', '50', None, '1e-9']
    """
    if amount <= 0:
        return None
    power = Fraction(1)
    while power > amount:
        power /= 10
    while power * 10 <= amount:
        power *= 10
    return shown(next(n * power for n in (5, 2, 1) if n * power <= amount), up=False)
