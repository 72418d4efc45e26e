"""Top-k with gaps: noisy top-k, its hybrid with a threshold, and peeled top-k by rounds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss, exact
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Noise,
    NoiseSource,
    Result,
    as_bounded_counts,
    as_counts,
    as_sparse_counts,
    bound,
    grid_of,
    in_counts,
    kind,
    pays_for,
    positive,
    to_steps,
    whole,
)
from dpsql.kernel.mechanisms.noisy_order import NoisyOrder, TopK, skipping, to_bounded_steps, to_sparse_steps
from dpsql.kernel.public_order import BoundedCounts, SparseCounts
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NoisyTopK(NoisyOrder["TopK[NoisyTopK]"]):
    """Noisy top-k: chooses the k largest groups, and the gap of each to the next one at no extra charge.

    With k = 1 this is noisy max; with exponential noise the choice has the law of permute-and-flip.

    Notes
    -----
    Free Gap, Algorithm 1; dissertation, section 5.5. *Private:* the law is that of continuous noise
    X of scale min(k, n-1) c/epsilon (twice that if not monotone), with gaps floored to the grid:

    - Exponential X is gamma (Y + U), Y geometric, U in [0, 1) i.i.d. and independent of Y; so sums
      compare by (q + Y, U), of U only the order matters, and that is a uniform permutation. For
      Laplace, Y discrete Laplace and U uniform, the logarithm of the density of Y + U still moves by
      at most 1/scale with one count.
    - Alignment, winners W, losers L (L not empty): with M, M' the best loser's noisy value on D and
      D' for the same noise, m the least q_i - q'_i in W: if M' >= M - m, winners move by
      q_i - q'_i + M' - M; else the best loser moves by q_s - q'_s - m and winners by q_i - q'_i - m.
      Every noise moves up, or is Laplace; at most k move, each by at most c (2c if not monotone).
      The alignment printed in the dissertation, (5.4), is not injective; this one is.
    - n <= k is choosing n - 1 of n: the last group and its place follow from the others.
    - Moves from low to high, c = high - low: q_i - q'_i - m and M' - M + q_i - q'_i depend on differences of
      moves alone, so that they are as for moves from 0 to c, monotone, up or down.

    Ranks are drawn only for the contenders, the groups that reach the (k+1)-th noisy value. Which
    they are depends on counts and noise alone, independent of the permutation, and a uniform
    permutation restricted to them is again uniform: the law is the same. Likewise noise is completed
    only where it can reach what k + 1 groups have reached: see `leaders`.

    *Order:* all groups have noise of the same law, and ties are broken by the ranks; so the counts may be in
    any order, even one that depends on a unit, and the chosen are released in the order of noisy values.

    Lowest-k negates the counts, then adds noise: subtracting one-sided noise is not private.
    """

    sparse = True

    lowest: bool

    @classmethod
    def plan(
        cls,
        groups: int,
        k: int,
        epsilon: Number,
        *,
        sensitivity: Number = 1,
        monotone: bool = True,
        noise: Noise = "exponential",
        resolution: int | None = None,
        lowest: bool = False,
    ) -> NoisyTopK:
        """Plan a choice of the k largest groups of a public domain; free if there is only one.

        With `lowest`, the k smallest are chosen, and each gap is the distance below the next one.
        """
        k, budget, moved, noise = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity), kind(noise)
        paid = min(k, groups - 1)
        if paid < 1:
            return cls(groups, k, noise, Fraction(0), 0, lowest, loss=PrivacyLoss())
        scale = paid * moved * (1 if monotone else 2) / budget
        bits = grid_of(noise, resolution, scale)
        return cls(groups, k, noise, scale, bits, lowest, loss=PrivacyLoss.of(budget))

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        What matters is only by how much the changes of groups differ.
        """
        part = next(iter(self.loss.parts), None)
        if part is None or part.epsilon is None:
            return self.groups < 2
        return min(self.k, self.groups - 1) * taken.span <= part.epsilon * self.scale

    @property
    def bounded(self) -> bool:
        """Whether there is something to choose, and the largest are chosen."""
        return bool(self.scale) and not self.lowest

    def run(
        self, counts: ArrayLike | SparseCounts | BoundedCounts, source: NoiseSource = SYSTEM
    ) -> TopK[NoisyTopK]:
        """Choose from counts in any order; groups of sparse ones are named by their positions."""
        if isinstance(counts, SparseCounts):
            return self._run_sparse(counts, source)
        if isinstance(counts, BoundedCounts):
            known = as_bounded_counts(counts, self.groups, trials=True)
            if not self.bounded:
                return self.run(known.complete(), source)
            index, gaps = self.order(to_bounded_steps(known, self.resolution), source)
            return TopK(self, index, in_counts(gaps, self.resolution))
        array = as_counts(counts, self.groups, trials=True)
        if not self.scale:
            return TopK(self, np.zeros(array.shape, dtype=np.int64), np.zeros((*array.shape[:-1], 0)))
        values = to_steps(array, self.resolution, negated=self.lowest)
        index, gaps = self.order(values, source)
        return TopK(self, index, in_counts(gaps, self.resolution))

    def _run_sparse(self, counts: SparseCounts, source: NoiseSource) -> TopK[NoisyTopK]:
        listed = as_sparse_counts(counts, self.groups)
        if not self.scale:
            return self.run(listed.dense(), source)
        index, gaps = self.order(to_sparse_steps(listed, self.resolution, negated=self.lowest), source)
        return TopK(self, index, in_counts(gaps, self.resolution))


@dataclass(frozen=True, eq=False, slots=True)
class Hybrid(Result["HybridTopK"]):
    """The largest groups whose noisy counts exceed the threshold's, best first, with gaps between them."""

    index: NDArray[np.int64]
    """int64, positions of the groups in the counts."""
    gap: NDArray[np.float64]
    """float64, one a group, in counts: to the next one; the last group's is to the threshold if that was
    reached, else to the best group not released. Floored to the grid."""
    reached_threshold: NDArray[np.bool_]
    """Whether the threshold is the next item. If so, sums of gaps plus the threshold estimate the counts, and
    no further group has a noisy count above it."""
    rest: NDArray[np.float64]
    """Gap of the threshold to the best group not released; NaN if it was not determined."""


@dataclass(frozen=True, slots=True)
class HybridTopK(NoisyOrder[Hybrid]):
    """Noisy top-k in which a threshold takes part: only the groups before it are released and charged.

    The threshold is one more item, with noise of the same law.

    Attributes
    ----------
    k
        Most groups, and most items that are placed; as given, but not above the number of groups.
    level
        The threshold in grid steps, rounded up; negated if groups below it are chosen.

    Notes
    -----
    Dissertation, Algorithm 19. *Private:* the alignment of `NoisyTopK` with the t placed items as
    winners; the threshold's own count never moves, which both directions of monotone counts allow.
    t noises move, or t - 1 and the best loser, each by c/scale = epsilon/k at most (2c/scale if not
    monotone). With k >= n the scale is that for k = n: the last of n + 1 places is determined by the others.
    The charge is t/k of epsilon for t items placed, the threshold included.

    Counts that move by low to high are monotone with c = high - low: the threshold moves by 0, which
    low <= 0 <= high allows, like a group without a part of the unit.

    *Order:* as in `NoisyTopK`, the law does not depend on positions.
    """

    sparse = True

    level: int
    below: bool

    @classmethod
    def plan(
        cls,
        groups: int,
        threshold: Number,
        k: int,
        epsilon: Number,
        *,
        sensitivity: Number = 1,
        monotone: bool = True,
        noise: Noise = "exponential",
        resolution: int | None = None,
        below: bool = False,
    ) -> HybridTopK:
        """Plan a choice of at most k largest groups above a public threshold; epsilon pays for k of them.

        With `below`, the smallest groups at or below the threshold are chosen.
        """
        k, budget, moved, noise = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity), kind(noise)
        level, paid = exact(threshold), min(k, groups)
        if paid == 0:
            return cls(groups, 0, noise, Fraction(0), 0, 0, below, loss=PrivacyLoss())
        scale = paid * moved * (1 if monotone else 2) / budget
        bits = grid_of(noise, resolution, scale)
        # Twice the limit of counts is beyond every count.
        beyond, steps = 2 * exact_noise.STEP_LIMIT, math.ceil((-level if below else level) * (1 << bits))
        steps = max(-beyond, min(steps, beyond))
        return cls(groups, paid, noise, scale, bits, steps, below, loss=PrivacyLoss.of(budget))

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        Of each of k items the noise moves by the range of the changes, 0 among them.
        """
        return self.k * taken.span <= (self.loss.epsilon or 0) * self.scale

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run that placed a given number of items."""
        if not self.k:
            return PrivacyLoss()
        return PrivacyLoss.of(self.loss.charge.epsilon * units / self.k)

    @property
    def bounded(self) -> bool:
        """Whether there is something to choose, and the largest are chosen."""
        return self.k > 0 and not self.below

    def run(self, counts: ArrayLike | SparseCounts | BoundedCounts, source: NoiseSource = SYSTEM) -> Hybrid:
        """Choose from counts in any order; groups of sparse ones are named by their positions."""
        if isinstance(counts, SparseCounts):
            listed = as_sparse_counts(counts, self.groups)
            values = self._with_level(listed.values)
            every = SparseCounts(values, np.concatenate([[0], listed.positions + 1]), self.groups + 1)
            return self._chosen(every, source, listed.values.shape[:-1])
        if isinstance(counts, BoundedCounts):
            known = as_bounded_counts(counts, self.groups, trials=True)
            if self.bounded:
                return self._chosen(self._bounded_with_level(known), source, known.upper.shape[:-1])
            counts = known.complete()
        array = as_counts(counts, self.groups, trials=True)
        return self._chosen(self._with_level(array), source, array.shape[:-1])

    def _with_level(self, array: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the threshold, then counts, in grid steps."""
        values = np.empty((*array.shape[:-1], array.shape[-1] + 1), dtype=np.int64)
        values[..., 0] = self.level
        values[..., 1:] = to_steps(array, self.resolution, negated=self.below)
        return values

    def _bounded_with_level(self, counts: BoundedCounts) -> BoundedCounts:
        """Return the same of counts that are known from above."""

        def exact_steps(places: NDArray[np.int64]) -> NDArray[np.int64]:
            trial, place = np.divmod(places, self.groups + 1)
            found, groups = np.full(len(places), self.level), place > 0
            positions = (trial * self.groups + place - 1)[groups]
            found[groups] = to_steps(counts.exact(positions), self.resolution, negated=False)
            return found

        upper, likely = map(self._with_level, (counts.upper, counts.likely))
        return BoundedCounts(upper, exact_steps, likely)

    def _chosen(
        self,
        taking_part: NDArray[np.int64] | SparseCounts | BoundedCounts,
        source: NoiseSource,
        shape: tuple[int, ...],
    ) -> Hybrid:
        """Choose among the threshold, which is the first item, and counts, all in grid steps."""
        if not self.k:
            index, gap = np.zeros((*shape, 0), dtype=np.int64), np.zeros((*shape, 0))
            return Hybrid(self, index, gap, np.ones(shape, dtype=np.bool_), np.full(shape, np.nan))
        items, steps = self.order(taking_part, source)
        gaps = in_counts(steps, self.resolution)
        before = np.cumsum(items == 0, axis=-1) == 0
        released = before.sum(axis=-1)
        threshold_placed = released < self.k
        index, gap = np.where(before, items - 1, -1), np.where(before, gaps, np.nan)
        return Hybrid(
            self,
            index if shape else index[before],
            gap if shape else gap[before],
            threshold_placed | (released == self.groups),
            np.where(threshold_placed, np.where(items == 0, gaps, 0).sum(axis=-1), np.nan),
            units=released + threshold_placed,
        )


@dataclass(frozen=True, slots=True)
class PeeledTopK(NoisyOrder["TopK[PeeledTopK]"]):
    """Chooses the k largest groups in rounds: each takes one of what is left, with its lead over the rest.

    A round has fresh noise of scale c/e, e the epsilon of the round (twice that if not monotone). By basic
    composition this is the precision of `NoisyTopK` at the same epsilon. But where Renyi divergences are
    added up, k rounds of e cost less than one mechanism of k e: at one price e is about epsilon/sqrt(k), in
    the place of epsilon/k.

    Notes
    -----
    Selection by rounds is called peeling in Dwork, Su and Zhang, Differentially private false discovery rate
    control (2021). Each round is `NoisyTopK` with k = 1.
    *Private:* round i runs on the groups that the rounds before have not chosen. Which these are was
    released, so round i is one mechanism, fixed by what was released before, on counts that one unit moves as
    it moves all counts: monotone ones stay monotone, with the same sensitivity. Its noise is fresh. So it is
    e-DP given all earlier outputs (proof of `NoisyTopK`), and min(k, n-1) such rounds compose adaptively.
    With n <= k the last group follows from the others.
    *Gaps:* each compares the chosen group with the rest, with the noise of its own round. A p-value
    exp(-gap/scale) is therefore valid in each round as it is for k = 1, given what was chosen before. The
    runner-up of a round is not released and need not be chosen next, so that gaps are no differences of the
    released groups' counts: no estimate combines them.
    *Order:* each round treats all groups alike, so the counts may be in any order.
    """

    sparse = True

    lowest: bool

    @classmethod
    def plan(
        cls,
        groups: int,
        k: int,
        epsilon: Number,
        *,
        sensitivity: Number = 1,
        monotone: bool = True,
        noise: Noise = "exponential",
        resolution: int | None = None,
        lowest: bool = False,
    ) -> PeeledTopK:
        """Plan a choice of the k largest groups of a public domain; free if there is only one.

        `epsilon` is that of all min(k, groups - 1) rounds together, by basic composition: each has an equal
        part. With `lowest`, the k smallest are chosen, and each gap is the distance below the rest.
        """
        k, budget, moved, noise = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity), kind(noise)
        rounds = min(k, groups - 1)
        if rounds < 1:
            return cls(groups, k, noise, Fraction(0), 0, lowest, loss=PrivacyLoss())
        each = budget / rounds
        scale = moved * (1 if monotone else 2) / each
        bits = grid_of(noise, resolution, scale)
        return cls(groups, k, noise, scale, bits, lowest, loss=PrivacyLoss.of(each, times=rounds))

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        What matters is only by how much the changes of groups differ, in each round.
        """
        return pays_for(self, taken.span, min(self.k, self.groups - 1))

    @property
    def bounded(self) -> bool:
        """Whether there is something to choose, and the largest are chosen."""
        return bool(self.scale) and not self.lowest

    def run(
        self, counts: ArrayLike | SparseCounts | BoundedCounts, source: NoiseSource = SYSTEM
    ) -> TopK[PeeledTopK]:
        """Choose from counts in any order; groups of sparse ones are named by their positions."""
        if isinstance(counts, SparseCounts):
            return self._run_sparse(as_sparse_counts(counts, self.groups), source)
        if isinstance(counts, BoundedCounts):
            return self._run_bounded(as_bounded_counts(counts, self.groups), source)
        left = as_counts(counts, self.groups, trials=True)
        place = np.broadcast_to(np.arange(self.groups), left.shape)
        chosen, gaps = [], []
        for turn in range(min(self.k, self.groups - 1)):
            found = self._round(self.groups - turn).run(left, source)
            chosen.append(np.take_along_axis(place, found.index, axis=-1))
            gaps.append(found.gap)
            left, place = without(left, found.index), without(place, found.index)
        if len(chosen) < self.k:
            chosen.append(place)  # at most one group is left
        none = np.zeros((*left.shape[:-1], 0))
        return TopK(self, np.concatenate(chosen, axis=-1), np.concatenate([none, *gaps], axis=-1))

    def _run_sparse(self, left: SparseCounts, source: NoiseSource) -> TopK[PeeledTopK]:
        if left.values.ndim != 1:
            raise ValueError("sparse counts are of one run")
        taken = np.zeros(0, dtype=np.int64)
        chosen, gaps = [taken], [np.zeros(0)]
        for turn in range(min(self.k, self.groups - 1)):
            found = self._round(self.groups - turn).run(left, source)
            chosen.append(skipping(found.index, taken))
            gaps.append(found.gap)
            left, taken = left.without(int(found.index[0])), np.sort(np.concatenate(chosen))
        if len(taken) < self.k:
            chosen.append(skipping(np.arange(left.size), taken))  # at most one group is left
        return TopK(self, np.concatenate(chosen), np.concatenate(gaps))

    def _run_bounded(self, counts: BoundedCounts, source: NoiseSource) -> TopK[PeeledTopK]:
        left = np.arange(self.groups)
        chosen, gaps = [left[:0]], [np.zeros(0)]
        for turn in range(min(self.k, self.groups - 1)):
            found = self._round(self.groups - turn).run(counts.take(left), source)
            chosen.append(left[found.index])
            gaps.append(found.gap)
            left = np.delete(left, found.index)
        if sum(map(len, chosen)) < self.k:
            chosen.append(left)  # at most one group is left
        return TopK(self, np.concatenate(chosen), np.concatenate(gaps))

    def _round(self, groups: int) -> NoisyTopK:
        """Return noisy max over a given number of groups that are left."""
        one = PrivacyLoss.of(self.loss.charge.epsilon / min(self.k, self.groups - 1))
        return NoisyTopK(groups, 1, self.noise, self.scale, self.resolution, self.lowest, loss=one)


def without(values: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """Remove one entry of each row.

    >>> without(np.array([[5, 6, 7], [8, 9, 10]]), np.array([[0], [2]])).tolist()
    [[6, 7], [8, 9]]
    """
    kept = np.ones(values.shape, dtype=np.bool_)
    np.put_along_axis(kept, place, False, axis=-1)
    return values[kept].reshape(*values.shape[:-1], values.shape[-1] - 1)
