"""Sources of random bits: the operating system, and a fast generator for audits."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Entropy(Protocol):
    """A source of independent, uniformly random bits."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return `n` fresh words of 64 independent fair bits."""
        ...


class SystemEntropy:
    """The operating system's cryptographic generator, the source of all noise in released results.

    Nothing is buffered between calls: a forked process would use buffered bits a second time, and reading
    costs the same per byte from 4 kB up.
    """

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return `n` fresh words of 64 bits."""
        return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)


class SimulationEntropy:
    """A fast statistical generator for audits only; no released result uses it.

    SFC64, seeded with 128 bits from the operating system; a word takes a tenth of the time. It passes the
    known statistical tests, but its output can be predicted from earlier output.
    """

    def __init__(self) -> None:
        self._generator = np.random.SFC64()

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return `n` fresh words of 64 bits; threads may share it, forked processes may not."""
        found: NDArray[np.uint64] = self._generator.random_raw(n)
        return found
