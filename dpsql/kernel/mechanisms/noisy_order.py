"""Find the largest of many noisy counts: noise is completed, and empty groups drawn, only where it matters.

Design. A domain has N groups, of which n are listed with their counts; the others are empty, their counts 0.

1. The engine returns the listed groups with their positions in the domain, and no row for an empty group.
2. The noise of listed groups is drawn as always (`NoisyOrder.order`).
3. The noise of the E = N - n empty ones is independent, and of one law. Those that reach a level are found by
   skips (`dpsql.kernel.noise`): which of the E they are, and their noise, in time of their number.
4. About 2(k+1) of N draws reach the first level. While fewer than k+1 groups are known at or above the
   level, it is lowered, so that about 4 times as many reach it; what lies between is drawn given that it is
   below the last level. So the noise of each group is drawn once, in stages, and its law is unchanged.
5. Then all groups at or above the (k+1)-th largest sum are known with their sums: those that can be chosen,
   or end a gap. Ties are broken as always: random ranks, drawn for these groups alone.
6. The levels depend on public figures alone, and any levels give the same law: they decide on the work only.
7. The r-th empty group is at position r + i, where i listed groups come before it. The mechanism returns
   positions, and the engine's reader of domains computes their keys.

Whether a group is listed or empty has no influence on the law, only its count has.

*Counts that are known from above* (`BoundedCounts`): units take long to count, and a bound b >= n on them
does not. Let Z be the noise of all groups, J any k + 1 or more of them, T the (k+1)-th largest n + Z in J.
*Proposition.* A group outside of J with b + Z < T is not among the groups that reach the (k+1)-th largest
n + Z of all: that is at least T, and n + Z <= b + Z. So `count_candidates`, which counts J and those that are
not below T, has the groups and sums of `leaders` on all counts: the same function of counts and noise. No
law changes, and no proof is touched. Which J it is decides on the work only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.mechanisms.mechanism import M, Mechanism, Noise, NoiseSource, R, Result
from dpsql.kernel.public_order import BoundedCounts, SparseCounts
from dpsql.lazy_dataclass import dataclass

_CONTENDERS_BLOCK = 1 << 15
BELOW_ALL = -(1 << 62)
"""Less than every noisy count, in grid steps."""


def leaders(
    values: NDArray[np.int64],
    k: int,
    some: Callable[[int], NDArray[np.int64]],
    reaching: Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add noise in grid steps; return the positions that reach the (k+1)-th largest sum, and their sums.

    Noise is drawn in blocks: `some(n)` returns n draws. After the first block it is completed only where it
    can reach the (k+1)-th largest sum until then, which never decreases when groups are added:
    `reaching(need)` returns the positions where draws are at least `need`, and those draws. Positions ascend.
    """
    first = np.arange(min(len(values), _CONTENDERS_BLOCK))
    found, least = [(first, values[:_CONTENDERS_BLOCK] + some(len(first)))], BELOW_ALL
    kept, new = 0, len(first)
    for start in range(_CONTENDERS_BLOCK, len(values), _CONTENDERS_BLOCK):
        # Merge only if there are more new groups than kept ones, so that ties do not repeat the work.
        if new > kept + _CONTENDERS_BLOCK // 32:
            found = [_merge_contenders(found, k)]
            kept, new = len(found[0][1]), 0
            least = int(found[0][1].min()) if kept > k else BELOW_ALL
        part = values[start : start + _CONTENDERS_BLOCK]
        where, noise = reaching(least - part)
        found.append((start + where, part[where] + noise))
        new += len(where)
    return _merge_contenders(found, k)


def _merge_contenders(
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    index, noisy = (np.concatenate(column) for column in zip(*found, strict=True))
    kept = contenders(noisy, k)
    return index[kept], noisy[kept]


def contenders(values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the positions, ascending, of the values that reach the (k+1)-th largest one.

    >>> contenders(np.array([5, 1, 7, 5, 2]), 1)
    array([0, 2, 3])
    """
    last = len(values) - k - 1
    return np.flatnonzero(values >= np.partition(values, last)[last]) if last > 0 else np.arange(len(values))


def select(
    values: NDArray[np.int64], ranks: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose the k largest noisy values, in grid steps, and their gaps; a pure function of shape (..., n).

    The larger rank wins a tie. A gap is the difference to the next value, less one grid step if the winner's
    rank is the smaller: the floor of the continuous gap. With n <= k there are n - 1 gaps.

    >>> select(np.array([3, 5, 5]), np.array([2, 1, 0]), 2)
    (array([1, 2]), array([0, 1]))
    """
    order = ascending(values, ranks)[..., : -k - 2 : -1]
    value = np.take_along_axis(values, order, axis=-1)
    rank = np.take_along_axis(ranks, order, axis=-1)
    gap = value[..., :-1] - value[..., 1:] - (rank[..., :-1] < rank[..., 1:])
    return order[..., :k], gap


def ascending(values: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort places by value, and by rank among equal values; ranks are at least 0 and below 2^30."""
    bits = int(ranks.max(initial=0)).bit_length()
    limit = 1 << (62 - bits)
    if -limit < values.min(initial=0) and values.max(initial=0) < limit:
        return np.argsort(values << bits | ranks, axis=-1)
    return np.lexsort((ranks, values), axis=-1)


def count_candidates(counts: BoundedCounts, k: int, noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums of values in grid steps and noise where they may reach the (k+1)-th largest one.

    Elsewhere they are `BELOW_ALL`. Of shape (..., n), there are independent trials.
    """
    above, last = counts.upper + noise, max(noise.shape[-1] - k - 1, 0)
    usual = max(above.shape[-1] - 3 * (k + 1) // 2, 0)
    # So many are usually enough; those that are counted as well if all counts are as expected.
    least = np.partition(above, usual)[..., usual, None]
    likely = np.partition(counts.likely + noise, last)[..., last, None]
    sums = np.full(above.shape, BELOW_ALL)
    _count_where(above >= np.minimum(least, likely), counts, noise, sums)
    level = np.partition(sums, last)[..., last, None]
    _count_where((above >= level) & (sums == BELOW_ALL), counts, noise, sums)
    return sums


def _count_where(
    there: NDArray[np.bool_], counts: BoundedCounts, noise: NDArray[np.int64], sums: NDArray[np.int64]
) -> None:
    """Fill in the sums of some groups, which are counted."""
    positions = np.flatnonzero(there)
    if len(positions):
        sums[there] = counts.exact(positions) + noise[there]


def to_bounded_steps(counts: BoundedCounts, bits: int) -> BoundedCounts:
    """Convert counts and their bounds to grid steps, in which bounds are bounds, too."""

    def exact_steps(positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return exact_noise.place(counts.exact(positions), bits)

    upper, likely = (exact_noise.place(each, bits) for each in (counts.upper, counts.likely))
    return BoundedCounts(upper, exact_steps, likely)


_LN2 = Fraction(7, 10)
"""Scales by which a level is higher if about half as many draws reach it."""


@dataclass(frozen=True, slots=True)
class EmptyGroups:
    """Noise of one law, in grid steps, of a given number of empty groups of each trial."""

    noise: Noise
    scale: Fraction
    resolution: int
    size: int

    def reaching(
        self, known: NDArray[np.int64], k: int, groups: int, source: NoiseSource
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw the noise of all empty groups that may be among the k + 1 largest sums of their trial.

        `known` has the sums of the other groups, a row for each trial; those below the (k+1)-th largest may
        be left out. `groups` is the size of the domain. Returns places, trial by trial, and noise.
        """
        law, total = (self.noise, self.scale, self.resolution), len(known) * self.size
        places, noisy = np.zeros((2, 0), dtype=np.int64)
        rate, halvings, high = exact_noise.rate(self.scale, self.resolution), _halvings(groups, k), None
        while len(places) < total:
            low = -(-halvings * _LN2.numerator * rate.denominator // (_LN2.denominator * rate.numerator))
            left = total - len(places)
            if low > 0:
                where, drawn = source.draw_band(*law, left, low, high)
            elif high is not None:
                where, drawn = np.arange(left), source.draw_below(*law, left, high)
            else:
                where, drawn = np.arange(left), source.draw(*law, left)
            places, noisy = _merge_places(places, noisy, skipping(where, places), drawn)
            if low <= 0:
                break
            there = (known >= low).sum(axis=1) + np.bincount(places // self.size, minlength=len(known))
            if there.min() > k:
                break
            high, halvings = low, halvings - 2
        return places, noisy


def _halvings(groups: int, k: int) -> int:
    """Return how often the number of groups is halved until it is about 2(k + 1)."""
    return (groups // (2 * (k + 1))).bit_length()


def _merge_places(
    places: NDArray[np.int64], noisy: NDArray[np.int64], more: NDArray[np.int64], drawn: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    every = np.concatenate([places, more])
    order = np.argsort(every, kind="stable")
    return every[order], np.concatenate([noisy, drawn])[order]


def skipping(places: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers at some places among the whole numbers that are not taken; `taken` ascends.

    >>> skipping(np.array([0, 1, 2, 3]), np.array([1, 2, 5]))
    array([0, 3, 4, 6])
    """
    return places + np.searchsorted(taken - np.arange(len(taken)), places, side="right")


def check_sparse(noise: Noise, scale: Fraction, resolution: int) -> None:
    """Refuse noise that is finer than its grid: then too many empty groups would be tied."""
    if scale * (1 << resolution) < 1:
        raise ValueError(f"so large an epsilon needs {noise} noise that is finer than its grid")


def to_sparse_steps(counts: SparseCounts, bits: int, *, negated: bool) -> SparseCounts:
    """Convert the listed counts to grid steps; negated if the smallest are wanted."""
    values = exact_noise.place(counts.values, bits)
    return replace(counts, values=-values if negated else values)


def order_sparse(
    values: SparseCounts, k: int, law: tuple[Noise, Fraction, int], source: NoiseSource
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the k largest of values + noise, best first, and their gaps, in grid steps.

    It is `NoisyOrder.order` on all groups of the domain; of shape (trials, n), values are independent trials.
    """
    empty = EmptyGroups(*law, values.size - len(values.positions))
    if values.values.ndim == 2:
        known = values.values + source.draw(*law, values.values.shape)
        places, noise = empty.reaching(known, k, values.size, source)
        noisy = np.full((len(known), values.size), BELOW_ALL)
        noisy[:, values.positions] = known
        trial, place = np.divmod(places, max(empty.size, 1))
        noisy[trial, skipping(place, values.positions)] = noise
        return select(noisy, source.ranks(values.size, trials=len(known)), k)
    near, known = leaders(values.values, k, partial(source.draw, *law), partial(source.draw_reaching, *law))
    places, noise = empty.reaching(known[None], k, values.size, source)
    positions = np.concatenate([values.positions[near], skipping(places, values.positions)])
    noisy = np.concatenate([known, noise])
    kept = contenders(noisy, k)
    chosen, gaps = select(noisy[kept], source.ranks(len(kept)), k)
    return positions[kept][chosen], gaps


@dataclass(frozen=True, eq=False, slots=True)
class TopK(Result[M]):
    """The groups chosen, best first, and the gaps between them."""

    index: NDArray[np.int64]
    """int64, positions of the chosen groups in the counts: min(k, n) of them."""
    gap: NDArray[np.float64]
    """float64, in counts: `gap[i]` is from the i-th chosen to the next one, floored to the grid (those over
    2^53 steps are rounded to a float). With n <= k groups the last one has no next, and there are n - 1."""


@dataclass(frozen=True, slots=True)
class NoisyOrder(Mechanism[R]):
    """A mechanism that orders counts with noise of one law and releases at most k of them, with gaps."""

    groups: int
    k: int
    noise: Noise
    scale: Fraction
    resolution: int

    def order(
        self, values: NDArray[np.int64] | SparseCounts | BoundedCounts, source: NoiseSource
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the k largest of values + noise, best first, and their gaps; all in grid steps."""
        law = (self.noise, self.scale, self.resolution)
        if isinstance(values, SparseCounts):
            return order_sparse(values, self.k, law, source)
        if isinstance(values, BoundedCounts):
            sums = count_candidates(values, self.k, source.draw(*law, values.upper.shape))
            if sums.ndim == 2:
                return select(sums, source.ranks(sums.shape[1], trials=len(sums)), self.k)
            near = contenders(sums, self.k)
            chosen, gaps = select(sums[near], source.ranks(len(near)), self.k)
            return near[chosen], gaps
        if values.ndim == 2:
            noisy = source.draw(*law, values.shape)
            noisy += values
            return select(noisy, source.ranks(values.shape[1], trials=len(values)), self.k)
        near, noisy = leaders(values, self.k, partial(source.draw, *law), partial(source.draw_reaching, *law))
        chosen, gaps = select(noisy, source.ranks(len(near)), self.k)
        return near[chosen], gaps
