"""The errors of columns that are computed from released numbers: intervals and standard deviations.

All of it is computed from what was released. A column has an interval in a row if the law of each number that
its value is made of is known: exactly if it is a sum of them, by Fieller's set if it is a ratio of two sums,
else by draws of the noise, if it is smooth.

A number that a bound has cut may be more or less than what was measured, by all that the bound may have
left out. A function that rises or falls in each number is least and largest at corners of that box. One that
turns, as the distance of two numbers at 0, is so inside of it, too: a grid finds the place, and finer grids
around it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpsql.composition.answer_numbers import NO_LAW, AnswerNumbers
from dpsql.composition.hidden_columns import Hidden, SumOfNumbers, leaves_of
from dpsql.composition.released_terms import (
    NULLED,
    CallTerm,
    LinearTerm,
    NoIntervalError,
    Term,
    in_order,
    range_over,
    value_of,
)
from dpsql.estimates.noise_draws import LEAST_TAIL, count_draws
from dpsql.estimates.noise_terms import RatioIntervals, TermWeights, half_width, stddev
from dpsql.lazy_dataclass import dataclass

FloatArray = NDArray[np.float64]
Interval = tuple[float, float, float]
"""Standard deviation (NaN: it has none), low and high."""

MOST = 1_000_000
"""Most released numbers that the values of a column with intervals are made of, all rows together."""
_SMOOTH_DRAWS = 2_000
_NO_NUMBER = "for other noise that is likely it is NULL"
BY_NOISE = "what it is divided by may be 0 within its noise"
"""Why a quotient may be any number."""
_TOO_MANY = f"its values are made of more than {MOST:,} released numbers together"
_FAMILY = "noise chose it among too many groups"


@dataclass(slots=True, eq=False)
class DerivedErrors:
    """Computes the errors of columns of one answer."""

    hidden: Hidden
    numbers: AnswerNumbers
    confidence: float
    columns: int = 1
    """How many columns have intervals."""
    missing: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Why numbers of the last column have no interval, with their rows."""
    _widths: dict[tuple[object, ...], tuple[float, float]] = field(default_factory=dict)
    _known: dict[tuple[object, ...], Interval] = field(default_factory=dict)
    """Intervals of smooth functions, which rows may have in common."""

    def of(self, place: int, term: Term) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return standard deviations and ends of intervals of a column; NaN where there are none."""
        values = self.hidden.shown(place)
        out = np.full((3, len(values)), np.nan)
        self.missing.clear()
        if len(self.hidden.numbers(term)) > MOST:
            self.missing[_TOO_MANY] = [*range(len(values))]
            return out[0], out[1], out[2]
        with np.errstate(all="ignore"):
            for row in np.flatnonzero(np.isfinite(values)).tolist():
                try:
                    made = self._interval(term, row, float(values[row]))
                except NoIntervalError as problem:
                    self.missing[str(problem)].append(row)
                    continue
                low, high = min(made[1], values[row]), max(made[2], values[row])
                if math.isfinite(low) and math.isfinite(high):
                    out[:, row] = made[0], low, high
        return out[0], out[1], out[2]

    def of_bounds(self, place: int, term: Term, kind: str) -> FloatArray:
        """Return what bounds left out of a sum of numbers, or (`bound`) their bound, if it is one.

        NaN where that is not known.
        """
        values = self.hidden.shown(place)
        out = np.full(len(values), np.nan)
        if not isinstance(term, LinearTerm):
            return out
        for row in np.flatnonzero(np.isfinite(values)).tolist():
            try:
                weights = self.hidden.form(term, row, float(values[row])).weights
            except NoIntervalError:
                continue
            noises = [(weight, *self.numbers.find(name)) for name, weight in weights.items()]
            if kind == "bound":
                bounds = {None if each.noise is None else each.noise.bound for _, each, _ in noises}
                out[row] = next(iter(bounds)) if len(bounds) == 1 else np.nan
                continue
            known = [None if each.noise is None else each.noise.left_out for _, each, _ in noises]
            parts = [(w, at, array) for (w, _, at), array in zip(noises, known, strict=True)]
            out[row] = sum(math.nan if a is None else w * float(a[at]) for w, at, a in parts)
        return out

    # -- intervals of a row

    def _interval(self, term: Term, row: int, value: float | None = None) -> Interval:
        """Return the interval of a term in a row; `value` is that of a sum, where a column shows it."""
        if isinstance(term, LinearTerm):
            leaf = self.hidden.leaf(term, row) if value is None else self.hidden.form(term, row, value)
            return self._linear(leaf)
        if isinstance(term, CallTerm) and term.op == "round":
            return self._round(term, row)
        if isinstance(term, CallTerm) and term.op == "cut":
            return self._cut(term, row, value)
        ratio = self.hidden.ratio(term, row)
        if ratio is not None:
            return self._ratio(*ratio)
        return self._smooth(term, row)

    def _cut(self, term: CallTerm, row: int, value: float | None) -> Interval:
        """Return the interval of a value that is cut to one: all of that where it has none itself.

        It is around the value that is shown, so that a number beyond an end, perhaps by noise alone, is not
        said to be that end for sure.
        """
        least, most = in_order(*(self.hidden.end(end, row) for end in term.args[1:]))
        try:
            deviation, low, high = self._interval(term.args[0], row, value)
        except NoIntervalError:
            if least is None or most is None:
                raise
            return math.nan, least, most
        return deviation, *np.clip([low, high], least, most).tolist()

    def _linear(self, form: SumOfNumbers) -> Interval:
        if not form.weights:
            return 0.0, form.value, form.value
        if len(form.weights) == 1:
            return self._multiple(form)
        if self.numbers.list_computed([form]):
            return self._smooth_of([form], lambda leaves: leaves[0])
        terms = self.numbers.list_terms([form])
        below, above = self.numbers.find_sides([form]).of(1.0)
        centre = self.numbers.find_centre(form)
        family = self.numbers.find_family([form])
        exact = {source.law.kind for source in terms.sources} in ({"laplace"}, {"gaussian"})
        level = self._level(family, exact=exact)
        deviation, width = self._of_noise(terms, level)
        if family > 1:
            ends = self._ends(form)
            if ends[1] - ends[0] < 2 * width + below + above:
                return deviation, *ends
        return deviation, centre - width - below, centre + width + above

    def _of_noise(self, terms: TermWeights, level: float) -> tuple[float, float]:
        """Return the standard deviation and the half-width of a sum; rows with equal weights have one."""
        key = (level, terms.weights.tobytes(), *((id(each.law), each.scale) for each in terms.sources))
        if key not in self._widths:
            self._widths[key] = stddev(terms), half_width(terms, level) if level else math.inf
        return self._widths[key]

    def _multiple(self, form: SumOfNumbers) -> Interval:
        """Return the interval of a multiple of one number plus a constant, from the number's interval."""
        ((name, weight),) = form.weights.items()
        number, at = self.numbers.find(name)
        ends = [form.value + weight * (end[at] - number.value[at]) for end in (number.low, number.high)]
        if not all(map(math.isfinite, ends)):
            raise NoIntervalError
        return abs(weight) * float(number.stddev[at]), min(ends), max(ends)

    def _ends(self, form: SumOfNumbers) -> tuple[float, float]:
        """Return ends of a sum that hold where the intervals of all its numbers hold."""
        low = high = form.value
        for name, weight in form.weights.items():
            number, at = self.numbers.find(name)
            ends = sorted(weight * (end[at] - number.value[at]) for end in (number.low, number.high))
            low, high = low + ends[0], high + ends[1]
        return (low, high) if math.isfinite(low) and math.isfinite(high) else (-math.inf, math.inf)

    def _round(self, term: CallTerm, row: int) -> Interval:
        """Return the deviation of x for ROUND(x, digits), and the interval of x with its ends rounded."""
        digits = round(self.hidden.scalar(term.args[1], row))
        deviation, low, high = self._interval(term.args[0], row)
        return deviation, round(low, digits), round(high, digits)

    # -- ratios

    def _ratio(self, above: SumOfNumbers, below: SumOfNumbers, factor: float, more: float) -> Interval:
        if below.value and not below.weights:  # it is a sum, as a branch of a union may be
            by = factor / below.value
            weights = {name: weight * by for name, weight in above.weights.items()}
            return self._linear(SumOfNumbers(above.value * by + more, weights))
        forms = [above, below]
        if self.numbers.list_computed(forms):
            return self._smooth_of(forms, lambda leaves: leaves[0] / leaves[1] * factor + more)
        terms = self.numbers.list_terms(forms)
        sides = self.numbers.find_sides(forms)
        level = self._level(self.numbers.find_family(forms))
        if not level:
            raise NoIntervalError(_FAMILY)
        x, y = self.numbers.find_centre(above), self.numbers.find_centre(below)
        bounded = sides if sides.below.any() or sides.above.any() else None
        ends = RatioIntervals(level).find(x, y, terms, bounded)
        if ends is None:
            raise NoIntervalError(BY_NOISE)
        low, high = sorted(factor * end + more for end in ends)
        slope = terms.combine(1 / y, -x / y**2)
        return abs(factor) * stddev(slope), low, high

    # -- smooth functions

    def _smooth(self, term: Term, row: int) -> Interval:
        forms: list[SumOfNumbers] = []
        places: list[int | list[int]] = []
        for leaf, folded in leaves_of(term):
            size = self.hidden.size(leaf, row) if folded else 0
            places.append([*range(len(forms), len(forms) + size)] if folded else len(forms))
            forms += [self._or_null(leaf, row, at) for at in (range(size) if folded else [None])]
        constants = self.hidden.values(term, row)
        key = (id(term), *(each for form in forms for each in form.key), repr(constants))
        if key in self._known:
            return self._known[key]

        def f(leaves: list[FloatArray]) -> FloatArray:
            listed = [leaves[at] if isinstance(at, int) else [leaves[i] for i in at] for at in places]
            return value_of(term, iter(listed), constants)

        self._known[key] = found = self._smooth_of(forms, f)
        return found

    def _or_null(self, leaf: LinearTerm, row: int, at: int | None) -> SumOfNumbers:
        """Return a form, with the value NaN for NULL: GREATEST and LEAST pass over it, others have NULL."""
        try:
            return self.hidden.leaf(leaf, row, at)
        except NoIntervalError as problem:
            return SumOfNumbers(math.nan, {}, nulled=str(problem) == NULLED)

    def _smooth_of(self, forms: list[SumOfNumbers], f: Callable[[list[FloatArray]], FloatArray]) -> Interval:
        """Return the deviation and the interval of f from draws of the values that the forms may have."""
        level = self._level(self.numbers.find_family(forms))
        tail = (1 - level) / 2
        few = level == self.confidence and tail * _SMOOTH_DRAWS >= LEAST_TAIL
        draws = _SMOOTH_DRAWS if few else count_draws(tail)
        if not level or not draws:
            raise NoIntervalError(_FAMILY)
        leaves = self.numbers.draw(forms, draws)
        found = self._range_of_one(forms, leaves, f, tail)
        if found is not None and all(map(math.isfinite, found)):
            return float(np.nanstd(f(leaves))), *found
        results = [np.asarray(f(each), dtype=np.float64) for each in self._shift_leaves(forms, leaves, f)]
        # Where a draw has no value, it may have any.
        least, most = ([np.where(np.isnan(each), end, each) for each in results] for end in (-np.inf, np.inf))
        low = min(float(np.quantile(each, tail, method="lower")) for each in least)
        high = max(float(np.quantile(each, 1 - tail, method="higher")) for each in most)
        if not math.isfinite(low) or not math.isfinite(high):
            raise NoIntervalError(NULLED if any(form.nulled for form in forms) else _NO_NUMBER)
        return float(np.nanstd(results[0])), low, high

    def _range_of_one(
        self,
        forms: list[SumOfNumbers],
        leaves: list[FloatArray],
        f: Callable[[list[FloatArray]], FloatArray],
        tail: float,
    ) -> tuple[float, float] | None:
        """Return the range of f where its forms differ by constants; None if they do not."""
        noisy = [place for place, form in enumerate(forms) if form.weights]
        first = forms[noisy[0]] if noisy else SumOfNumbers(math.nan, {})
        if not noisy or any(form.nulled or form.weights not in ({}, first.weights) for form in forms):
            return None
        apart = [
            self.numbers.find_centre(form) - self.numbers.find_centre(first) if form.weights else None
            for form in forms
        ]

        def of(x: FloatArray) -> FloatArray:
            pairs = zip(forms, apart, strict=True)
            same = [np.full(len(x), form.value) if by is None else x + by for form, by in pairs]
            return np.asarray(f(same), dtype=np.float64)

        return range_over(of, leaves[noisy[0]], tail, self.numbers.find_sides([first]).of(1.0))

    def _shift_leaves(
        self, forms: list[SumOfNumbers], leaves: list[FloatArray], f: Callable[[list[FloatArray]], FloatArray]
    ) -> Iterator[list[FloatArray]]:
        """Yield the draws, and with what bounds left out where that makes f least and largest."""
        yield leaves
        sides = [self.numbers.find_sides([form]).of(1.0) for form in forms]
        cut = sum(map(any, sides))
        if cut > MOST_CUT:
            raise NoIntervalError(NO_LAW)
        if not cut:
            return
        for shift in list_shifts(f, [float(np.median(leaf)) for leaf in leaves], sides):
            yield [leaf + by for leaf, by in zip(leaves, shift, strict=True)]

    def _level(self, family: int, *, exact: bool = False) -> float:
        """Return the level of an interval that holds for so many at once; 0 if the draws are too few."""
        if family <= 1:
            return self.confidence
        tail = (1 - self.confidence) / (family * self.columns)
        return 1 - tail if exact or count_draws(tail) else 0.0


Shift = tuple[float, ...]
_STEPS = {1: 257, 2: 33, 3: 13}
"""Into how many steps each number's range is divided, by how many numbers are cut."""
MOST_CUT = max(_STEPS)
"""The most numbers that bounds have cut of which a function has an interval."""
_TIMES = 6


def list_shifts(
    f: Callable[[list[FloatArray]], FloatArray],
    centres: Sequence[float],
    sides: Sequence[tuple[float, float]],
) -> list[Shift]:
    """Return the shifts at which a function of numbers near `centres` is least and largest, corners first."""
    cut = [place for place, side in enumerate(sides) if any(side)]
    ends = [(-below, above) if any((below, above)) else (0.0,) for below, above in sides]
    shifts = list(product(*ends)) if cut else []
    for sign in (1.0, -1.0) if cut else ():
        found = _find_least(f, sign, centres, sides, cut)
        if found is not None:
            shifts.append(found)
    return list(dict.fromkeys(shifts))


def _find_least(
    f: Callable[[list[FloatArray]], FloatArray],
    sign: float,
    centres: Sequence[float],
    sides: Sequence[tuple[float, float]],
    cut: Sequence[int],
) -> Shift | None:
    """Return the shift within the sides at which `sign` times a function is least; None: it has no value."""
    steps, best, least = _STEPS[len(cut)], None, np.inf
    low = [-sides[place][0] for place in cut]
    high = [sides[place][1] for place in cut]
    for _ in range(_TIMES):
        axes = [np.linspace(a, b, steps) for a, b in zip(low, high, strict=True)]
        grids = dict(zip(cut, (g.ravel() for g in np.meshgrid(*axes, indexing="ij")), strict=True))
        size = steps ** len(cut)
        leaves = [centre + grids.get(place, np.zeros(size)) for place, centre in enumerate(centres)]
        values = sign * np.asarray(f(leaves), dtype=np.float64)
        values = np.where(np.isfinite(values), values, np.inf)
        at = int(np.argmin(values))
        if values[at] < least:
            least = float(values[at])
            best = tuple(float(grids[i][at]) if i in grids else 0.0 for i in range(len(centres)))
        if best is None:
            break
        spans = [(b - a) / (steps - 1) for a, b in zip(low, high, strict=True)]
        low = [max(-sides[p][0], best[p] - span) for p, span in zip(cut, spans, strict=True)]
        high = [min(sides[p][1], best[p] + span) for p, span in zip(cut, spans, strict=True)]
    return best
