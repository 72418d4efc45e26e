"""What bounds cut from values, as `dpsql bounds` released it: in intervals of averages and sums, in words.

With mean distances D above the bounds and E below, over all values, an average of cut values is D - E too
low. Its upper end moves by D and its lower end by E, each with the noise of its release. In groups either may
be twice as large, as intervals take for granted. All of it is computed from releases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsql.analysis.kept_bounds import ROWS
from dpsql.answers import left_out, plan_requests
from dpsql.answers.cut_intervals import add_sentence
from dpsql.estimates import Average, Combined, Deviation, RowCount, SumOfRows, Variance, decimal, figure
from dpsql.language import AboveThreshold, TopK
from dpsql.render.lines import IN_THE_RANGE, NOT_IN_THE_RANGE, slot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.analysis import CutValues, Output, Plan
    from dpsql.answers.method import NoisyResult
    from dpsql.estimates import ValuesBeyond

    _Ends = tuple[NDArray[np.float64], NDArray[np.float64]]

"""The measure of how many rows a unit has."""


class _Moved(NamedTuple):
    """How far the mean of all values may lie above that of the cut ones, and below: estimate and noise."""

    above: float
    above_noise: float
    below: float
    below_noise: float


def with_left_out(plan: Plan, answer: NoisyResult) -> NoisyResult:
    """Return an answer whose intervals have what is left out of its numbers, rows and values."""
    known = {place: found for place, each in enumerate(plan.cut_values) if (found := _known(plan, each))}
    if known:
        values = {
            (uses, formula): _average(plan, known[uses[0]], each)
            if isinstance(formula, Average) and uses[0] in known
            else each
            for (uses, formula), each in answer.values.items()
        }
        answer = replace(answer, values=values)
    made = left_out.with_left_out(plan, answer)
    return _sums(plan, known, made) if known else made


def _known(plan: Plan, cut: CutValues | None) -> ValuesBeyond | None:
    """Return what is known of values that are cut, and goes into intervals; None: nothing does."""
    if cut is None or plan.options.cut == "NOISE_ONLY" or (plan.key_types and plan.options.cut == "WHOLE"):
        return None
    return cut.beyond


def _moved(plan: Plan, beyond: ValuesBeyond, *, whole: bool = False) -> _Moved:
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
    return _Moved(*found[0], *found[1])


def _average(plan: Plan, beyond: ValuesBeyond, found: Combined) -> Combined:
    moved = _moved(plan, beyond)

    def ends(low: NDArray[np.float64], high: NDArray[np.float64]) -> _Ends:
        below = found.value - moved.below - np.hypot(found.value - low, moved.below_noise)
        return below, found.value + moved.above + np.hypot(high - found.value, moved.above_noise)

    low, high = ends(found.low, found.high)
    return replace(found, low=low, high=high, together=found.together and ends(*found.together))


def _sums(plan: Plan, known: dict[int, ValuesBeyond], answer: NoisyResult) -> NoisyResult:
    """Widen the intervals of sums of values by what all of them have beyond the bounds together."""
    counts, values = list(answer.counts), dict(answer.values)
    for place, beyond in known.items():
        found, rows, count = counts[place], _number_of_rows(plan, place), plan.counts[place]
        if found is not None and rows is not None and count.share is count.parts[0]:
            counts[place] = _wider(plan, beyond, found, rows / float(count.step))
    for (uses, formula), each in answer.values.items():
        rows = _number_of_rows(plan, uses[0])
        if isinstance(formula, SumOfRows) and uses[0] in known and rows is not None:
            values[uses, formula] = _wider(plan, known[uses[0]], each, rows)
    return replace(answer, counts=tuple(counts), values=values)


def _wider(plan: Plan, beyond: ValuesBeyond, found: Combined, rows: float) -> Combined:
    moved = _moved(plan, beyond)
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
    found = left_out.left_out_sentences(plan)
    if text := _selected(plan):
        found = add_sentence(found, slot("bound"), text)
    places: dict[CutValues, set[int]] = {}
    for place, each in enumerate(plan.cut_values):
        if each is not None:
            places.setdefault(each, set()).add(place)
    for cut, own in places.items():
        name, text = _sentence(plan, cut, own)
        found = add_sentence(found, slot(name), text)
        if _known(plan, cut) is not None:
            found = add_sentence(found, "assumes", _assumed(plan, cut))
    return found


def _selected(plan: Plan) -> str:
    """Return what a selection compares, where that is cut: the numbers within the bounds; or ""."""
    best = getattr(plan.selection, "best", plan.selection)
    if not isinstance(best, (TopK, AboveThreshold)) or plan.left_out[best.count] is None:
        return ""
    compared = "compared with the threshold" if best.threshold is not None else "chosen"
    return f"groups are {compared} by what is within the bound"


def _sentence(plan: Plan, cut: CutValues, places: set[int]) -> tuple[str, str]:
    """Return what bounds cut from the values of numbers at some places, and the slot in which it is said."""
    if not cut.text:
        text = f"rows of a {plan.unit} beyond {decimal(cut.high)} in a group are left out"
        return "cut", f"{text}, how many is not known{NOT_IN_THE_RANGE}"
    what = f"values of {cut.text}"
    if cut.per_group:
        where = " in a group" if plan.key_types else ""
        what = f"{_own(plan, places)} of {cut.text} of a {plan.unit}{where}"
    low, high = decimal(cut.low), decimal(cut.high)
    what = f"{what} beyond {low} to {high} count as {low} or {high}"
    beyond = cut.beyond
    if beyond is None:
        changed = "" if cut.kept is None or not cut.kept.told else " since the data changed"
        return "cut", f"{what}, what that moves is not known{changed}{NOT_IN_THE_RANGE}"
    moved = _moved(plan, beyond, whole=True)
    least, most = moved.below + moved.below_noise, moved.above + moved.above_noise
    about = moved.above - moved.below
    by = f"about {figure(abs(about))} too {'low' if about >= 0 else 'high'}"
    sizes = f"{what}: their average over all rows is {by}, {figure(most)} too low to {figure(least)} too high"
    if _known(plan, cut) is None:
        return "cut", f"{sizes} (not in the range)"
    others = [o.name for o in plan.outputs if places & {o.of, *o.uses} and not _is_covered(plan, o)]
    where = f" (not in the range of {', '.join(others)})" if others else IN_THE_RANGE
    return "bound", sizes + where


def _own(plan: Plan, places: set[int]) -> str:
    """Return what of a unit is bounded: its total where the number is a sum, or its average."""
    means = {output.formula is not None for output in plan.outputs if places & {output.of, *output.uses}}
    return "totals or averages" if len(means) > 1 else "averages" if True in means else "totals"


def _is_covered(plan: Plan, output: Output) -> bool:
    """Whether the interval of a number of values has what bounds cut from them."""
    if isinstance(output.formula, (Variance, Deviation)):
        return False
    if output.kind != "count" or isinstance(output.formula, (Average, RowCount)):
        return True
    return _number_of_rows(plan, output.uses[0] if output.uses else output.of) is not None


def _assumed(plan: Plan, cut: CutValues) -> str:
    """Return what the intervals take for granted of values that are cut."""
    beyond = cut.beyond
    assert beyond is not None  # noqa: S101  it is known
    low, high = map(decimal, beyond.farthest)
    found = f"no value of {cut.text} is below {low} or above {high}"
    if plan.key_types:
        found += ", and those of a group lie at most twice as far beyond the bounds as all"
    return found
