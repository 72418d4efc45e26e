"""Noisy top-k with gap: the k largest groups in order, each with its gap to the next."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import Noise, bound, counted, kind, positive, sparsely_counted, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of, in_counts, placed
from dpsql.kernel.mechanisms.sparse import NoisyOrder, TopK, sparsely_placed
from dpsql.kernel.order import SparseCounts


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
        """See `Mechanism`: only by how much the changes of groups differ counts."""
        part = next(iter(self.loss.parts), None)
        if part is None or part.epsilon is None:
            return self.groups < 2
        return min(self.k, self.groups - 1) * taken.span <= part.epsilon * self.scale

    def run(self, counts: ArrayLike | SparseCounts, source: NoiseSource = SYSTEM) -> TopK[NoisyTopK]:
        """Choose from counts in any order; groups of sparse ones are named by their positions."""
        if isinstance(counts, SparseCounts):
            return self._run_sparse(counts, source)
        array = counted(counts, self.groups, trials=True)
        if not self.scale:
            return TopK(self, np.zeros(array.shape, dtype=np.int64), np.zeros((*array.shape[:-1], 0)))
        values = placed(array, self.resolution, negated=self.lowest)
        index, gaps = self.order(values, source)
        return TopK(self, index, in_counts(gaps, self.resolution))

    def _run_sparse(self, counts: SparseCounts, source: NoiseSource) -> TopK[NoisyTopK]:
        listed = sparsely_counted(counts, self.groups)
        if not self.scale:
            return self.run(listed.dense(), source)
        index, gaps = self.order(sparsely_placed(listed, self.resolution, negated=self.lowest), source)
        return TopK(self, index, in_counts(gaps, self.resolution))
