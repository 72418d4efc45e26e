"""Noise that a test draws alike in every run: random bits come from a generator seeded with the test's name.

A test that looks at released values fails then always or never; with fresh bits it might fail by chance, in a
run that has nothing to do with it. What tests the source of noise itself is marked `fresh_noise`; so are laws
of outputs (`tests/statistical`), which state how often they fail by chance.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class _Stream:
    """The random bits of a name: of the system where it is empty."""

    name: str
    generator: np.random.SFC64 | None = None
    forks: int = 0

    def words(self, n: int) -> NDArray[np.uint64] | None:
        if self.generator is None and self.name:
            digest = hashlib.sha256(self.name.encode()).digest()
            self.generator = np.random.SFC64(int.from_bytes(digest, "big"))
        return None if self.generator is None else self.generator.random_raw(n)


_streams = [_Stream("")]
"""The innermost that is drawn from is last."""


def seed_noise(name: str) -> None:
    """Let what is drawn from now on depend on the name alone; without one, bits are the system's."""
    _streams[:] = [_Stream(name)]


@contextmanager
def noise_of(name: str) -> Iterator[None]:
    """Let what is drawn within depend on the name, also where tests that share it run in another order."""
    _streams.append(_Stream(name if _streams[-1].name else ""))
    try:
        yield
    finally:
        del _streams[-1:]


def take_over() -> None:
    """Draw noise, keys and tokens of this process and its forks from the seeded generators."""
    from dpsql import kernel, ledger, login

    drawing: Any = login
    sources: Any = kernel.noise
    system, simulated = sources.SystemEntropy.words, sources.SimulationEntropy.__init__

    def words(source: Any, n: int) -> Any:
        found = _streams[-1].words(n)
        return system(source, n) if found is None else found

    def start(source: Any) -> None:
        simulated(source)
        found = _streams[-1].words(1)
        if found is not None:
            source._generator = np.random.SFC64(int(found[0]))

    def key(size: int) -> bytes:
        found = _streams[-1].words(-(-size // 8))
        return secrets.token_bytes(size) if found is None else found.tobytes()[:size]

    def bits(size: int) -> int:
        return int.from_bytes(key(-(-size // 8)), "big") >> -size % 8

    sources.SystemEntropy.words, sources.SimulationEntropy.__init__ = words, start
    drawing.secrets = SimpleNamespace(token_bytes=key, randbits=bits)
    ledgers: Any = ledger.Ledger
    ledgers.draw_key = lambda _: key(32).hex()
    os.register_at_fork(before=_count_fork, after_in_child=_leave_the_parents_noise)


def _count_fork() -> None:
    _streams[-1].forks += 1


def _leave_the_parents_noise() -> None:
    """Let a fork draw other noise than its parent, and than its parent's other forks."""
    last = _streams[-1]
    seed_noise(f"{last.name} fork {last.forks}" if last.name else "")
