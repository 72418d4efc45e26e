"""What a bound cuts, in the intervals of an answer and in words, whether a ladder or a search says how much.

`MeasuredCut` is an excess beyond bounds that a search found, as far as it was measured.

Each number under the bound is widened, with its rows in no shown group, and so is each that follows from
moments under it. In groups intervals take for granted that none has more than twice its share of what is cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql.analysis import BoundSearch, Contribution, Plan
from dpsql.analysis.cut_contributions import (
    Excess,
    bound_worth,
    find_excesses,
    find_limited,
    has_bound_of,
    times_of_excess,
)
from dpsql.errors import with_article
from dpsql.estimates import (
    Average,
    Combined,
    Deviation,
    Formula,
    RowCount,
    SumOfRows,
    Variance,
    figure,
    plural,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.planning.plan_requests import confidence_of
from dpsql.render.readable import IN_THE_RANGE, LEFT_OUT, NOT_IN_THE_RANGE, slot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.planning.method import NoisyResult

_AVERAGE_DIFFERS = 20
"""An average is taken to move by at most this part of the range, for the share of its rows that is left out:
one divided by it."""

Widen = Callable[[int, Combined], Combined]
"""Widens the number at a place of the plan: its groups, then the rows in none of them."""
WidenFormula = Callable[[tuple[int, ...], Formula, Combined], Combined]
"""Widens a number that follows from moments at some places."""


def widen_numbers(
    plan: Plan, answer: NoisyResult, places: Collection[int], widen: Widen, of_formula: WidenFormula
) -> NoisyResult:
    """Return an answer with wider intervals of the numbers at `places` and of values computed from them."""
    outside = answer.outside
    counts, beyond = list(answer.counts), [] if outside is None else list(outside.counts)
    for place in places:
        found, last = counts[place], beyond[place] if beyond else None
        if found is None or plan.counts[place].noise_group not in (None, plan.counts[place].parts[0]):
            continue
        whole = found if last is None else _join_groups(found, last)
        wider, size = widen(place, whole), len(found.value)
        counts[place] = replace(wider.take(np.arange(size)), made=found.made)
        if last is not None:
            beyond[place] = wider.take(np.arange(size, len(whole.value)))
    values = {
        (uses, formula): of_formula(uses, formula, each) if uses[0] in places else each
        for (uses, formula), each in answer.values.items()
    }
    if outside is not None:
        outside = replace(outside, counts=tuple(beyond))
    return replace(answer, counts=tuple(counts), values=values, outside=outside)


def widen_formula(
    formula: Formula,
    found: Combined,
    number: Callable[[Combined, Fraction, Fraction], Combined],
    share: Callable[[], float],
) -> Combined:
    """Widen the interval of a value computed from moments by what a bound on rows leaves out.

    `number` widens a sum by the least and the greatest that a row adds, as far as these are below and above
    0; `share` says which share of the rows of an average is left out at most.
    """
    if isinstance(formula, RowCount):
        return number(found, Fraction(0), Fraction(1))
    if isinstance(formula, SumOfRows):
        return number(found, min(formula.low, Fraction(0)), max(formula.high, Fraction(0)))
    if not isinstance(formula, Average):
        return found
    by = share() * float(formula.high - formula.low) / _AVERAGE_DIFFERS
    return move_ends(found, by, by)


def move_ends(found: Combined, below: float, above: NDArray[np.float64] | float) -> Combined:
    """Return estimates whose intervals also cover what was cut."""
    ends = None if found.together is None else (found.together[0] - below, found.together[1] + above)
    return replace(found, low=found.low - below, high=found.high + above, together=ends)


def share_left_out(plan: Plan, cut: float, rows: float | None) -> float:
    """Return which share of the rows of an average is left out at most; in groups, of one of them.

    `rows` is how many of all rows with a value count; None: that is not known. A group has at most twice its
    share of what is left out: so of n that count, 2 n cut/rows are beside these.
    """
    if rows is None or (plan.key_types and plan.options.cut == "WHOLE"):
        return 1.0
    beside = cut * (2 if plan.key_types else 1)
    return beside / (max(rows, 0.0) + beside) if beside > 0 else 0.0


def rows_of_moments(plan: Plan, answer: NoisyResult, uses: Sequence[int]) -> float | None:
    """Return how many rows with a value count in all groups, by the moments of an average; None: unknown."""
    found = 0.0
    for place in uses:
        own, step = answer.counts[place], float(plan.counts[place].step)
        beyond = None if answer.outside is None else answer.outside.counts[place]
        if own is None:
            return None
        found += step * float(own.value.sum() + (0 if beyond is None else beyond.value.sum()))
    return found


def _join_groups(found: Combined, last: Combined) -> Combined:
    """Return the estimates of the groups, then of the rows in no group."""
    ends = None
    if found.together is not None and last.together is not None:
        pairs = zip(found.together, last.together, strict=True)
        low, high = (np.concatenate(pair) for pair in pairs)
        ends = (low, high)
    value, stddev, least, most = (
        np.concatenate([getattr(found, name), getattr(last, name)])
        for name in ("value", "stddev", "low", "high")
    )
    return Combined(value, stddev, least, most, ends)


# -- in words


def name_range(plan: Plan, places: Collection[int]) -> str:
    """Return the words that say whether intervals include what is cut; those of variances do not."""
    of = [
        output.name
        for output in plan.outputs
        if isinstance(output.formula, (Variance, Deviation)) and {*places} & {*output.uses}
    ]
    return f" (not in the range of {', '.join(of)})" if of else IN_THE_RANGE


def size_words(plan: Plan, estimate: float, most: float, *, rows: bool, added: bool) -> str:
    """Return what is left out in words: an estimate, and the end of its interval; rows are whole.

    `added` says whether the numbers of groups have it.
    """
    whole = (round(estimate), math.ceil(most)) if rows else (estimate, most)
    level = figure(float(confidence_of(plan) * 100))
    about = f"about {figure(whole[0])}{' (added to groups by their shares)' if added else ''}"
    return f"{about}, at most {figure(whole[1])} at {level}%"


def assumptions_on_shares(plan: Plan, *, signed: bool, averages: bool) -> list[str]:
    """Return what intervals take for granted of how what is cut is divided, in sentences."""
    found = []
    if plan.key_types and not signed and plan.options.cut != "WHOLE":
        ranges = any(count.argument is not None and count.argument.largest_in for count in plan.counts)
        others = " but that of the largest values" if ranges else ""
        found.append(f"no group{others} has more than twice its share of what is left out")
    if averages:
        found.append("the rows left out move an average by at most a twentieth of the range, for their share")
    return found


def put_in_slots(found: dict[str, list[str]], assumed: Sequence[str]) -> dict[str, str]:
    """Return sentences on what bounds leave out by the slot of a release that each one fills."""
    said = {slot(name): LEFT_OUT + ", ".join(texts) for name, texts in found.items() if texts}
    return said | ({"assumes": "; ".join(dict.fromkeys(assumed))} if assumed else {})


def add_sentence(found: dict[str, str], name: str, text: str) -> dict[str, str]:
    """Add a sentence to one property of a release, behind the sentences that it has."""
    return {**found, name: "; ".join(filter(None, (found.get(name, ""), text)))}


NOT_KNOWN = "what is cut is not known"


@dataclass(frozen=True, slots=True)
class MeasuredCut:
    """An excess as it was measured, in the unit of what is measured."""

    excess: Excess
    estimate: float
    most: float
    """The upper end of its interval, and `beyond`."""
    least: float = 0.0
    """The lower end of its interval."""
    beyond: float = 0.0
    """The most that is taken to be beyond what the excess covers."""

    @property
    def units(self) -> tuple[float, float]:
        """How many units are beyond what the excess covers at least and at most, if all that have it are."""
        each = float(self.excess.times * self.excess.limit * self.excess.of.ladder.step)
        return self.least / each, (self.most - self.beyond) / each

    @classmethod
    def of(cls, excess: Excess, noisy: float, half_width: float) -> MeasuredCut:
        """Return the measured cut from the noisy number of its steps."""
        step = float(excess.step)
        estimate, most, least = (max(n, 0.0) * step for n in (noisy, noisy + half_width, noisy - half_width))
        beyond = excess.most_beyond(estimate)
        return cls(excess, estimate, most + beyond, least, beyond)

    @property
    def known(self) -> bool:
        """Whether the excess was measured: nothing is measured beyond the largest searched bound."""
        return self.excess.times > 0


def estimates_of(plan: Plan, cuts: Sequence[MeasuredCut]) -> dict[int, float]:
    """Return estimates of what bounds cut from numbers that cannot be negative, by the numbers' places."""
    worths = {place: bound_worth(plan.counts[place]) for cut in cuts for place in cut.excess.places}
    return {
        place: cut.estimate * float(worths[place][1])
        for cut in cuts
        if cut.known
        for place in cut.excess.places
        if worths[place][0] >= 0
    }


def units_above(cuts: Sequence[MeasuredCut]) -> dict[int, tuple[float, float]]:
    """Return how many units are above bounds at least and at most, by the searches that found these."""
    return {cut.excess.search: cut.units for cut in cuts if cut.known}


def describe_low_bounds(plan: Plan, found: Iterable[tuple[Excess, str]]) -> dict[str, str]:
    """Return the sentences on bounds with more units above than a search leaves where none is far above.

    Each is with the words that say so: "are" or "may be".
    """
    said, units = [], plural(plan.unit)
    for excess, are in found:
        bound = excess.limit * excess.of.ladder.step
        name, which = _name(plan, excess.of, excess.places), _name_numbers(plan, excess.of, excess.bound)
        why = f"many {units} {are} above {figure(float(bound))}"
        said.append(
            f"{name} of {with_article(plan.unit)} beyond {_farthest(excess)}{which}, how much is not known: "
            f"{why}{NOT_IN_THE_RANGE}"
        )
    return put_in_slots({"cut": said}, [])


def describe_left_out(
    plan: Plan, cuts: Sequence[MeasuredCut], added: Sequence[MeasuredCut] = ()
) -> dict[str, str]:
    """Return the sentences on what is left out, and on what is taken for granted, for a release.

    `added` are the excesses that the numbers of groups have.
    """
    found: dict[str, list[str]] = {"cut": [], "bound": []}
    assumed: list[str] = []
    for cut in cuts:
        excess = cut.excess
        if excess.ends:
            continue
        what = _what(plan, excess.of, excess.bound, excess.places)
        if not cut.known:
            found["cut"].append(f"{what}, how much is not known{NOT_IN_THE_RANGE}")
            continue
        rows = excess.of.ladder.of is Contribution.ROWS
        sizes = f"{what}, {size_words(plan, cut.estimate, cut.most, rows=rows, added=cut in added)}"
        found["bound"].append(f"{sizes}{name_range(plan, excess.places)}{_condition(plan, cut)}")
        assumed += _list_assumptions(plan, cut)
    return put_in_slots(found, assumed)


def describe_unknown_cuts(plan: Plan, searches: Iterable[tuple[BoundSearch, int]]) -> dict[str, str]:
    """Return the sentences on bounds, by their places, of which it is not known what they cut."""
    found = []
    for search, place in searches:
        if place + 1 == len(search.ladder.bounds) and search.ladder.ends:
            continue
        found.append(f"{_what(plan, search, place)}, {NOT_KNOWN}{NOT_IN_THE_RANGE}")
    return put_in_slots({"cut": list(dict.fromkeys(found))}, [])


def describe_bounds_to_find(plan: Plan) -> list[str]:
    """Return what EXPLAIN says of bounds that are still to be found."""
    largest = [len(search.ladder.bounds) - 1 for search in plan.ladders]
    measured = {excess.search: excess for excess in find_excesses(plan, plan.ladders, largest)}
    said = []
    for place, search in enumerate(plan.ladders):
        if search.ladder.of in _VALUES:
            said.append(f"{_VALUES[search.ladder.of]} a bound, found by search: {NOT_KNOWN}")
            continue
        which = _name_numbers(plan, search, largest[place])
        what = f"{_name(plan, search)} of {with_article(plan.unit)} beyond a bound{which}, found by search"
        if place not in measured:
            said.append(f"{what}: {NOT_KNOWN}")
            continue
        beyond, places = times_of_excess(plan, measured[place].places) + 1, measured[place].places
        said.append(f"{what}: noise and excess to {beyond}B{name_range(plan, places)}")
    return said


def merge_properties(*every: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a release with the sentences of several sources in each of its slots."""
    made: dict[str, str] = {}
    for each in every:
        for name, text in each.items():
            before, own = made.get(name), text.removeprefix(LEFT_OUT)
            if before and before.startswith(LEFT_OUT):
                joined = ", " if own != text else "; "
                made[name] = before if before == text else f"{before}{joined}{own}"
            else:
                made[name] = f"{before}; {text}" if before else text
    return made


def say_of_columns(
    every: Sequence[Mapping[str, str]], shown: Sequence[Sequence[str]]
) -> list[dict[str, str]]:
    """Return properties of releases that say, where several leave out something, of which columns it is.

    `shown` are the columns of each release; what is said of one without any stays as it is.
    """
    names = [slot(name) for name in ("cut", "bound")]
    cuts = [{n: text for n in names if (text := each.get(n, "")).startswith(LEFT_OUT)} for each in every]
    if sum(map(bool, cuts)) < 2 or all(columns == shown[0] for columns in shown):
        return [dict(each) for each in every]
    made = []
    for each, cut, columns in zip(every, cuts, shown, strict=True):
        which = f"left out of {' and '.join(dict.fromkeys(columns))}: "
        named = {n: which + text.removeprefix(LEFT_OUT) for n, text in cut.items() if columns}
        made.append({**each, **named})
    return made


_VALUES = {Contribution.HIGHEST: "values above", Contribution.LOWEST: "values below"}


def _what(plan: Plan, search: BoundSearch, place: int, places: Sequence[int] = ()) -> str:
    ladder = search.ladder
    bound = figure(float(ladder.bounds[place] * ladder.step))
    if ladder.of in _VALUES:
        sign = "-" if ladder.of is Contribution.LOWEST and ladder.bounds[place] else ""
        return f"{_VALUES[ladder.of]} {sign}{bound}"
    which = _name_numbers(plan, search, place)
    return f"{_name(plan, search, places)} of {with_article(plan.unit)} beyond {bound}{which}"


def _name_numbers(plan: Plan, search: BoundSearch, place: int) -> str:
    """Return the words that say which numbers a bound cuts, where others have another bound of its kind."""
    bound, of = search.ladder.bounds[place], search.ladder.of
    alike = {p for p, count in enumerate(plan.counts) if find_limited(count) is of}
    own = {p for p in alike if has_bound_of(plan.counts[p], search.ladder, bound)}
    shown = (
        o.name for o in plan.outputs if alike - own and own & {*(o.uses or (o.of,))} and o.kind == "count"
    )
    names = list(dict.fromkeys(shown))
    return f" in {' and '.join(names)}" if names else ""


def _name(plan: Plan, search: BoundSearch, places: Sequence[int] = ()) -> str:
    """Return what of a unit is bounded: rows, or the total of an argument."""
    if search.ladder.of is Contribution.ROWS:
        return "rows"
    if search.ladder.of is Contribution.GROUPS:
        return "groups"
    if search.ladder.of is Contribution.ROWS_IN_A_GROUP:
        return "rows in a group"
    if search.ladder.of is Contribution.VALUES:
        return "different values" + " in a group" * bool(plan.key_types)
    counts = [plan.counts[place] for place in places] or plan.counts
    named = (c.argument for c in counts if c.argument is not None and c.argument.searched)
    found = next(named, None)
    totals = "totals" if found is None or not found.text else found.text
    return f"{totals} in a group" if search.ladder.of is Contribution.TOTAL_IN_A_GROUP else totals


def _condition(plan: Plan, cut: MeasuredCut) -> str:
    """Return the words on what must be so for the size of a cut to be right.

    `_list_assumptions` has the rest.
    """
    farthest, beyond = _farthest(cut.excess), _beyond(cut)
    return (
        f" if beyond {farthest} are at most {beyond}"
        if beyond
        else f" if no {plan.unit} is beyond {farthest}"
    )


def _beyond(cut: MeasuredCut) -> str:
    """Write how much is taken to be beyond what the excess covers; "": nothing."""
    return figure(math.ceil(cut.beyond) if cut.excess.rows else cut.beyond) if cut.beyond else ""


def _farthest(excess: Excess) -> str:
    """Write how much of a unit the excess covers."""
    return figure(float((excess.times + 1) * excess.limit * excess.of.ladder.step))


def _list_assumptions(plan: Plan, cut: MeasuredCut) -> list[str]:
    """Return what the intervals take for granted, in sentences."""
    excess, most, beyond = cut.excess, _farthest(cut.excess), _beyond(cut)
    name = _name(plan, excess.of, excess.places)
    counted = "rows that count" if excess.rows else name
    found = [f"no {plan.unit} has more than {most} {counted}"]
    if beyond:
        found = [f"{plural(plan.unit)} have at most {beyond} {counted} beyond {most} each"]
    signed = any(bound_worth(plan.counts[place])[0] < 0 for place in excess.places)
    averages = any(isinstance(o.formula, Average) and {*o.uses} & {*excess.places} for o in plan.outputs)
    return found + assumptions_on_shares(plan, signed=signed, averages=averages)
