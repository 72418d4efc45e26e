"""Exact noise by itself, for research and tests: all of the kernel's, and what no statement draws."""

from __future__ import annotations

from fractions import Fraction
from hashlib import shake_256

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel import noise as kernel_noise
from dpsql.kernel.noise import *  # noqa: F403  all of it, under one name
from dpsql.kernel.noise import Entropy, geometric
from dpsql.kernel.noise.geometric_noise import _SCALE_LIMIT

__all__ = ["SeededEntropy", "truncated_geometric"]
__all__ += kernel_noise.__all__


class SeededEntropy:
    """A reproducible stream, for tests only: SHAKE-256 of the seed and a block counter.

    The stream does not depend on how it is divided into calls.
    """

    _BLOCK = 8192

    def __init__(self, seed: int) -> None:
        self._seed = str(int(seed)).encode()
        self._block = 0
        self._left: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return the next `n` words of the stream."""
        parts, have = [self._left], len(self._left)
        while have < n:
            digest = shake_256(self._seed + b"/" + str(self._block).encode()).digest(8 * self._BLOCK)
            parts.append(np.frombuffer(digest, dtype="<u8").astype(np.uint64, copy=False))
            self._block += 1
            have += self._BLOCK
        joined = np.concatenate(parts) if len(parts) > 1 else self._left
        self._left = joined[n:]
        return joined[:n]


def truncated_geometric(
    rate: Fraction | int, bound: int, size: int | tuple[int, ...], *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw exact geometric noise restricted to {0, ..., bound - 1}.

    The remainder of a geometric draw modulo `bound` has this law: each of the geometric's values with
    the same remainder weighs a constant factor e^(-rate bound) less than the one before. Other
    parameters and errors as in `geometric`.
    """
    if not 1 <= bound <= _SCALE_LIMIT:
        raise ValueError("bound must be between 1 and 2^50")
    return geometric(rate, size, entropy=entropy) % bound
