"""The frame of the sparse vector family: its public facts, its result, and the scan of a large domain.

In a scan, each group has fresh noise in each branch, and all empty groups need the same noise to pass. So the
places of those that pass one branch are found by skips (`dpsql.kernel.noise`), each branch by itself.
The domain is scanned segment by segment, so that not many more hits are drawn than the budget pays for. How
long a segment is has no influence on the law: the noises of different groups are independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss, exact
from dpsql.kernel.mechanisms.mechanism import (
    Mechanism,
    Noise,
    NoiseSource,
    Result,
    between,
    bound,
    grid_of,
    in_counts,
    kind,
    pad_rows,
    positive,
    to_steps,
    whole,
)
from dpsql.kernel.mechanisms.noisy_order import skipping
from dpsql.kernel.public_order import BoundedCounts, SparseCounts
from dpsql.lazy_dataclass import dataclass

MOST_BRANCHES = 16
"""Most branches: each further one halves the budget of a hit."""

_LARGEST_CUTOFF = 1 << 62
"""Cutoffs are clamped here: beyond counts and noise, and differences with them do not overflow."""


@dataclass(frozen=True, eq=False, slots=True)
class SparseVector(Result["SparseVectorPlan"]):
    """The groups found above the threshold."""

    index: NDArray[np.int64]
    """int64, positions of the hits in the counts."""
    gap: NDArray[np.float64]
    """float64, in counts: how far each hit is above the noisy threshold; never negative. Apart from selection
    bias, gap plus threshold is an unbiased estimate of the count."""
    branch: NDArray[np.int64]
    """int64, the branch in which each hit passed; 0 is the base branch."""


class Hits(NamedTuple):
    """The hits of several trials: one entry a hit in each array."""

    trial: NDArray[np.int64]
    place: NDArray[np.int64]
    """Which count of which trial."""
    branch: NDArray[np.int64]
    steps: NDArray[np.int64]
    """The branch passed, and count + noise - threshold noise there, in grid steps."""

    @classmethod
    def none(cls) -> Hits:
        """Return the outcome of a run in which no count was above the threshold."""
        return cls(*np.zeros((4, 0), dtype=np.int64))

    def take(self, which: NDArray[np.intp] | NDArray[np.bool_]) -> Hits:
        """Return some of the groups that were found above the threshold."""
        return Hits(*(part[which] for part in self))


@dataclass(frozen=True, slots=True)
class SparseVectorPlan(Mechanism[SparseVector]):
    """The public facts of a run of the sparse vector family; tuples have one entry a branch, base first."""

    groups: int
    noise: Noise
    limit: int | None
    below: bool
    """As given to `plan`."""
    share: Fraction
    """The part of epsilon that pays for the threshold's noise."""
    hits: int
    """Base hits the budget pays for, at most the number of groups. A hit in branch j costs 1/2^j of one."""
    threshold_scale: Fraction
    scales: tuple[Fraction, ...]
    """Noise scales in counts: of the threshold, and of the queries in each branch."""
    resolution: int
    """b, for a grid of 2^-b counts."""
    cutoffs: tuple[int, ...]
    """In grid steps: a branch passes if count + noise - threshold noise is at least this."""
    offsets: tuple[Fraction, ...]
    """What is added to such a value, in counts, to get the gap: means of the noises, less the threshold."""

    @classmethod
    def _planned(
        cls,
        groups: int,
        threshold: Number,
        k: int,
        epsilon: Number,
        *,
        limit: int | None = None,
        branches: int = 1,
        rounds: int = 1,
        share: Number | None,
        margin: Number | None = None,
        sensitivity: Number,
        threshold_sensitivity: Number | None,
        monotone: bool,
        noise: Noise,
        resolution: int | None,
        below: bool,
    ) -> Self:
        """Check the public arguments, and compute scales and cutoffs; each round has an equal budget."""
        budget, moved, noise = positive(epsilon, "epsilon") / rounds, bound(sensitivity), kind(noise)
        level = -exact(threshold) if below else exact(threshold)
        hits = min(whole(k, "k"), max(groups, 1))
        if limit is not None:
            limit = whole(limit, "limit")
        if whole(branches, "branches") > MOST_BRANCHES:
            raise ValueError(f"branches must be at most {MOST_BRANCHES}")
        largest = moved if threshold_sensitivity is None else bound(threshold_sensitivity)
        if not largest <= moved <= 2 * largest or not (monotone or largest == moved):
            raise ValueError("threshold_sensitivity is from half of sensitivity to all of it, if monotone")
        lifted = moved * (1 if monotone else 2)
        usual = best_share(hits, ratio=lifted / largest, branch=(branches - 1) / 2)
        part = usual if share is None else between(share, "share")
        base = (1 - part) * budget / hits
        threshold_scale = largest / (part * budget)
        scales = tuple(lifted * (1 << j) / base for j in range(branches))
        bits = grid_of(noise, resolution, threshold_scale, *scales)
        over = max(2.0, math.log(max(groups, 1) / hits)) if margin is None else exact(margin)
        if over < 0:
            raise ValueError("margin must not be negative")
        # Centres and margins are public numbers: as floats they cost accuracy in the last digit only.
        centre = mean_noise(noise, threshold_scale, bits)
        offsets = tuple(centre - mean_noise(noise, scale, bits) - level for scale in scales)
        wanted = [Fraction(0), *(Fraction(over) * _deviation(noise, scale, bits) for scale in scales[1:])]
        cutoffs = [
            math.ceil((needed - offset) * (1 << bits)) for needed, offset in zip(wanted, offsets, strict=True)
        ]
        return cls(
            groups,
            noise,
            limit,
            below,
            part,
            hits * rounds,
            threshold_scale,
            scales,
            bits,
            tuple(max(-_LARGEST_CUTOFF, min(cutoff, _LARGEST_CUTOFF)) for cutoff in cutoffs),
            offsets,
            loss=PrivacyLoss.of(budget, times=rounds) if groups else PrivacyLoss(),
        )

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        The threshold moves by the larger end of a change, and a hit by its range.
        """
        part = next(iter(self.loss.parts), None)
        if part is None or part.epsilon is None:
            return not self.groups
        first, hits = self.share * part.epsilon, self.hits // part.times
        base = (part.epsilon - first) / hits
        paid = all(taken.span << j <= base * scale for j, scale in enumerate(self.scales))
        return taken.most <= first * self.threshold_scale and paid

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run whose hits cost so many units; a base hit costs 2^(branches - 1)."""
        epsilon = self.loss.charge.epsilon
        unit = (1 - self.share) * epsilon / (self.hits << (len(self.scales) - 1))
        return PrivacyLoss.of(self.share * epsilon + units * unit)

    def least_gaps(self, found: SparseVector) -> NDArray[np.float64]:
        """Return the least gap that each hit could have had, given all that was decided before it.

        Given a hit, what its noise exceeds this by is memoryless; an interval for its count needs it.
        """
        passing = [cutoff * 0.5**self.resolution for cutoff in self.cutoffs]
        least = np.array([at + float(offset) for at, offset in zip(passing, self.offsets, strict=True)])
        return np.asarray(np.maximum(least, 0.0)[found.branch])

    def threshold_noise(self, trials: int, source: NoiseSource) -> NDArray[np.int64]:
        """Draw the threshold's noise in grid steps, of shape (trials, 1)."""
        return source.draw(self.noise, self.threshold_scale, self.resolution, (trials, 1))

    def passing(self, counts: NDArray[np.int64], level: NDArray[np.int64], source: NoiseSource) -> Hits:
        """Try counts of shape (trials, n) in each branch; a hit is in the cheapest one that it passes."""
        values = to_steps(counts, self.resolution, negated=self.below)
        values -= level
        flat = values.ravel()
        branch, steps = np.full(flat.shape, -1, dtype=np.int64), np.zeros_like(flat)
        for j, scale in enumerate(self.scales):
            where, noise = source.draw_reaching(self.noise, scale, self.resolution, self.cutoffs[j] - flat)
            branch[where] = j
            steps[where] = flat[where] + noise
        hit = np.flatnonzero(branch >= 0)
        return Hits(*np.divmod(hit, counts.shape[1]), branch[hit], steps[hit])

    @property
    def bounded(self) -> bool:
        """Whether the search ends after a number of groups above the threshold."""
        return not self.below

    def bounded_hits(
        self, counts: BoundedCounts, level: int, first: int, source: NoiseSource
    ) -> Iterator[Hits]:
        """Try the counts of a single run that are known from above, as `passing` does, in two parts.

        A group whose bound passes no branch with its noise has a count that passes none: it needs no count.
        Of the others the `first` ones are counted, then the rest if the run goes on.
        """
        above = to_steps(counts.upper, self.resolution, negated=False) - level
        drawn = [
            source.draw_reaching(self.noise, scale, self.resolution, cutoff - above)
            for scale, cutoff in zip(self.scales, self.cutoffs, strict=True)
        ]
        places = np.unique(np.concatenate([where for where, _ in drawn]))
        noise = np.zeros((len(drawn), len(places)), dtype=np.int64)
        reached = np.zeros(noise.shape, dtype=np.bool_)
        for j, (where, its) in enumerate(drawn):
            at = np.searchsorted(places, where)
            noise[j, at], reached[j, at] = its, True
        for part in (slice(0, first), slice(first, None)):
            steps = to_steps(counts.exact(places[part]), self.resolution, negated=False) - level
            noisy = steps + noise[:, part]
            passed = reached[:, part] & (noisy >= np.array(self.cutoffs)[:, None])
            hit = np.flatnonzero(passed.any(axis=0))
            branch = len(drawn) - 1 - np.argmax(passed[::-1, hit], axis=0)
            yield Hits(np.zeros_like(hit), places[part][hit], branch, noisy[branch, hit])

    def make_result(self, hits: Hits, units: NDArray[np.int64], *, single: bool) -> SparseVector:
        """Return the result of a run, or of trials; the hits of each are in the order of release."""
        hits = hits.take(np.argsort(hits.trial, kind="stable"))
        # A gap of 0 on the grid may come out as -1e-16 by rounding its two parts.
        offsets = np.array([float(offset) for offset in self.offsets])
        gap = np.maximum(in_counts(hits.steps, self.resolution) + offsets[hits.branch], 0.0)
        parts = (hits.place, gap, hits.branch)
        if single:
            return SparseVector(self, *parts, units=int(units[0]))
        most = ((self.hits - 1) << (len(self.scales) - 1)) + 1
        shape = (len(units), min(most, self.groups, self.limit or most))
        return SparseVector(self, *pad_rows(hits.trial, shape, *parts), units=units)


def best_share(
    k: int, *, monotone: bool = True, branch: float = 0, ratio: Fraction | None = None
) -> Fraction:
    """Return the share of the budget for the threshold that minimises the variance of a gap.

    1/(1 + (kappa^2 4^j k^2)^(1/3)) for branch j, kappa = 1 for monotone counts and 2 for general
    ones (Free Gap, section 6.1; dissertation, section 5.4.1), as a nearby rational. By default a plan with
    several branches uses the middle one: on the papers' data this has the precision of the base branch's
    share and the number of hits of the cheapest branch's. `ratio` is another kappa: how far a hit's noise
    moves, over how far the threshold's does.
    """
    kappa = float(ratio) if ratio is not None else 1 if monotone else 2
    return Fraction(1 / (1 + (kappa * kappa * 4.0**branch * k * k) ** (1 / 3))).limit_denominator(10**9)


def mean_noise(noise: Noise, scale: Fraction, bits: int) -> Fraction:
    """Return the mean of the noise on its grid, in counts: gamma r/(1 - r) for one-sided noise."""
    if noise == "laplace":
        return Fraction(0)
    return Fraction(1 / _grown(scale, bits)) / (1 << bits)


def _deviation(noise: Noise, scale: Fraction, bits: int) -> Fraction:
    """Return the standard deviation in counts: gamma sqrt(r)/(1 - r); for Laplace sqrt(2) times it."""
    grown = _grown(scale, bits)
    one_sided = math.sqrt(grown + 1) / grown
    return Fraction(one_sided * (math.sqrt(2) if noise == "laplace" else 1)) / (1 << bits)


def _grown(scale: Fraction, bits: int) -> float:
    # 1/r - 1; beyond e^500 the noise is 0 within the precision of a mean or a margin.
    return math.expm1(min(float(exact_noise.rate(scale, bits)), 500.0))


_SEGMENT = 1 << 15
"""Groups that are tried at once at least."""
_HITS = 1 << 10
"""Hits of empty groups in one segment, at most about."""
_PER_SCALE = Fraction(7, 5)
"""Halvings of a tail probability in one scale; a little less than 1/ln 2."""
_UNLIKELY = 16
"""A level that is reached by one of 2^16 times the groups that are tried need not be higher."""


def hits_of(plan: SparseVectorPlan, counts: SparseCounts, level: int, source: NoiseSource) -> Iterator[Hits]:
    """Yield the hits of a domain in the order of positions; `level` is the threshold's noise."""
    at = 0
    while at < counts.size:
        size = min(_segment(plan, level), counts.size - at)
        begin, end = np.searchsorted(counts.positions, [at, at + size])
        positions = counts.positions[begin:end]
        listed = plan.passing(counts.values[None, begin:end], np.array([[level]]), source)
        empty = empty_hits(plan, level, size - len(positions), source)
        listed = listed._replace(place=positions[listed.place])
        empty = empty._replace(place=skipping(empty.place, positions - at) + at)
        both = Hits(*(np.concatenate(parts) for parts in zip(listed, empty, strict=True)))
        yield both.take(np.argsort(both.place))
        at += size


def _segment(plan: SparseVectorPlan, level: int) -> int:
    """Return a number of groups among which few are hits if all of them are empty."""
    halvings = min(
        _halvings(plan, scale, cutoff + level)
        for scale, cutoff in zip(plan.scales, plan.cutoffs, strict=True)
    )
    return max(_SEGMENT, _HITS << min(halvings, 50)) if halvings > 0 else _SEGMENT


def _halvings(plan: SparseVectorPlan, scale: Fraction, need: int) -> int:
    """Return how often the number of groups is at least halved by those whose noise is less than needed."""
    return int(exact_noise.rate(scale, plan.resolution) * need * _PER_SCALE)


def empty_hits(plan: SparseVectorPlan, level: int, size: int, source: NoiseSource) -> Hits:
    """Try a given number of empty groups in each branch, as `SparseVectorPlan.passing` tries counts of 0."""
    found = [Hits.none()]
    for j, (scale, cutoff) in enumerate(zip(plan.scales, plan.cutoffs, strict=True)):
        need, law = cutoff + level, (plan.noise, scale, plan.resolution)
        if need < 1:
            where, noise = source.draw_reaching(*law, np.full(size, need, dtype=np.int64))
        else:
            # What is far beyond the largest noise of all is compared only if a noise comes near it.
            unlikely = -(
                -(size.bit_length() + _UNLIKELY) // (_PER_SCALE * exact_noise.rate(scale, plan.resolution))
            )
            where, noise = source.draw_band(*law, size, min(need, int(unlikely)), None)
            where, noise = where[noise >= need], noise[noise >= need]
        trial = np.zeros(len(where), dtype=np.int64)
        found.append(Hits(trial, where, np.full(len(where), j, dtype=np.int64), noise - level))
    every = Hits(*(np.concatenate(part) for part in zip(*found, strict=True)))
    # Of the branches that a group passes, the last one is the cheapest.
    every = every.take(np.argsort(every.place, kind="stable"))
    return every.take(np.append(every.place[1:] != every.place[:-1], True)[: len(every.place)])
