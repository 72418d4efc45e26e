"""Quantiles of noises and of sums of them: closed formulas, else by the characteristic function.

The error of an estimate is such a sum, with known weights. Nothing is simulated: the distribution function on
a grid of 64 standard deviations is one inverse FFT of the product of the characteristic functions, integrated
term by term. Equal noises enter as a power, so k = 10,000 costs no more than k = 10.

All intervals cover the noise, whose law is public. Offsets are named so that the true value
lies in [estimate - low, estimate + high].

The formulas are those of continuous noise; on the grid a half-width needs one step more.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.noise_laws import Noise, Real, check_noise, positive
from dpsql.lazy_dataclass import dataclass

_REACH = 32.0  # standard deviations each side: what lies beyond is folded back, below exp(-32)
_POINTS = 1 << 13
_FREQUENCY = np.pi / _REACH * np.arange(_POINTS // 2 + 1)


@dataclass(frozen=True, slots=True)
class NoiseTerm:
    """`count` independent noises of one kind, each multiplied by the same weight."""

    laplace: bool
    """Laplace noise; else exponential noise minus its mean."""
    scale: float
    """Weight times scale; a negative one negates the noise."""
    count: int = 1

    @property
    def variance(self) -> float:
        """Variance of the sum of `count` independent noises of this term."""
        return self.count * self.scale * self.scale * (2 if self.laplace else 1)


@lru_cache(maxsize=1024)
def quantiles(terms: tuple[NoiseTerm, ...], tail: float, normal: float = 0.0) -> tuple[float, float]:
    """Return the points below and above which the sum of the terms lies with probability `tail` each.

    `normal` is the variance of a normal noise that is one more term of the sum.

    Accurate to 1e-4 of a standard deviation at usual levels. The density of one or two exponential terms
    alone has a jump or a kink, which costs accuracy in far tails (below 1e-6): use their formula there.

    >>> low, high = quantiles((NoiseTerm(True, 1.0), NoiseTerm(True, 1.0)), 0.025)
    >>> round(low, 3), round(high, 3)
    (-4.113, 4.113)
    """
    deviation = math.sqrt(normal + sum(term.variance for term in terms))
    t = _FREQUENCY
    modulus = -normal / (2 * deviation * deviation) * t * t
    phase = np.zeros_like(t)
    for term in terms:
        bt = term.scale / deviation * t
        log = np.log1p(bt * bt)
        if term.laplace:
            modulus -= term.count * log
        else:
            modulus -= term.count / 2 * log
            phase += term.count * (np.arctan(bt) - bt)
    # F(x) = (x + R)/(2R) + sum over t != 0 of phi(t) exp(-itx) / (-it 2R), up to the constant that makes F
    # vanish at -R; irfft sums conj(..) exp(+itx) over both signs of t; x runs over the grid from 0 upward,
    # then from -R, hence the roll.
    spectrum = np.zeros(t.size, dtype=np.complex128)
    spectrum[1:] = 1j * np.exp(modulus[1:] + 1j * phase[1:]) / t[1:]
    step = 2 * _REACH / _POINTS
    series = np.roll(np.fft.irfft(spectrum.conj(), _POINTS), _POINTS // 2) / step
    x = step * np.arange(-_POINTS // 2, _POINTS // 2)
    cdf = (x + _REACH) / (2 * _REACH) + series
    cdf -= cdf[0]
    middle = int(np.searchsorted(np.maximum.accumulate(cdf), 0.5))
    # From the middle outward, so that ripples of 1e-12 in the far tails cannot be met first.
    below = int(np.flatnonzero(cdf[:middle] < tail)[-1])
    above = middle + int(np.flatnonzero(cdf[middle:] >= 1 - tail)[0])
    return deviation * _find_crossing(x, cdf, below, tail), deviation * _find_crossing(
        x, cdf, above - 1, 1 - tail
    )


def _find_crossing(x: np.ndarray, cdf: np.ndarray, left: int, level: float) -> float:
    """Interpolate linearly the point where the distribution function reaches `level`."""
    rise = float(cdf[left + 1] - cdf[left])
    return float(x[left]) + float(x[left + 1] - x[left]) * (level - float(cdf[left])) / rise


_SLACK = 1e-9  # in grid steps: an exact grid point may come out of floating point a little below itself


def check_confidence(confidence: Real) -> float:
    """Return the level as a float; `ValueError` unless it lies strictly between 0 and 1 - 1e-9."""
    level = float(confidence)
    if not 0 < level <= 1 - 1e-9:
        raise ValueError("confidence must be above 0 and at most 1 - 1e-9")
    return level


def count_offset(scale: Real, confidence: Real = 0.95, *, resolution: int | None = None) -> float:
    """Return the half width, in counts, of the interval of one count with Laplace noise.

    With a `resolution` the noise is discrete Laplace on multiples of 2^-resolution and the width is the
    smallest multiple that covers.

    >>> round(count_offset(10), 3), count_offset(10, resolution=0)
    (29.957, 30.0)
    """
    beta, miss = positive(scale, "scale"), 1 - check_confidence(confidence)
    if resolution is None:
        return -beta * math.log(miss)
    gamma = 2.0**-resolution
    # P(|Z| > m) = 2 r^(m+1) / (1 + r)
    rate = gamma / beta
    steps = math.ceil(-math.log(miss * (1 + math.exp(-rate)) / 2) / rate - 1 - _SLACK)
    return gamma * max(0, steps)


def threshold_gap_offsets(
    noise: Noise,
    query_scale: Real,
    threshold_scale: Real,
    confidence: Real = 0.95,
    *,
    resolution: int | None = None,
) -> tuple[float, float]:
    """Return how far a count may lie below and above its estimate gap + T, each with equal chance.

    >>> low, high = threshold_gap_offsets("exponential", 10, 4)
    >>> round(low, 2), round(high, 2)
    (27.52, 15.74)
    """
    s1, s0 = positive(query_scale, "query_scale"), positive(threshold_scale, "threshold_scale")
    tail = (1 - check_confidence(confidence)) / 2
    # The negated error has the same law with the scales exchanged.
    return _upper(noise, s1, s0, tail, resolution), _upper(noise, s0, s1, tail, resolution)


def lower_bound_offset(
    noise: Noise,
    query_scale: Real,
    threshold_scale: Real,
    confidence: Real = 0.95,
    *,
    resolution: int | None = None,
) -> float:
    """Return what to subtract from gap + T for a lower bound of the count, at a level.

    >>> round(lower_bound_offset("laplace", 10, 10), 3)
    32.718
    """
    s1, s0 = positive(query_scale, "query_scale"), positive(threshold_scale, "threshold_scale")
    return _upper(noise, s1, s0, 1 - check_confidence(confidence), resolution)


@lru_cache(maxsize=1024)
def _upper(noise: Noise, s1: float, s0: float, tail: float, resolution: int | None) -> float:
    """Return the smallest t with P(e > t) <= tail."""
    check_noise(noise)
    if noise == "laplace":
        return _laplace_upper(s1, s0, tail) if tail <= 0.5 else -_laplace_upper(s1, s0, 1 - tail)
    if resolution is None:
        above = s1 / (s0 + s1)
        x = s1 * math.log(above / tail) if tail <= above else s0 * math.log((1 - tail) * (s0 + s1) / s0)
        return x - s1 + s0
    gamma = 2.0**-resolution
    l1, l0 = gamma / s1, gamma / s0
    both = -math.expm1(-l1 - l0)
    # P(D > d) = (1-r0)/(1-r0 r1) r1^(d+1) for d >= -1; P(D <= d) = (1-r1)/(1-r0 r1) r0^(-d) for d <= 0
    above = -math.expm1(-l0) / both
    if tail < above:
        d = math.ceil(math.log(above / tail) / l1 - _SLACK) - 1
    else:
        d = -math.floor(math.log(-math.expm1(-l1) / both / (1 - tail)) / l0 + _SLACK)
    return gamma * (d - mean_steps(l1) + mean_steps(l0))


def mean_steps(rate: float) -> float:
    """Return the mean of the geometric law on {0, 1, ..} with P(Y >= m) = exp(-rate m)."""
    return math.exp(-rate) / -math.expm1(-rate)


def _laplace_tail(t: NDArray[np.float64], s1: float, s0: float) -> NDArray[np.float64]:
    """Return P(e > t) for t >= 0 and the difference e of two Laplace noises."""
    if abs(s1 - s0) <= 1e-6 * (s1 + s0):  # the limit: the quotient below would cancel
        s = (s1 + s0) / 2
        return np.asarray((2 + t / s) / 4 * np.exp(-t / s))
    return np.asarray((s1 * s1 * np.exp(-t / s1) - s0 * s0 * np.exp(-t / s0)) / (2 * (s1 * s1 - s0 * s0)))


def _laplace_upper(s1: float, s0: float, tail: float) -> float:
    low, high = 0.0, (s1 + s0) * (2 - math.log(tail))
    for _ in range(80):  # halves the bracket to below a double's spacing
        middle = (low + high) / 2
        if float(_laplace_tail(np.asarray(middle), s1, s0)) > tail:
            low = middle
        else:
            high = middle
    return high


_NORMAL_REACH = 9
_NORMAL_POINTS = 600
_HALVINGS = 50
_SUM_HALVINGS = 60


def laplace_stddev(weights: tuple[float, ...]) -> float:
    """Return the standard deviation of a sum of independent Laplace noises of scale 1 with these weights.

    >>> round(laplace_stddev((1.0, 1.0)), 6)
    2.0
    """
    return math.sqrt(2) * math.hypot(*weights)


@lru_cache(maxsize=1024)
def laplace_half_width(weights: tuple[float, ...], confidence: float) -> float:
    """Return half the width of the interval of a weighted sum of independent Laplace noises of scale 1.

    Its absolute value exceeds that with probability 1 - confidence.

    >>> round(laplace_half_width((3.0, 0.0), 0.95), 3), round(laplace_half_width((1.0, 1.0), 0.95), 3)
    (8.987, 4.113)
    """
    sizes = sorted(abs(weight) for weight in weights if weight)
    if not sizes:
        return 0.0
    if len(sizes) == 1:
        return -sizes[0] * math.log1p(-confidence)
    terms = tuple(NoiseTerm(True, size / sizes[-1]) for size in sizes)
    return sizes[-1] * quantiles(terms, (1 - confidence) / 2)[1]


def laplace_half_widths(weights: NDArray[np.float64], confidence: float) -> NDArray[np.float64]:
    """Return `laplace_half_width` of each row of weights, whose absolute values are positive and distinct.

    P(|sum| > x) is then the sum over i of e^(-x/w_i) times the product over j of w_i^2/(w_i^2 - w_j^2), by
    partial fractions of the characteristic function.
    """
    sizes = np.abs(weights)
    squares = sizes**2
    ratio = squares[:, :, None] - squares[:, None, :]
    diagonal = np.arange(sizes.shape[1])
    ratio[:, diagonal, diagonal] = squares
    share = (squares[:, :, None] / ratio).prod(axis=2)
    low: NDArray[np.float64] = np.zeros(len(sizes))
    high: NDArray[np.float64] = sizes.sum(axis=1) * (1 - math.log1p(-confidence))
    for _ in range(_SUM_HALVINGS):
        middle = (low + high) / 2
        over = (share * np.exp(-middle[:, None] / sizes)).sum(axis=1) > 1 - confidence
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return high


@lru_cache(maxsize=1024)
def gaussian_half_width(variance: float, confidence: float) -> float:
    """Return half the width of an interval of one count whose error is Gaussian with a given variance.

    >>> round(gaussian_half_width(4, 0.95), 2)
    3.92
    """
    low, high = 0.0, float(_NORMAL_REACH)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) > 1 - confidence else (low, middle)
    return math.sqrt(variance) * high


@lru_cache(maxsize=1024)
def gaussian_simultaneous_half_width(counts: int, own: float, shared: float, confidence: float) -> float:
    """Return half the width of intervals that cover all counts with Gaussian noise at once.

    Errors are X_i + Z, X_i of variance `own` and one Z of variance `shared`. Given Z they are independent.

    >>> round(gaussian_simultaneous_half_width(1, 3, 1, 0.95), 2)
    3.92
    >>> round(gaussian_simultaneous_half_width(10, 4, 0, 0.95), 2)
    5.6
    """
    deviation = math.sqrt(own)
    at = np.linspace(-_NORMAL_REACH, _NORMAL_REACH, _NORMAL_POINTS + 1) if shared else np.zeros(1)
    weight = np.exp(-at * at / 2)
    weight /= weight.sum()
    at *= math.sqrt(shared)

    def covered(width: float) -> float:
        inside = _below((width - at) / deviation) - _below((-width - at) / deviation)
        return float(weight @ inside**counts)

    low, high = 0.0, _NORMAL_REACH * (deviation + math.sqrt(shared)) * math.sqrt(1 + math.log(counts))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if covered(middle) < confidence else (low, middle)
    return high


def _below(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal distribution function."""
    return np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in x.tolist()])
