"""Noise, ranks and random words that a test chose, for mechanisms whose runs are enumerated."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms import NoiseSource

__all__ = ["GivenNoise", "Scripted"]


@dataclass(frozen=True)
class GivenNoise(NoiseSource):
    """The noise of a batch, one row a trial: `steps` on the grid, and `order`, the ranks that break ties."""

    steps: NDArray[np.int64] = field(kw_only=True)
    order: NDArray[np.int64] = field(kw_only=True)

    def draw(self, *_: object, **__: object) -> NDArray[np.int64]:
        """Return the given noise for the one draw of a run."""
        return self.steps.copy()

    def ranks(self, *_: object, **__: object) -> NDArray[np.int64]:
        """Return the given ranks."""
        return self.order


class Scripted:
    """Hands out these random words, in this order, and no more."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return the next words."""
        taken, self.left = self.left[:n], self.left[n:]
        assert len(taken) == n
        return np.array(taken, dtype=np.uint64)
