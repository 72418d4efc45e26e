"""What the bounds of numbers leave out, rows and values, as kept ladders know it: in intervals and in words.

The interval of a number is then about the exact answer of the SQL on all rows of the table: it has the noise,
and what is beyond the bound on each unit. It takes for granted that no unit has more than twice what the
ladder searched (M), and in groups that none has more than twice its share of what is beyond the bound, the
share being that of what is within. All of it is computed from releases.

With mean distances D above the bounds and E below, over all values, an average of cut values is D - E too
low. Its upper end moves by D and its lower end by E, each with the noise of its release. In groups either may
be twice as large, as intervals take for granted. All of it is computed from releases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsql.analysis.bound_ladders import ROWS, columns_of, subject_of_measure, total_of
from dpsql.errors import with_article
from dpsql.estimates import (
    Average,
    Combined,
    Deviation,
    RowCount,
    Shared,
    SumOfRows,
    Variance,
    decimal,
    figure,
    plural,
)
from dpsql.language import AboveThreshold, AllGroups, TopK
from dpsql.planning import plan_requests
from dpsql.planning.cut_intervals import (
    NOT_KNOWN,
    add_sentence,
    assumptions_on_shares,
    merge_properties,
    move_ends,
    name_range,
    put_in_slots,
    rows_of_moments,
    share_left_out,
    size_words,
    widen_formula,
    widen_numbers,
)
from dpsql.render.readable import IN_THE_RANGE, NOT_IN_THE_RANGE, slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpsql.analysis import CutValues, LeftOut, Output, Plan
    from dpsql.estimates import Formula, ValuesBeyond
    from dpsql.planning.method import NoisyResult


def widen_by_rows_left_out(plan: Plan, answer: NoisyResult) -> NoisyResult:
    """Widen an answer's intervals by the rows that bounds leave out, shared among the groups."""
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
            lambda: share_left_out(plan, _most_cut(plan, left), _count_rows(plan, answer, uses)),
        )

    most = {place: _most_cut(plan, left) for place, left in known.items()}
    widened = widen_numbers(plan, answer, known, number, of_formula)
    return replace(widened, most_left_out={**answer.most_left_out, **most})


def _widen(plan: Plan, left: LeftOut, found: Combined, step: float) -> Combined:
    """Return a number of all rows, or the numbers of groups, with what is left out in the intervals."""
    if not plan.key_types:
        return _widen_whole(plan, left, found, step)
    return _share_among_groups(plan, left, found, step)


def _widen_whole(plan: Plan, left: LeftOut, found: Combined, step: float) -> Combined:
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


def _share_among_groups(plan: Plan, left: LeftOut, found: Combined, step: float) -> Combined:
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
        return left.kept.ladder.divide_by_shares(
            found.value * step,
            (high - found.value) * step,
            left.bound,
            selected=not _every_group(plan),
            confidence=plan_requests.confidence_of(plan),
        )

    made = shared(found.high)
    ends = found.together and (found.together[0], shared(found.together[1]).high / step)
    return replace(
        found, value=made.value / step, stddev=found.stddev * made.grows, high=made.high / step, together=ends
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


def _count_rows(plan: Plan, answer: NoisyResult, uses: Sequence[int]) -> float | None:
    """Return how many rows with a value count; where groups are missing, how many rows do, by the ladder."""
    if not plan.key_types or _every_group(plan):
        return rows_of_moments(plan, answer, uses)
    left = plan.left_out[uses[0]]
    return None if left is None else left.kept.ladder.total - left.kept.ladder.cut(left.bound)


def _most_cut(plan: Plan, left: LeftOut) -> float:
    return left.kept.ladder.most_cut(left.bound, confidence=plan_requests.confidence_of(plan))


def sentences_on_rows(plan: Plan) -> dict[str, str]:
    """Return the sentences on what bounds leave out, and on what is taken for granted, for a release."""
    found: dict[str, list[str]] = {"cut": [], "bound": []}
    assumed: list[str] = []
    known = [(place, each) for place, each in enumerate(plan.left_out) if each is not None]
    for left in dict.fromkeys(each for _, each in known):
        places = {place for place, each in known if each == left}
        name, text = _sentence_on_rows(plan, left, places)
        found[name].append(text)
        known_cut = left.kept.current and plan.options.cut != "NOISE_ONLY"
        assumed += _assumptions_on_rows(plan, left) if known_cut else []
    # Of numbers with bounds of their own it only decides which groups are shown.
    if plan.groups_left_out is not None and plan.groups_kept is not None:
        what = _what_beyond(plan, plan.groups_left_out)
        found["cut"].append(f"{what}, how much is not known{NOT_IN_THE_RANGE}")
    return put_in_slots(found, assumed)


def _sentence_on_rows(plan: Plan, left: LeftOut, places: set[int]) -> tuple[str, str]:
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
    return f"{_name_of_measure(left)} of {with_article(plan.unit)} beyond {bound} in {ladder.table}"


def _assumptions_on_rows(plan: Plan, left: LeftOut) -> list[str]:
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
    return subject_of_measure(left.kept.ladder.measure)


if TYPE_CHECKING:
    _Ends = tuple[NDArray[np.float64], NDArray[np.float64]]

"""The measure of how many rows a unit has."""


class _MeanShift(NamedTuple):
    """How far the mean of all values may lie above that of the cut ones, and below: estimate and noise."""

    above: float
    above_noise: float
    below: float
    below_noise: float


def widen_by_left_out(plan: Plan, answer: NoisyResult) -> NoisyResult:
    """Return an answer whose intervals have what is left out of its numbers, rows and values."""
    known = {place: found for place, each in enumerate(plan.cut_values) if (found := _known(plan, each))}
    if known:
        values = {
            (uses, formula): _widen_average(plan, known[uses[0]], each)
            if isinstance(formula, Average) and uses[0] in known
            else each
            for (uses, formula), each in answer.values.items()
        }
        answer = replace(answer, values=values)
    made = widen_by_rows_left_out(plan, answer)
    return _widen_sums(plan, known, made) if known else made


def _known(plan: Plan, cut: CutValues | None) -> ValuesBeyond | None:
    """Return what is known of values that are cut, and goes into intervals; None: nothing does."""
    if cut is None or plan.options.cut == "NOISE_ONLY" or (plan.key_types and plan.options.cut == "WHOLE"):
        return None
    return cut.beyond


def _shift_of_mean(plan: Plan, beyond: ValuesBeyond, *, whole: bool = False) -> _MeanShift:
    """Return how far the mean of all values may lie from that of the cut ones; in groups up to twice as far.

    Values whose rows were weighted down are taken to lie at most twice as far beyond as others.
    """
    confidence, times = plan_requests.confidence_of(plan), 1 if whole or not plan.key_types else 2
    known = (each.kept for each in plan.left_out if each is not None and each.kept.current)
    ladder = next((each.ladder for each in known if each.ladder.measure == ROWS), None)
    share = 0.0
    if ladder is not None and beyond.rows > 1:
        # Of the rows with a value that counted; there may be rows without one.
        cut = ladder.most_cut(beyond.rows, confidence=confidence)
        share = cut / max(cut + (beyond.above + beyond.below + beyond.left) / beyond.width, 1.0)
    ends = [beyond.side(above, confidence=confidence) for above in (True, False)]
    found = [(times * (1 + share) * each.about, times * each.noise) for each in ends]
    return _MeanShift(*found[0], *found[1])


def _widen_average(plan: Plan, beyond: ValuesBeyond, found: Combined) -> Combined:
    moved = _shift_of_mean(plan, beyond)

    def ends(low: NDArray[np.float64], high: NDArray[np.float64]) -> _Ends:
        below = found.value - moved.below - np.hypot(found.value - low, moved.below_noise)
        return below, found.value + moved.above + np.hypot(high - found.value, moved.above_noise)

    low, high = ends(found.low, found.high)
    return replace(found, low=low, high=high, together=found.together and ends(*found.together))


def _widen_sums(plan: Plan, known: dict[int, ValuesBeyond], answer: NoisyResult) -> NoisyResult:
    """Widen the intervals of sums of values by what all of them have beyond the bounds together."""
    counts, values = list(answer.counts), dict(answer.values)
    for place, beyond in known.items():
        found, rows, count = counts[place], _number_of_rows(plan, place), plan.counts[place]
        if found is not None and rows is not None and count.noise_group is count.parts[0]:
            counts[place] = _widen_sum(plan, beyond, found, rows / float(count.step))
    for (uses, formula), each in answer.values.items():
        rows = _number_of_rows(plan, uses[0])
        if isinstance(formula, SumOfRows) and uses[0] in known and rows is not None:
            values[uses, formula] = _widen_sum(plan, known[uses[0]], each, rows)
    return replace(answer, counts=tuple(counts), values=values)


def _widen_sum(plan: Plan, beyond: ValuesBeyond, found: Combined, rows: float) -> Combined:
    moved = _shift_of_mean(plan, beyond)
    below, above = rows * (moved.below + moved.below_noise), rows * (moved.above + moved.above_noise)
    ends = found.together and (found.together[0] - below, found.together[1] + above)
    return replace(found, low=found.low - below, high=found.high + above, together=ends)


def _number_of_rows(plan: Plan, place: int) -> float | None:
    """Return how many rows a sum is of, as the ladder of rows knows it; None: it does not, or of groups."""
    left = plan.left_out[place]
    if plan.key_types or left is None or not left.kept.current or left.kept.ladder.measure != ROWS:
        return None
    return left.kept.ladder.total


def left_out_sentences(plan: Plan) -> dict[str, str]:
    """Return the sentences on what is left out of the numbers, and on what is taken for granted."""
    found = sentences_on_rows(plan)
    if text := _what_is_compared(plan):
        found = add_sentence(found, slot("bound"), text)
    places: dict[CutValues, set[int]] = {}
    for place, each in enumerate(plan.cut_values):
        if each is not None:
            places.setdefault(each, set()).add(place)
    for constant in plan.constant_cuts:
        by = f", {constant.by}" if constant.by else ""
        what = f"{constant.of} of {with_article(plan.unit)} beyond {constant.most:,}{by}"
        said = put_in_slots({"cut": [f"{what}, {NOT_KNOWN}{NOT_IN_THE_RANGE}"]}, [])
        found = merge_properties(found, said)
    for cut, own in places.items():
        name, text = _sentence(plan, cut, own)
        found = add_sentence(found, slot(name), text)
        if _known(plan, cut) is not None:
            found = add_sentence(found, "assumes", _assumptions_on_values(plan, cut))
    return found


def _what_is_compared(plan: Plan) -> str:
    """Return what a selection compares, where that is cut: the numbers within the bounds; or ""."""
    best = getattr(plan.selection, "best", plan.selection)
    if not isinstance(best, (TopK, AboveThreshold)) or plan.left_out[best.count] is None:
        return ""
    compared = "compared with the threshold" if best.threshold is not None else "chosen"
    return f"groups are {compared} by what is within the bound"


def _sentence(plan: Plan, cut: CutValues, places: set[int]) -> tuple[str, str]:
    """Return what bounds cut from the values of numbers at some places, and the slot in which it is said."""
    if not cut.text:
        text = f"rows of {with_article(plan.unit)} beyond {decimal(cut.high)} in a group are left out"
        return "cut", f"{text}, how many is not known{NOT_IN_THE_RANGE}"
    what = f"values of {cut.text}"
    if cut.per_group:
        where = " in a group" if plan.key_types else ""
        what = f"{_what_is_bounded(plan, places)} of {cut.text} of {with_article(plan.unit)}{where}"
    low, high = decimal(cut.low), decimal(cut.high)
    what = f"{what} beyond {low} to {high} count as {low} or {high}"
    beyond = cut.beyond
    if beyond is None:
        changed = "" if cut.kept is None or not cut.kept.told else " since the data changed"
        return "cut", f"{what}, what that moves is not known{changed}{NOT_IN_THE_RANGE}"
    moved = _shift_of_mean(plan, beyond, whole=True)
    least, most = moved.below + moved.below_noise, moved.above + moved.above_noise
    about = moved.above - moved.below
    by = f"about {figure(abs(about))} too {'low' if about >= 0 else 'high'}"
    sizes = f"{what}: their average over all rows is {by}, {figure(most)} too low to {figure(least)} too high"
    if _known(plan, cut) is None:
        return "cut", f"{sizes} (not in the range)"
    others = [o.name for o in plan.outputs if places & {o.of, *o.uses} and not _is_covered(plan, o)]
    where = f" (not in the range of {', '.join(others)})" if others else IN_THE_RANGE
    return "bound", sizes + where


def _what_is_bounded(plan: Plan, places: set[int]) -> str:
    """Return what of a unit is bounded: its total where the number is a sum, or its average."""
    means = {output.formula is not None for output in plan.outputs if places & {output.of, *output.uses}}
    return "totals or averages" if len(means) > 1 else "averages" if True in means else "totals"


def _is_covered(plan: Plan, output: Output) -> bool:
    """Whether the interval of a number already covers the values that bounds cut from it."""
    if isinstance(output.formula, (Variance, Deviation)):
        return False
    if output.kind != "count" or isinstance(output.formula, (Average, RowCount)):
        return True
    return _number_of_rows(plan, output.uses[0] if output.uses else output.of) is not None


def _assumptions_on_values(plan: Plan, cut: CutValues) -> str:
    """Return what the intervals take for granted of values that are cut."""
    beyond = cut.beyond
    assert beyond is not None  # noqa: S101  it is known
    low, high = map(decimal, beyond.farthest)
    found = f"no value of {cut.text} is below {low} or above {high}"
    if plan.key_types:
        found += ", and those of a group lie at most twice as far beyond the bounds as all"
    return found
