"""Audit subjects with a known verdict: published mistakes, and private mechanisms to compare them with.

Here are selections and counts; ``threshold`` has sparse vectors and unknown domains, ``streams`` checks of
expectations, also those of models, and scores compared with the best, ``stable_streams`` exact
answers, ``measuring`` box noise, several numbers and large counts; it also draws all noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import any_k, levels, rows_of_units
from dpsql.audit.detector import Subject, outputs_of, repeat_counts
from dpsql.audit.features import count_true
from dpsql.audit.mistakes import measuring, stable_streams, streams, threshold
from dpsql.audit.mistakes.measuring import exponential, geometric, laplace, textbook_laplace
from dpsql.audit.runs import CHARGE, Pair
from dpsql.kernel import noise as exact_noise
from dpsql.kernel.mechanisms import HybridTopK, Joint, NoiseSource
from dpsql.kernel.noise import Entropy

_DRAW = {"laplace": laplace, "exponential": exponential}


def noisy_max(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction, noise: str, value: bool
) -> NDArray[Any]:
    """Return the index of the largest noisy count or, incorrectly, that noisy count itself."""
    noisy = counts + _DRAW[noise](2 / epsilon, (trials, len(counts)), entropy)
    return np.asarray(noisy.max(axis=1) if value else np.argmax(noisy, axis=1))


def noisy_min(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> NDArray[np.int64]:
    """Return the index of the smallest count plus one-sided noise, which should be subtracted."""
    noisy = counts + exponential(1 / epsilon, (trials, len(counts)), entropy)
    return np.asarray(np.argmin(noisy, axis=1))


def histogram(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction, inverted: bool = False
) -> NDArray[np.float64]:
    """Return all counts with Laplace noise of scale 1/epsilon or, incorrectly, epsilon."""
    scale = epsilon if inverted else 1 / epsilon
    return counts + laplace(scale, (trials, len(counts)), entropy)


def floating_count(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> NDArray[np.float64]:
    """Return a count with Laplace noise computed in floating point."""
    return counts[:1] + textbook_laplace(float(1 / epsilon), (trials, 1), entropy)


def geometric_count(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> dict[str, Any]:
    """Return a count with two-sided geometric noise that stops with probability epsilon a step."""
    ratio = max(1 - float(epsilon), 0.01)
    drawn = geometric(ratio, (2, trials), entropy)
    return {"count": (counts[0] + drawn[0] - drawn[1]).astype(np.float64)}


def discrete_top_k(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, k: int, *, epsilon: Fraction
) -> dict[str, Any]:
    """Return the k largest discrete noisy counts with gaps; ties are broken by position."""
    scale = min(k, len(counts) - 1) / epsilon
    drawn = exact_noise.geometric(1 / scale, (trials, len(counts)), entropy=entropy)
    return _largest(counts + drawn, k)


def top_k_by_rows(
    both: NDArray[np.int64], trials: int, entropy: Entropy, k: int, *, epsilon: Fraction, cut: bool
) -> dict[str, Any]:
    """Return the k largest of counts known from above, of which too few are counted.

    With `cut` the k + 1 groups with the largest bounds are, else those that reach the (k+1)-th largest bound.
    """
    counts, above = both
    drawn = exponential(min(k, len(counts) - 1) / epsilon, (trials, len(counts)), entropy)
    order = np.sort(above + drawn, axis=1)
    many = k + 1 if cut else min(3 * (k + 1) // 2, len(counts))
    least = np.minimum(order[:, -many], order[:, -k - 1])[:, None]
    return _largest(np.where(above + drawn >= least, counts + drawn, -1e9), k)


def unscaled_top_k(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, k: int, *, epsilon: Fraction
) -> dict[str, Any]:
    """Return the k largest noisy counts with gaps; the noise scale is that for k = 1."""
    return _largest(counts + exponential(1 / epsilon, (trials, len(counts)), entropy), k)


def _largest(noisy: NDArray[Any], k: int) -> dict[str, Any]:
    order = np.argsort(-noisy, axis=1, kind="stable")[:, : k + 1]
    value = np.take_along_axis(noisy, order, axis=1).astype(np.float64)
    return {"index": order[:, :k], "gap": value[:, :-1] - value[:, 1:]}


def generous_hybrid(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, k: int, threshold: int, *, epsilon: Fraction
) -> dict[str, Any]:
    """Run hybrid top-k, but charge only for the groups and not for reaching the threshold."""
    plan = HybridTopK.plan(len(counts), threshold, k, epsilon)
    found = outputs_of(plan.run(repeat_counts(counts, trials), NoiseSource(entropy)))
    return {**found, CHARGE: float(epsilon) * count_true(found["index"] >= 0) / plan.k}


def _replacements(_: Fraction) -> list[Pair]:
    return [
        Pair("one moves to the next cell", (1, 1, 1, 1, 1), (2, 0, 1, 1, 1)),
        Pair("one moves to the last cell", (1, 0, 3, 2, 1), (0, 0, 3, 2, 2)),
    ]


CHOICE_SUBJECTS = (
    *(
        Subject(
            f"report noisy max, {noise}",
            "reference",
            f"index of the largest count with {noise} noise of scale 2/epsilon (dissertation, Alg. 5 and 6)",
            partial(noisy_max, noise=noise, value=False),
        )
        for noise in ("laplace", "exponential")
    ),
    Subject(
        "histogram",
        "reference",
        "counts with Laplace noise of scale 1/epsilon, a unit in one cell (dissertation, Algorithm 9)",
        histogram,
        "one",
    ),
    *(
        Subject(
            f"noisy max with its value, {noise}",
            "incorrect",
            "returns the largest noisy count instead of its index (dissertation, Algorithms 7 and 8)",
            partial(noisy_max, noise=noise, value=True),
        )
        for noise in ("laplace", "exponential")
    ),
    Subject(
        "noisy min with one-sided noise added",
        "incorrect",
        "adds exponential noise where the smallest count is wanted: it must be subtracted",
        noisy_min,
        "monotone",
    ),
    *(
        Subject(
            f"noisy top-k over counts known from above, {what}",
            "incorrect",
            f"counts the groups {which}: which these are depends on how many rows a unit has",
            partial(top_k_by_rows, cut=cut),
            "monotone",
            arguments=any_k(1),
            inputs=lambda epsilon: [Pair(*each) for each in rows_of_units(epsilon)],
        )
        for what, which, cut in (
            ("cut at k", "with the k + 1 largest bounds alone", True),
            ("level of bounds", "that reach the (k+1)-th largest bound, in the place of the count", False),
        )
    ),
    Subject(
        "histogram, scale inverted",
        "incorrect",
        "noise of scale epsilon instead of 1/epsilon (dissertation, Algorithm 10); safe from 1 on",
        partial(histogram, inverted=True),
        "one",
        wrong_at=1.0,
    ),
    Subject(
        "histogram, units that move",
        "incorrect",
        "noise of scale 1/epsilon, but a unit leaves one cell for another",
        histogram,
        inputs=_replacements,
    ),
    Subject(
        "geometric noise, wrong parameter",
        "incorrect",
        "takes epsilon for the probability of stopping, which is 1 - e^-epsilon",
        geometric_count,
        "one",
    ),
    Subject(
        "floating-point Laplace",
        "incorrect",
        "noise computed in doubles: some outputs are possible on one side only (Mironov 2012)",
        floating_count,
        "one",
    ),
    Subject(
        "top-k, discrete noise, ties by position",
        "incorrect",
        "whole noise with gaps, and equal noisy counts in a fixed order",
        discrete_top_k,
        "monotone",
        arguments=any_k(1),
        effort=14.0,
    ),
    Subject(
        "top-k, noise of scale 1 instead of k",
        "incorrect",
        "the noise of noisy max for k groups and their gaps",
        unscaled_top_k,
        "monotone",
        arguments=any_k(2, 3),
    ),
    Subject(
        "hybrid top-k, threshold refunded",
        "incorrect",
        "charges for the groups only: the fact that the threshold was reached is released at no charge",
        generous_hybrid,
        "monotone",
        arguments=lambda epsilon: {"k": [1, 2, 3], "threshold": levels(epsilon, -2, -1, 0, 1, 2, 4)},
        effort=2.0,
    ),
)

_LOW = 20
"""Number of groups in third place."""


def joint(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction, factor: int
) -> dict[str, Any]:
    """Choose two groups by the joint exponential mechanism for monotone counts, its scale divided."""
    plan = Joint.plan(len(counts), 2, epsilon)
    wrong = replace(plan, scale=plan.scale / factor)
    return outputs_of(wrong.run(repeat_counts(counts, trials), NoiseSource(entropy)))


def _behind(epsilon: Fraction, *, factor: int, others: int) -> list[Pair]:
    """Make pairs in which a unit raises all groups but the second, which changes by `others`.

    The loss of the sequences that begin with the second group rises, and that of the first group with a low
    one falls. The low ones are so many that these sequences are the most likely.
    """
    rate = factor * float(epsilon) / 2
    found = []
    for weight, rare in ((4, 0.04), (4, 0.015)):
        lead, fall = round(math.log(1 / rare) / rate), max(1, round(math.log(_LOW / weight) / rate))
        first, low = 2 * fall + lead + 1, 1
        second = low + fall
        found.append(
            Pair(
                "all but the second above",
                (first, second, *(low,) * _LOW),
                (first + 1, second + others, *(low + 1,) * _LOW),
            )
        )
    return found


JOINT_SUBJECTS = (
    Subject(
        "joint exponential mechanism, scale halved",
        "incorrect",
        "scale c/epsilon, as if only the loss of a sequence changed, and not the sum over all sequences",
        partial(joint, factor=2),
        inputs=partial(_behind, factor=2, others=0),
    ),
    Subject(
        "joint exponential mechanism, counts not monotone",
        "incorrect",
        "the scale for monotone counts, but a unit moves the loss by twice its bound",
        partial(joint, factor=1),
        inputs=partial(_behind, factor=1, others=-1),
    ),
)

SUBJECTS = (
    *CHOICE_SUBJECTS,
    *JOINT_SUBJECTS,
    *threshold.THRESHOLD_SUBJECTS,
    *measuring.MEASURE_SUBJECTS,
    *measuring.BOX_SUBJECTS,
    *threshold.UNKNOWN_SUBJECTS,
    *streams.STREAM_SUBJECTS,
    *streams.BOARD_SUBJECTS,
    *streams.MODEL_SUBJECTS,
    *stable_streams.STABLE_STREAM_SUBJECTS,
)
"""All of them, in the order of the catalogue."""
