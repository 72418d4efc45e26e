"""Measure the counts of selected groups: the second phase of every method."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpsql.analysis import is_laplace_less
from dpsql.analysis.epsilon_division import EpsilonDivision
from dpsql.estimates import (
    Combined,
    ErrorModel,
    GapNoise,
    LaplaceNoise,
    Measurement,
    Strategy,
    error_words,
    from_measurement,
    offsets,
    split_measuring,
)
from dpsql.estimates.linear_estimates import largest_stddev
from dpsql.estimates.predictions import half_width, shared_noise, stddev
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import PrivacyLoss
from dpsql.lazy_dataclass import dataclass
from dpsql.planning.noise_shares import (
    LaplaceBlock,
    LaplaceShare,
    Values,
    asks_for_gaussian,
    divide_among,
    gaussian_noise,
    laplace_shares,
    laplace_source,
    law_of,
    may_be_gaussian,
    source_of,
)
from dpsql.planning.plan_requests import (
    box_level,
    confidence_of,
    is_simultaneous,
    largest_change,
    level_at_once,
    strategy_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpsql.analysis import Output, Plan
    from dpsql.kernel.mechanisms.mechanism import Mechanism
    from dpsql.kernel.release import Rows, Run

if TYPE_CHECKING:
    Combine = Callable[[Measurement | None, Fraction], Combined]


@dataclass(frozen=True, slots=True)
class ShareMeasuring:
    """Measures numbers of groups that are already selected and that share a part of epsilon.

    With BOX, one noise is drawn for all counts of all groups. With EACH and ANCHOR, every count has its part
    of epsilon; an ANCHOR measures the total of the ordering count, whose gaps are known. AUTO takes BOX, or
    EACH where the counts of all groups together move so little that this has less noise. The moments of a
    column have one Laplace noise. Where the statement's cost at one order is divided, AUTO takes Gaussian
    noise on all counts if that is less, and EACH else divides the cost among all counts of all groups.
    """

    plan: Plan
    ordering: int
    """The place of the count whose gaps the selection released."""
    places: list[int]
    """The places of the counts to measure, all distinct; the ordering count, if included, is the first."""
    epsilon: Fraction
    strategy: Strategy
    gaussian: bool = False
    """Whether the one noise of all counts is Gaussian."""
    most: int = 1
    """The most groups that are measured."""

    @classmethod
    def of(
        cls, plan: Plan, ordering: int, places: list[int], epsilon: Fraction, *, most: int
    ) -> ShareMeasuring:
        """Plan measurements of at most `most` groups; raises `ValueError` if the noise would be too large."""
        strategy, measured = strategy_of(plan), places if epsilon else []
        if any(plan.counts[place].noise_group is not None for place in measured[1:]):
            return cls(plan, ordering, measured, epsilon, "EACH", most=most)
        moves = [largest_change(plan, place, most) for place in measured]
        chosen = is_simultaneous(plan) or (plan.options.measure_strategy or "AUTO") != "AUTO"
        less = any(move < most * plan.counts[p].bound for p, move in zip(measured, moves, strict=True))
        if less and not chosen and is_laplace_less(plan.counts, measured, moves, most):
            strategy = "EACH"
        made = cls(plan, ordering, measured, epsilon, strategy, most=most)
        if made.places and (plan.options.measure_strategy or "AUTO") == "AUTO":
            made = made.with_less_noise(most)
        if made.places and made.strategy == "BOX":
            made.box(most)
        return made

    def with_less_noise(self, most: int) -> ShareMeasuring:
        """Return the measuring with the least noise, or with Gaussian noise if it is asked for."""
        plan, found = self.plan, self
        if (
            plan.epsilon_division.order is not None
            and not is_simultaneous(plan)
            and not asks_for_gaussian(plan)
        ):
            found = found.or_less(replace(self, strategy="EACH"), most)
        if not may_be_gaussian(plan):
            return found
        other = replace(self, strategy="BOX", gaussian=True)
        if asks_for_gaussian(plan):
            other.box(most)
            return other
        return found.or_less(other, most)

    def or_less(self, other: ShareMeasuring, most: int) -> ShareMeasuring:
        """Return the other measuring if its noise is less for `most` groups; else this one."""
        try:
            less = other.predict(most, None)[0] < self.predict(most, None)[0]
        except ValueError:
            return self
        return other if less else self

    @property
    def loss(self) -> PrivacyLoss:
        """The largest privacy loss of a run of the measurement."""
        if not self.places:
            return PrivacyLoss()
        if self.gaussian:
            return self.box(1).loss
        if not self._by_cost:
            return PrivacyLoss.of(self.epsilon)
        return sum((each.loss for each in self.laplace(self.most).values()), PrivacyLoss())

    @property
    def _by_cost(self) -> bool:
        """Whether a cost is divided among all counts of all groups; only selected ones are charged."""
        return self.strategy == "EACH" and not self.together and self.plan.epsilon_division.order is not None

    def box(self, size: int) -> mechanisms.Box | mechanisms.Gaussian:
        """Return the one noise of all counts of a given number of groups, the groups of a count together."""
        counts = [self.plan.counts[place] for place in self.places]
        if self.gaussian:
            return gaussian_noise(
                self.plan,
                self.places,
                size,
                self.epsilon,
                by_group=False,
                monotone=all(count.monotone for count in counts),
            )
        bounds = [count.bound for count in counts]
        return mechanisms.Box.plan(
            size * len(counts),
            self.epsilon,
            sensitivity=[bound for bound in bounds for _ in range(size)],
            monotone=all(count.monotone for count in counts),
        )

    def laplace(self, size: int) -> dict[int, mechanisms.Laplace]:
        """Return the noise of each count, by place, for a given number of groups."""
        if not self.places or self.together:
            return {}
        if self._by_cost:
            return {place: share.noise(size) for place, share in zip(self.places, self._shares, strict=True)}
        moves = [largest_change(self.plan, place, size) for place in self.places]
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

    @property
    def _shares(self) -> tuple[LaplaceShare, ...]:
        """The noise of each count, for the most groups."""
        moves = [largest_change(self.plan, place, self.most) for place in self.places]
        bounds = [self.plan.counts[place].bound for place in self.places]
        return laplace_shares(EpsilonDivision(self.epsilon, self.plan.epsilon_division.order), moves, bounds)

    @property
    def together(self) -> bool:
        """Whether all numbers are moments of one column, measured together."""
        return any(self.plan.counts[place].noise_group is not None for place in self.places[1:])

    def block(self, size: int) -> LaplaceBlock:
        """Return the Laplace noise of the moments of one column, for a given number of groups."""
        move = largest_change(self.plan, self.places[0], size)
        return LaplaceBlock(self.plan, tuple(self.places), LaplaceShare(self.epsilon, move))

    def orders(self, place: int) -> bool:
        """Return whether the number at a place is the one whose gaps order the groups."""
        return self.plan.equal[place] == self.plan.equal[self.ordering]

    def run(self, run: Run, rows: Rows, combine: Combine) -> tuple[dict[int, Combined], Values]:
        """Measure the numbers of the selected groups with noise, and combine them with the gaps."""
        if self.together:
            block = self.block(max(len(rows), 1))
            noisy = block.run(run, rows)
            return block.estimates(noisy, confidence_of(self.plan), level_at_once(self.plan, len(rows)))
        estimates: dict[int, Combined] = {}
        found, wider = self._measure(run, rows)
        for place in self.places:
            alone, together = found.get(place), wider.get(place)
            if alone is None or self.orders(place):
                single = combine(alone, confidence_of(self.plan))
            else:
                single = from_measurement(alone)
            if together is None or together.half_width is None:
                both = combine(together, level_at_once(self.plan, len(rows)))
            else:  # gaps do not change the ends of its intervals
                both = from_measurement(together)
            estimates[place] = single.at_once(both)
        return estimates, {}

    def _measure(self, run: Run, rows: Rows) -> tuple[dict[int, Measurement], dict[int, Measurement]]:
        """Measure the numbers at `places` in the rows, with noise.

        Returns two dicts by place: the measurements with an interval at the plan's confidence for each number
        alone, and the same measurements with intervals that hold for all numbers at once. Both are empty if
        there is nothing to measure.
        """
        size = len(rows)
        if not size or not self.places:
            return {}, {}
        if self.strategy == "BOX":
            noise: Mechanism[Any] = self.box(size)
            measured = run.measure(noise, self.places, rows)
            made = box_measurements(self.plan, measured, self.places)
            return made, box_measurements(self.plan, measured, self.places, together=True)
        found, wider, level = {}, {}, level_at_once(self.plan, size)
        for place, mechanism in self.laplace(size).items():
            each = run.measure(mechanism, (place,), rows)
            found[place] = laplace_measurement(each, confidence_of(self.plan), place)
            wider[place] = laplace_measurement(each, level)
        return found, wider

    def predict(self, size: int, gaps: GapNoise | None) -> tuple[float, float]:
        """Predict the largest standard deviation and half width of a count, for a given number of groups.

        `gaps` is the noise of the gaps that help to estimate the ordering count, if there are any.
        """
        # The gap of a single group to an unknown count says nothing; one to a threshold does.
        helpful = gaps if size > 1 or (gaps is not None and gaps.threshold_scale is not None) else None
        if self.strategy == "BOX":
            found = self._predict_box(size, helpful)
        else:
            found = self._predict_laplace(size, helpful)
        deviations, widths = zip(*found, strict=True)
        return max(deviations), max(widths)

    def _predict_box(self, size: int, gaps: GapNoise | None) -> Iterator[tuple[float, float]]:
        together = is_simultaneous(self.plan) or self.plan.wide
        box, confidence = self.box(size), box_level(self.plan, together=together)
        for block, place in enumerate(self.places):
            deviation = stddev(box, block * size)
            if gaps is not None and self.orders(place):
                deviation = largest_stddev(ErrorModel(gaps, size, shared_noise(box, block * size)))
            yield deviation, half_width(box, confidence, block * size, simultaneous=together)

    def _predict_laplace(self, size: int, gaps: GapNoise | None) -> Iterator[tuple[float, float]]:
        confidence = level_at_once(self.plan, size) if self.plan.wide else confidence_of(self.plan)
        for place, laplace in self.laplace(size).items():
            deviation = stddev(laplace)
            width = half_width(laplace, confidence)
            if gaps is not None and self.orders(place):
                model = ErrorModel(gaps, size, _noise(laplace))
                deviation = largest_stddev(model)
                if laplace.total:
                    around = offsets(model, confidence)
                    width = float((around.low + around.high).max()) / 2
            yield deviation, width

    def errors(self, size: int, gaps: GapNoise | None) -> dict[Output, str]:
        """Return the predicted errors of sums and averages, in words."""
        if not self.places or all(self.plan.counts[place].noise_group is None for place in self.places):
            return {}
        if self.together:
            level = level_at_once(self.plan, size) if self.plan.wide else confidence_of(self.plan)
            return self.block(size).errors(level)
        step = float(self.plan.counts[self.places[0]].step)
        stddev, width = (part * step for part in self.predict(size, gaps))
        words = error_words(stddev, width)
        return {o: words for o in self.plan.outputs if o.kind == "count" and o.of in self.places}

    @property
    def measured_by(self) -> str:
        """The strategy, for a quote; empty if no count is measured."""
        return ("GAUSSIAN" if self.gaussian else self.strategy) if self.places else ""

    @property
    def words(self) -> str:
        """How counts are measured, in words."""
        if self.gaussian:
            return "with Gaussian noise"
        if self.strategy == "EACH":
            return "one noisy count a group (EACH)"
        if self.strategy == "ANCHOR":
            return "one noisy total (ANCHOR)"
        monotone = all(self.plan.counts[place].monotone for place in self.places)
        return f"with one {'box' if monotone else 'cube'} noise (BOX)"


@dataclass(frozen=True, slots=True)
class Measuring:
    """Measures numbers of groups that are already selected: the second phase of every method."""

    plan: Plan
    parts: tuple[ShareMeasuring, ...]
    epsilon: Fraction

    @classmethod
    def of(cls, plan: Plan, ordering: int, places: list[int], epsilon: Fraction, *, most: int) -> Measuring:
        """Plan measurements of at most `most` groups; raises `ValueError` if the noise would be too large."""
        divided = divide_among(plan, places, epsilon, most) if epsilon else []
        apart = replace(plan, apart=plan.apart * max(len(divided), 1))
        parts = [ShareMeasuring.of(apart, ordering, own, part, most=most) for own, part in divided]
        return cls(plan, tuple(parts), epsilon)

    @property
    def places(self) -> list[int]:
        """The places of all numbers that are measured."""
        return [place for part in self.parts for place in part.places]

    def run(self, run: Run, rows: Rows, combine: Combine) -> tuple[tuple[Combined | None, ...], Values]:
        """Measure the numbers of the selected groups; return the estimates.

        `combine` joins the measurement of the ordering count with its gaps; it gets no measurement if no
        group was selected.
        """
        estimates: dict[int, Combined] = {}
        values: Values = {}
        for part in self.parts:
            own, more = part.run(run, rows, combine)
            estimates |= own
            values |= more
        return tuple(estimates.get(place) for place in range(len(self.plan.counts))), values

    def predict(self, size: int, gaps: GapNoise | None) -> tuple[float | None, float | None]:
        """Predict the largest standard deviation and half width of a count, for a given number of groups.

        They are those of the numbers that order the groups, else of the counts; None if there are none.
        `gaps` is the noise of the gaps that help to estimate the ordering count, if there are any.
        """
        alone = [part for part in self.parts if not part.together]
        if not alone:
            return None, None
        first = next((p for p in alone if any(map(p.orders, p.places))), alone[0])
        step = float(self.plan.counts[first.places[0]].step)
        deviation, width = first.predict(size, gaps)
        return deviation * step, width * step

    @property
    def loss(self) -> PrivacyLoss:
        """The largest privacy loss of a run of all measurements."""
        return sum((part.loss for part in self.parts), PrivacyLoss())

    def errors(self, size: int, gaps: GapNoise | None) -> dict[Output, str]:
        """Return the predicted errors of sums and averages, in words."""
        return {output: words for part in self.parts for output, words in part.errors(size, gaps).items()}

    @property
    def measured_by(self) -> str:
        """The strategies, for a quote; empty if no number is measured."""
        return ", ".join(dict.fromkeys(part.measured_by for part in self.parts))

    @property
    def words(self) -> str:
        """How numbers are measured, in words."""
        return ", ".join(dict.fromkeys(part.words for part in self.parts))


def box_measurements(
    plan: Plan,
    measured: mechanisms.Measured[mechanisms.Box] | mechanisms.Measured[mechanisms.Gaussian],
    places: list[int],
    *,
    together: bool = False,
) -> dict[int, Measurement]:
    """Return the measurement of each count, by place, of one noise over as many groups of every count.

    `together`: its intervals hold for all numbers at once.
    """
    box, size = measured.plan, len(measured.value) // len(places)
    all_of_them = together or is_simultaneous(plan)
    level = box_level(plan, together=all_of_them)
    law = law_of(box)
    return {
        place: Measurement(
            measured.value[first : first + size],
            shared_noise(box, first),
            half_width(box, level, first, simultaneous=all_of_them),
            source_of(box, law, first),
            place,
        )
        for first, place in zip(range(0, size * len(places), size), places, strict=True)
    }


def laplace_measurement(
    measured: mechanisms.Measured[mechanisms.Laplace], level: Fraction, place: int = 0
) -> Measurement:
    """Convert values measured with Laplace noise to the form that the estimates take."""
    noise = _noise(measured.plan)
    width = None if noise.total else half_width(measured.plan, level)
    return Measurement(measured.value, noise, width, laplace_source(measured.plan), place)


def _noise(mechanism: mechanisms.Laplace) -> LaplaceNoise:
    return LaplaceNoise(mechanism.scale, mechanism.resolution, mechanism.total)
