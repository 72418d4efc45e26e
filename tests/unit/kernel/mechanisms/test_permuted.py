"""Counts in another order, each with the same noise and rank as before, give the same groups and numbers.

So no mechanism uses positions but those that take `OrderedCounts`: for these the test must fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel import mechanisms
from dpsql.kernel.mechanisms import NoiseSource
from dpsql.kernel.public_order import in_public_order

N, TRIALS = 6, 200


@dataclass(frozen=True)
class KeyNoise(NoiseSource):
    """Noise and ranks that belong to groups; `came` says which group is at each position."""

    came: NDArray[np.int64] = field(kw_only=True)
    hits: list[NDArray[np.int64]] = field(default_factory=list)

    def of_groups(self, most: int) -> NDArray[np.int64]:
        return np.random.default_rng(most).integers(0, most, (TRIALS, N))[:, self.came]

    def rest(self, width: int) -> NDArray[np.int64]:
        """Return the noise of what is no group: the threshold, the pads."""
        return np.random.default_rng(3).integers(0, 4, (TRIALS, width))

    def draw(
        self, _noise: object, _scale: object, _bits: object, size: int | tuple[int, ...]
    ) -> NDArray[Any]:
        assert isinstance(size, tuple)
        if size[-1] < N:
            return self.rest(size[-1])
        return np.concatenate([self.rest(size[-1] - N), self.of_groups(4)], axis=1)

    def draw_reaching(
        self, _noise: object, _scale: object, _bits: object, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        drawn = self.of_groups(4).ravel()
        self.hits[:] = [np.flatnonzero(drawn >= need)]
        return self.hits[0], drawn[self.hits[0]]

    def box(self, _rate: object, dimension: int, _trials: int) -> NDArray[np.int64]:
        return np.concatenate([self.of_groups(4), self.rest(dimension - N)], axis=1)

    def ranks(self, n: int, *, trials: int | None = None) -> NDArray[np.int64]:
        order = np.argsort(np.argsort(self.of_groups(10**9), axis=1), axis=1)
        if trials is None:
            return np.argsort(np.argsort(order.ravel()[self.hits[0]], kind="stable"))
        return np.concatenate([np.full((trials, n - N), N), order], axis=1)


COUNTS = np.array([3, 3, 3, 2, 2, 0])
PLANS: dict[str, Callable[[], Any]] = {
    "noisy max": lambda: mechanisms.NoisyTopK.plan(N, 1, 1, noise="geometric"),
    "noisy top-k": lambda: mechanisms.NoisyTopK.plan(N, 3, 1, noise="geometric"),
    "hybrid top-k": lambda: mechanisms.HybridTopK.plan(N, 3, 3, 1, noise="geometric"),
    "hybrid sparse vector": lambda: mechanisms.HybridSparseVector.plan(N, 3, 2, 1, noise="geometric"),
    "Laplace": lambda: mechanisms.Laplace.plan(N, 1, resolution=0),
    "box": lambda: mechanisms.Box.plan(N, 1, resolution=0),
    "sparse vector": lambda: mechanisms.AdaptiveSparseVector.plan(
        N, 3, 2, 1, branches=1, noise="geometric", share="1/2"
    ),
}


def released(make: Callable[[], Any], came: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Return what a mechanism releases, with groups in the place of positions."""
    plan = make()
    rows = np.tile(COUNTS[came], (TRIALS, 1))
    found = plan.run(in_public_order(rows) if plan.ordered else rows, KeyNoise(came=came))
    if not hasattr(found, "index"):
        back = np.argsort(came)
        return [found.value[:, back]]
    return [np.where(found.index >= 0, came[found.index], -1), np.nan_to_num(found.gap, nan=-1)]


@pytest.mark.parametrize("name", PLANS)
def test_the_order_of_the_counts_has_no_influence(name: str) -> None:
    whole = released(PLANS[name], np.arange(N))
    same = True
    for seed in range(5):
        other = released(PLANS[name], np.random.default_rng(seed).permutation(N))
        same &= all(np.array_equal(a, b) for a, b in zip(whole, other, strict=True))
    assert same == (not PLANS[name]().ordered)
