"""Guess and check: what it says, what it charges, when it refuses; its privacy on tiny instances."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql import noise
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import Checked, GuessAndCheck, GuessAndCheckPlan, Noise, NoiseSource
from dpsql.kernel.mechanisms.check_stream import best_threshold_share
from dpsql.kernel.mechanisms.guess_and_check import on_grid
from dpsql.kernel.noise import STEP_LIMIT
from dpsql.kernel.public_order import in_public_order


def seeded(seed: int) -> NoiseSource:
    return NoiseSource(noise.SeededEntropy(seed))


class Slow(noise.SeededEntropy):
    """Lets every other thread run while it draws."""

    def words(self, n: int) -> NDArray[np.uint64]:
        time.sleep(0.001)
        return super().words(n)


class TestChecking:
    def test_good_guesses_cost_the_threshold_alone(self) -> None:
        oracle = GuessAndCheck(10_000, 1, 3)
        assert oracle.charge == Charge()
        for i in range(500):
            said = oracle.check(50_000 + i, 50_000)
            assert said == Checked(True, Fraction(50_000), None)
        assert oracle.charge == Charge(best_threshold_share(3, 2, Fraction(1, 3)))
        assert oracle.misses_left == 3
        assert not oracle.exhausted

    def test_bad_guesses_are_answered_until_used_up(self) -> None:
        oracle = GuessAndCheck(100, 1, 2, share="1/5", source=seeded(1))
        for used in (1, 2):
            said = oracle.check(50_000, 10_000)
            assert not said.hit
            assert abs(said.value - 50_000) < 1000
            assert said.gap is not None
            assert abs(said.gap - 39_900) < 1000
            assert oracle.charge == Charge(Fraction(1, 5) + used * Fraction(2, 5))
            assert oracle.misses_left == 2 - used
        assert oracle.exhausted
        with pytest.raises(RuntimeError, match="misses are used up"):
            oracle.check(5, 5)
        assert oracle.charge == oracle.plan.loss.charge == Charge(Fraction(1))

    def test_both_sides_of_the_count(self) -> None:
        oracle = GuessAndCheck(1000, 1, 2)
        assert not oracle.check(50_000, 100_000).hit
        assert not oracle.check(50_000, 0).hit

    @pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
    @pytest.mark.parametrize("misses", [1, 3, 7])
    def test_the_charge_never_passes_the_cap(self, noise: Noise, misses: int) -> None:
        """Exactly: no sum of shares is over epsilon, also with shares that are no short decimals."""
        for epsilon, share in (("0.7", None), (Fraction(1, 3), "1/7"), (0.1, 0.3)):
            oracle = GuessAndCheck(5, epsilon, misses, share=share, noise=noise, source=seeded(2))
            spent = [oracle.charge.epsilon]
            while not oracle.exhausted:
                oracle.check(10**6, 0)
                spent.append(oracle.charge.epsilon)
            assert spent == sorted(spent)
            assert spent[-1] == Fraction(str(epsilon))
            assert oracle.plan.loss.charge.epsilon == Fraction(str(epsilon))

    def test_scales_pay_for_what_they_cost(self) -> None:
        """c/scale of the threshold, and 2c/scale + c/scale of a miss: the parts of the charge."""
        oracle = GuessAndCheckPlan.plan(5, "0.9", 4, share="1/3", answer_share="1/4", sensitivity=3)
        assert 3 / oracle.threshold_scale == Fraction(3, 10)
        each = Fraction(6, 10) / 4
        assert 6 / oracle.scale == each * Fraction(3, 4)
        assert 3 / oracle.answer_scale == each / 4
        usual = GuessAndCheckPlan.plan(5, 1, 4)
        assert usual.scale == usual.answer_scale

    @pytest.mark.parametrize("shares", [("0.9", "1/3"), ("0.1", "0.9"), ("0.1", "0.1")])
    def test_one_grid_fine_enough_for_the_smallest_scale(self, shares: tuple[str, str]) -> None:
        """Each of the three noises in turn has the smallest scale."""
        oracle = GuessAndCheckPlan.plan(5, "0.05", 2, share=shares[0], answer_share=shares[1])
        smallest = min(oracle.threshold_scale, oracle.scale, oracle.answer_scale)
        assert smallest / 2 < 1024 / Fraction(2**oracle.resolution) <= smallest

    def test_guesses_of_any_kind(self) -> None:
        oracle = GuessAndCheck(10**6, 1, 1, resolution=2, source=seeded(3))
        for guess, value in ((5, 5), ("5.25", Fraction(21, 4)), (Fraction(16, 3), Fraction(21, 4)), (0.1, 0)):
            assert oracle.check(0, guess).value == value
        assert not oracle.check(0, 10**400).hit

    @pytest.mark.parametrize("tolerance", [10**30, "1e300"])
    def test_absurd_tolerances(self, tolerance: int | str) -> None:
        """Beyond int64 too, the gap is what is over the tolerance."""
        oracle = GuessAndCheck(tolerance, 1, 1, source=seeded(4))
        assert oracle.check(2**62, 10**30 - 10**6).hit
        said = oracle.check(0, 10**301)
        assert said.gap == pytest.approx(10**301 - Fraction(str(tolerance)))

    def test_counts_are_cut_off(self) -> None:
        oracle = GuessAndCheck(10**6, 1, 1)
        limit = STEP_LIMIT >> oracle.plan.resolution
        assert oracle.check(2**200, limit).hit
        assert oracle.check(-(2**200), -limit).hit
        assert oracle.check(np.int64(7), 7).hit  # type: ignore[arg-type]  # numpy's integers are taken

    def test_threads_share_the_misses(self) -> None:
        oracle = GuessAndCheck(10, 1, 3, source=NoiseSource(Slow(1)))
        answered, refused = [], []

        def ask() -> None:
            for _ in range(20):
                try:
                    answered.append(oracle.check(10**6, 0))
                except RuntimeError:
                    refused.append(True)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(answered), len(refused)) == (3, 157)
        assert oracle.charge == oracle.plan.loss.charge

    @pytest.mark.parametrize(
        ("arguments", "options"),
        [
            ((5, 0, 1), {}),
            ((5, 1, 0), {}),
            ((5, 1, True), {}),
            (("x", 1, 1), {}),
            ((5, 1, 1), {"share": 1}),
            ((5, 1, 1), {"share": 0}),
            ((5, 1, 1), {"answer_share": 1}),
            ((5, 1, 1), {"answer_share": 0}),
            ((5, 1, 1), {"sensitivity": 0}),
            ((5, 1, 1), {"noise": "normal"}),
            ((5, 1, 1), {"noise": "geometric", "resolution": 1}),
            ((5, "1e-15", 1), {"resolution": 20}),
        ],
    )
    def test_refusals(self, arguments: tuple[int | str, int | str, int], options: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            GuessAndCheck(*arguments, **options)

    @pytest.mark.parametrize(("count", "guess"), [(1.5, 1), (True, 1), ("3", 1), (1, "x"), (1, float("nan"))])
    def test_a_refused_check_costs_nothing(self, count: float | str, guess: float | str) -> None:
        oracle = GuessAndCheck(5, 1, 1)
        with pytest.raises(ValueError):
            oracle.check(count, guess)  # type: ignore[arg-type]  # that is the test
        assert oracle.charge == Charge()


# Two checks with one miss to spend, all outputs, on all neighbours. Guesses are fixed: after a hit, the
# only output that leads on, nothing new is known.

REACH = 26
ANSWERS = np.arange(-8, 9)


def noise_law(kind: Noise, scale: Fraction, bits: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    r = float(np.exp(-1 / float(scale * 2**bits)))
    low = 0 if kind != "laplace" else -REACH
    steps = np.arange(low, REACH)
    return steps, ((1 - r) if kind != "laplace" else (1 - r) / (1 + r)) * r ** np.abs(steps)


@dataclass(frozen=True)
class GivenNoise(NoiseSource):
    """All noise at once, a row a trial: of the threshold, then of each check; none on the counts."""

    drawn: Iterator[NDArray[np.int64]] = field(kw_only=True)

    @classmethod
    def of(cls, level: NDArray[np.int64], *checks: NDArray[np.int64]) -> "GivenNoise":
        none = np.zeros(len(level), dtype=np.int64)
        return cls(drawn=iter([level, *(part for check in checks for part in (check, none))]))

    def draw(self, *_: object) -> NDArray[np.int64]:
        return next(self.drawn)


def outputs(
    counts: Sequence[int], guess: int, plan: GuessAndCheckPlan, *, query_scale: Fraction | None = None
) -> dict[tuple[int | str, ...], float]:
    """Probability of each output: ("hits",) or (which check missed, gap in steps, answer in steps)."""
    bits = plan.resolution
    laws = [noise_law(plan.noise, plan.threshold_scale, bits)]
    laws += [noise_law(plan.noise, plan.scale if query_scale is None else query_scale, bits)] * 2
    steps = [axis.ravel() for axis in np.meshgrid(*(law[0] for law in laws), indexing="ij")]
    weight = np.multiply.reduce(
        [axis.ravel() for axis in np.meshgrid(*(law[1] for law in laws), indexing="ij")]
    )
    plan = replace(plan, guess=guess)
    done = plan.run(in_public_order(np.broadcast_to(counts, (len(weight), 2))), GivenNoise.of(*steps))
    missed = done.index[:, 0]
    found: dict[tuple[int | str, ...], float] = {("hits",): weight[missed < 0].sum()}
    r = float(np.exp(-1 / float(plan.answer_scale * 2**bits)))
    for which in (0, 1):
        here = missed == which
        assert (done.value[here, 0] == counts[which]).all()
        over = np.rint((done.gap[here, 0] - float(plan.offset)) * 2**bits).astype(np.int64) - plan.cutoff
        gaps = np.bincount(over, weights=weight[here])
        for answer in ANSWERS:
            answered = (1 - r) / (1 + r) * r ** abs(answer - (counts[which] << bits))
            found.update({(which, gap, int(answer)): p * answered for gap, p in enumerate(gaps)})
    return found


def worst(
    here: Mapping[tuple[int | str, ...], float], there: Mapping[tuple[int | str, ...], float], beyond: float
) -> tuple[float, float]:
    """The largest log-ratio of a miss's outputs, and that of hits alone, but for what the cut tail blurs."""
    ratios = {"miss": [0.0], "hits": [0.0]}
    for out, p in here.items():
        if p > 1000 * beyond:
            ratios["hits" if out == ("hits",) else "miss"].append(
                np.log((p - beyond) / (there.get(out, 0) + beyond))
            )
    return max(ratios["miss"]), max(ratios["hits"])


CASES = [("exponential", 0), ("exponential", 1), ("laplace", 0), ("geometric", 0)]


@pytest.mark.parametrize(("kind", "bits"), CASES)
@pytest.mark.sampled(3)
def test_no_output_tells_more_than_the_charge(kind: Noise, bits: int) -> None:
    tight = 0.0
    # Scales of about half a count keep the reach short.
    plan = GuessAndCheckPlan.plan(1, 9, 1, noise=kind, resolution=bits)
    threshold = float(plan.realised_loss(0).charge.epsilon)
    beyond = 4 * np.exp(-REACH / (float(max(plan.threshold_scale, plan.scale)) * 2**bits))
    for base, guess in (((0, 0), 0), ((3, 0), 2), ((6, 1), 1)):
        here = outputs(base, guess << bits, plan)
        assert here["hits",] > 1000 * beyond
        for move in product([-1, 0, 1], repeat=2):
            there = outputs([q + d for q, d in zip(base, move, strict=True)], guess << bits, plan)
            for first, second in ((here, there), (there, here)):
                miss, hits = worst(first, second, beyond)
                assert miss <= 9 + 1e-3
                # What is charged when no guess missed pays for that answer too.
                assert hits <= threshold + 1e-3
                tight = max(tight, miss / 9)
    # Two checks are too few for the worst of Laplace noise: the first's gives way before the threshold's.
    assert tight > (0.65 if kind == "laplace" else 0.95)


def test_a_check_is_general() -> None:
    """|q - guess| moves against another: with the scale of monotone counts the charge is passed."""
    plan = GuessAndCheckPlan.plan(1, 9, 1, noise="geometric")
    beyond = 4 * np.exp(-REACH / float(max(plan.threshold_scale, plan.scale)))
    ratios = []
    for scale in (plan.scale, plan.scale / 2):
        first, second = (outputs(q, 0, plan, query_scale=scale) for q in ((5, 2), (6, 1)))
        ratios.append(max(worst(first, second, beyond)[0], worst(second, first, beyond)[0]))
    assert ratios[0] <= 9 < ratios[1]


def test_a_guess_off_the_grid_would_tell_the_count() -> None:
    """Why guesses are rounded: else a gap's last digits say on which side of the guess the count is."""
    guess = Fraction(1, 3)
    assert abs(0 - guess) % 1 != abs(1 - guess) % 1
    assert {on_grid(guess, 0), on_grid(Fraction(1, 2), 0), on_grid("-1/3", 3)} == {0, -3}
