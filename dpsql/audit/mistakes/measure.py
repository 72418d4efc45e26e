"""Incorrect measuring mechanisms whose mistake shows only in several numbers, or at large counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.mistakes.noise import laplace
from dpsql.audit.subject import Subject
from dpsql.kernel.noise import Entropy


def two_names(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> dict[str, NDArray[np.float64]]:
    """Return two counts under two names, each with noise for three quarters of epsilon."""
    drawn = laplace(4 / (3 * epsilon), (trials, 2), entropy)
    return {"a": counts[0] + drawn[:, 0], "b": counts[1] + drawn[:, 1]}


def shared(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> dict[str, NDArray[np.float64]]:
    """Return two counts under two names with one shared draw of noise, which cancels in b - 2 a."""
    drawn = laplace(2 / epsilon, trials, entropy)
    return {"a": counts[0] + drawn, "b": counts[1] + 2 * drawn}


def below_grid(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> NDArray[np.float64]:
    """Return a sum of amounts of about 0.1 with noise on a coarser grid than that of the amounts."""
    amount, steps = round(0.1 * (1 << 20)) / (1 << 20), 1 << 8
    return np.asarray(counts[0] * amount + np.rint(laplace(1 / epsilon, trials, entropy) * steps) / steps)


def scale_dropped(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> NDArray[np.float64]:
    """Return counts with noise of scale 1/epsilon, but of a third of it for counts above 50."""
    drawn = laplace(1 / epsilon, (trials, len(counts)), entropy)
    return np.asarray(counts + np.where(counts > 50, drawn / 3, drawn))


def narrow_counter(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> NDArray[np.float64]:
    """Return a count kept in 8 bits, with noise."""
    return np.asarray((counts[0] & 255) + laplace(1 / epsilon, trials, entropy))


SUBJECTS = (
    Subject(
        "two counts under two names",
        "incorrect",
        "each with noise for three quarters of epsilon: together they cost one and a half",
        two_names,
        "monotone",
    ),
    Subject(
        "two counts, one draw of noise",
        "incorrect",
        "a = x + N and b = y + 2 N: b - 2 a has no noise",
        shared,
        "monotone",
    ),
    Subject(
        "noise on a coarser grid than the sum",
        "incorrect",
        "digits below the noise's grid are those of the sum (Haney et al. 2022)",
        below_grid,
        "one",
    ),
    Subject(
        "scale dropped above 50",
        "incorrect",
        "noise of a third of the scale where a count is large",
        scale_dropped,
        "one",
    ),
    Subject(
        "count in 8 bits",
        "incorrect",
        "255 and one more are 0: one unit changes the count by 255",
        narrow_counter,
        "one",
    ),
)
"""The subjects of this module."""
