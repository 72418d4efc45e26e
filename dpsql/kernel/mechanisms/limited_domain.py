"""The limited domain mechanism: the k largest groups of an unknown domain in order, and a set of more."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss, exact
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Mechanism,
    NoiseSource,
    Result,
    as_counts,
    between,
    bound,
    grid_of,
    in_counts,
    positive,
    whole,
)
from dpsql.kernel.mechanisms.noisy_order import NoisyOrder
from dpsql.kernel.mechanisms.top_stable import TopStable
from dpsql.kernel.mechanisms.unknown_domain import exponential_cutoff, largest_groups
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class LimitedTopK(Result["LimitedDomain"]):
    """The groups found by the limited domain mechanism, best first, and the gaps between them."""

    index: NDArray[np.int64]
    """int64, positions of the groups in the counts, best first; k or fewer."""
    gap: NDArray[np.float64]
    """float64, one a group, in counts: to the next item in the noisy order, which for the last group may be
    the cutoff or a group not released. Floored to the grid; valid for p-values."""
    reached_threshold: NDArray[np.bool_]
    """Whether the cutoff was placed: fewer than k groups came before it. The value of the cutoff is private,
    so the gaps do not estimate counts. As it is never below the larger of `plan.threshold` and
    `plan.clearance`, that plus the gaps from a group to the cutoff estimates a lower bound of its count."""


@dataclass(frozen=True, slots=True)
class LimitedDomain(NoisyOrder[LimitedTopK]):
    """Noisy top-k among the largest groups of an unknown domain, in which a cutoff is one more item.

    The cutoff is far above the largest group left out. Only the groups before it are released. So a group of
    few units is not released, and fewer than k groups may be returned.

    Attributes
    ----------
    groups
        How many groups take part. One more count is read, that of the largest group left out.
    clearance
        Difference between the cutoff and the largest group left out, in grid steps.
    threshold
        Least value of the cutoff, in grid steps.

    Notes
    -----
    Ours, after the Limited Domain procedure that Carvalho et al. (UAI 2020) compare with, and
    Algorithm 19 of the dissertation. With c the sensitivity, noise of scale k c/epsilon, and h the
    count of the largest group left out, the cutoff's count is h + clearance, or the threshold if that is
    higher, with clearance = c + scale ln(candidates/(2 delta)), rounded up with certified arithmetic.

    *Private:* let D' have all counts of D or more, each by at most c; so h <= h' <= h + c, and the
    cutoff moves with them. A candidate on one side only counts at most h + c on D, h' + c on D': it
    comes before the cutoff with probability at most e^(-(clearance - c)/scale)/2, and there are at most
    `candidates` such: delta. Otherwise all groups released are candidates on both sides. Pair the
    candidates that leave with those that come: the former count h..h' on D, the latter h'..h + c on
    D', so each pair moves up, by at most c. That is a monotone instance of noisy top-k, whose
    alignment with the t placed items as winners costs t c/scale = t epsilon/k, in both directions.
    Empty places are groups of count 0 like any other; the first of them before the cutoff counts as
    placed and ends the release.
    """

    undeclared = True

    clearance: int
    threshold: int

    @classmethod
    def plan(
        cls,
        k: int,
        epsilon: Number,
        delta: Number,
        *,
        candidates: int | None = None,
        threshold: Number | None = None,
        sensitivity: Number = 1,
        resolution: int | None = None,
    ) -> Self:
        """Plan a choice of the k largest groups; the number of groups is private, and does not matter.

        Parameters
        ----------
        k
            Most groups.
        epsilon, delta
            Budget. Delta is spent in full.
        candidates
            How many groups take part, at least k; 10 k by default. More candidates lower the cutoff as long
            as the counts decrease, and increase the clearance only logarithmically.
        threshold
            Release only groups above this as well; any number, rounded up to the grid.
        sensitivity, resolution
            As in `Mechanism`.
        """
        k, epsilon, moved = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity)
        delta = between(delta, "delta")
        many = 10 * k if candidates is None else whole(candidates, "candidates")
        if many < k:
            raise ValueError("candidates must be at least k")
        scale = k * moved / epsilon
        bits = grid_of("exponential", resolution, scale)
        clearance = _clearance(int(moved), delta, many, scale, bits)
        if clearance > exact_noise.LARGEST:
            raise ValueError("the noise's scale is too large for so small a delta")
        level = Fraction(0) if threshold is None else exact(threshold)
        # Twice the limit of counts is beyond every count.
        steps = max(0, min(math.ceil(level * (1 << bits)), 2 * exact_noise.STEP_LIMIT))
        return cls(many, k, "exponential", scale, bits, clearance, steps, loss=PrivacyLoss.of(epsilon, delta))

    @property
    def bar(self) -> Fraction:
        """Least count of the cutoff: what a group must exceed, up to noise, even if no group is left out."""
        return Fraction(max(self.clearance, self.threshold), 1 << self.resolution)

    @property
    def reads(self) -> int:
        """How many groups the mechanism reads, those with the largest counts."""
        return self.groups + 1

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        All counts go one way, by at most c; so far is the clearance for, too.
        """
        paid = taken.low == 0 and self.k * taken.high <= (self.loss.epsilon or 0) * self.scale
        if not (paid and self.loss.delta and self.noise == "exponential" and self.k <= self.groups):
            return False
        least = _clearance(taken.high, self.loss.delta, self.groups, self.scale, self.resolution)
        return self.clearance >= least

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run that placed so many items, the cutoff or an empty place included."""
        most = self.loss.charge
        return PrivacyLoss.of(most.epsilon * units / self.k, most.delta)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> LimitedTopK:
        """Choose from counts, or the `candidates + 1` largest of them, in any order.

        They must be monotone: one unit moves all counts the same way, each by at most the sensitivity, in any
        number of groups.
        """
        position, kept = largest_groups(counts, self.groups)
        values = exact_noise.place(kept, self.resolution)
        values[..., -1] = np.maximum(values[..., -1] + self.clearance, self.threshold)
        items, steps = self.order(values, source)
        # Neither the cutoff, the last item, nor an empty place has a position.
        names = np.concatenate([position, np.full((*position.shape[:-1], 1), -1)], axis=-1)
        index = np.take_along_axis(names, items, axis=-1)
        before = np.logical_and.accumulate(index >= 0, axis=-1)
        number = before.sum(axis=-1)
        reached = ((items == self.groups) & (np.arange(self.k) == number[..., None])).any(axis=-1)
        gap, units = in_counts(steps, self.resolution), np.minimum(number + 1, self.k)
        if position.ndim == 1:
            return LimitedTopK(self, index[:number], gap[:number], reached, units=int(units))
        parts = (np.where(before, index, -1), np.where(before, gap, np.nan))
        return LimitedTopK(self, *parts, reached, units=units)


def _clearance(moved: int, delta: Fraction, candidates: int, scale: Fraction, resolution: int) -> int:
    """Return the least clearance for a delta, in grid steps; the proof has its chance."""
    rate = exact_noise.rate(scale, resolution)
    return (moved << resolution) + exponential_cutoff(delta / candidates, rate)


LEAST = Fraction(1, 4)
"""Share of epsilon below which the second mechanism does not run."""


@dataclass(frozen=True, eq=False, slots=True)
class OrderedThenSet(Result["LimitedThenStable"]):
    """The groups of both mechanisms: first those in order, then a set."""

    index: NDArray[np.int64]
    """int64, positions of the groups in the counts; k or fewer. After the first `ordered` they ascend, and
    only their *set* is private: as in `StableSet`, sort them by key before anything is released."""
    gap: NDArray[np.float64]
    """float64, one a group: as in `LimitedTopK` for those in order, NaN for those of the set."""
    ordered: NDArray[np.int64]
    """How many groups are in order."""


@dataclass(frozen=True, slots=True)
class LimitedThenStable(Mechanism[OrderedThenSet]):
    """The limited domain mechanism, then Top Stable on the groups not released, at the epsilon not spent.

    Notes
    -----
    Ours. Limited domain that places u of k items charges u epsilon/k: u - 1 groups and what ended the
    release, or k groups. If at least a quarter of epsilon is left, Top Stable looks for at most k - (u - 1)
    further groups, with what is left of epsilon and the other half of delta.

    *Private:* which groups the first mechanism released, and u, are released, and nothing else of the first
    run has an influence on the second: its noise is fresh, and its plan depends on u alone. Fix a first
    output. The groups that it does not name are again the groups of an unknown domain: on neighbours their
    counts all move the same way, each by at most c. Of them the k + 1 - (u - 1) largest are among the
    `candidates + 1` largest of all, as `candidates` is at least k. So given that output, Top Stable is
    (r, delta/2)-private for the rest r = epsilon - u epsilon/k.

    Both together: let A, B be the parts of the first law P within e^(u epsilon/k) times the one on the
    neighbour, and beyond it; B has at most delta/2 in total. Likewise A', B' for the second law given a
    first output, at e^r. P P' = A A' + A B' + B P'; the first part is within e^epsilon times the law on the
    neighbour, the others have at most delta/2 each. With what Top Stable realises in the place of r, the same
    holds for the realised charge. A run without the second mechanism spends half of delta only.
    """

    undeclared = True

    k: int
    limited: LimitedDomain
    """The first mechanism. It may spend all of epsilon, and half of delta."""
    sensitivity: Fraction
    resolution: int
    """b of the grid of Top Stable's noise, the same whatever the first mechanism spends."""

    @classmethod
    def plan(
        cls,
        k: int,
        epsilon: Number,
        delta: Number,
        *,
        candidates: int | None = None,
        sensitivity: Number = 1,
        resolution: int | None = None,
    ) -> Self:
        """Plan a choice of the k largest groups; the number of groups is private, and does not matter.

        Parameters
        ----------
        k
            Most groups, at least 2: with k = 1 the first mechanism always spends everything.
        epsilon, delta
            Budget of both mechanisms together.
        candidates, sensitivity, resolution
            As in `LimitedDomain.plan`.
        """
        k, budget, moved = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity)
        if k < 2:
            raise ValueError("k must be at least 2")
        half = between(delta, "delta") / 2
        limited = LimitedDomain.plan(
            k, budget, half, candidates=candidates, sensitivity=moved, resolution=resolution
        )
        bits = TopStable.plan(k, budget, half, sensitivity=moved, resolution=resolution).tests.resolution
        # No plan that `further` makes has more tests or less epsilon: if this one is in range, all are.
        TopStable.plan(k, budget * LEAST, half, sensitivity=moved, resolution=bits)
        return cls(k, limited, moved, bits, loss=PrivacyLoss.of(budget, 2 * half))

    @property
    def scale(self) -> Fraction:
        """Scale of the first mechanism's noise, in counts."""
        return self.limited.scale

    def further(self, units: int) -> TopStable | None:
        """Return Top Stable as it runs after limited domain placed so many items; None: it does not run."""
        spent, most = self.limited.realised_loss(units).charge, self.loss.charge
        left = most.epsilon - spent.epsilon
        if left < most.epsilon * LEAST:
            return None
        return TopStable.plan(
            self.k - (units - 1),
            left,
            most.delta - spent.delta,
            sensitivity=self.sensitivity,
            resolution=self.resolution,
        )

    @property
    def reads(self) -> int:
        """How many groups the mechanism reads, those with the largest counts."""
        return self.limited.reads

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        It is the loss of both mechanisms, of which the second is planned for what is left.
        """
        first, both = self.limited.loss, self.loss
        within = (first.epsilon or 0) <= (both.epsilon or 0) and first.delta < both.delta
        known = self.k == self.limited.k and taken.most <= self.sensitivity
        return within and known and self.limited.admits(taken)

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run: twice the items that were placed, and 1 more if a set was stable."""
        placed, found = divmod(units, 2)
        further, spent = self.further(placed), self.limited.realised_loss(placed)
        return spent if further is None else spent + further.realised_loss(found)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> OrderedThenSet:
        """Choose from counts, or the `candidates + 1` largest of them, in any order.

        They must be monotone: one unit moves all counts the same way, each by at most the sensitivity, in any
        number of groups.
        """
        array = as_counts(counts, trials=True)
        first = self.limited.run(array, source)
        rows, placed = np.atleast_2d(array), np.atleast_1d(first.units)
        released, free = np.atleast_2d(first.index), np.atleast_2d(first.gap)
        index, gap = np.full((len(rows), self.k), -1), np.full((len(rows), self.k), np.nan)
        index[:, : released.shape[1]], gap[:, : free.shape[1]] = released, free
        ordered, units = (index >= 0).sum(axis=1), 2 * placed
        for many in np.unique(placed).tolist():
            if (further := self.further(many)) is None:
                continue
            trials = np.flatnonzero(placed == many)  # of each of them the same number is in order
            rest = rows[trials]
            rest[np.arange(len(trials))[:, None], index[trials, : many - 1]] = 0  # as if missing
            found = further.run(rest, source)
            index[trials, many - 1 :] = found.index
            units[trials] += np.asarray(found.units)
        if array.ndim == 1:
            size = int((index >= 0).sum())
            return OrderedThenSet(self, index[0, :size], gap[0, :size], ordered[0], units=int(units[0]))
        return OrderedThenSet(self, index, gap, ordered, units=units)
