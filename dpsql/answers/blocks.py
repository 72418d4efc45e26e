"""Divide epsilon among released numbers, and measure with Laplace noise those that share a part of it.

All plain counts share one part. The moments of a column have one part and one noise, since one unit moves all
of them together by a bounded amount; every other sum has a part of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Output, Plan
from dpsql.answers.laplace_shares import LaplaceShare, laplace_shares
from dpsql.answers.sources import laplace_source, made_of_moments
from dpsql.epsilon_division import Layout
from dpsql.estimates import (
    Combined,
    Formula,
    LaplaceNoise,
    Measurement,
    error_words,
    from_measurement,
)
from dpsql.estimates.predictions import half_width, stddev
from dpsql.kernel import mechanisms
from dpsql.kernel.release import Rows, Run
from dpsql.lazy_dataclass import dataclass

Values = dict[tuple[tuple[int, ...], Formula], Combined]
"""Estimates of numbers that follow from several counts, as in `NoisyResult`."""


def shares(plan: Plan, places: Iterable[int], epsilon: Fraction) -> list[tuple[list[int], Fraction]]:
    """Return the places of numbers that are measured together, each list with its part of epsilon."""
    found: dict[object, list[int]] = {}
    for place in places:
        found.setdefault(plan.counts[place].share, []).append(place)
    part = Layout(epsilon, plan.layout.order).part(Fraction(1, max(len(found), 1)))
    return [(together, part) for together in found.values()]


@dataclass(frozen=True, slots=True)
class Block:
    """Numbers of each group with independent Laplace noise of one scale: a count, or moments of one column.

    Attributes
    ----------
    plan
        The plan of the statement.
    places
        The places of the numbers among its counts.
    share
        Their noise.
    move
        The most by which one unit moves all of them in all groups together, in steps.
    resolution
        The grid of the noise, as `mechanisms.Laplace` takes it; None: the usual one.
    planned
        The noise for each number of groups that was asked for.
    """

    plan: Plan
    places: tuple[int, ...]
    share: LaplaceShare
    move: int
    resolution: int | None = None
    planned: dict[int, mechanisms.Laplace] = field(default_factory=dict, compare=False, repr=False)

    def noise(self, groups: int) -> mechanisms.Laplace:
        """Return the noise for so many groups."""
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
        """Return the estimates of the numbers, and of what follows from them, at a level of confidence.

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
            made = made_of_moments(output.formula, output.uses, values, source, step)
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
                words = output.formula.predicted(float(noise.scale) * step, level, len(uses))
            found[output] = words
        return found


def errors_of(plan: Plan, made: Iterable[Block], level: Fraction) -> dict[Output, str]:
    """Return the predicted errors of the numbers of blocks, in words; none if all are plain counts."""
    if counts_only(plan):
        return {}
    return {output: words for block in made for output, words in block.errors(level).items()}


def counts_only(plan: Plan) -> bool:
    """Return whether all numbers are plain counts, so that one predicted error stands for them."""
    return all(count.share is None for count in plan.counts)


def blocks(plan: Plan, places: Sequence[int], epsilon: Fraction, move: Callable[[int], int]) -> list[Block]:
    """Return the blocks of numbers; `move` says by how much one unit moves a number in all groups."""
    made = []
    for together, part in shares(plan, places, epsilon):
        if plan.counts[together[0]].share is not None:
            moved = move(together[0])
            made.append(Block(plan, tuple(together), LaplaceShare(part, moved), moved))
            continue
        moves = [move(place) for place in together]
        own = laplace_shares(
            Layout(part, plan.layout.order), moves, [plan.counts[place].bound for place in together]
        )
        made += [
            Block(plan, (place,), share, moved)
            for place, share, moved in zip(together, own, moves, strict=True)
        ]
    return made
