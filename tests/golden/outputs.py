"""What mechanisms and noise samplers give for fixed counts and fixed random words, bit by bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import fields
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql import mechanisms, noise
from dpsql.audit.cases import AuditCase
from dpsql.audit.detector import AUDITED
from dpsql.kernel.mechanisms import Histograms, NoiseSource
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.noise import SeededEntropy

EPSILONS = (Fraction(7, 10), Fraction(5))

COUNTS = (
    (9, 7, 3, 5, 1),
    (0, 0, 0, 0, 0),
    (1_000, 12, 999, 40, 2),
    (3, -5, 0, 2**40, 2**62),
)
"""The counts of mechanisms that take any."""

TRIALS = 20
"""Independent runs in one call, beside a single run."""

MOST = 4
"""Sets of arguments of a mechanism for each epsilon, taken evenly from all."""

PAIRS = 12
"""Inputs of mechanisms that take inputs of their own, taken evenly from all."""


def outputs() -> dict[str, list[str]]:
    """Return the hash of all that each mechanism and sampler gives, by name."""
    found = {named(case.name): [_digest(_runs(case))] for case in AUDITED}
    found |= {name: [_digest(give())] for name, give in {**_ASKED, **_SAMPLERS}.items()}
    return found


def named(name: str) -> str:
    """Return the name of a mechanism as it is recorded."""
    return name.replace(" ", "_")


# -- mechanisms


def _runs(case: AuditCase) -> Iterator[object]:
    """Yield the losses and results of a mechanism, of single runs and of trials, each with its own stream."""
    seed = 0
    for epsilon in EPSILONS:
        arguments = case.arguments(epsilon)
        for values in evenly(list(product(*arguments.values())), MOST):
            for counts in _counts(case, epsilon):
                plan = case.plan(
                    counts.shape[-1], epsilon=epsilon, **dict(zip(arguments, values, strict=True))
                )
                yield from (str(plan.loss), getattr(plan, "scale", None), getattr(plan, "resolution", None))
                for given in (counts, np.tile(counts, (TRIALS, *[1] * counts.ndim))):
                    seed += 1
                    result = case.run(plan, given, NoiseSource(SeededEntropy(seed)))
                    yield from _told(result)
                    if given is counts:
                        yield str(result.loss)


def _counts(case: AuditCase, epsilon: Fraction) -> list[NDArray[np.int64]]:
    if case.inputs is None:
        return [np.array(counts, dtype=np.int64) for counts in COUNTS]
    pairs = [pair[1] for pair in case.inputs(epsilon)]
    if case.answer is not None:
        pairs = [counts for counts, _ in pairs]
    return [np.array(counts, dtype=np.int64) for counts in evenly(pairs, PAIRS)]


def evenly(found: list[Any], most: int) -> list[Any]:
    """Return so many of a list at most, the first and the last among them."""
    if len(found) <= most:
        return found
    return [found[i * (len(found) - 1) // (most - 1)] for i in range(most)]


def _told(result: object) -> Iterator[object]:
    """Yield what a result releases."""
    for field in fields(result):  # type: ignore[arg-type]  # a dataclass
        if field.name != "plan":
            yield field.name
            yield getattr(result, field.name)


def _quantiles() -> Iterator[object]:
    """Yield quantiles and extremes of groups that are given by their cells with rows."""
    counts = Histograms(
        3, np.array([0, 0, 2, 2, 2]), np.array([5, 900, 0, 31, 1023]), np.array([4, 9, 1, 70, 2])
    )
    plans: tuple[Mechanism[Any], ...] = (
        mechanisms.Quantile.plan(1024, 1),
        mechanisms.Quantile.plan(1024, Fraction(1, 10), quantiles=(Fraction(1, 4), Fraction(9, 10))),
        mechanisms.Extreme.plan(1024, 1),
        mechanisms.Extreme.plan(1024, 2, lowest=True, groups_per_unit=2),
    )
    for seed, plan in enumerate(plans):
        yield from _told(plan.run(counts, NoiseSource(SeededEntropy(seed))))


def _checks() -> Iterator[object]:
    """Yield the gaps of a stream of checks, until the misses are used up."""
    for seed in range(5):
        stream = mechanisms.CheckStream(
            mechanisms.CheckStreamPlan.plan(1, 3), NoiseSource(SeededEntropy(seed))
        )
        for count in range(0, 400, 7):
            if stream.exhausted:
                break
            yield str(stream.check(Fraction(count - 24)))
        yield str(stream.charge)


def _refined() -> Iterator[object]:
    """Yield counts that are measured, and measured again with less noise."""
    for seed, last in enumerate((Fraction(1), Fraction(5, 2), Fraction(8))):
        plan = mechanisms.Refinement.plan(5, (Fraction(1, 2), last))
        source = NoiseSource(SeededEntropy(seed))
        yield from _told(plan.again(np.array(COUNTS[0]), np.arange(-40, 60, 20), source))


_ASKED: dict[str, Callable[[], Iterator[object]]] = {
    "quantiles_of_groups": _quantiles,
    "checks_one_by_one": _checks,
    "refined": _refined,
}


# -- noise

_RATES = (Fraction(1, 3), Fraction(7, 1000), Fraction(9, 2), Fraction(1, 2**20))


def _of_rates(draw: Callable[[Fraction, SeededEntropy], object]) -> Callable[[], Iterator[object]]:
    """Return what yields the draws of each rate."""
    return lambda: (draw(rate, SeededEntropy(seed)) for seed, rate in enumerate(_RATES))


_NEED = np.arange(-20, 80)

_SAMPLERS: dict[str, Callable[[], Iterator[object]]] = {
    "noise.geometric": _of_rates(lambda rate, e: noise.geometric(rate, 300, entropy=e)),
    "noise.laplace": _of_rates(lambda rate, e: noise.laplace(rate, (20, 15), entropy=e)),
    "noise.geometric_reaching": _of_rates(lambda rate, e: noise.geometric_reaching(rate, _NEED, entropy=e)),
    "noise.laplace_reaching": _of_rates(lambda rate, e: noise.laplace_reaching(rate, _NEED, entropy=e)),
    "noise.truncated_geometric": _of_rates(
        lambda rate, e: noise.truncated_geometric(rate, 37, 300, entropy=e)
    ),
    "noise.box": _of_rates(lambda rate, e: noise.box(rate, 7, 40, entropy=e)),
    "noise.cube": _of_rates(lambda rate, e: noise.cube(rate, 7, 40, entropy=e)),
    "noise.below": _of_rates(
        lambda rate, e: [
            noise.below(rate, 5, 100, two_sided=two_sided, entropy=e) for two_sided in (False, True)
        ]
    ),
    "noise.reaching": _of_rates(
        lambda rate, e: [
            noise.reaching(noise.Band(rate, low, high, two_sided), 500, entropy=e)
            for low, high, two_sided in ((3, None, False), (2, 9, False), (4, None, True))
        ]
    ),
    "noise.uniform": lambda: iter(
        [noise.uniform(np.array([1, 3, 1000, 2**62]), 50, entropy=SeededEntropy(1))]
    ),
    "noise.gaussian": lambda: (
        noise.gaussian(variance, 300, entropy=SeededEntropy(variance % 97))
        for variance in (1, 2, 77, 10_001, 2**30 + 7, 2**61)
    ),
    "noise.ranks": lambda: (
        noise.ranks(n, trials=trials, entropy=SeededEntropy(n))
        for n, trials in ((1, None), (9, None), (50, 6))
    ),
}


# -- hashes


def _digest(found: Iterator[object]) -> str:
    made = hashlib.sha256()
    for each in found:
        _add(made, each)
    return made.hexdigest()[:16]


def _add(made: hashlib._Hash, value: object) -> None:
    """Add a value to a hash: of arrays the bytes and the shape, where NaN has one form."""
    if isinstance(value, tuple | list):
        for each in value:
            _add(made, each)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        plain = np.where(np.isnan(value), np.nan, value) if value.dtype.kind == "f" else value
        made.update(f"{value.dtype} {value.shape}".encode())
        made.update(np.ascontiguousarray(plain).tobytes())
    else:
        made.update(repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value).encode())
    made.update(b";")
