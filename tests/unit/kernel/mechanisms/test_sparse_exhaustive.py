"""The exact law of mechanisms over sparse counts, against the same mechanism over the counts of all groups.

The code that ships runs on every outcome of each of its draws, and the probabilities are fractions: equal,
not close. Noise has P(Y >= m) = 2^-m per grid step. What is at least `CAP` counts as `CAP`, in both: a
function of the noise, so that equal laws stay equal.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import (
    AdaptiveSparseVector,
    HybridTopK,
    Noise,
    NoiseSource,
    NoisyTopK,
    OrderedCounts,
    PeeledTopK,
    SparseCounts,
    in_public_order,
    noisy_order,
    sparse_vector_plan,
)
from dpsql.kernel.mechanisms.mechanism import Mechanism
from tests.given_noise import Outcomes, enumerated

HALF = Fraction(1, 2)
CAP = 3

Law = dict[Any, Fraction]


def pmf(noise: Noise) -> Law:
    """Return the probabilities of noise in grid steps, cut to at most CAP, and for Laplace at least -CAP."""
    if noise != "laplace":
        return {y: HALF ** (y + (y < CAP)) for y in range(CAP + 1)}
    # Discrete Laplace with ratio r: (1 - r) / (1 + r) r^|z|, and r^m / (1 + r) from m up.
    inner = {z: HALF ** abs(z) / 3 for z in range(1 - CAP, CAP)}
    return {**inner, CAP: HALF**CAP / Fraction(3, 2), -CAP: HALF**CAP / Fraction(3, 2)}


@dataclass(frozen=True)
class EveryNoise(NoiseSource):
    """Noise of which each draw takes every possible value, one a run."""

    outcomes: Outcomes = field(kw_only=True)

    def _one(self, law: Law) -> Any:
        return self.outcomes.choose(law)

    def draw(
        self, noise: Noise, scale: Fraction, bits: int, size: int | tuple[int, ...]
    ) -> NDArray[np.int64]:
        del scale, bits
        flat = [self._one(pmf(noise)) for _ in range(int(np.prod(size)))]
        return np.array(flat, dtype=np.int64).reshape(size)

    def draw_reaching(
        self, noise: Noise, scale: Fraction, bits: int, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        drawn = self.draw(noise, scale, bits, len(need))
        where = np.flatnonzero(drawn >= need)
        return where, drawn[where]

    def draw_band(
        self, noise: Noise, scale: Fraction, bits: int, trials: int, low: int, high: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        del scale, bits
        law = given(pmf(noise), lambda y: high is None or y < high)
        there = sum((p for y, p in law.items() if y >= low), Fraction(0))
        where = [i for i in range(trials) if there and self._one({True: there, False: 1 - there})]
        drawn = [self._one(given(law, lambda y: y >= low)) for _ in where]
        return np.array(where, dtype=np.int64), np.array(drawn, dtype=np.int64)

    def draw_below(self, noise: Noise, scale: Fraction, bits: int, size: int, high: int) -> NDArray[np.int64]:
        del scale, bits
        law = given(pmf(noise), lambda y: y < high)
        return np.array([self._one(law) for _ in range(size)], dtype=np.int64)

    def ranks(self, n: int, *, trials: int | None = None) -> NDArray[np.int64]:
        order = self._one({p: Fraction(1, factorial(n)) for p in permutations(range(n))})
        return np.array(order if trials is None else [order] * trials, dtype=np.int64)


def given(law: Law, held: Callable[[Any], bool]) -> Law:
    """Return the law on an event of positive probability."""
    kept = {y: p for y, p in law.items() if held(y)}
    total = sum(kept.values())
    return {y: p / total for y, p in kept.items()}


def output(result: Any) -> Hashable:
    """Return all that a run released."""
    names = [
        name
        for name in ("index", "gap", "branch", "reached_threshold", "rest", "units")
        if hasattr(result, name)
    ]
    return tuple(str(np.asarray(getattr(result, name)).reshape(-1).tolist()) for name in names)


def law_of(plan: Mechanism[Any], counts: Any) -> Law:
    """Return the probability of every output on some counts."""
    return enumerated(lambda outcomes: output(plan.run(counts, EveryNoise(outcomes=outcomes))))


def sparsely(counts: tuple[int, ...], *, trials: bool, also: tuple[int, ...] = ()) -> SparseCounts:
    """List the groups with a count, and others with a count of 0; as one of several trials if asked."""
    positions = np.array([i for i, n in enumerate(counts) if n or i in also], dtype=np.int64)
    values = np.array(counts, dtype=np.int64)[positions]
    return SparseCounts(values[None] if trials else values, positions, len(counts))


def plans() -> Iterator[tuple[str, Mechanism[Any], tuple[int, ...], bool]]:
    for counts, k in [((0, 0, 0), 2), ((0, 2, 0), 1), ((1, 0, 2), 2)]:
        yield f"top-{k}", NoisyTopK.plan(3, k, k, noise="geometric"), counts, True
    yield "top-3", NoisyTopK.plan(3, 3, 2, noise="geometric"), (0, 1, 0), False
    yield "lowest", NoisyTopK.plan(3, 1, 1, noise="geometric", lowest=True), (0, 1, 0), True
    yield "laplace", NoisyTopK.plan(2, 1, 1, noise="laplace", resolution=0), (0, 1), False
    yield "hybrid", HybridTopK.plan(2, 1, 1, 1, noise="geometric"), (0, 1), False
    yield "hybrid below", HybridTopK.plan(2, 1, 2, 1, noise="geometric", below=True), (0, 1), False
    yield "peeled", PeeledTopK.plan(2, 2, 1, noise="geometric"), (0, 1), False


@pytest.mark.parametrize("levels", [pytest.param(0, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(("name", "plan", "counts", "batch"), [*plans()], ids=lambda v: str(v)[:12])
@pytest.mark.sampled(3)
def test_the_law_is_that_of_all_groups(
    name: str,
    plan: Mechanism[Any],
    counts: tuple[int, ...],
    batch: bool,
    levels: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the level is lowered twice, and where it is 0 at once."""
    monkeypatch.setattr(noisy_order, "_halvings", lambda *_: levels)
    dense = law_of(plan, np.array(counts))
    assert sum(dense.values()) == 1
    assert law_of(plan, sparsely(counts, trials=False)) == dense, name
    if batch:
        assert law_of(plan, sparsely(counts, trials=True)) == dense, name


def test_an_empty_group_may_be_listed() -> None:
    """Rows without a unit make a group that has rows and a count of 0: nothing tells it from the others."""
    plan, counts = NoisyTopK.plan(3, 1, 1, noise="geometric"), (0, 1, 0)
    law = law_of(plan, sparsely(counts, trials=False))
    assert law == law_of(plan, sparsely(counts, trials=False, also=(0,)))
    assert law == law_of(plan, np.array(counts))


def test_what_a_wrong_band_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups drawn again below a level that they have passed would have two chances: another law."""
    monkeypatch.setattr(noisy_order, "_halvings", lambda *_: 2)
    plan, counts = NoisyTopK.plan(3, 1, 1, noise="geometric"), (0, 2, 0)
    dense = law_of(plan, np.array(counts))

    def again(
        self: EveryNoise, noise: Noise, scale: Fraction, bits: int, size: int, high: int
    ) -> NDArray[np.int64]:
        del high
        return self.draw(noise, scale, bits, size)

    monkeypatch.setattr(EveryNoise, "draw_below", again)
    assert law_of(plan, sparsely(counts, trials=False)) != dense


SCANS = [
    ((0, 1, 0), 1, 1, 1, False),
    ((0, 2, 0), 2, 2, 1, False),
    ((1, 0, 0), -1, 1, 1, False),
    ((0, 0, 1), 0, 3, 1, True),
    ((0, 2), 1, 1, 2, False),
    pytest.param((0, 0), 3, 2, 2, False, marks=pytest.mark.slow),
]
"""Counts, threshold, k, branches, and whether groups below the threshold are wanted."""


@pytest.mark.parametrize("segment", [1, 1 << 15])
@pytest.mark.parametrize(("counts", "threshold", "k", "branches", "below"), SCANS)
@pytest.mark.sampled(5)
def test_the_law_of_a_scan(
    counts: tuple[int, ...],
    threshold: int,
    k: int,
    branches: int,
    below: bool,
    segment: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In segments that divide the domain, and with levels below what passes."""
    monkeypatch.setattr(sparse_vector_plan, "_SEGMENT", segment)
    monkeypatch.setattr(sparse_vector_plan, "_HITS", 0)
    monkeypatch.setattr(sparse_vector_plan, "_UNLIKELY", 0 if segment == 1 else 16)
    plan = AdaptiveSparseVector.plan(
        len(counts), threshold, k, k + 1, branches=branches, noise="geometric", below=below, margin=1
    )
    dense = law_of(plan, in_public_order(np.array(counts)))
    assert len(dense) > 3
    assert law_of(plan, OrderedCounts(sparsely(counts, trials=False))) == dense


def test_a_scan_of_laplace_noise() -> None:
    plan = AdaptiveSparseVector.plan(2, 1, 1, 1, branches=1, noise="laplace", resolution=0)
    dense = law_of(plan, in_public_order(np.array([0, 1])))
    assert law_of(plan, OrderedCounts(sparsely((0, 1), trials=False))) == dense


@pytest.mark.slow
@pytest.mark.parametrize("levels", [0, 2])
def test_the_law_of_two_rounds(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_order, "_halvings", lambda *_: levels)
    plan, counts = PeeledTopK.plan(3, 2, 2, noise="geometric"), (0, 1, 0)
    assert law_of(plan, sparsely(counts, trials=False)) == law_of(plan, np.array(counts))
