"""Noise, ranks and random words that a test chose, for mechanisms whose runs are enumerated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import NoiseSource
from dpsql.noise import SeededEntropy

__all__ = ["GivenNoise", "Outcomes", "Scripted", "enumerated", "seeded"]

T = TypeVar("T", bound=Hashable)


class Outcomes:
    """The choices of one run of a random procedure, each among values with their probabilities."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.sizes: list[int] = []
        self.probability = Fraction(1)

    def choose(self, law: Mapping[T, Fraction]) -> T:
        """Return the value that this run takes."""
        place = len(self.sizes)
        if place == len(self.script):
            self.script.append(0)
        self.sizes.append(len(law))
        value, probability = list(law.items())[self.script[place]]
        self.probability *= probability
        return value


def enumerated(run: Callable[[Outcomes], T]) -> dict[T, Fraction]:
    """Return the exact probability of every result of a procedure, which is run once for all choices."""
    found: dict[T, Fraction] = {}
    script: list[int] = []
    while True:
        outcomes = Outcomes(script)
        result = run(outcomes)
        found[result] = found.get(result, Fraction(0)) + outcomes.probability
        while script and script[-1] + 1 == outcomes.sizes[len(script) - 1]:
            script.pop()
        if not script:
            return found
        script[-1] += 1


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


def seeded(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let all noise and ranks come from one reproducible stream."""
    entropy = SeededEntropy(seed)
    for name, module in list(sys.modules.items()):
        if name.startswith("dpsql.kernel.noise") and hasattr(module, "SystemEntropy"):
            monkeypatch.setattr(module, "SystemEntropy", lambda: entropy)
