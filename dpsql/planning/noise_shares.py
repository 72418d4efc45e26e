"""Divide epsilon or a cost among released numbers: the noise of each share, and the draws of it.

Numbers that share a part of epsilon are measured with Laplace noise, or with Gaussian noise where a statement
divides its cost at one order of Renyi divergence. What is computed from the numbers later needs the draws
that they are from.

All plain counts share one part, or two where box noise suits some and Laplace noise the others. The moments
of a column have one part and one noise, since one unit moves all of them together by a bounded amount; every
other sum has a part of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Output, Plan, divide_by_noise
from dpsql.analysis.epsilon_division import EpsilonDivision
from dpsql.estimates import (
    Combined,
    Deviation,
    Formula,
    LaplaceNoise,
    Measurement,
    RowCount,
    SumOfRows,
    Variance,
    error_words,
    from_measurement,
    split_measuring,
)
from dpsql.estimates.noise_laws import Law, Linear, MeasuredNumber, NoiseDraw
from dpsql.estimates.number_noises import Dispersion, Made, Quotient
from dpsql.estimates.predictions import half_width, in_counts, shared_noise, stddev
from dpsql.kernel import mechanisms
from dpsql.kernel.mechanisms import Gaussian
from dpsql.kernel.release import Rows, Run
from dpsql.lazy_dataclass import dataclass
from dpsql.planning.plan_requests import is_simultaneous, largest_change

if TYPE_CHECKING:
    from collections.abc import Mapping


def law_of(mechanism: mechanisms.Box | mechanisms.Gaussian) -> Law:
    """Return the joint law of the noises that a mechanism draws; each call stands for a new draw."""
    if isinstance(mechanism, Gaussian):
        noise = shared_noise(mechanism, 0)
        return Law("gaussian", mechanism.size, shared=noise.shared / noise.own if noise.own else 0.0)
    return Law("box" if mechanism.pads else "cube", mechanism.size, mechanism.pads)


def source_of(mechanism: mechanisms.Box | mechanisms.Gaussian, law: Law, index: int) -> NoiseDraw:
    """Return the noise of one of the numbers that a draw covers: its law, scale and step."""
    if isinstance(mechanism, Gaussian):
        return NoiseDraw(law, shared_noise(mechanism, index).own ** 0.5, mechanism.step(index))
    return NoiseDraw(law, in_counts(mechanism, index, 1), mechanism.step(index))


def laplace_source(mechanism: mechanisms.Laplace) -> NoiseDraw:
    """Return a draw of Laplace noise."""
    return NoiseDraw(Law("laplace"), float(mechanism.scale), 2.0**-mechanism.resolution)


def law_of_formula(
    formula: Formula,
    uses: Sequence[int],
    moments: Mapping[int, NDArray[np.float64]],
    source: NoiseDraw,
    step: float,
) -> Made:
    """Return what a value computed from moments of one column is, for any values of these.

    `moments` are in steps, of which a row has `1 / step`.
    """
    measured = [MeasuredNumber.of(place, moments[place], source) for place in uses]

    def weighted(weights: Sequence[float]) -> Linear:
        return Linear(tuple(zip((weight * step for weight in weights), measured, strict=True)))

    rows = weighted([1.0] * len(measured))
    if isinstance(formula, RowCount):
        return rows
    low, high = float(formula.low), float(formula.high)
    if isinstance(formula, (Variance, Deviation)):
        parts = tuple(Linear(((step, each),)) for each in measured)
        return Dispersion(parts, high - low, formula.sample, isinstance(formula, Deviation))
    values = weighted([low + (high - low) * k / (len(measured) - 1) for k in range(len(measured))])
    return values if isinstance(formula, SumOfRows) else Quotient(values, rows, low, high)


def law_of_difference(
    places: tuple[int, int],
    values: Mapping[int, NDArray[np.float64]],
    sources: Mapping[int, NoiseDraw],
    rows: NDArray[np.int64],
) -> Linear:
    """Return the difference of two measured numbers, of some rows."""
    one, other = (MeasuredNumber.of(place, values[place][rows], sources[place]) for place in places)
    return Linear(((1.0, one), (-1.0, other)))


_PLACES = 40
"""Bits of square roots, whose last digits do not matter."""


@dataclass(frozen=True, slots=True)
class LaplaceShare:
    """The Laplace noise of one number of every group, or of several that have one noise."""

    epsilon: Fraction
    """Of each mechanism."""
    sensitivity: int
    """The most by which one unit changes what a mechanism measures."""
    times: int = 1
    """How many there are at most: a unit changes all groups together by so many sensitivities."""

    @property
    def scale(self) -> Fraction:
        """The scale of the Laplace noise that the share of epsilon pays for."""
        return self.sensitivity / self.epsilon

    def noise(self, size: int, *, resolution: int | None = None) -> mechanisms.Laplace:
        """Return the noise of a number of values; of fewer values it costs less."""
        moved = max(min(self.times, size), 1)
        return mechanisms.Laplace.plan(
            size,
            moved * self.epsilon,
            groups_per_unit=moved,
            sensitivity=self.sensitivity,
            resolution=resolution,
        )


def laplace_shares(
    layout: EpsilonDivision, moves: Sequence[int], bounds: Sequence[int]
) -> tuple[LaplaceShare, ...]:
    """Divide a layout among numbers so that the sum of their variances is least.

    `moves` are the most by which one unit changes each number in all groups together, `bounds` the most in
    one group. By cost, a number is then measured by several mechanisms, if that has less noise than one for
    all that a unit moves. Raises `ValueError` if an epsilon is too small.

    >>> order = Fraction(4)
    >>> [float(each.scale) for each in laplace_shares(EpsilonDivision(Fraction(1, 10)), [50], [1])]
    [500.0]
    >>> by_cost = EpsilonDivision(Fraction(1, 10), order)
    >>> [round(float(each.scale), 1) for each in laplace_shares(by_cost, [50], [1])]
    [71.4]
    """
    if layout.order is None:
        split = split_measuring(layout.epsilon, moves)
        return tuple(LaplaceShare(own, move) for own, move in zip(split, moves, strict=True))
    known = [min(pair) for pair in zip(moves, bounds, strict=True)]
    # The cost of a scale s is about that of Gaussian noise of its variance, in proportion to n (c/s)^2.
    roots = [
        math.isqrt(min(-(-move // c) * c * c, move * move) << 2 * _PLACES)
        for move, c in zip(moves, known, strict=True)
    ]
    found = []
    for move, c, root in zip(moves, known, roots, strict=True):
        share, times = Fraction(root, sum(roots)), -(-move // c)
        ways = [(layout.pure_epsilon(share), move, 1), (layout.pure_epsilon(share, times), c, times)]
        if not all(epsilon for epsilon, *_ in ways):
            raise ValueError("epsilon is too small to be divided")
        found.append(min((LaplaceShare(*way) for way in ways), key=lambda each: each.scale))
    return tuple(found)


LEAST_GAUSSIAN_SHARE = Fraction(1, 1 << 18)
"""The least cost, as rho, of one number, with which its variance is within its limit, whatever its bound."""


def gaussian_cost(plan: Plan, epsilon: Fraction, numbers: int) -> Fraction | None:
    """Return the cost, as rho, of a part of a statement if it is enough for so many numbers of any bounds.

    It depends on neither the bounds nor the data, so that before and after a search the noise is of one kind.
    """
    rho = (
        EpsilonDivision(epsilon, plan.epsilon_division.order).gaussian_rho()
        if may_be_gaussian(plan)
        else None
    )
    return rho if rho and rho >= LEAST_GAUSSIAN_SHARE * numbers else None


def may_be_gaussian(plan: Plan) -> bool:
    """Whether counts may have Gaussian noise: costs are divided, and the statement names no other noise."""
    return plan.epsilon_division.order is not None and plan.options.noise in (None, "EXPONENTIAL", "GAUSSIAN")


def asks_for_gaussian(plan: Plan) -> bool:
    """Whether the statement names Gaussian noise."""
    return "GAUSSIAN" in (plan.options.noise, plan.options.mechanism)


def gaussian_noise(
    plan: Plan, places: Sequence[int], size: int, epsilon: Fraction, *, by_group: bool, monotone: bool
) -> mechanisms.Gaussian:
    """Return the Gaussian noise of some counts of a given number of groups, at the cost of an epsilon.

    The counts of a group stand together if `by_group`, else the groups of a count. Raises `ValueError` if the
    noise would be too large.
    """
    rho = EpsilonDivision(epsilon, plan.epsilon_division.order).gaussian_rho()
    if not rho:
        raise ValueError("epsilon is too small for Gaussian noise")
    bounds = [plan.counts[place].bound for place in places]
    most, every = sum(_groups_changed(plan, place, size) for place in places), size * len(places)
    return mechanisms.Gaussian.plan(
        every,
        rho,
        groups_per_unit=most,
        sensitivity=bounds if by_group else [bound for bound in bounds for _ in range(size)],
        # What is shared is proven for changes of any of all counts, each by up to its bound.
        monotone=monotone and most == every,
    )


def _groups_changed(plan: Plan, place: int, size: int) -> int:
    """Return in how many of a given number of groups one unit can change a count by its bound.

    Where all of its changes together are bounded, their squares add up to at most those of so many changes by
    the bound.
    """
    total, bound = plan.l1_over_groups(place), plan.counts[place].bound
    return size if total is None else min(size, max(1, -(-total // bound)))


Values = dict[tuple[tuple[int, ...], Formula], Combined]
"""Estimates of numbers that follow from several counts, as in `NoisyResult`."""


def divide_among(
    plan: Plan, places: Iterable[int], epsilon: Fraction, groups: int = 1
) -> list[tuple[list[int], Fraction]]:
    """Return the places of numbers that are measured together, each list with its part of epsilon.

    In so many groups counts may be divided by the noise that suits them, where the statement names none.
    """
    found: dict[object, list[int]] = {}
    for place in places:
        found.setdefault(plan.counts[place].noise_group, []).append(place)
    lists = [part for own in found.values() for part in _divide_counts(plan, own, groups)]
    part = EpsilonDivision(epsilon, plan.epsilon_division.order).epsilon_of(Fraction(1, max(len(lists), 1)))
    return [(together, part) for together in lists]


def _divide_counts(plan: Plan, places: list[int], groups: int) -> list[list[int]]:
    options, undivided = plan.options, plan.epsilon_division.order is None
    named = {options.mechanism, options.measure_strategy} - {None, "AUTO"}
    if named or not undivided or is_simultaneous(plan) or len(places) == 1:
        return [places]
    if plan.counts[places[0]].noise_group is not None:
        return [places]
    totals = [largest_change(plan, place, groups) for place in places]
    return divide_by_noise(plan.counts, places, totals, groups)


@dataclass(frozen=True, slots=True)
class LaplaceBlock:
    """Numbers of each group with independent Laplace noise of one scale: a count, or moments of a column."""

    plan: Plan
    """The plan of the statement."""
    places: tuple[int, ...]
    """The places of the numbers among its counts."""
    share: LaplaceShare
    """Their noise."""
    resolution: int | None = None
    """The grid of the noise, as `mechanisms.Laplace` takes it; None: the usual one."""
    planned: dict[int, mechanisms.Laplace] = field(default_factory=dict, compare=False, repr=False)
    """The noise for each number of groups that was asked for."""

    def noise(self, groups: int) -> mechanisms.Laplace:
        """Return the noise of a block of numbers for a number of groups."""
        if groups not in self.planned:
            size = groups * len(self.places)
            self.planned[groups] = self.share.noise(size, resolution=self.resolution)
        return self.planned[groups]

    def run(self, run: Run, rows: Rows) -> dict[int, NDArray[np.float64]]:
        """Measure the numbers of released groups, in their order; return them by place."""
        return self.by_place(run.measure(self.noise(len(rows)), self.places, rows).value)

    def by_place(self, value: NDArray[np.float64]) -> dict[int, NDArray[np.float64]]:
        """Return the measured numbers, one after the other in an array, by their places in the plan."""
        return dict(zip(self.places, value.reshape(len(self.places), -1), strict=True))

    def estimates(
        self, values: dict[int, NDArray[np.float64]], level: Fraction, all_level: Fraction
    ) -> tuple[dict[int, Combined], Values]:
        """Return the estimates of the numbers, and of values computed from them, at a level of confidence.

        `all_level` is the level of each of the intervals that hold for all numbers at once.
        """
        own, found = self._estimates(values, level)
        if all_level == level:
            return {p: e.at_once(e) for p, e in own.items()}, {k: e.at_once(e) for k, e in found.items()}
        wider, more = self._estimates(values, all_level)
        return (
            {place: each.at_once(wider[place]) for place, each in own.items()},
            {key: each.at_once(more[key]) for key, each in found.items()},
        )

    def _estimates(
        self, values: dict[int, NDArray[np.float64]], level: Fraction
    ) -> tuple[dict[int, Combined], Values]:
        noise = self.noise(1)
        law, width = LaplaceNoise(noise.scale, noise.resolution), half_width(noise, level)
        source = laplace_source(noise)
        own = {
            place: from_measurement(Measurement(value, law, width, source, place))
            for place, value in values.items()
        }
        found: Values = {}
        for output in self.plan.outputs:
            if output.formula is None or not set(output.uses) <= set(self.places):
                continue
            step = float(self.plan.counts[output.uses[0]].step)
            moments = [values[place] * step for place in output.uses]
            scale = float(noise.scale) * step
            made = law_of_formula(output.formula, output.uses, values, source, step)
            estimated = output.formula.estimate(moments, scale, level)
            found[output.uses, output.formula] = replace(estimated, made=made)
        return own, found

    def errors(self, level: Fraction) -> dict[Output, str]:
        """Return the predicted errors of the numbers that are shown, in words."""
        noise, found = self.noise(1), {}
        for output in self.plan.outputs:
            uses = output.uses if output.formula is not None else (output.of,)
            if output.kind != "count" or not set(uses) <= set(self.places):
                continue
            step = float(self.plan.counts[uses[0]].step)
            if output.formula is None:
                words = error_words(stddev(noise) * step, half_width(noise, level) * step)
            else:
                words = output.formula.describe_prediction(float(noise.scale) * step, level, len(uses))
            found[output] = words
        return found


def errors_of_blocks(plan: Plan, made: Iterable[LaplaceBlock], level: Fraction) -> dict[Output, str]:
    """Return the predicted errors of the numbers of blocks, in words; none if all are plain counts."""
    if is_counts_only(plan):
        return {}
    return {output: words for block in made for output, words in block.errors(level).items()}


def is_counts_only(plan: Plan) -> bool:
    """Return whether all numbers of a plan are counts, neither sums nor moments."""
    return all(count.noise_group is None for count in plan.counts)


def divide_into_blocks(
    plan: Plan, places: Sequence[int], epsilon: Fraction, move: Callable[[int], int]
) -> list[LaplaceBlock]:
    """Return the blocks of numbers; `move` says by how much one unit moves a number in all groups."""
    made = []
    for together, part in divide_among(plan, places, epsilon):
        if plan.counts[together[0]].noise_group is not None:
            made.append(LaplaceBlock(plan, tuple(together), LaplaceShare(part, move(together[0]))))
            continue
        moves = [move(place) for place in together]
        own = laplace_shares(
            EpsilonDivision(part, plan.epsilon_division.order),
            moves,
            [plan.counts[place].bound for place in together],
        )
        made += [LaplaceBlock(plan, (place,), share) for place, share in zip(together, own, strict=True)]
    return made
