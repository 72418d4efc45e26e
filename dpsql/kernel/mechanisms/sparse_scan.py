"""Scan a large domain for groups above a threshold: empty groups between the listed ones are tried by skips.

In a scan, each group has fresh noise in each branch, and all empty groups need the same noise to pass. So the
places of those that pass one branch are found by skips (`dpsql.kernel.noise.skips`), each branch by itself.
The domain is scanned segment by segment, so that not many more hits are drawn than the budget pays for. How
long a segment is has no influence on the law: the noises of different groups are independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.mechanisms.grid import NoiseSource
from dpsql.kernel.mechanisms.sparse import skipping
from dpsql.kernel.mechanisms.sparse_vector_plan import Hits, SparseVectorPlan
from dpsql.kernel.order import SparseCounts

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
    """Return a number of groups of which few are hits if all of them are empty."""
    halvings = min(
        _halvings(plan, scale, cutoff + level)
        for scale, cutoff in zip(plan.scales, plan.cutoffs, strict=True)
    )
    return max(_SEGMENT, _HITS << min(halvings, 50)) if halvings > 0 else _SEGMENT


def _halvings(plan: SparseVectorPlan, scale: Fraction, need: int) -> int:
    """Return how often the number of groups is at least halved by those whose noise is less than needed."""
    return int(exact_noise.rate(scale, plan.resolution) * need * _PER_SCALE)


def empty_hits(plan: SparseVectorPlan, level: int, size: int, source: NoiseSource) -> Hits:
    """Try so many empty groups in each branch, as `SparseVectorPlan.passing` tries counts of 0."""
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
