"""Predicted errors of mechanisms, from their public parameters: what EXPLAIN and intervals say of noise."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import singledispatch
from typing import Any

from dpsql.estimates import box as box_law
from dpsql.estimates.closed_form import check_confidence, count_offset
from dpsql.estimates.half_widths import gaussian_half_width, gaussian_simultaneous_half_width
from dpsql.estimates.measurement import BoxNoise, GaussianNoise
from dpsql.estimates.plan import distinguishable_gap, logistic_gap, sparse_vector_error
from dpsql.estimates.variance import laplace_variance
from dpsql.kernel.mechanisms import (
    Box,
    Gaussian,
    GumbelTopK,
    Joint,
    Laplace,
    LimitedThenStable,
    SparseVectorByRounds,
)
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.mechanisms.sparse import NoisyOrder
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVectorPlan


def shared_noise(mechanism: Box | Gaussian, place: int) -> BoxNoise | GaussianNoise:
    """Return the variances of the noise of one count, and of what it shares with counts of its bound."""
    if isinstance(mechanism, Gaussian):
        squared = mechanism.step(place) ** 2
        return GaussianNoise(mechanism.own * squared, mechanism.shared * squared)
    squared = in_counts(mechanism, place, 1) ** 2
    if not mechanism.pads:
        return BoxNoise(box_law.cube_variance(mechanism.size) * squared, 0.0)
    own = box_law.own_variance(mechanism.size + mechanism.pads)
    return BoxNoise(own * squared, box_law.reference_variance(mechanism.size, mechanism.pads) * squared)


def stddev(mechanism: Box | Gaussian | Laplace, place: int = 0) -> float:
    """Return the standard deviation of one count, in counts.

    >>> round(stddev(Box.plan(10, 1)), 2), round(stddev(Box.plan(10, 1, monotone=False)), 2)
    (4.77, 6.63)
    >>> round(stddev(Gaussian.plan(10, "1/2")), 2), round(stddev(Gaussian.plan(10, "1/2", monotone=False)), 2)
    (2.08, 3.16)
    """
    if isinstance(mechanism, Laplace):
        return math.sqrt(laplace_variance(mechanism.scale, mechanism.resolution))
    return math.sqrt(shared_noise(mechanism, place).variance)


def difference_stddev(mechanism: Box | Gaussian, place: int) -> float:
    """Return the standard deviation of a count of two that have one bound, less the other; not of a cube."""
    return math.sqrt(2 * shared_noise(mechanism, place).own)


def half_width(
    mechanism: Box | Gaussian | Laplace, confidence: Fraction, place: int = 0, *, simultaneous: bool = False
) -> float:
    """Return half the width of the interval of one count, or of intervals that hold for all at once."""
    if isinstance(mechanism, Laplace):
        return count_offset(mechanism.scale, confidence, resolution=mechanism.resolution)
    level = check_confidence(confidence)
    if isinstance(mechanism, Gaussian):
        own, shared = float(mechanism.own), float(mechanism.shared)
        width = (
            gaussian_simultaneous_half_width(mechanism.size, own, shared, level)
            if simultaneous
            else gaussian_half_width(own + shared, level)
        )
        return (width + 1) * mechanism.step(place) + mechanism.rounding
    if not mechanism.pads:
        width = box_law.cube_half_width(mechanism.size, level, simultaneous=simultaneous)
    elif simultaneous:
        width = box_law.simultaneous_half_width(mechanism.size, mechanism.pads, level)
    else:
        width = box_law.box_half_width(mechanism.size, mechanism.pads, level)
    return in_counts(mechanism, place, width) + mechanism.step(place)


def difference_half_width(mechanism: Box | Gaussian, confidence: Fraction, place: int) -> float:
    """Return half the width of the interval of the difference of two counts that have one bound."""
    if isinstance(mechanism, Gaussian):
        width = gaussian_half_width(2.0 * mechanism.own, float(confidence)) + 1
        return width * mechanism.step(place) + 2 * mechanism.rounding
    width = box_law.difference_half_width(mechanism.size + mechanism.pads, float(confidence))
    return in_counts(mechanism, place, width if mechanism.pads else 2 * width) + mechanism.step(place)


def in_counts(mechanism: Box, place: int, width: float) -> float:
    """Convert a length in units of bound over epsilon."""
    return width * mechanism.step(place) / float(mechanism.rate)


@singledispatch
def clear_gap(mechanism: Mechanism[Any], confidence: Fraction) -> float | None:
    """Return how far apart two counts must be to come in the right order; None: nothing is ordered.

    Of a selection above a threshold: how far from it all groups must be to be answered correctly.
    """
    del mechanism, confidence
    return None


@clear_gap.register
def _(mechanism: NoisyOrder, confidence: Fraction) -> float | None:  # type: ignore[type-arg]
    if not mechanism.scale:
        return None
    return distinguishable_gap(mechanism.noise, mechanism.scale, confidence, resolution=mechanism.resolution)


@clear_gap.register
def _(mechanism: GumbelTopK, confidence: Fraction) -> float | None:
    return logistic_gap(mechanism.scale, confidence) if mechanism.scale else None


@clear_gap.register
def _(mechanism: LimitedThenStable, confidence: Fraction) -> float | None:
    return clear_gap(mechanism.limited, confidence)


@clear_gap.register
def _(mechanism: SparseVectorPlan, confidence: Fraction) -> float | None:
    widest, branches = max(mechanism.scales), len(mechanism.scales)
    return sparse_vector_error(
        mechanism.threshold_scale, widest, mechanism.groups, branches=branches, confidence=confidence
    )


@clear_gap.register
def _(mechanism: SparseVectorByRounds, confidence: Fraction) -> float | None:
    return sparse_vector_error(
        mechanism.threshold_scale,
        mechanism.scales[0],
        mechanism.groups,
        rounds=mechanism.hits,
        confidence=confidence,
    )


@clear_gap.register
def _(mechanism: Joint, confidence: Fraction) -> float | None:
    """Return how far k equal counts must be above all others, themselves equal, to be chosen together.

    The first k of n have probability 1 / (1 + (C - 1) e^(-gap/scale)), C the number of sets of k groups.
    """
    if not mechanism.scale:
        return None
    # If all groups are shown, the last one and its place follow from the others.
    k, n = min(mechanism.k, mechanism.groups - 1), mechanism.groups
    sets = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    odds = math.log(confidence / (1 - confidence))
    return max(float(mechanism.scale) * (sets + math.log(-math.expm1(-sets)) + odds), 0.0)
