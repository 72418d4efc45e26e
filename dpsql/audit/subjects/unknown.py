"""The mechanisms for unknown domains and for stable queries, as audit subjects."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql import mechanisms
from dpsql.audit.features.numbers import times
from dpsql.audit.inputs import Pair
from dpsql.audit.outputs import CHARGE
from dpsql.audit.subject import Subject, repeated
from dpsql.mechanisms import grid, largest_groups, stable
from dpsql.mechanisms.limited_domain import limited_domain_plan
from dpsql.mechanisms.limited_domain import runs as unknown_runs
from dpsql.mechanisms.top_stable import runs as stable_runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpsql.mechanisms.stable import StabilityTests
    from dpsql.noise import Entropy

__all__ = ["SUBJECTS", "find_stable", "find_unknown", "first_stable", "stable_answers", "stairs"]

SMALL, LARGE = 1e-6, 0.02
"""One delta too small to matter beside epsilon, and one large enough for such events to be observed."""


def find_unknown(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    k: int,
    many: int,
    *,
    epsilon: Fraction,
    delta: float,
) -> dict[str, Any]:
    """Run `limited_domain` many times."""
    many = max(k, many)
    plan = limited_domain_plan(k, epsilon, delta, candidates=many)
    position, kept = largest_groups.largest_groups(counts, many)
    index, gaps, released = unknown_runs(kept, len(position), plan, trials, entropy)
    before = np.arange(k) < released[:, None]
    # Positions without a group occur only where nothing is released.
    named = np.concatenate([position, np.full(many + 1 - len(position), -1)])
    charges = np.array([float(plan.charge(t).epsilon) for t in range(k + 1)])
    return {
        "index": np.where(before, named[index], -1),
        "gap": np.where(before, grid.in_counts(gaps, plan.bits), np.nan),
        CHARGE: charges[released],
    }


def find_stable(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    k: int,
    many: int,
    *,
    epsilon: Fraction,
    delta: float,
    noise: stable.StableNoise = "one-sided",
) -> dict[str, Any]:
    """Run `top_stable` many times, and encode each released set as membership flags."""
    many = max(k, many)
    part = Fraction(1, 4) if many > k else Fraction(0)
    plan = _tests(many, epsilon * (1 - part), delta, noise)
    position, kept = largest_groups.largest_groups(counts, many)
    found, steps = stable_runs(kept, Fraction(1), plan, trials, entropy)
    member = np.zeros((many + 1, len(counts)), dtype=np.int64)
    for size in range(many + 1):
        member[size, position[:size]] = 1
    charge = float(plan.threshold_epsilon) + float(plan.epsilon) * (found > 0)
    order = np.full((trials, k), -1)
    gap = np.full((trials, k), np.nan)
    for size in range(k + 1, len(position) + 1):
        rows = np.flatnonzero(found == size)
        if part and len(rows):
            inner = repeated(kept[:size], len(rows))
            chosen = mechanisms.NoisyTopK.plan(size, k, epsilon * part).run(
                inner, mechanisms.NoiseSource(entropy)
            )
            order[rows] = position[chosen.index]
            gap[rows, : chosen.gap.shape[1]] = chosen.gap
            charge[rows] += float(chosen.charge.epsilon)
    margin = np.where(found > 0, grid.in_counts(steps, plan.bits), np.nan)
    # Of a stable set of more than k groups only those chosen by noisy top-k are released.
    shown = np.where((found <= k)[:, None] | (not part), member[found], -1)
    parts = {"members": shown, "stable": found, "margin": margin, CHARGE: charge}
    return {**parts, "index": order, "gap": gap} if part else parts


def first_stable(
    queries: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    *,
    epsilon: Fraction,
    delta: float,
    noise: stable.StableNoise = "one-sided",
) -> dict[str, Any]:
    """Run `first_stable` many times; the input has distances in its first row, answers in its second."""
    distances, answers = queries
    plan = _tests(len(distances), epsilon, delta, noise)
    drawn = plan.draw(trials, len(distances), entropy)
    at, steps = stable.first_test(stable.margins(distances, plan, *drawn))
    return {
        "query": at,
        "answer": np.where(at >= 0, answers[at], -1),
        "margin": np.where(at >= 0, grid.in_counts(steps, plan.bits), np.nan),
        CHARGE: float(plan.threshold_epsilon) + float(plan.epsilon) * (at >= 0),
    }


def stable_answers(
    queries: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    k: int,
    *,
    epsilon: Fraction,
    delta: float,
) -> dict[str, Any]:
    """Run `stable_answers` many times; the input has distances in its first row, answers in its second."""
    distances, answers = queries
    plan = stable.stable_tests(
        len(distances),
        epsilon,
        delta,
        share=mechanisms.best_share(k, monotone=False),
        noise="laplace",
        sensitivity=1,
        resolution=None,
        paid=k,
    )
    passed = stable.margins(distances, plan, *plan.draw(trials, len(distances), entropy)) >= 0
    asked = np.cumsum(~passed, axis=1) - ~passed < k
    return {
        "answers": np.where(asked, np.where(passed, answers, 0), -1),
        CHARGE: float(plan.threshold_epsilon) + float(plan.epsilon) * times(asked & ~passed),
    }


def _tests(many: int, epsilon: Fraction, delta: float, noise: stable.StableNoise) -> StabilityTests:
    return stable.stable_tests(many, epsilon, delta, share=None, noise=noise, sensitivity=1, resolution=None)


def stairs(height: Callable[[Fraction, float], float], delta: float) -> Callable[[Fraction], list[Pair]]:
    """Make monotone pairs whose largest counts are near a cutoff; `height` computes that cutoff."""

    def inputs(epsilon: Fraction) -> list[Pair]:
        cutoff = round(height(epsilon, delta))
        found = [
            Pair("a new group", (0,), (1,)),
            Pair("a new group below another", (3 * cutoff, 0), (3 * cutoff, 1)),
            Pair("new groups", (0, 0, 0), (1, 1, 1)),
            Pair("two change places", (2 * cutoff, 5, 4), (2 * cutoff, 5, 5)),
        ]
        for level in _near(cutoff):
            found += [
                Pair("one above", (level, 0), (level + 1, 0)),
                Pair("all above", (2 * level, level, 1), (2 * level + 1, level + 1, 2)),
                Pair(
                    "every other above", (3 * level, 2 * level, level), (3 * level + 1, 2 * level, level + 1)
                ),
                Pair("one of five above", (level,) * 5, (level + 1, *(level,) * 4)),
                Pair("rest of five above", (level,) * 5, (level, *(level + 1,) * 4)),
                Pair("all of five above", (level,) * 5, (level + 1,) * 5),
            ]
        return found

    return inputs


def _near(cutoff: int) -> list[int]:
    """Return counts around a cutoff, and some far from it."""
    return sorted({1, cutoff // 2, cutoff - 1, cutoff, cutoff + 1, round(1.5 * cutoff), 2 * cutoff})


def _queries(delta: float) -> Callable[[Fraction], list[Pair]]:
    """Make distances to instability, with answers that differ only where both distances are 0."""

    def inputs(epsilon: Fraction) -> list[Pair]:
        cutoff = round(_cutoff(epsilon, delta) - 1)
        found = [
            Pair("unstable", ((0,), (1,)), ((0,), (2,))),
            Pair("unstable behind a stable one", ((cutoff, 0), (1, 1)), ((cutoff, 0), (1, 2))),
            Pair("unstable ones", ((0, 0, 0), (1, 1, 1)), ((0, 0, 0), (2, 2, 2))),
        ]
        for level in _near(cutoff):
            three, five = (level,) * 3, (level,) * 5
            found += [
                Pair("one further", ((level,), (1,)), ((level + 1,), (1,))),
                Pair("first further", (three, (1, 2, 3)), ((level + 1, level, level), (1, 2, 3))),
                Pair("last further", (three, (1, 2, 3)), ((level - 1, level - 1, level + 1), (1, 2, 3))),
                Pair("all further", (five, (1,) * 5), ((level + 1,) * 5, (1,) * 5)),
                Pair("last nearer", (five, (1,) * 5), ((level + 1,) * 4 + (level - 1,), (1,) * 5)),
            ]
        return found

    return inputs


def _clearance(epsilon: Fraction, delta: float) -> float:
    plan = limited_domain_plan(1, epsilon, delta, candidates=3)
    return plan.clearance / (1 << plan.bits)


def _cutoff(epsilon: Fraction, delta: float) -> float:
    return float(_tests(3, epsilon, delta, "one-sided").threshold) + 1


def _subject(
    name: str,
    about: str,
    mechanism: Callable[..., object],
    delta: float,
    **options: Any,  # noqa: ANN401  handed on to `Subject`
) -> Subject:
    return Subject(
        f"{name}, delta {delta:g}", "dpsql", about, partial(mechanism, delta=delta), delta=delta, **options
    )


_STABLE_NOISES: tuple[tuple[stable.StableNoise, float], ...] = (
    ("one-sided", SMALL),
    ("one-sided", LARGE),
    ("laplace", SMALL),
)
# A large delta covers most of the privacy loss. With two Laplace noises the loss reaches epsilon only
# where both are in their tails. So `tight` is false for those.
_LIMITED = "the k largest groups of an unknown domain that come before a cutoff"
_STABLE = "a set of largest groups that is well apart (Carvalho et al., Algorithm 3)"
_FIRST = "the first query that no unit could change (Carvalho et al., Algorithm 4)"
_STREAM = "exact answers of stable queries, unstable ones charged (Carvalho et al., Algorithm 5, recharged)"

SUBJECTS = (
    *(
        _subject(
            "limited domain",
            _LIMITED,
            find_unknown,
            delta,
            arguments=lambda _: {"k": [1, 2], "many": [1, 3, 5]},
            inputs=stairs(_clearance, delta),
        )
        for delta in (SMALL, LARGE)
    ),
    *(
        _subject(
            f"top stable, {noise}",
            _STABLE,
            partial(find_stable, noise=noise),
            delta,
            tight=noise == "one-sided" and delta == SMALL,
            arguments=lambda _: {"k": [1, 2], "many": [1, 2, 3]},
            inputs=stairs(_cutoff, delta),
        )
        for noise, delta in _STABLE_NOISES
    ),
    *(
        _subject(
            "first stable, one-sided",
            _FIRST,
            first_stable,
            delta,
            tight=delta == SMALL,
            inputs=_queries(delta),
        )
        for delta in (SMALL, LARGE)
    ),
    _subject(
        "stable answers",
        _STREAM,
        stable_answers,
        SMALL,
        tight=False,
        arguments=lambda _: {"k": [1, 2]},
        inputs=_queries(SMALL),
    ),
)
"""The subjects of this module."""
