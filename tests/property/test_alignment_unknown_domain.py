"""The mechanisms for unknown domains and stable queries are private: their proofs, run.

As in the alignment of top-k: for random counts, a neighbour and noise H with output omega outside the
bad event, run(D', phi(H)) = omega; phi costs at most the charge of omega; shifted noise stays in its
support; phi has an inverse. What the bad event may hold is shown to be rare by the count's place.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import LimitedDomain, LimitedThenStable, NoiseSource
from dpsql.kernel.mechanisms.top_stable import StableNoise, leads
from dpsql.kernel.mechanisms.unknown_domain import largest_groups
from dpsql.kernel.public_order import in_public_order
from dpsql.mechanisms import FirstStable, StableAnswers
from tests.narrow import present

FINE = 64
CASES = 500
SEEDS = pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
BAR = "bar"


@dataclass(frozen=True)
class GivenNoise(NoiseSource):
    """The parts of the noise of a run in the order in which they are drawn, and an order."""

    parts: list[NDArray[np.int64]] = field(default_factory=list)
    order: NDArray[np.int64] | None = None

    def draw(self, *_: object) -> NDArray[np.int64]:
        return self.parts.pop(0)[None].copy()

    def ranks(self, n: int, *, trials: int | None = None) -> NDArray[np.int64]:
        return present(self.order)[None]


def sides(
    seed: int, c: int
) -> Iterator[tuple[np.random.Generator, NDArray[np.int64], NDArray[np.int64], int, int]]:
    """A universe of groups on D and D', where empty places are groups of count 0 like any other."""
    rng = np.random.default_rng(seed)
    for case in range(CASES):
        real, k = int(rng.integers(1, 7)), int(rng.integers(1, 4))
        many = k + int(rng.integers(0, 4))
        q = rng.integers(0, [2, 4, 9, 100][case % 4], real)
        p = q + rng.integers(0, c + 1, real)
        if case % 2:
            q, p = p, q
        yield rng, q, p, k, many


def candidates(
    rng: np.random.Generator, counts: NDArray[np.int64], many: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids of the candidates, any order of ties, and their counts and one more; empty places are negative."""
    present = np.flatnonzero(counts > 0)
    order = present[np.lexsort((rng.random(len(present)), -counts[present]))]
    kept = np.zeros(many + 1, dtype=np.int64)
    kept[: len(order[: many + 1])] = counts[order[: many + 1]]
    empty = -1 - np.arange(many)
    return np.concatenate([order, empty])[:many], kept


def place(
    ids: NDArray[np.int64], values: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], list[int | str], list[int]]:
    """What is placed: ids in order up to the bar, an empty place or k; and the exact gaps."""
    order = np.argsort(-values, kind="stable")
    ended = [(at == len(ids)) or ids[at] < 0 for at in order[:k]]
    placed = order[: ended.index(True) + 1 if any(ended) else k]
    names = [BAR if at == len(ids) else int(ids[at]) for at in placed]
    return placed, names, (values[order][:-1] - values[order][1:])[: len(placed)].tolist()


def lift(
    q: NDArray[np.int64],
    p: NDArray[np.int64],
    won: NDArray[np.bool_],
    noise: NDArray[np.int64],
    *,
    inverse: bool = False,
) -> NDArray[np.int64]:
    """The alignment of noisy top-k and its inverse; in the latter, `noise` is the aligned one."""
    m = (q - p)[won].min()
    if won.all():
        shift = q - p - m
    else:
        losers = np.flatnonzero(~won)
        best, best_p = (q + noise)[losers].max(), (p + noise)[losers].max()
        shift = np.zeros_like(q)
        if best_p >= best - m:
            shift[won] = (q - p)[won] + best_p - best
        else:
            s = losers[np.argmax(((p if inverse else q) + noise)[losers])]
            shift[won] = (q - p)[won] - m
            shift[s] = q[s] - p[s] - m
    return noise - shift if inverse else noise + shift


@SEEDS
@pytest.mark.parametrize("c", [1, 2])
def test_limited_domain(c: int, seed: int) -> None:
    kinds = []
    for rng, q, p, k, many in sides(1000 * seed + c, c):
        plan = LimitedDomain.plan(k, 1, "1e-6", candidates=many, sensitivity=c, resolution=0)
        clearance, threshold = int(rng.integers(c, 3 * c + 2)), int(rng.choice([0, 0, 3]))
        (ids, kept), (other, kept_p) = candidates(rng, q, many), candidates(rng, p, many)
        # Candidates of both sides keep their noise; those that leave lend it to those that come.
        stay = np.isin(ids, other)
        paired = ids.copy()
        paired[~stay] = other[~np.isin(other, ids)]
        rank_p = {int(name): at for at, name in enumerate(other)}
        moved_p = np.array([kept_p[rank_p[int(name)]] for name in paired])
        assert set(np.sign(moved_p - kept[:-1]).tolist()) <= {0, int(np.sign((p - q).sum()))}
        assert (np.abs(moved_p - kept[:-1]) <= c).all()
        leaving = kept[:-1][~stay]
        assert (leaving <= kept[-1] + c).all()

        def values(
            heights: NDArray[np.int64], h: np.int64, threshold: int = threshold, clearance: int = clearance
        ) -> NDArray[np.int64]:
            return np.append(heights, max(int(h) + clearance, threshold)) * FINE

        here, there = values(kept[:-1], kept[-1]), values(moved_p, kept_p[-1])
        noise = (rng.geometric(rng.choice([0.6, 0.2]), many + 1) - 1) * FINE + rng.permutation(FINE)[
            : many + 1
        ]
        placed, names, gaps = place(ids, here + noise, k)
        if not stay[[at for at in placed if at < many]].all():
            # The bad event: a candidate of one side only came before the bar.
            assert (here + noise)[:many][~stay].max() > (here + noise)[many]
            continue
        won = np.zeros(many + 1, dtype=bool)
        won[placed] = True
        aligned = lift(here, there, won, noise)
        again = place(paired, there + aligned, k)
        assert again[1:] == (names, gaps)
        assert (aligned >= noise).all()
        cost = Fraction(int((aligned - noise).sum()), FINE) / plan.scale
        released = sum(isinstance(name, int) and name >= 0 for name in names)
        assert cost <= plan.realised_loss(min(released + 1, k)).charge.epsilon
        assert np.array_equal(lift(here, there, won, aligned, inverse=True), noise)
        kinds.append(
            (released, names[-1] == BAR, isinstance(names[-1], int) and names[-1] < 0, bool((~stay).any()))
        )
    assert len(kinds) > CASES // 2
    assert len(set(kinds)) >= 10


@SEEDS
def test_the_product_is_the_ideal_limited_domain(seed: int) -> None:
    """A run on floors and ranks = the same order, cut and floored gaps."""
    for rng, q, _, k, many in sides(1000 * seed + 7, 1):
        ids, kept = candidates(rng, q, many)
        remainders, noise = rng.permutation(FINE)[: many + 1], rng.geometric(0.4, many + 1) - 1
        values = np.append(kept[:-1], kept[-1] + 2) + noise
        _, names, gaps = place(ids, values * FINE + remainders, k)
        plan = LimitedDomain.plan(k, 1, "1e-6", candidates=many, resolution=0)
        source = GivenNoise(parts=[noise], order=np.argsort(np.argsort(remainders)))
        # Equal counts are in the order in which the candidates are.
        counts = np.append(kept[: (ids >= 0).sum()], kept[-1])
        done = replace(plan, clearance=2).run([counts], source)
        ended = [isinstance(name, str) or name < 0 for name in names]
        released = [name for name, end in zip(names, ended, strict=True) if not end]
        assert ids[done.index[0, : len(released)]].tolist() == released
        assert done.gap[0, : len(released)].tolist() == [gap // FINE for gap in gaps[: len(released)]]
        assert (done.index[0, len(released) :] == -1).all()
        assert done.reached_threshold[0] == (BAR in names)
        assert np.asarray(done.units)[0] == len(names)


@SEEDS
@pytest.mark.parametrize("c", [1, 3])
def test_an_unstable_set_has_distance_0_on_both_sides(c: int, seed: int) -> None:
    """And distances move by at most c: what the alignment of Top Stable rests on."""
    changed = 0
    for rng, q, p, _, many in sides(1000 * seed + 20 + c, c):
        (ids, kept), (other, kept_p) = candidates(rng, q, many), candidates(rng, p, many)
        distance, distance_p = (leads(side[None], Fraction(c))[0, ::-1] for side in (kept, kept_p))
        assert (np.abs(distance - distance_p) <= c).all()
        for i in range(1, many + 1):
            if set(ids[:i].tolist()) != set(other[:i].tolist()):
                changed += 1
                assert distance[i - 1] == distance_p[i - 1] == 0
    assert changed > 100


@SEEDS
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.sampled(2)
def test_what_limited_domain_leaves_is_an_unknown_domain_for_top_stable(c: int, seed: int) -> None:
    """Given what was released, the same set comes of D' with aligned noise, at what the plan realises.

    The groups released are any candidates of both sides, as outside the bad event; the second mechanism reads
    only the `candidates + 1` largest groups of each side, the released ones among them.
    """
    found = []
    for rng, *both, _, _ in sides(1000 * seed + 40 + c, c):
        k = int(rng.integers(2, 5))
        many = k + int(rng.integers(0, 3))
        q, p = (np.concatenate([counts, [30, 20]]) for counts in both)
        (ids, kept), (other, kept_p) = candidates(rng, q, many), candidates(rng, p, many)
        shared = ids[np.isin(ids, other) & (ids >= 0)]
        placed = int(rng.integers(1, min(len(shared), 3 * k // 4) + 1))
        released = rng.permutation(shared)[: placed - 1]
        plan = LimitedThenStable.plan(k, 1, "1e-6", candidates=many, sensitivity=c, resolution=0)
        further = present(plan.further(placed))
        further = replace(further, tests=replace(further.tests, cutoff=int(rng.integers(1, 6))))
        spent = plan.limited.realised_loss(placed).charge.epsilon
        assert spent + further.loss.charge.epsilon == 1
        left = np.where(np.isin([*ids, -99], released), 0, kept)
        left_p = np.where(np.isin([*other, -99], released), 0, kept_p)
        its, its_p = (largest_groups(counts, further.candidates)[1] for counts in (left, left_p))
        for counts, largest in ((q, its), (p, its_p)):
            whole = np.where(np.isin(np.arange(len(counts)), released), 0, counts)
            assert np.array_equal(largest, largest_groups(whole, further.candidates)[1])
        distance, distance_p = (leads(largest[None], Fraction(c))[0] for largest in (its, its_p))
        assert (np.abs(distance - distance_p) <= c).all()
        threshold = rng.geometric(0.3, 1) - 1
        noise = rng.geometric(0.3, further.candidates) - 1
        done = further.run(left, GivenNoise(parts=[threshold, noise]))
        at = further.candidates - int(done.stable) if done.stable else None
        moved = noise.copy()
        if at is not None:
            moved[at] += c + distance[at] - distance_p[at]
        again = further.run(left_p, GivenNoise(parts=[threshold + c, moved]))
        assert (done.stable, done.charge) == (again.stable, again.charge)
        sets = [set(names[found.index].tolist()) for names, found in ((ids, done), (other, again))]
        if sets[0] != sets[1]:
            # The bad event: a test passed at distance 0.
            assert at is not None
            assert distance[at] == distance_p[at] == 0
            continue
        assert not sets[0] & set(released.tolist())
        cost = spent + c / further.tests.threshold_scale
        cost += Fraction(int((moved - noise).sum())) / further.tests.scale
        assert cost <= plan.realised_loss(2 * placed + int(done.units)).charge.epsilon <= 1
        found.append((placed, int(done.stable), len(done.index)))
    assert len(found) > CASES // 2
    assert len(set(found)) > 12


def stable_instances(
    seed: int, c: int, *, laplace: bool
) -> Iterator[
    tuple[np.random.Generator, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
]:
    """Distances on both sides and noise, in whole counts."""
    rng = np.random.default_rng(seed)
    for case in range(CASES):
        m = int(rng.integers(1, 7))
        d = rng.integers(0, [2, 5, 40][case % 3], m)
        other = np.maximum(d + rng.integers(-c, c + 1, m), 0)
        draws = rng.geometric(rng.choice([0.7, 0.2]), m + 1) - 1
        if laplace:
            draws -= rng.geometric(0.3, m + 1) - 1
        yield rng, d, other, draws[:1], draws[1:]


@SEEDS
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("noise", ["one-sided", "laplace"])
@pytest.mark.sampled(3)
def test_first_stable(noise: StableNoise, c: int, seed: int) -> None:
    places = set()
    for rng, d, other, threshold, draws in stable_instances(1000 * seed + c, c, laplace=noise == "laplace"):
        plan = FirstStable.plan(
            len(d), 1, rng.choice(["1e-9", "0.9"]), noise=noise, sensitivity=c, resolution=0
        )
        done = plan.run(in_public_order(d), GivenNoise(parts=[threshold, draws]))
        moved = draws.copy()
        moved[done.index] += (c + d - other)[done.index]
        lifted = threshold + c
        again = plan.run(in_public_order(other), GivenNoise(parts=[lifted, moved]))
        assert (again.index.tolist(), again.gap.tolist()) == (done.index.tolist(), done.gap.tolist())
        assert again.charge == done.charge
        assert (moved >= draws).all()
        cost = c / plan.tests.threshold_scale + Fraction(int((moved - draws).sum())) / plan.tests.scale
        assert cost <= done.charge.epsilon
        back = moved.copy()
        back[again.index] -= (c + d - other)[again.index]
        assert np.array_equal(back, draws)
        places.add(tuple(done.index.tolist()))
    assert len(places) >= 5


@SEEDS
@pytest.mark.parametrize("c", [1, 3])
def test_stable_answers(c: int, seed: int) -> None:
    ends = set()
    for rng, d, other, threshold, draws in stable_instances(1000 * seed + 30 + c, c, laplace=True):
        k = int(rng.integers(1, len(d) + 1))
        plan = StableAnswers.plan(len(d), k, 1, "0.9", share="0.37", sensitivity=c, resolution=0)
        done = plan.run(in_public_order(d), GivenNoise(parts=[threshold, draws]))
        failed = np.setdiff1d(np.arange(int(done.asked)), done.index)
        moved = draws.copy()
        moved[failed] += (d - other)[failed] - c
        again = plan.run(in_public_order(other), GivenNoise(parts=[threshold - c, moved]))
        assert (again.index.tolist(), again.asked) == (done.index.tolist(), done.asked)
        assert again.charge == done.charge
        cost = c / plan.tests.threshold_scale
        cost += Fraction(int(np.abs(moved - draws).sum())) / plan.tests.scale
        assert cost <= done.charge.epsilon <= plan.loss.charge.epsilon == 1
        moved[failed] -= (d - other)[failed] - c
        assert np.array_equal(moved, draws)
        ends.add((len(failed) == k, len(done.index) > 0, bool(done.asked < len(d))))
    assert len(ends) == 5
