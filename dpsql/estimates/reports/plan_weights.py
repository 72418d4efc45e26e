"""Weights of the marginals that a report measures, which make the mean variance of its statements least.

By blocks (see `marginal_blocks`) the mean variance is the sum over blocks of tr(W M^-1), where M adds up,
over the candidates, their precision times a fixed matrix, and W is what the statements want of the block. A
candidate with a share w of the budget has the precision w^2/2 (pure) or 2 w (Gaussian).

An unbiased linear estimate with fixed weights of the measured numbers has a variance that is the sum over
candidates of c_j/precision_j. For the weights that are best at given shares, the shares that make this sum
least are c_j^(1/3) or c_j^(1/2) up to a factor; the best weights for these shares make it less again.
Repeating this never makes the mean variance larger. In the Gaussian way it is convex in the shares; in the
pure way it is not, so that several starts are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from dpsql.estimates.reports.column_atoms import Bools, FloatArray
from dpsql.lazy_dataclass import dataclass

Way = Literal["pure", "gaussian"]
LEAST_SHARE = 0.005
"""Shares below this are dropped."""
_FIRST, _FEW, _MANY = 12, 40, 400
"""Steps from each start, from the best of them, and from the last."""
_BEST = 4
_STILL = 1e-9
_RANK = 1e-12
_SINGULAR = 1e-5
_OUTSIDE = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class PlanBlock:
    """What candidates tell of a block, and what statements want of it."""

    tells: FloatArray
    """float64[candidates, n, n]: the part of M that a candidate adds at precision 1."""
    wanted: FloatArray
    """float64[statements, n, n]."""

    def reduce(self) -> PlanBlock:
        """Return the block reduced to the subspace that the candidates together determine.

        Raises
        ------
        ValueError
            Where a statement wants what no candidate tells.
        """
        values, vectors = np.linalg.eigh(self.tells.sum(axis=0))
        kept = vectors[:, values > _RANK * max(float(values[-1]), 0.0)]
        wanted = kept.T @ self.wanted @ kept
        lost = np.trace(self.wanted, axis1=1, axis2=2) - np.trace(wanted, axis1=1, axis2=2)
        if (lost > _OUTSIDE * np.maximum(np.trace(self.wanted, axis1=1, axis2=2), 1e-300)).any():
            raise ValueError("the candidates do not determine every statement")
        return PlanBlock(kept.T @ self.tells @ kept, wanted)


class MeanVariance:
    """The variances of statements as functions of the precisions of candidates."""

    def __init__(self, blocks: Sequence[PlanBlock]) -> None:
        reduced = [block.reduce() for block in blocks]
        scalars = [block for block in reduced if block.tells.shape[1] == 1]
        self._matrices = [block for block in reduced if block.tells.shape[1] > 1]
        candidates, statements = reduced[0].tells.shape[0], reduced[0].wanted.shape[0]
        self._tells = np.array([block.tells[:, 0, 0] for block in scalars]).reshape(-1, candidates)
        self._wanted = np.array([block.wanted[:, 0, 0] for block in scalars]).reshape(-1, statements)
        self.candidates = candidates

    def statements(self, precision: FloatArray) -> FloatArray:
        """Return the variance of each statement; infinite if it is not determined."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.nan_to_num(self._wanted / (self._tells @ precision)[:, None], nan=0.0, posinf=np.inf)
        total = found.sum(axis=0)
        for block in self._matrices:
            matrix = np.tensordot(precision, block.tells, 1)
            inverse = _invert(matrix, block.wanted.sum(axis=0))
            if inverse is None:
                return np.full(len(total), np.inf)
            total = total + np.einsum("ikl,lk->i", block.wanted, inverse)
        return np.asarray(total)

    def slopes(self, precision: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the weighed mean of the statements' variances, and by how much each candidate lowers it."""
        told, asked = self._tells @ precision, self._wanted @ weights
        there = asked > 0
        if (told[there] <= 0).any():
            return np.inf, np.zeros(self.candidates)
        ratio = asked[there] / told[there]
        mean = float(ratio.sum())
        slopes = (ratio / told[there]) @ self._tells[there]
        for block in self._matrices:
            matrix, need = np.tensordot(precision, block.tells, 1), np.tensordot(weights, block.wanted, 1)
            inverse = _invert(matrix, need)
            if inverse is None:
                return np.inf, np.zeros(self.candidates)
            mixed = inverse @ need
            mean += float(np.trace(mixed))
            slopes = slopes + np.tensordot(block.tells, (mixed @ inverse).T, 2)
        return mean, slopes


def _invert(matrix: FloatArray, wanted: FloatArray) -> FloatArray | None:
    """Return the inverse on the row space of a matrix; None if something wanted lies outside of it."""
    try:
        diagonal = np.diag(np.linalg.cholesky(matrix))
        if diagonal.min() > _SINGULAR * diagonal.max():
            return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _RANK * max(float(values[-1]), 0.0)
    lost = vectors[:, ~kept]
    if np.trace(lost.T @ wanted @ lost) > _OUTSIDE * np.trace(wanted):
        return None
    return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T)


def find_precision(shares: FloatArray, way: Way) -> FloatArray:
    """Return the precision of a number at bound 1, for a share of a budget of 1.

    >>> find_precision(np.array([0.5]), "pure"), find_precision(np.array([0.5]), "gaussian")
    (array([0.125]), array([1.]))
    """
    return shares * shares / 2 if way == "pure" else 2 * shares


def improve_shares(
    law: MeanVariance, shares: FloatArray, weights: FloatArray, way: Way, steps: int
) -> tuple[float, FloatArray]:
    """Return the mean variance after some steps from given shares, and the shares reached."""
    power = 1 / 3 if way == "pure" else 1 / 2
    mean, slopes = law.slopes(find_precision(shares, way), weights)
    for _ in range(steps):
        precision = find_precision(shares, way)
        moved = (precision * precision * np.maximum(slopes, 0.0)) ** power
        if not np.isfinite(mean) or not moved.any():
            break
        moved /= moved.sum()
        less, steeper = law.slopes(find_precision(moved, way), weights)
        if not less < mean:
            break
        still = less > mean * (1 - _STILL)
        mean, slopes, shares = less, steeper, moved
        if still:
            break
    return mean, shares


def find_shares(law: MeanVariance, weights: FloatArray, way: Way, starts: Sequence[FloatArray]) -> FloatArray:
    """Return the shares of the candidates that make the weighed mean of the variances least.

    Shares below `LEAST_SHARE` are 0, and a candidate is dropped where the others do better without it.
    """
    found = [improve_shares(law, start / start.sum(), weights, way, _FIRST) for start in starts]
    found.sort(key=lambda each: each[0])
    found = [improve_shares(law, shares, weights, way, _FEW) for _, shares in found[:_BEST]]
    _, shares = min(found, key=lambda each: each[0])
    _, shares = improve_shares(law, shares, weights, way, _MANY)
    shares = _drop_small(law, shares, weights, way)
    if way == "pure":
        shares = _drop_needless(law, shares, weights, way)
    return shares


def _drop_small(law: MeanVariance, shares: FloatArray, weights: FloatArray, way: Way) -> FloatArray:
    """Return shares without small ones; what determines a statement alone has at least the least share."""
    needed: Bools = np.zeros(len(shares), dtype=np.bool_)
    while True:
        small = (shares > 0) & (shares < LEAST_SHARE) & ~needed
        if not small.any():
            raised = np.where(needed, np.maximum(shares, LEAST_SHARE), shares)
            return np.asarray(raised / raised.sum())
        for dropped in (small, small & (shares == shares[small].min())):
            cut = np.where(dropped, 0.0, shares)
            mean, moved = improve_shares(law, cut / cut.sum(), weights, way, _FEW)
            if np.isfinite(mean):
                shares = moved
                break
        else:
            needed |= dropped


def _drop_needless(law: MeanVariance, shares: FloatArray, weights: FloatArray, way: Way) -> FloatArray:
    mean, _ = law.slopes(find_precision(shares, way), weights)
    tried: Bools = shares <= 0
    while not tried.all():
        place = int(np.where(tried, np.inf, shares).argmin())
        tried[place] = True
        cut = np.where(np.arange(len(shares)) == place, 0.0, shares)
        if cut.sum() <= 0:
            break
        less, moved = improve_shares(law, cut / cut.sum(), weights, way, _FEW)
        if less < mean * (1 - 1e-6):
            mean, shares = less, _drop_small(law, moved, weights, way)
            tried = shares <= 0
    return shares
