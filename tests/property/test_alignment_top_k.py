"""Noisy top-k with gap, by rounds too, and the first hybrid are private: their proof, run.

The mechanism is a pure function of counts and noise. For random counts, a neighbour and noise, with
omega = run(D, H): run(D', phi(H)) = omega; the cost of phi is at most the charge; every shifted
noise stays in its support; and phi is injective, shown by its inverse. Noise is fine integer noise
without ties: N fine steps a grid step. That the product, on floors and ranks, is the same function,
is the last test.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import HybridTopK, Noise, NoiseSource, NoisyTopK, PeeledTopK
from dpsql.kernel.mechanisms.noisy_order import select
from dpsql.mechanisms import hybrid_top_k, noisy_top_k
from tests.given_noise import GivenNoise

FINE = 64
"""Fine steps a grid step; more than there are groups, so that remainders differ."""
CASES, FULL = 200, 500
"""Instances of every day's seed, and of each of the others."""
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 63))]


def run(
    q: NDArray[np.int64], noise: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ideal mechanism: order and exact gaps of q + noise, all in fine steps."""
    values = q + noise
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    return order[:k], (ordered[:-1] - ordered[1:])[:k]


def winners_of(omega: tuple[NDArray[np.int64], NDArray[np.int64]], n: int) -> NDArray[np.bool_]:
    won = np.zeros(n, dtype=bool)
    won[omega[0]] = True
    return won


def phi(
    q: NDArray[np.int64],
    p: NDArray[np.int64],
    omega: tuple[NDArray[np.int64], NDArray[np.int64]],
    noise: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Noise for the neighbour p that gives what `noise` gives for q."""
    won, shift = winners_of(omega, len(q)), np.zeros_like(q)
    m = (q - p)[won].min()
    if won.all():
        shift = q - p - m
        return noise + shift
    best, best_p = (q + noise)[~won].max(), (p + noise)[~won].max()
    if best_p >= best - m:
        shift[won] = (q - p)[won] + best_p - best
    else:
        s = np.flatnonzero(~won)[np.argmax((q + noise)[~won])]
        shift[won] = (q - p)[won] - m
        shift[s] = q[s] - p[s] - m
    return noise + shift


def phi_inverse(
    q: NDArray[np.int64],
    p: NDArray[np.int64],
    omega: tuple[NDArray[np.int64], NDArray[np.int64]],
    aligned: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Recover the noise from the aligned one: which case it was shows in the losers alone."""
    won, shift = winners_of(omega, len(q)), np.zeros_like(q)
    m = (q - p)[won].min()
    if won.all():
        return aligned - (q - p - m)
    best, best_p = (q + aligned)[~won].max(), (p + aligned)[~won].max()
    if best_p >= best - m:
        shift[won] = (q - p)[won] + best_p - best
    else:
        s = np.flatnonzero(~won)[np.argmax((p + aligned)[~won])]
        shift[won] = (q - p)[won] - m
        shift[s] = q[s] - p[s] - m
    return aligned - shift


RANGES = [(0, 4), (-1, 4), (-4, 4), (2, 4)]
"""What a unit more adds to the counts of its groups, 0 to all others; planned as monotone."""


def moves(low: int, high: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return moves of counts by one unit, or of their removal: mostly at the ends of the range."""
    most = rng.choice([0, low, high, *range(low, high + 1)], size)
    return np.asarray(rng.choice([-1, 1]) * most)


def instances(
    seed: int,
    c: int,
    *,
    monotone: bool,
    laplace: bool,
    cases: int | None = None,
    within: tuple[int, int] | None = None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]]:
    """Counts, neighbour, noise and k in fine steps, one grid step a count: ties of all kinds."""
    rng = np.random.default_rng(seed)
    for case in range(cases or (CASES if seed < 1000 else FULL)):
        n = int(rng.integers(2, 8))
        k = int(rng.integers(1, n + 2))
        q = rng.integers(0, [1, 2, 4, 100][case % 4], n) + [0, 0, 2**40 - 200, 2**60 - 200][case // 4 % 4]
        if within:
            p = q + moves(*within, n, rng)
        elif monotone:
            p = q + rng.choice([-1, 1]) * rng.integers(0, c + 1, n)
        else:
            p = q + rng.integers(-c, c + 1, n)
        whole = rng.geometric(rng.choice([0.9, 0.3, 0.02]), n) - 1
        if laplace:
            whole -= rng.geometric(0.3, n) - 1
        remainder = rng.permutation(FINE)[:n]
        yield q * FINE, p * FINE, whole * FINE + remainder, k


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.sampled(3)
def test_alignment(noise: Noise, monotone: bool, c: int, seed: int) -> None:
    branches = aligned(1000 * seed + c, noise, c, monotone=monotone)
    assert len(branches) >= 5


@pytest.mark.parametrize("within", RANGES)
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.sampled(3)
def test_alignment_of_moves_within_a_range(noise: Noise, within: tuple[int, int]) -> None:
    """Sums that a unit moves by low to high: the sensitivity is the difference, and not twice the larger."""
    low, high = min(within[0], 0), max(within[1], 0)
    assert len(aligned(high, noise, high - low, monotone=True, cases=200, within=within)) >= 5


def aligned(
    seed: int, noise: Noise, c: int, *, monotone: bool, **options: Any
) -> set[tuple[bool, bool, bool]]:
    """Check the alignment of many instances; return the kinds of cases that were seen."""
    branches = set()
    for q, p, fine, k in instances(seed, c, monotone=monotone, laplace=noise == "laplace", **options):
        said = noisy_top_k(q // FINE, k, 1, sensitivity=c, monotone=monotone, noise=noise, resolution=0)
        omega = run(q, fine, k)
        aligned = phi(q, p, omega, fine)
        again = run(p, aligned, k)
        assert np.array_equal(again[0], omega[0])
        assert np.array_equal(again[1], omega[1])
        moved = aligned - fine
        assert Fraction(int(np.abs(moved).sum()), FINE) / said.plan.scale <= said.charge.epsilon
        if noise == "exponential":
            assert (moved >= 0).all()
        assert np.array_equal(phi_inverse(q, p, omega, aligned), fine)
        branches.add((bool((moved == 0).all()), bool(moved[~winners_of(omega, len(q))].any()), k >= len(q)))
    return branches


def run_hybrid(
    q: NDArray[np.int64], noise: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Hybrid 19 in the ideal: item 0 is the threshold, and what comes after it is not told."""
    index, gap = run(q, noise, k)
    end = [*index.tolist(), 0].index(0) + 1
    return index[:end], gap[:end]


def with_threshold(
    instance: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
    """Put a threshold before the counts, the same for both neighbours."""
    q, p, fine, k = instance
    level = rng.choice(q) + FINE * rng.integers(-1, 2)
    remainder = (set(range(FINE)) - set((fine % FINE).tolist())).pop()
    first = FINE * (rng.geometric(0.3) - 1) + remainder
    q, p, fine = np.append(level, q), np.append(level, p), np.append(first, fine)
    return q, p, fine, min(k, len(q) - 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.sampled(5)
def test_alignment_of_the_hybrid(noise: Noise, monotone: bool, c: int, seed: int) -> None:
    assert len(hybrid_aligned(1000 * seed + c + 10, noise, c, monotone=monotone)) > 8


@pytest.mark.parametrize("within", RANGES)
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.sampled(5)
def test_alignment_of_the_hybrid_within_a_range(noise: Noise, within: tuple[int, int]) -> None:
    """The threshold moves by 0, which is within the range."""
    low, high = min(within[0], 0), max(within[1], 0)
    assert len(hybrid_aligned(high, noise, high - low, monotone=True, cases=200, within=within)) > 8


def hybrid_aligned(
    seed: int, noise: Noise, c: int, *, monotone: bool, **options: Any
) -> set[tuple[int, bool]]:
    """Check the alignment of many instances; return how many items were placed, and how they ended."""
    rng = np.random.default_rng(seed)
    placed = set()
    for instance in instances(seed, c, monotone=monotone, laplace=noise == "laplace", **options):
        q, p, fine, k = with_threshold(instance, rng)
        # The scale does not depend on the outcome; the charge is what the outcome says it is.
        said = hybrid_top_k(
            q[1:] // FINE, 0, k, 1, sensitivity=c, monotone=monotone, noise=noise, resolution=0
        )
        omega = run_hybrid(q, fine, k)
        aligned = phi(q, p, omega, fine)
        again = run_hybrid(p, aligned, k)
        assert np.array_equal(again[0], omega[0])
        assert np.array_equal(again[1], omega[1])
        moved = aligned - fine
        assert Fraction(int(np.abs(moved).sum()), FINE) / said.plan.scale <= Fraction(len(omega[0]), k)
        if noise == "exponential":
            assert (moved >= 0).all()
        assert np.array_equal(phi_inverse(q, p, omega, aligned), fine)

        floors, remainders = np.divmod(fine, FINE)
        plan = HybridTopK.plan(len(q) - 1, int(q[0] // FINE), k, 1, noise=noise, resolution=0)
        ranks = np.argsort(np.argsort(remainders))
        done = plan.run([q[1:] // FINE], GivenNoise(steps=floors[None], order=ranks[None]))
        reached = int(omega[0][-1] == 0)
        released = len(omega[0]) - reached
        assert (done.index[0, :released] + 1).tolist() == omega[0][:released].tolist()
        gaps = [*done.gap[0, :released].tolist(), *done.rest[:reached].tolist()]
        assert gaps == (omega[1] // FINE).tolist()
        assert np.isnan(done.gap[0, released:]).all()
        assert done.reached_threshold[0] == (reached or released == len(q) - 1)
        assert np.array_equal(done.units, [len(omega[0])])
        placed.add((len(omega[0]), bool(reached)))
    return placed


@dataclass(frozen=True)
class InTurn(NoiseSource):
    """The noise and the ranks of each round, handed out in turn."""

    steps: Iterator[NDArray[np.int64]] = field(kw_only=True)
    order: Iterator[NDArray[np.int64]] = field(kw_only=True)

    def draw(self, *_: object) -> NDArray[np.int64]:
        return next(self.steps)[None]

    def ranks(self, *_: object, **__: object) -> NDArray[np.int64]:
        return next(self.order)[None]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.sampled(5)
def test_alignment_of_rounds(noise: Noise, monotone: bool, c: int, seed: int) -> None:
    assert len(rounds_aligned(1000 * seed + c + 20, noise, c, monotone=monotone)) >= 5


@pytest.mark.parametrize("within", RANGES)
@pytest.mark.sampled(3)
def test_alignment_of_rounds_of_moves_within_a_range(within: tuple[int, int]) -> None:
    low, high = min(within[0], 0), max(within[1], 0)
    seen = rounds_aligned(high, "exponential", high - low, monotone=True, cases=200, within=within)
    assert len(seen) >= 5


def rounds_aligned(
    seed: int, noise: Noise, c: int, *, monotone: bool, **options: Any
) -> set[tuple[int, bool]]:
    """Check the alignment of each round on what is left, and that the product is these rounds in turn."""
    rng, seen = np.random.default_rng(seed), set()
    for q, p, first, k in instances(seed, c, monotone=monotone, laplace=noise == "laplace", **options):
        n = len(q)
        rounds = min(k, n - 1)
        plan = PeeledTopK.plan(n, k, rounds, sensitivity=c, monotone=monotone, noise=noise, resolution=0)
        fine = [first, *(rng.permutation(first)[: n - turn] for turn in range(1, rounds))]
        left, spent, omega = np.arange(n), Fraction(0), []
        for one in fine:
            released = run(q[left], one, 1)
            moved = phi(q[left], p[left], released, one)
            again = run(p[left], moved, 1)
            assert all(np.array_equal(a, b) for a, b in zip(again, released, strict=True))
            assert np.array_equal(phi_inverse(q[left], p[left], released, moved), one)
            cost = Fraction(int(np.abs(moved - one).sum()), FINE) / plan.scale
            assert cost <= 1
            if noise == "exponential":
                assert (moved >= one).all()
            spent += cost
            omega.append((left[released[0][0]], released[1][0] // FINE))
            left = np.delete(left, released[0][0])
        assert spent <= plan.loss.charge.epsilon
        seen.add((rounds, spent > rounds - 1))

        floors, ranks = zip(*((one // FINE, np.argsort(np.argsort(one % FINE))) for one in fine), strict=True)
        done = plan.run([q // FINE], InTurn(steps=iter(floors), order=iter(ranks)))
        assert done.index[0].tolist() == [int(index) for index, _ in omega] + left.tolist() * (k >= n)
        assert done.gap[0].tolist() == [gap for _, gap in omega]
    return seen


def test_the_printed_alignment_is_not_injective() -> None:
    """Dissertation (5.4): if the best losers differ, the noise of the second is lost."""

    def printed(
        q: NDArray[np.int64],
        p: NDArray[np.int64],
        omega: tuple[NDArray[np.int64], NDArray[np.int64]],
        noise: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        won = winners_of(omega, len(q))
        losers = np.flatnonzero(~won)
        s, t = losers[np.argmax((q + noise)[~won])], losers[np.argmax((p + noise)[~won])]
        lift = p[t] + noise[t] - q[s] - noise[s]
        delta = ((q - p)[won] + lift).min()
        shift = np.where(won, q - p + lift - min(delta, 0), 0)
        shift[t] -= min(delta, 0)
        return noise + shift

    # Ten fine steps a count; the second item loses one unit, the third is then the best loser.
    q, p = np.array([100, 20, 10]), np.array([100, 10, 10])
    one, other = np.array([7, 30, 32]), np.array([7, 30, 37])
    omega = run(q, one, 1)
    assert [part.tolist() for part in run(q, other, 1)] == [part.tolist() for part in omega]
    assert np.array_equal(printed(q, p, omega, one), printed(q, p, omega, other))
    assert not np.array_equal(phi(q, p, omega, one), phi(q, p, omega, other))


def test_the_product_is_the_ideal_mechanism() -> None:
    """A run on floors and ranks = order and floored gaps of the fine noise."""
    for laplace in (False, True):
        for q, _, fine, k in instances(9, 1, monotone=True, laplace=laplace, cases=1000):
            index, gap = run(q, fine, k)
            floors, remainders = np.divmod(fine, FINE)
            ranks = np.argsort(np.argsort(remainders))
            noise: Noise = "laplace" if laplace else "exponential"
            plan = NoisyTopK.plan(len(q), k, 1, noise=noise, resolution=0)
            done = plan.run([q // FINE], GivenNoise(steps=floors[None], order=ranks[None]))
            assert np.array_equal(done.index[0], index)
            assert np.array_equal(done.gap[0], gap // FINE)


def test_rows_are_independent_runs() -> None:
    """A batch of trials is row by row the same function."""
    for q, _, fine, k in instances(10, 1, monotone=True, laplace=False, cases=200):
        floors, remainders = np.divmod(fine, FINE)
        ranks = np.argsort(np.argsort(remainders))
        values = q // FINE + floors
        index, gap = select(np.array([values, values[::-1]]), np.array([ranks, ranks[::-1]]), k)
        for row, (v, r) in enumerate(((values, ranks), (values[::-1], ranks[::-1]))):
            chosen, steps = select(v, r, k)
            assert np.array_equal(index[row], chosen)
            assert np.array_equal(gap[row], steps)
