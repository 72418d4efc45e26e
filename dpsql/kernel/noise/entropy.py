"""Sources of random bits: the operating system, a fast generator for audits, a seeded stream for tests."""

from __future__ import annotations

import os
from hashlib import shake_256
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
