"""How much smaller a squared error has become, how sure that is, and what to expect: no data, no noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import Noise

__all__ = [
    "Measured",
    "anchor_theory",
    "crowding",
    "each_theory",
    "named",
    "near",
    "paired",
    "separate",
    "threshold_alone",
    "threshold_joint",
]


@dataclass(frozen=True, slots=True)
class Measured:
    """A reduction of the mean squared error in per cent, beside theory."""

    percent: float
    error: float
    """Standard error of the measurement, in percentage points."""
    theory: float
    crowding: float
    """Share of the counts at stake that the selection noise cannot tell apart."""
    most: float
    """Above this share theory, which knows nothing of what was selected, need not hold."""

    @property
    def off(self) -> float:
        """Percentage points above theory."""
        return self.percent - self.theory

    @property
    def crowded(self) -> bool:
        """Whether what is selected depends on the noise so much that theory need not hold."""
        return self.crowding > self.most

    @property
    def allowed(self) -> float:
        """Percentage points by which chance and rounding may move it: four standard errors and one."""
        return 4 * self.error + 1


def paired(plain: NDArray[np.float64], better: NDArray[np.float64]) -> tuple[float, float]:
    """Return the reduction and its standard error, from squared errors of the same runs, shape (trials,).

    >>> paired(np.array([4.0, 6.0, 2.0]), np.array([2.0, 3.0, 1.0]))
    (50.0, 0.0)
    """
    base, ratio = float(plain.mean()), float(better.mean() / plain.mean())
    return 100 * (1 - ratio), 100 * float((better - ratio * plain).std()) / base / math.sqrt(len(plain))


def separate(plain: NDArray[np.float64], better: NDArray[np.float64]) -> tuple[float, float]:
    """Return the same from independent runs."""
    base, ratio = float(plain.mean()), float(better.mean() / plain.mean())
    spread = math.hypot(float(better.std()), ratio * float(plain.std()))
    return 100 * (1 - ratio), 100 * spread / base / math.sqrt(len(plain))


def crowding(descending: NDArray[np.int64], k: int, scale: float) -> float:
    """Return which part of the k + 1 largest counts is nearer to the next one than the noise's scale.

    >>> crowding(np.array([90, 50, 48, 10]), 3, 5.0)
    0.3333333333333333
    """
    return float((-np.diff(descending[: k + 1]) < scale).mean())


def each_theory(k: int, noise: Noise) -> float:
    """Return Free Gap, theorem 3 (Laplace), and its exponential counterpart, in per cent.

    >>> each_theory(10, "laplace"), round(each_theory(10, "exponential"), 9)
    (45.0, 60.0)
    """
    return 100 * (k - 1) / k * (1 / 2 if noise == "laplace" else 2 / 3)


def anchor_theory(k: int, noise: Noise, share: float) -> float:
    """Return what one noisy total at this share of epsilon saves against measuring k counts with half of it.

    The variances are s k (k-1)/selection^2 + 2/measuring^2 and 2 (k/half)^2; s = 1 exponential, 2 Laplace.

    >>> round(anchor_theory(10, "exponential", 0.219))
    76
    """
    spread = 2 if noise == "laplace" else 1
    anchored = spread * k * (k - 1) / (1 - share) ** 2 + 2 / share**2
    return 100 * (1 - anchored / (2 * (2 * k) ** 2))


def threshold_alone(k: int, noise: Noise) -> float:
    """Return Free Gap, section 6.2: each measurement with its own gap, at the threshold's share 1 : k^(2/3).

    >>> round(threshold_alone(10, "laplace"), 1)
    35.8
    """
    measuring, gaps, threshold = _variances(k, noise)
    return 100 * measuring / (measuring + gaps + threshold)


def threshold_joint(k: int, noise: Noise) -> float:
    """Return the same for the best linear estimate from all k measurements and gaps together.

    All gaps share one threshold noise, which the measurements estimate.

    >>> round(threshold_joint(10, "laplace"), 1)
    38.1
    """
    measuring, gaps, threshold = _variances(k, noise)
    both = measuring + gaps
    best = measuring * gaps / both + (measuring / both) ** 2 / (1 / threshold + k / both)
    return 100 * (1 - best / measuring)


def _variances(k: int, noise: Noise) -> tuple[float, float, float]:
    """Of a measurement, of a gap's own noise, and of the threshold's, in units of 1/(epsilon/2)^2."""
    spread, share = (2 if noise == "laplace" else 1), 1 / (1 + k ** (2 / 3))
    return 2.0 * k * k, spread * (k / (1 - share)) ** 2, spread / share**2


def near(found: Sequence[Measured]) -> tuple[bool, str]:
    """Tell whether all of them are as theory says, and in words by how much they are off."""
    if not found:
        return False, "there is none"
    off = [m.off for m in found]
    return (
        all(abs(m.off) <= m.allowed for m in found),
        f"the farthest of the {len(found)} solid points is {max(map(abs, off)):.1f} percentage points off, "
        f"{max(abs(m.off) / m.error if m.error else 0.0 for m in found):.1f} standard errors at most; on "
        f"average they are {round(float(np.mean(off)), 1) + 0.0:+.1f} off",
    )


def named(noise: Noise) -> str:
    """Spell a noise's name."""
    return "Laplace" if noise == "laplace" else noise
