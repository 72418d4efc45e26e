"""Predicted errors of mechanisms, from their public parameters, and the division of epsilon that suits them.

It is what EXPLAIN and intervals say of noise, and what a selection tells apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import singledispatch
from typing import Any, Literal

from dpsql.estimates import box_law
from dpsql.estimates.noise_laws import (
    BoxNoise,
    GaussianNoise,
    Noise,
    Real,
    check_noise,
    laplace_variance,
    positive,
)
from dpsql.estimates.noise_quantiles import (
    check_confidence,
    count_offset,
    gaussian_half_width,
    gaussian_simultaneous_half_width,
    lower_bound_offset,
)
from dpsql.kernel.mechanisms import (
    Box,
    FirstStable,
    Gaussian,
    GumbelTopK,
    Joint,
    Laplace,
    LimitedThenStable,
    SparseVectorByRounds,
    StableAnswers,
    TopStable,
)
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.mechanisms.noisy_order import NoisyOrder
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVectorPlan

Strategy = Literal["BOX", "EACH", "ANCHOR"]
"""How selected counts are measured: with one box noise, each by itself, or by one noisy total."""

_FEW = 10


def measuring_share(
    strategy: Strategy,
    k: int,
    *,
    monotone: bool = True,
    noise: Noise = "exponential",
    domain_size: int | None = None,
) -> Fraction:
    """Return the share of epsilon for measuring the k selected counts; the rest selects them.

    The variance of the counts alone would leave too little for selecting them, and a wrong group is an error
    too. So BOX gets one half for k up to 10 and one third above: measured on six shapes of counts, the error
    against the true i-th largest count is smaller so. EACH gets one half.

    An ANCHOR gets the share that minimises the variance, to three digits. The variance is
    s kappa^2 k (k-1) / eps_s^2 + 2 / eps_m^2 in squared bounds (s = 1 one-sided noise, 2 Laplace; kappa = 1
    monotone, 2 general), smallest at eps_m/eps_s = (2 / (s kappa^2 k (k-1)))^(1/3). When all groups of the
    domain are selected, there is one gap less and less noise: (k-1)^3/k then replaces k (k-1).

    >>> measuring_share("BOX", 10), measuring_share("BOX", 11), measuring_share("ANCHOR", 10)
    (Fraction(1, 2), Fraction(1, 3), Fraction(219, 1000))
    """
    check_noise(noise)
    if k < 1 or (domain_size is not None and domain_size < 1):
        raise ValueError("k and the size of the domain must be positive")
    gaps = k
    if domain_size is not None and domain_size <= k:
        k, gaps = domain_size, domain_size - 1
    if strategy == "BOX":
        return Fraction(1, 2 if k <= _FEW else 3)
    if strategy == "EACH" or k == 1:
        return Fraction(1, 2)
    spread = (2 if noise == "laplace" else 1) * (1 if monotone else 4) * gaps**2 * (k - 1) / k
    ratio = (2 / spread) ** (1 / 3)
    return _round(ratio / (1 + ratio))


def split_measuring(epsilon: Fraction, bounds: Sequence[int | Fraction]) -> tuple[Fraction, ...]:
    """Divide the measuring epsilon among several counts of the same groups; the parts add up exactly.

    Parts proportional to c^(2/3), c a count's per-unit bound, minimise the sum of the variances. A count
    measured EACH on k groups with its part e has noise of scale k c / e.

    >>> split_measuring(Fraction(1, 2), [1, 8])
    (Fraction(1, 10), Fraction(2, 5))
    """
    if epsilon < 0 or not bounds or min(bounds) <= 0:
        raise ValueError("give at least one positive bound and no negative epsilon")
    weights = [_round(positive(bound, "bound") ** (2 / 3)) for bound in bounds]
    return tuple(epsilon * weight / sum(weights) for weight in weights)


def distinguishable_gap(
    noise: Noise, scale: Real, confidence: Real = 0.95, *, resolution: int | None = None
) -> float:
    """Return how far apart two counts must be for the selection to order them correctly, at this level.

    With a resolution the noise is discrete; a tie on its grid counts as a wrong order.

    >>> round(distinguishable_gap("exponential", 10), 2), round(distinguishable_gap("laplace", 10), 2)
    (23.03, 32.72)
    """
    # the difference of two centred noises of one scale, one-sided
    apart = lower_bound_offset(noise, scale, scale, confidence, resolution=resolution)
    return max(0.0, apart + (0.0 if resolution is None else 2.0**-resolution))


def logistic_gap(scale: Real, confidence: Real = 0.95) -> float:
    """Return how far apart two counts must be for Gumbel noise to order them correctly, at this level.

    The difference of two Gumbel noises of one scale is logistic. It is exact on any grid.

    >>> round(logistic_gap(10), 2)
    29.44
    """
    level = float(check_confidence(confidence))
    return max(0.0, positive(scale, "scale") * math.log(level / (1 - level)))


def sparse_vector_error(
    threshold_scale: Real,
    query_scale: Real,
    groups: int,
    *,
    branches: int = 1,
    rounds: int = 1,
    confidence: Real = 0.95,
) -> float:
    """Return how far from the threshold all groups must be for a sparse vector to answer all correctly.

    (s0 + s1) ln((n B + R) / beta): with probability 1 - beta none of the n B + R noises exceeds its scale
    times that logarithm. It holds for Laplace noise and, conservatively, for centred one-sided noise. (The
    form is that of Theorem 2 of Smith's lecture on the sparse vector technique, which uses other scales.)

    Parameters
    ----------
    threshold_scale, query_scale
        Scales in use, in counts; with several branches the largest query scale.
    groups
        Size n of the public domain.
    branches
        Number B of branches, each with fresh noise.
    rounds
        Number R of rounds, each with a fresh threshold.
    confidence
        1 - beta.

    Examples
    --------
    >>> round(sparse_vector_error(4, 10, 1000), 1)
    138.7
    """
    if groups < 1 or branches < 1 or rounds < 1:
        raise ValueError("groups, branches and rounds must be positive")
    beta = 1 - check_confidence(confidence)
    scales = positive(threshold_scale, "threshold_scale") + positive(query_scale, "query_scale")
    return scales * math.log((groups * branches + rounds) / beta)


def _round(value: float) -> Fraction:
    """Round to three significant digits, for display; the optimum is flat, so nothing is lost."""
    return Fraction(f"{value:.3g}")


def shared_noise(mechanism: Box | Gaussian, place: int) -> BoxNoise | GaussianNoise:
    """Return the variances of one count's own noise, and of the noise shared with counts of its bound."""
    if isinstance(mechanism, Gaussian):
        squared = mechanism.step(place) ** 2
        return GaussianNoise(mechanism.own * squared, mechanism.shared * squared)
    squared = in_counts(mechanism, place, 1) ** 2
    if not mechanism.pads:
        return BoxNoise(box_law.cube_variance(mechanism.size) * squared, 0.0)
    own = box_law.own_variance(mechanism.size + mechanism.pads)
    return BoxNoise(own * squared, box_law.reference_variance(mechanism.size, mechanism.pads) * squared)


def stddev(mechanism: Box | Gaussian | Laplace, place: int = 0) -> float:
    """Return the standard deviation of one count that a planned measurement gives, in counts.

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
def _(mechanism: TopStable, confidence: Fraction) -> float | None:
    return None if mechanism.choice is None else clear_gap(mechanism.choice, confidence)


@clear_gap.register(FirstStable)
@clear_gap.register(StableAnswers)
def _(mechanism: FirstStable | StableAnswers, confidence: Fraction) -> float | None:
    """Return the distance at which the test of a query passes."""
    tests = mechanism.tests
    scales = tests.threshold_scale, tests.scale
    lacking = lower_bound_offset(tests.law, *scales, confidence, resolution=tests.resolution)
    return float(tests.threshold) + lacking


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


def decimal(value: Fraction) -> str:
    """Write an exact number with separators of thousands: as a decimal of at most ten places, else rounded.

    >>> decimal(Fraction(5, 2)), decimal(Fraction(10**6)), decimal(Fraction(1, 3))
    ('2.5', '1,000,000', '0.333333')
    """
    number, divisor = value.numerator, value.denominator
    places = next((n for n in range(11) if 10**n % divisor == 0), None)
    if places is None:
        return f"{float(value):,.6g}"
    return f"{Decimal(number * 10**places // divisor).scaleb(-places):,f}"


def figure(value: float) -> str:
    """Write a predicted figure: three significant digits, or a whole number with separators of thousands.

    >>> figure(0.00412), figure(35949.2), figure(12.0)
    ('0.00412', '35,949', '12')
    """
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def with_noun(number: int | str, noun: str, verb: str = "") -> str:
    """Write a number with its noun, and a verb behind it, in the plural unless the number is 1.

    >>> with_noun(1, "person"), with_noun(1200, "row"), with_noun("1.5", "row"), with_noun(2, "entity")
    ('1 person', '1,200 rows', '1.5 rows', '2 entities')
    >>> with_noun(1, "row", "count"), with_noun(2, "row", "count"), with_noun(1, "unit", "reach")
    ('1 row counts', '2 rows count', '1 unit reaches')
    >>> with_noun(1, "group", "are")
    '1 group is'
    """
    text = number if isinstance(number, str) else f"{number:,}"
    one = text == "1"
    said = verb if not one else plural(verb)
    return f"{text} {noun if one else plural(noun)}" + (f" {said}" if verb else "")


def plural(word: str) -> str:
    """Return the plural of a noun, or the third person of a verb.

    >>> plural("patient"), plural("entity"), plural("aircraft"), plural("are")
    ('patients', 'entities', 'aircraft', 'is')
    """
    if word == "are":
        return "is"
    if word.endswith("craft"):
        return word
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    return f"{word[:-1]}ies" if word[-1:] == "y" and word[-2:-1] not in "aeiou" else f"{word}s"


def error_words(stddev: float, half_width: float | None = None, *, per_row: bool = False) -> str:
    """Write a standard deviation and half the width of the interval, divided by n if `per_row`.

    >>> error_words(8485.3, 35949.2)
    'stddev 8,485, half-width 35,949'
    >>> error_words(1200.0, per_row=True)
    'stddev at most 1,200 / n'
    """
    per = " / n" if per_row else ""
    words = f"stddev {'at most ' if per_row else ''}{figure(stddev)}{per}"
    if half_width is not None:
        words += f", half-width {figure(half_width)}{per}"
    return words
