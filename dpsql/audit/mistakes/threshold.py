"""Sparse vector subjects with a known verdict, and incorrect variants of Top Stable for an unknown domain.

Lyu, Su, Li (2017) compare six: their own and that of Dwork and Roth are private, the dissertation's
iSVT 1 to 4 are not. The seventh is the generalised private threshold test, the eighth is the lecture's
exercise 1, and the ninth is our own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import levels
from dpsql.audit.detector import Kind, Subject, outputs_of, repeat_counts
from dpsql.audit.mistakes.measuring import exponential, laplace
from dpsql.audit.runs import CHARGE, Pair
from dpsql.kernel.mechanisms import NoiseSource, TopStable
from dpsql.kernel.mechanisms.mechanism import pad_rows
from dpsql.kernel.noise import Entropy
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Scales:
    """Noise scales and options of a variant; scales are multiples of 1/epsilon, `query_n` also of n."""

    threshold: Fraction = Fraction(2)
    query: Fraction = Fraction(0)
    query_n: Fraction = Fraction(0)
    bounded: bool = True
    value: bool = False
    renewed: bool = False


def sparse_vector(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    threshold: int,
    n: int = 1,
    *,
    epsilon: Fraction,
    scales: _Scales,
) -> dict[str, Any]:
    """Answer for each count whether it is above the threshold until n are, in one of the variants."""
    shape = (trials, len(counts))
    width = (scales.query + n * scales.query_n) / epsilon
    noisy = counts + (laplace(width, shape, entropy) if width else np.zeros(shape))
    level = threshold + _thresholds(scales, shape, n, epsilon, entropy)
    above = _above(noisy, level) if scales.renewed else noisy >= level[:, :1]
    asked = np.cumsum(above, axis=1) - above < n if scales.bounded else np.ones(shape, dtype=np.bool_)
    parts: dict[str, Any] = {"above": np.where(asked, above, -1)}
    if scales.value:
        trial, place = np.nonzero(asked & above)
        (parts["value"],) = pad_rows(trial, (trials, n), noisy[trial, place])
    return parts


def _thresholds(
    scales: _Scales, shape: tuple[int, int], n: int, epsilon: Fraction, entropy: Entropy
) -> NDArray[np.float64]:
    if not scales.threshold:
        return np.zeros((shape[0], 1))
    width = scales.threshold * (n if scales.renewed else 1) / epsilon
    return laplace(width, (shape[0], shape[1] + 1 if scales.renewed else 1), entropy)


def _above(noisy: NDArray[np.float64], level: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Compare count by count, with a fresh threshold after each one above it."""
    above = np.zeros(noisy.shape, dtype=np.bool_)
    used = np.zeros(len(noisy), dtype=np.int64)
    for j in range(noisy.shape[1]):
        above[:, j] = noisy[:, j] >= np.take_along_axis(level, used[:, None], axis=1)[:, 0]
        used += above[:, j]
    return above


def reuse_noise_of_branches(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, threshold: int, *, epsilon: Fraction
) -> dict[str, Any]:
    """Try two branches with one draw of noise, doubled in the first branch, which requires a margin.

    Half of epsilon for the threshold; the first branch costs a quarter, the second one half.
    """
    shape = (trials, len(counts))
    drawn = exponential(2 / epsilon, shape, entropy)
    level = threshold + exponential(2 / epsilon, (trials, 1), entropy)
    margin = float(4 / epsilon)
    wide, narrow = counts + 2 * drawn - level, counts + drawn - level
    passed = np.maximum(wide - margin, narrow) >= 0
    at, found = np.argmax(passed, axis=1)[:, None], passed.any(axis=1)
    wide, narrow = (np.take_along_axis(part, at, axis=1)[:, 0] for part in (wide, narrow))
    cheap = wide >= margin
    return {
        "index": np.where(found, at[:, 0], -1),
        "branch": np.where(found, cheap, -1),
        "gap": np.where(found, np.where(cheap, wide, narrow), np.nan),
        CHARGE: float(epsilon) * np.where(found, np.where(cheap, 0.75, 1.0), 0.5),
    }


def _tall(epsilon: Fraction) -> list[Pair]:
    """Make monotone pairs whose last count is far above the others."""
    found = []
    for multiple in (2, 4, 6, 8):
        tall = 1 + round(multiple / epsilon)
        for many in (1, 4, 9):
            others = (1,) * many
            found += [
                Pair("the tall one falls", (*others, tall), (*others, tall - 1)),
                Pair("all fall", (*others, tall), (*(0,) * many, tall - 1)),
                Pair("the others fall", (*others, tall), (*(0,) * many, tall)),
            ]
    return found


def _around(epsilon: Fraction) -> dict[str, list[int]]:
    return {"threshold": levels(epsilon, -4, -2, -1, 0, 1, 2, 4)}


def _variant(
    name: str, kind: Kind, about: str, scales: _Scales, *, ns: tuple[int, ...] = (1,), effort: float = 1.0
) -> Subject:
    def arguments(epsilon: Fraction) -> dict[str, list[int]]:
        # Between the counts, where the noise decides (dissertation, section 4.3.4), and around.
        return {"threshold": levels(epsilon, 0, 1), "n": list(ns)}

    return Subject(
        name, kind, about, partial(sparse_vector, scales=scales), arguments=arguments, effort=effort
    )


THRESHOLD_SUBJECTS = (
    _variant(
        "SVT of Lyu et al.",
        "reference",
        "noise 2/epsilon on the threshold, 4n/epsilon on each query (their Algorithm 1)",
        _Scales(query_n=Fraction(4)),
    ),
    _variant(
        "SVT of Dwork and Roth",
        "reference",
        "a fresh threshold, 2n/epsilon, after each answer above; 4n/epsilon on each query (Lyu et al., 2)",
        _Scales(query_n=Fraction(4), renewed=True),
    ),
    _variant(
        "iSVT 1",
        "incorrect",
        "no noise on the queries, no bound on the answers above (Stoddard et al.; dissertation, Alg. 12)",
        _Scales(bounded=False),
    ),
    _variant(
        "iSVT 2",
        "incorrect",
        "no bound on the answers above (Chen et al.; dissertation, Algorithm 13)",
        _Scales(query=Fraction(2), bounded=False),
    ),
    _variant(
        "iSVT 3",
        "incorrect",
        "noise on the queries that does not grow with n (Lee and Clifton; dissertation, Algorithm 14)",
        _Scales(threshold=Fraction(4), query=Fraction(4, 3)),
        ns=(1, 2, 3),
    ),
    _variant(
        "iSVT 4",
        "incorrect",
        "returns the noisy count that is above (Roth's lecture notes; dissertation, Algorithm 15)",
        _Scales(query_n=Fraction(2), value=True),
        effort=6.0,
    ),
    _variant(
        "generalised private threshold test",
        "incorrect",
        "a quarter of epsilon on the threshold, the rest on each query, no bound (Chen, Machanavajjhala)",
        _Scales(threshold=Fraction(4), query=Fraction(4, 3), bounded=False),
    ),
    _variant(
        "SVT without noise on the threshold",
        "incorrect",
        "compares with the threshold itself, and spends all on the queries (lecture, exercise 1)",
        _Scales(threshold=Fraction(0), query_n=Fraction(2)),
    ),
    Subject(
        "adaptive sparse vector, noise reused",
        "incorrect",
        "one draw of noise for both branches and the gap, rather than a fresh one in each",
        reuse_noise_of_branches,
        "monotone",
        arguments=_around,
        inputs=_tall,
    ),
)

_DELTA, _LITTLE = 0.1, 0.02
"""Delta of the claims: large where the mistake is in delta, small where the mistake is in epsilon."""

_QUIET = Fraction(1, 1 << 40)
"""A scale of noise that is zero but for a probability below e^-1,000,000."""


def top_stable(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    many: int,
    *,
    epsilon: Fraction,
    fault: str,
    delta: float,
) -> dict[str, Any]:
    """Run Top Stable with one fault: `quiet`, `strict` or `unclamped`.

    Quiet: the threshold has no noise. Strict: the cutoff is one grid step too low. Unclamped: the lead of a
    group is not reduced by the sensitivity.
    """
    plan = TopStable.plan(many, epsilon, delta, resolution=0 if fault == "strict" else None)
    if fault == "quiet":
        plan = replace(plan, tests=replace(plan.tests, threshold_scale=_QUIET))
    elif fault == "strict":
        # The least cutoff that noise exceeds with the probability allowed. Reaching it is enough to pass.
        plan = replace(plan, tests=replace(plan.tests, cutoff=plan.tests.cutoff - 1))
    else:
        plan = replace(plan, sensitivity=Fraction(0))
    return outputs_of(plan.run(repeat_counts(counts, trials), NoiseSource(entropy)))


def _near_cutoff(epsilon: Fraction) -> list[Pair]:
    tests = TopStable.plan(3, epsilon, _LITTLE).tests
    cutoff = tests.cutoff // (1 << tests.resolution)
    found = []
    for level in range(cutoff - 2, cutoff + 4):
        found += [
            Pair("one above", (level, 0), (level + 1, 0)),
            Pair("every other above", (3 * level, 2 * level, level), (3 * level + 1, 2 * level, level + 1)),
        ]
    return found


def _new_groups(_: Fraction) -> list[Pair]:
    return [Pair("a new group", (0,), (1,)), Pair("another group", (1, 0), (2, 1))]


def _faulty(
    name: str,
    fault: str,
    about: str,
    *,
    inputs: Callable[[Fraction], list[Pair]],
    many: tuple[int, ...],
    delta: float = _DELTA,
) -> Subject:
    return Subject(
        name,
        "incorrect",
        about,
        partial(top_stable, fault=fault, delta=delta),
        delta=delta,
        arguments=lambda _: {"many": many},
        inputs=inputs,
    )


UNKNOWN_SUBJECTS = (
    _faulty(
        "top stable, threshold without noise",
        "quiet",
        "the tests share a threshold that has no noise",
        inputs=_near_cutoff,
        many=(1, 2, 3),
        delta=_LITTLE,
    ),
    _faulty(
        "top stable, > for >=",
        "strict",
        "the cutoff is for noise that exceeds it, but noise that reaches it passes the test too",
        inputs=_new_groups,
        many=(1,),
    ),
    _faulty(
        "top stable, lead not reduced",
        "unclamped",
        "uses the lead over the next group as the distance to instability, which is one less",
        inputs=_new_groups,
        many=(1,),
    ),
)
