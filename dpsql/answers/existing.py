"""Release all groups of keys without a declared domain that have enough units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql import mechanisms
from dpsql.analysis import Plan
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.unknown import ranked_keys
from dpsql.engines import Counts
from dpsql.errors import InternalError
from dpsql.estimates import Combined, LaplaceNoise, Measurement, from_measurement, split_measuring
from dpsql.language import AllGroups, TopK
from dpsql.privacy import Charge


@dataclass(frozen=True, slots=True)
class ExistingGroups:
    """Shows groups whose noisy number of units reaches a threshold; measures their other counts.

    The number of units of a group is released with the noise that decided on the group. It costs nothing
    more. Other counts have the rest of epsilon, and noise of their own: `noise` maps their places to it.
    """

    plan: Plan
    selection: AllGroups | TopK
    units: int
    """The place of the numbers of units."""
    existing: mechanisms.Existing
    noise: dict[int, mechanisms.Laplace]

    @classmethod
    def of(cls, plan: Plan, selection: AllGroups | TopK) -> ExistingGroups:
        """Divide the statement's epsilon: all for the number of units, or half if other counts are shown."""
        units, delta = plan.existence, plan.options.delta
        m = None if units is None else plan.total(units)
        if units is None or m is None or delta is None:
            raise InternalError("groups of undeclared keys need a delta and a bound on each unit's groups")
        ordering = [selection.count] if isinstance(selection, TopK) else []
        asked = measuring.wanted(plan, units, ordering)
        others = [p for p in asked if plan.counts[p] != plan.counts[units]]
        totals = [_total(plan, place) for place in others]
        share, measure = Fraction(0), measuring.share_of(plan)
        if others and measure == 0:
            raise ValueError("measure = 0 leaves no epsilon for the counts beside the number of units")
        if others:
            shown = len(others) < len(asked)
            share = measure or (Fraction(1, 2) if shown else _share(m, delta, max(totals)))
        parts = split_measuring(plan.epsilon * share, totals) if others else ()
        noise = {
            place: cls._measuring(1, epsilon, total)
            for place, total, epsilon in zip(others, totals, parts, strict=True)
        }
        existing = mechanisms.Existing.plan(plan.epsilon * (1 - share), delta, groups_per_unit=m)
        return cls(plan, selection, units, existing, noise)

    @staticmethod
    def _measuring(groups: int, epsilon: Fraction, total: int) -> mechanisms.Laplace:
        """Plan the noise of a count: whole numbers, which err less than fractions where noise is small."""
        return mechanisms.Laplace.plan(groups, epsilon, groups_per_unit=1, sensitivity=total, resolution=0)

    @property
    def quote(self) -> Quote:
        """See `Method`."""
        plan, existing, confidence = self.plan, self.existing, measuring.confidence_of(self.plan)
        shown = list(self._laws().values())
        selecting = existing.loss.charge.epsilon
        split = "all for the numbers of units"
        if self.noise:
            split = f"{float(selecting):g} for existence, {float(plan.epsilon - selecting):g} for measuring"
        threshold, kept, selected = (
            float(existing.threshold),
            plan.groups_kept,
            isinstance(plan.selection, TopK),
        )
        notes: tuple[str, ...] = (
            f"a group is shown if its noisy number of units is at least {threshold:.4g}; near that, groups "
            "with high noise are shown",
        )
        if kept is not None:
            notes += (f"of each unit at most {kept} group{'s' * (kept != 1)} counted, chosen by a hash",)
        return Quote(
            Charge(plan.epsilon, existing.loss.charge.delta),
            "noisy numbers of units above a threshold",
            float(existing.scale),
            split,
            max((law.stddev for law in shown), default=None),
            None if selected else max((law.half_width(confidence) for law in shown), default=None),
            None,
            notes,
            outlook={"least_units": threshold},
        )

    def _laws(self) -> dict[int, mechanisms.Laplace]:
        """Return the noise of each count that is shown, by its place."""
        existing, found = self.existing, dict(self.noise)
        if any(self.plan.counts[p] == self.plan.counts[self.units] for p in measuring.wanted(self.plan, 0)):
            epsilon = existing.loss.charge.epsilon
            found[self.units] = mechanisms.Laplace.plan(
                1, epsilon, sensitivity=existing.groups_per_unit, resolution=existing.resolution
            )
        return found

    def run(self, counts: Counts) -> NoisyResult:
        """Show the groups that reach the threshold, sorted by key, and measure their other counts.

        Of a top-k these are the candidates: the largest by their noisy counts are shown.
        """
        found, confidence = self.existing.run(counts.n[self.units]), measuring.confidence_of(self.plan)
        rows = self._in_order(counts, found.index)
        if isinstance(self.selection, AllGroups):
            rows = rows[: self.selection.limit]
        else:  # The noise also selects: the intervals of all candidates hold together.
            confidence = 1 - (1 - confidence) / max(len(rows), 1)
        values = np.zeros(len(counts.n[self.units]))
        values[found.index] = found.value
        estimates: list[Combined | None] = [None] * len(self.plan.counts)
        loss = found.loss
        for place, law in self._laws().items():
            if place == self.units:
                value = values[rows]
            else:
                epsilon, total = law.loss.charge.epsilon, _total(self.plan, place)
                planned = self._measuring(len(rows), epsilon, total)
                measured = planned.run(counts.n[place][rows])
                loss, value = loss + measured.loss, measured.value
            noise = LaplaceNoise(law.scale, law.resolution)
            made = from_measurement(Measurement(value, noise, law.half_width(confidence)))
            for other, count in enumerate(self.plan.counts):
                if count == self.plan.counts[place]:
                    estimates[other] = made
        if isinstance(self.selection, TopK):
            kept = _largest(self.selection, estimates[self.selection.count])
            rows, estimates = rows[kept], [e and measuring.taken(e, kept) for e in estimates]
        return NoisyResult(rows, loss, tuple(estimates))

    def _in_order(self, counts: Counts, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sort groups by the keys that the statement names, then by all keys: all of that is released."""
        if not len(index):
            return index
        keys = ranked_keys(counts, index)
        order = self.selection.order if isinstance(self.selection, AllGroups) else ()
        terms = [-keys[place] if descending else keys[place] for place, descending in order]
        return index[np.lexsort([*reversed(keys), *reversed(terms)])]


def _total(plan: Plan, place: int) -> int:
    total = plan.total(place)
    if total is None:
        raise InternalError("a count of groups of undeclared keys has no bound")
    return total


def _share(m: int, delta: Fraction, total: int) -> Fraction:
    """Return the part of epsilon for measuring counts of which a unit changes all groups by `total` together.

    Deciding has at most half. It has less where the noise of a count, three half-widths of it, would exceed
    the number of units that is needed: groups near that number could not be told from empty ones anyway.
    """
    ratio = m * math.log(m / (2 * float(delta))) / (3 * max(total, 1))
    return 1 - max(Fraction(1, 64), min(Fraction(1, 2), Fraction(round(64 * ratio / (1 + ratio)), 64)))


def _largest(selection: TopK, estimate: Combined | None) -> NDArray[np.int64]:
    """Return the places of the k largest noisy counts, largest first; of equal ones, the first key."""
    if estimate is None:
        raise InternalError("the count that orders the groups was not measured")
    order = np.argsort(-estimate.value, kind="stable")
    if selection.threshold is not None:
        order = order[estimate.value[order] >= float(selection.threshold)]
    return order[: selection.k]
