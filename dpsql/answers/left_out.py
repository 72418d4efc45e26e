"""What the bounds of numbers leave out, as kept ladders know it: in the values, the intervals and in words.

The interval of a number is then about the exact answer of the SQL on all rows of the table: it has the noise,
and what is beyond the bound on each unit. It takes for granted that no unit has more than twice what the
ladder searched (M), and in groups that none has more than twice its share of what is beyond the bound, the
share being that of what is within. All of it is computed from releases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpsql.analysis.kept_bounds import ROWS, columns_of, counted_by, total_of
from dpsql.answers import plan_requests
from dpsql.answers.cut_intervals import (
    assumptions_on_shares,
    move_ends,
    name_range,
    put_in_slots,
    rows_of_moments,
    share_left_out,
    size_words,
    widen_formula,
    widen_numbers,
)
from dpsql.estimates import Average, Combined, Shared, figure, plural
from dpsql.language import AllGroups
from dpsql.render.lines import NOT_IN_THE_RANGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpsql.analysis import LeftOut, Plan
    from dpsql.answers.method import NoisyResult
    from dpsql.estimates import Formula


def with_left_out(plan: Plan, answer: NoisyResult) -> NoisyResult:
    """Return an answer whose intervals have what is left out of the numbers; in groups it is shared."""
    known = {p: each for p, each in enumerate(plan.left_out) if each is not None and each.kept.current}
    if not known or plan.options.cut == "NOISE_ONLY":
        return answer

    def number(place: int, found: Combined) -> Combined:
        return _widen(plan, known[place], found, float(plan.counts[place].step))

    def of_formula(uses: tuple[int, ...], formula: Formula, found: Combined) -> Combined:
        left = known[uses[0]]
        return widen_formula(
            formula,
            found,
            lambda found, lowest, highest: _widen(
                plan, replace(left, lowest=lowest, highest=highest), found, 1.0
            ),
            lambda: share_left_out(plan, _most_cut(plan, left), _rows(plan, answer, uses)),
        )

    return widen_numbers(plan, answer, known, number, of_formula)


def _widen(plan: Plan, left: LeftOut, found: Combined, step: float) -> Combined:
    """Return a number of all rows, or the numbers of groups, with what is left out in the intervals."""
    if not plan.key_types:
        return _of_all(plan, left, found, step)
    return _in_groups(plan, left, found, step)


def _of_all(plan: Plan, left: LeftOut, found: Combined, step: float) -> Combined:
    """Widen the interval of a number of all rows: of parts that are not negative, on the upper side alone."""
    cut = left.kept.ladder.cut(left.bound, largest=True) / step
    noise = _most_cut(plan, left) / step - cut
    highest, lowest = float(left.highest), float(-left.lowest)

    def above(ends: NDArray[np.float64]) -> NDArray[np.float64]:
        return found.value + cut * highest + np.hypot(ends - found.value, noise * highest)

    def below(ends: NDArray[np.float64]) -> NDArray[np.float64]:
        return found.value - cut * lowest - np.hypot(found.value - ends, noise * lowest)

    ends = None if found.together is None else (below(found.together[0]), above(found.together[1]))
    return replace(found, low=below(found.low), high=above(found.high), together=ends)


def _in_groups(plan: Plan, left: LeftOut, found: Combined, step: float) -> Combined:
    """Give back what is left out to groups by their shares.

    Of either sign, it is on both sides instead; and what is known in rows only widens a sum of their values.
    Where each group may have all of it, nothing is given back.
    """
    most = _most_cut(plan, left) / step
    if left.signed or plan.options.cut == "WHOLE":
        return move_ends(found, most * float(-left.lowest), most * float(left.highest))
    if not _is_given_back(plan, left):
        return move_ends(found, 0.0, most * float(left.highest) * _shares(plan, found.value))

    def shared(high: NDArray[np.float64]) -> Shared:
        return left.kept.ladder.shared(
            found.value * step,
            (high - found.value) * step,
            left.bound,
            selected=not _every_group(plan),
            confidence=plan_requests.confidence_of(plan),
        )

    made = shared(found.high)
    ends = found.together and (found.together[0], shared(found.together[1]).high / step)
    return replace(
        found,
        value=made.value / step,
        stddev=found.stddev * made.grows,
        high=made.high / step,
        together=ends,
    )


def _is_given_back(plan: Plan, left: LeftOut) -> bool:
    """Return whether groups get back what is left out: not what has signs, nor what is known in rows."""
    return left.highest == 1 and not left.signed and plan.options.cut != "WHOLE"


def _every_group(plan: Plan) -> bool:
    """Whether the groups of an answer, with what is in none, are all rows of the table."""
    every = isinstance(plan.selection, AllGroups) and plan.selection.limit is None
    return every and plan.partitions is None and plan.domain_size is not None


def _shares(plan: Plan, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return twice the share of each group in the whole, at most 1; 1 where the whole is not known."""
    there = np.maximum(values, 0)
    whole = float(there.sum())
    return np.minimum(2 * there / whole, 1) if whole > 0 and _every_group(plan) else np.ones(len(values))


def _rows(plan: Plan, answer: NoisyResult, uses: Sequence[int]) -> float | None:
    """Return how many rows with a value count; where groups are missing, how many rows do, by the ladder."""
    if not plan.key_types or _every_group(plan):
        return rows_of_moments(plan, answer, uses)
    left = plan.left_out[uses[0]]
    return None if left is None else left.kept.ladder.total - left.kept.ladder.cut(left.bound)


def _most_cut(plan: Plan, left: LeftOut) -> float:
    return left.kept.ladder.most_cut(left.bound, confidence=plan_requests.confidence_of(plan))


def left_out_sentences(plan: Plan) -> dict[str, str]:
    """Return the sentences on what bounds leave out, and on what is taken for granted, for a release."""
    found: dict[str, list[str]] = {"cut": [], "bound": []}
    assumed: list[str] = []
    known = [(place, each) for place, each in enumerate(plan.left_out) if each is not None]
    for left in dict.fromkeys(each for _, each in known):
        places = {place for place, each in known if each == left}
        name, text = _sentence(plan, left, places)
        found[name].append(text)
        known_cut = left.kept.current and plan.options.cut != "NOISE_ONLY"
        assumed += _assumed(plan, left) if known_cut else []
    # Of numbers with bounds of their own it only decides which groups are shown.
    if plan.groups_left_out is not None and plan.groups_kept is not None:
        what = _what_beyond(plan, plan.groups_left_out)
        found["cut"].append(f"{what}, how much is not known{NOT_IN_THE_RANGE}")
    return put_in_slots(found, assumed)


def _sentence(plan: Plan, left: LeftOut, places: set[int]) -> tuple[str, str]:
    """Return what a bound leaves out of the numbers at some places, and the slot in which it is said."""
    ladder, what = left.kept.ladder, _what_beyond(plan, left)
    if not left.kept.told:
        why = "no data_version tells whether the data changed"
        return "cut", f"{what}, how much is not known: {why}{NOT_IN_THE_RANGE}"
    if not left.kept.current:
        changed = "the data or the declared values" if columns_of(ladder.measure) else "the data"
        since = f"since {changed} changed after {ladder.made:%d %B %Y}"
        return "cut", f"{what}, how much is not known {since}{NOT_IN_THE_RANGE}"
    estimate, rows = ladder.cut(left.bound), ladder.measure == ROWS
    added = bool(plan.key_types) and plan.options.cut == "SHARED" and _is_given_back(plan, left)
    # Numbers of another kind under the bound, averages and quantiles, do not have it.
    under = [output for output in plan.outputs if places & {output.of, *output.uses}]
    added &= all(output.formula is None and output.quantile is None for output in under)
    sizes = f"{what}, {size_words(plan, estimate, _most_cut(plan, left), rows=rows, added=added)}"
    if plan.options.cut == "NOISE_ONLY":
        return "cut", f"{sizes} (not in the range, as cut = NOISE_ONLY says)"
    if any(output.quantile is not None for output in plan.outputs):
        return "bound", f"{sizes} (in the error of the rank){_units_above(plan, left)}"
    return "bound", f"{sizes}{name_range(plan, places)}{_units_above(plan, left)}"


def _units_above(plan: Plan, left: LeftOut) -> str:
    """Return that units are above what a ladder found, of which no more than twice that is known; or ""."""
    ladder = left.kept.ladder
    if ladder.units_above is None:
        return ""
    units = plural(plan.unit)
    most, twice = (figure(each * ladder.most * float(ladder.step)) for each in (1, 2))
    what = f"about {figure(ladder.units_above)} {units} are above {most}"
    return f"; {what}, what they have beyond {twice} is not known{NOT_IN_THE_RANGE}"


def _what_beyond(plan: Plan, left: LeftOut) -> str:
    """Return what of a unit is beyond a bound, in words."""
    ladder = left.kept.ladder
    bound = figure(left.bound * float(ladder.step))
    return f"{_name_of_measure(left)} of a {plan.unit} beyond {bound} in {ladder.table}"


def _assumed(plan: Plan, left: LeftOut) -> list[str]:
    """Return what the intervals take for granted, in sentences."""
    ladder = left.kept.ladder
    found = [
        f"no {plan.unit} has more than {figure(2 * ladder.most * float(ladder.step))} "
        f"{_name_of_measure(left)} in {ladder.table}"
    ]
    if ladder.measure.startswith(total_of("")) and not left.signed:
        found.append(f"no {_name_of_measure(left)} in {ladder.table} is below 0")
    averages = any(isinstance(output.formula, Average) for output in plan.outputs)
    return found + assumptions_on_shares(plan, signed=left.signed, averages=averages)


def _name_of_measure(left: LeftOut) -> str:
    return counted_by(left.kept.ladder.measure)
