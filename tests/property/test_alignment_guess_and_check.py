"""Guess and check is private: its proof, run on the production class with its noise given.

For random streams, a neighbour and noise, with omega = run(D, H): run(D', phi(H)) = omega; the cost of
phi is at most the charge of omega; shifted one-sided noise stays in its support; and phi is injective,
shown by its inverse.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms import Checked, GuessAndCheck, NoiseSource
from dpsql.kernel.mechanisms.guess_and_check import on_grid
from dpsql.kernel.noise import STEP_LIMIT

CASES = [900, pytest.param(3_000, marks=pytest.mark.slow)]


@dataclass
class Noise:
    """In grid steps: the threshold's, and by place in the stream the checks' and the answers'."""

    level: int
    checks: list[int]
    answers: list[int]


@dataclass(frozen=True, kw_only=True)
class Given(NoiseSource):
    """The noise of a run: of the threshold, then of the check at hand, then of its answer."""

    given: Noise
    next: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.next[:] = [self.given.level]

    def ask(self, place: int) -> None:
        self.next[:] = [self.given.checks[place], self.given.answers[place]]

    def draw(self, *_: object) -> NDArray[np.int64]:
        return np.array([self.next.pop(0)])


def run(
    counts: Sequence[int], guesser: Callable[[list[Checked]], Any], given: Noise, options: dict[str, Any]
) -> tuple[list[Checked], list[Any], GuessAndCheck]:
    """All answers until the misses are used up; and the guesses, which depend on answers alone."""
    source = Given(given=given)
    said: list[Checked] = []
    guesses: list[Any] = []
    oracle = GuessAndCheck(**options, source=source)
    for place, count in enumerate(counts):
        if oracle.exhausted:
            break
        guesses.append(guesser(said))
        source.ask(place)
        said.append(oracle.check(count, guesses[-1]))
        # One draw on a hit, two on a miss. Were the threshold's noise drawn again, a lucky one would be paid
        # for once and drawn often.
        assert len(source.next) == said[-1].hit
    return said, guesses, oracle


def shifts(
    q: Sequence[int], p: Sequence[int], said: Sequence[Checked], guesses: Sequence[Number], c: int, bits: int
) -> Noise:
    """How much each noise moves, from what is released and the counts alone."""
    level, checks, answers = c << bits, [0] * len(q), [0] * len(q)
    for i, (answer, guess) in enumerate(zip(said, guesses, strict=True)):
        if not answer.hit:
            wanted = on_grid(guess, bits)
            limit = STEP_LIMIT >> bits
            here, there = (max(-limit, min(x[i], limit)) << bits for x in (q, p))
            checks[i] = (c << bits) + abs(here - wanted) - abs(there - wanted)
            answers[i] = here - there
    return Noise(level, checks, answers)


def moved(given: Noise, by: Noise, sign: int) -> Noise:
    return Noise(
        given.level + sign * by.level,
        [a + sign * b for a, b in zip(given.checks, by.checks, strict=True)],
        [a + sign * b for a, b in zip(given.answers, by.answers, strict=True)],
    )


@pytest.mark.parametrize("bits", [0, 2])
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("cases", CASES)
@pytest.mark.sampled(7)
def test_alignment(noise: str, c: int, bits: int, cases: int) -> None:
    rng = np.random.default_rng(100 * c + 10 * bits + len(noise))
    seen = {"hit": 0, "miss": 0, "sided": 0, "used up": 0}
    for case in range(cases):
        n, misses = int(rng.integers(1, 8)), int(rng.integers(1, 4))
        base = [0, 0, 5, (STEP_LIMIT >> bits) - 2][case % 4]
        q = [base + int(x) for x in rng.integers(0, [2, 6, 40][case % 3], n)]
        p = [x + int(d) for x, d in zip(q, rng.integers(-c, c + 1, n), strict=True)]
        options = {
            "tolerance": Fraction(int(rng.integers(-2, 20)), 3),
            "epsilon": 2,
            "misses": misses,
            "sensitivity": c,
            "noise": noise,
            "resolution": bits,
        }
        rate = rng.choice([0.5, 0.1])
        draws = rng.geometric(rate, 2 * n + 1) - 1
        if noise == "laplace":
            draws -= rng.geometric(rate, 2 * n + 1) - 1
        answers = rng.geometric(0.3, n) - rng.geometric(0.3, n)
        given = Noise(int(draws[0]), [int(x) for x in draws[1 : n + 1]], [int(x) for x in answers])
        start = Fraction(int(rng.integers(0, 12)), 3) + base

        def guesser(said: Sequence[Checked], start: Fraction = start) -> Number:
            """Adaptive: moves with earlier answers and gaps."""
            return start + len(said) + sum((a.gap or 0) / 5 for a in said)

        said, guesses, oracle = run(q, guesser, given, options)
        by = shifts(q, p, said, guesses, c, bits)
        aligned = moved(given, by, 1)
        again, _, other = run(p, guesser, aligned, options)
        assert again == said
        assert other.charge == oracle.charge
        step = Fraction(1, 1 << bits)
        cost = abs(by.level) * step / oracle.plan.threshold_scale
        cost += sum(abs(x) for x in by.checks) * step / oracle.plan.scale
        cost += sum(abs(x) for x in by.answers) * step / oracle.plan.answer_scale
        assert cost <= oracle.charge.epsilon <= 2
        assert by.level >= 0
        assert min(by.checks) >= 0
        assert moved(aligned, shifts(q, p, again, guesses, c, bits), -1) == given
        seen["hit"] += any(a.hit for a in said)
        seen["miss"] += any(not a.hit for a in said)
        seen["used up"] += oracle.exhausted
        seen["sided"] += any(
            (x - g) * (y - g) < 0 and not a.hit for x, y, g, a in zip(q, p, guesses, said, strict=False)
        )
    assert min(seen.values()) >= 5, seen
