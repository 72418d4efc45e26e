"""A stream of checks is private: its proof, run on the production class with its noise given.

For random streams, a neighbour and noise, with omega = run(D, H): run(D', phi(H)) = omega; the cost of phi is
at most what the checks are charged; one-sided noise stays at least 0; and phi is injective, shown by its
inverse.
Statistics move by up to one bound, bounds are any fractions, expectations follow from earlier output.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, Direction, NoiseSource

CASES = [600, pytest.param(4_000, marks=pytest.mark.slow)]


@dataclass(frozen=True, kw_only=True)
class Given(NoiseSource):
    """The noise of a run in grid steps: of the threshold, then of each check."""

    left: list[int] = field(default_factory=list)

    def draw(self, *_: object) -> NDArray[np.int64]:
        return np.array([self.left.pop(0)])


def run(
    statistics: Sequence[Fraction], noise: Sequence[int], plan: CheckStreamPlan, start: Fraction
) -> tuple[list[Fraction | None], list[Fraction], CheckStream]:
    """Return gaps and expectations until the misses are used up; an expectation follows from earlier gaps."""
    source = Given(left=[*noise])
    stream = CheckStream(plan, source)
    gaps, expected = list[Fraction | None](), list[Fraction]()
    for value in statistics:
        if stream.exhausted:
            break
        expected.append(start + len(gaps) + sum((gap / 7 for gap in gaps if gap is not None), Fraction(0)))
        left = len(source.left)
        gaps.append(stream.check(value - expected[-1]))
        assert len(source.left) == left - 1  # the threshold's noise is drawn once
    return gaps, expected, stream


def shifts(
    here: Sequence[Fraction],
    there: Sequence[Fraction],
    gaps: Sequence[Fraction | None],
    expected: Sequence[Fraction],
    plan: CheckStreamPlan,
    down: bool,
) -> list[int]:
    """How much each noise moves from `here` to `there`, in grid steps, given what is released."""
    full = 1 << plan.resolution
    level = 0 if down else full
    moved = [level, *(0 for _ in here)]
    for i, (gap, wanted) in enumerate(zip(gaps, expected, strict=True)):
        if gap is not None:
            moved[i + 1] = level - floor((there[i] - wanted) * full) + floor((here[i] - wanted) * full)
    return moved


@pytest.mark.parametrize("bits", [0, 3])
@pytest.mark.parametrize("direction", ["BOTH", "UP", "DOWN"])
@pytest.mark.parametrize("cases", CASES)
@pytest.mark.sampled(3)
def test_alignment(direction: Direction, bits: int, cases: int) -> None:
    rng = np.random.default_rng(10 * bits + len(direction))
    seen = {"off": 0, "expected": 0, "used up": 0}
    for _ in range(cases):
        n, misses = int(rng.integers(1, 8)), int(rng.integers(1, 4))
        plan = CheckStreamPlan.plan(
            2, misses, answers=Fraction(int(rng.integers(0, 3)), 4), direction=direction, resolution=bits
        )
        here = [Fraction(int(x), 11) for x in rng.integers(0, 60, n)]
        low, high = {"BOTH": (-11, 11), "UP": (0, 11), "DOWN": (-11, 0)}[direction]
        there = [x + Fraction(int(d), 11) for x, d in zip(here, rng.integers(low, high + 1, n), strict=True)]
        down = direction == "DOWN"
        if rng.random() < 0.5:
            here, there, down = there, here, direction == "UP"
        noise = [int(x) for x in rng.geometric(rng.choice([0.4, 0.1]), n + 1) - 1]
        start = Fraction(int(rng.integers(0, 30)), 9)
        gaps, expected, stream = run(here, noise, plan, start)
        by = shifts(here, there, gaps, expected, plan, down)
        aligned = [a + b for a, b in zip(noise, by, strict=True)]
        again, _, other = run(there, aligned, plan, start)
        assert again == gaps
        assert other.charge == stream.charge
        assert min(by) >= 0
        step = Fraction(1, 1 << bits)
        cost = by[0] * step / plan.threshold_scale + sum(by[1:]) * step / plan.scale
        used = sum(gap is not None for gap in gaps)
        assert cost <= plan.threshold_epsilon + used * plan.check_epsilon
        assert stream.charge.epsilon == plan.threshold_epsilon + used * (
            plan.check_epsilon + plan.answer_epsilon
        )
        # The inverse: what is released says by how much each noise moved.
        undone = shifts(here, there, again, expected, plan, down)
        assert [a - b for a, b in zip(aligned, undone, strict=True)] == noise
        seen["off"] += used > 0
        seen["expected"] += any(gap is None for gap in gaps)
        seen["used up"] += stream.exhausted
    assert min(seen.values()) >= 5, seen


def test_rounding_to_the_grid_moves_by_at_most_a_bound() -> None:
    """Of fractions that differ by at most 1: their grid steps differ by at most 2^b."""
    rng = np.random.default_rng(5)
    for _ in range(20_000):
        a = Fraction(int(rng.integers(-(10**9), 10**9)), int(rng.integers(1, 10**6)))
        d = Fraction(int(rng.integers(0, 1001)), 1000)
        for bits in (0, 5, 20):
            assert 0 <= floor((a + d) * (1 << bits)) - floor(a * (1 << bits)) <= 1 << bits


@pytest.mark.parametrize("mistake", ["threshold redrawn", "check without noise", "beyond the last miss"])
def test_wrong_streams_have_no_alignment(mistake: str) -> None:
    """The same test finds streams that are wrong: it counts draws, charges and equal outputs."""

    class Wrong(CheckStream):
        def check(self, statistic: Fraction) -> Fraction | None:
            checks = self._checks
            if mistake == "threshold redrawn":
                checks.level = checks._draw(self.plan.threshold_scale, 1, checks._source)
            if mistake == "check without noise":
                found = floor(statistic) - int(checks.level[0])
                checks.used += found >= self.plan.cutoff
                return found + self.plan.offset if found >= self.plan.cutoff else None
            gap = super().check(statistic)
            if mistake == "beyond the last miss":
                checks.used[:] = 0
            return gap

    plan = CheckStreamPlan.plan(2, 1, resolution=0)
    found = []
    for kind in (CheckStream, Wrong):
        source = Given(left=[3, 5, 5, 5, 5, 5, 5, 5])
        stream = kind(plan, source)
        outcome = ["used up" if stream.exhausted else stream.check(Fraction(40)) for _ in range(2)]
        found.append((outcome, len(source.left)))
    assert found[0] != found[1]
