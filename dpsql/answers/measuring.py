"""Measure the counts of selected groups: the second phase of every method."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import mechanisms
from dpsql.analysis import laplace_is_less
from dpsql.estimates import (
    Combined,
    ErrorModel,
    GapNoise,
    LaplaceNoise,
    Measurement,
    Strategy,
    from_measurement,
    offsets,
    split_measuring,
)
from dpsql.privacy import PrivacyLoss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from dpsql.analysis import Plan
    from dpsql.engines import Counts

    Combine = Callable[[Measurement | None], Combined]

STRATEGIES: dict[str, Strategy] = {"AUTO": "BOX", "BOX": "BOX", "EACH": "EACH", "ANCHOR": "ANCHOR"}


def confidence_of(plan: Plan) -> Fraction:
    """Return the confidence level of the statement's intervals."""
    return plan.options.confidence or Fraction(95, 100)


def strategy_of(plan: Plan) -> Strategy:
    """Return how the statement measures counts, and refuse intervals that this does not give."""
    strategy = STRATEGIES[plan.options.measure_strategy or "AUTO"]
    if simultaneous(plan) and strategy != "BOX":
        raise plan.query.source.refuse(
            f"simultaneous intervals need one noise for all counts, and {strategy} has several",
            plan.options.at.get("measure_strategy"),
            "measure_strategy = BOX",
        )
    return strategy


def wanted(plan: Plan, ordering: int, also: Iterable[int] = ()) -> list[int]:
    """Return the places of the distinct counts in use, and of others; the ordering count first."""
    shown = {o.of for o in plan.outputs if o.kind in ("count", "stddev", "low", "high")} | {*also}
    shown |= {place for o in plan.outputs for place in o.uses}
    distinct: dict[object, int] = {}
    for place in sorted(shown, key=lambda p: (plan.counts[p] != plan.counts[ordering], p)):
        distinct.setdefault(plan.counts[place], place)
    return list(distinct.values())


def share_of(plan: Plan) -> Fraction | None:
    """Return the requested share of epsilon for measuring; None if it is to be chosen."""
    measure = plan.options.measure
    return None if measure is None or measure == "AUTO" else Fraction(measure)


def moved(plan: Plan, place: int, groups: int) -> int:
    """Return the most by which one unit can change a count in so many groups together."""
    every, total = max(groups, 1) * plan.counts[place].bound, plan.total(place)
    return every if total is None else min(every, total)


@dataclass(frozen=True, slots=True)
class Measuring:
    """Measures counts of groups that are already selected, with its own part of epsilon.

    With BOX, one noise is drawn for all counts of all groups. With EACH and ANCHOR, every count has its part
    of epsilon; an ANCHOR measures the total of the ordering count, whose gaps are known. AUTO takes BOX, or
    EACH where the counts of all groups together move so little that this has less noise.
    """

    plan: Plan
    ordering: int
    """The place of the count whose gaps the selection released."""
    places: list[int]
    """The places of the counts to measure, all distinct; the ordering count, if included, is the first."""
    epsilon: Fraction
    strategy: Strategy

    @classmethod
    def of(cls, plan: Plan, ordering: int, places: list[int], epsilon: Fraction, *, most: int) -> Measuring:
        """Plan measurements of at most `most` groups; raises `ValueError` if the noise would be too large."""
        strategy, measured = strategy_of(plan), places if epsilon else []
        moves = [moved(plan, place, most) for place in measured]
        chosen = simultaneous(plan) or (plan.options.measure_strategy or "AUTO") != "AUTO"
        less = any(move < most * plan.counts[p].bound for p, move in zip(measured, moves, strict=True))
        if less and not chosen and laplace_is_less(plan.counts, measured, moves, most):
            strategy = "EACH"
        made = cls(plan, ordering, measured, epsilon, strategy)
        if made.places and made.strategy == "BOX":
            made.box(most)
        return made

    def box(self, size: int) -> mechanisms.Box:
        """Return the one noise of all counts of so many groups, the groups of a count together."""
        counts = [self.plan.counts[place] for place in self.places]
        return mechanisms.Box.plan(
            size * len(counts),
            self.epsilon,
            sensitivity=[count.bound for count in counts for _ in range(size)],
            monotone=all(count.monotone for count in counts),
        )

    def laplace(self, size: int) -> dict[int, mechanisms.Laplace]:
        """Return the noise of each count, by place, for so many groups."""
        if not self.places:
            return {}
        moves = [moved(self.plan, place, size) for place in self.places]
        shares = split_measuring(self.epsilon, moves)
        return {
            place: mechanisms.Laplace.plan(
                size,
                epsilon,
                groups_per_unit=1,
                sensitivity=move,
                total=self.strategy == "ANCHOR" and size > 1 and self.orders(place),
            )
            for place, move, epsilon in zip(self.places, moves, shares, strict=True)
        }

    def orders(self, place: int) -> bool:
        """Whether the gaps are those of this count."""
        return self.plan.counts[place] == self.plan.counts[self.ordering]

    def run(
        self, counts: Counts, index: NDArray[np.int64], combine: Combine
    ) -> tuple[tuple[Combined | None, ...], PrivacyLoss]:
        """Measure the counts of the selected groups; return the estimates by count, and their privacy loss.

        `combine` joins the measurement of the ordering count with its gaps; it gets no measurement if no
        group was selected.
        """
        estimates: list[Combined | None] = [None] * len(self.plan.counts)
        found, loss = self._measure(counts, index)
        for place in self.places:
            measured = found.get(place)
            if measured is None or self.orders(place):
                estimates[place] = combine(measured)
            else:
                estimates[place] = from_measurement(measured)
        return tuple(estimates), loss

    def _measure(
        self, counts: Counts, index: NDArray[np.int64]
    ) -> tuple[dict[int, Measurement], PrivacyLoss]:
        size, loss = len(index), PrivacyLoss()
        if not size or not self.places:
            return {}, loss
        if self.strategy == "BOX":
            measured = self.box(size).run(np.concatenate([counts.n[place][index] for place in self.places]))
            return blocks(self.plan, measured, self.places), measured.loss
        found = {}
        for place, mechanism in self.laplace(size).items():
            each = mechanism.run(counts.n[place][index])
            loss += each.loss
            found[place] = laplace_measurement(self.plan, each)
        return found, loss

    def predicted(self, size: int, gaps: GapNoise | None) -> tuple[float, float]:
        """Predict the largest standard deviation and half width of a count, for so many groups.

        `gaps` is the noise of the gaps that help to estimate the ordering count, if there are any.
        """
        # The gap of a single group to an unknown count says nothing; one to a threshold does.
        helpful = gaps if size > 1 or (gaps is not None and gaps.threshold_scale is not None) else None
        if self.strategy == "BOX":
            found = self._predicted_box(size, helpful)
        else:
            found = self._predicted_laplace(size, helpful)
        deviations, widths = zip(*found, strict=True)
        return max(deviations), max(widths)

    def _predicted_box(self, size: int, gaps: GapNoise | None) -> Iterator[tuple[float, float]]:
        box, confidence = self.box(size), confidence_of(self.plan)
        for block, place in enumerate(self.places):
            deviation = box.stddev(block * size)
            if gaps is not None and self.orders(place):
                deviation = float(ErrorModel(gaps, size, box.noise(block * size)).stddev().max())
            yield deviation, box.half_width(block * size, confidence, simultaneous=simultaneous(self.plan))

    def _predicted_laplace(self, size: int, gaps: GapNoise | None) -> Iterator[tuple[float, float]]:
        confidence = confidence_of(self.plan)
        for place, laplace in self.laplace(size).items():
            if gaps is not None and self.orders(place):
                model = ErrorModel(gaps, size, _noise(laplace))
                around = offsets(model, confidence)
                yield float(model.stddev().max()), float((around.low + around.high).max()) / 2
            else:
                yield laplace.stddev, laplace.half_width(confidence)

    @property
    def measured_by(self) -> str:
        """The strategy, for a quote; empty if no count is measured."""
        return self.strategy if self.places else ""

    @property
    def words(self) -> str:
        """How counts are measured, in words."""
        if self.strategy == "EACH":
            return "one noisy count a group (EACH)"
        if self.strategy == "ANCHOR":
            return "one noisy total (ANCHOR)"
        monotone = all(self.plan.counts[place].monotone for place in self.places)
        return f"with one {'box' if monotone else 'cube'} noise (BOX)"


def simultaneous(plan: Plan) -> bool:
    """Whether intervals are to cover all counts at once."""
    return plan.options.intervals == "SIMULTANEOUS"


def blocks(plan: Plan, measured: mechanisms.BoxMeasured, places: list[int]) -> dict[int, Measurement]:
    """Return the measurement of each count, by place, of a box over as many groups of every count."""
    box, size = measured.plan, len(measured.value) // len(places)
    return {
        place: Measurement(
            measured.value[first : first + size],
            box.noise(first),
            box.half_width(first, confidence_of(plan), simultaneous=simultaneous(plan)),
        )
        for first, place in zip(range(0, size * len(places), size), places, strict=True)
    }


def laplace_measurement(plan: Plan, measured: mechanisms.Measured) -> Measurement:
    """Return what was measured with Laplace noise as the estimates take it."""
    noise = _noise(measured.plan)
    width = None if noise.total else measured.plan.half_width(confidence_of(plan))
    return Measurement(measured.value, noise, width)


def _noise(mechanism: mechanisms.Laplace) -> LaplaceNoise:
    return LaplaceNoise(mechanism.scale, mechanism.resolution, mechanism.total)


def taken(estimates: Combined, rows: NDArray[np.int64]) -> Combined:
    """Return some rows of the estimates, in the given order."""
    return Combined(estimates.value[rows], estimates.stddev[rows], estimates.low[rows], estimates.high[rows])
