"""Check the public arguments of mechanisms before any draw; an error depends on public values only."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel.loss import Number, exact
from dpsql.kernel.order import OrderedCounts, SparseCounts

Noise = Literal["exponential", "laplace", "geometric"]
"""Law of the noise; geometric noise is exponential noise on the grid of integers."""


def counted(counts: ArrayLike, groups: int | None = None, *, trials: bool = False) -> NDArray[np.int64]:
    """Convert counts to int64 of one dimension, or of two if independent trials are allowed.

    With `groups`, there must be that many of them: the number that the mechanism was planned for.
    """
    array = np.asarray(counts)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)  # numpy reads an empty list as float64
    if array.dtype.kind not in "iu" or not np.can_cast(array.dtype, np.int64, casting="safe"):
        raise ValueError("counts must be signed integers of at most 64 bits")
    if array.ndim != 1 and not (trials and array.ndim == 2):
        raise ValueError("counts must have one dimension" + (", or two: (trials, groups)" if trials else ""))
    if groups is not None and array.shape[-1] != groups:
        raise ValueError(f"planned for {groups} counts")
    return array.astype(np.int64, copy=False)


def sparsely_counted(counts: SparseCounts, groups: int) -> SparseCounts:
    """Check the counts of a domain of so many groups, of which some are listed."""
    values, positions = counted(counts.values, trials=True), counted(counts.positions)
    if counts.size != groups or values.shape[-1] != len(positions):
        raise ValueError(f"planned for {groups} counts")
    if (np.diff(positions, prepend=-1, append=groups) <= 0).any():
        raise ValueError("positions must ascend within the domain")
    return SparseCounts(values, positions, groups)


def in_order(counts: OrderedCounts, groups: int | None = None, *, trials: bool = False) -> NDArray[np.int64]:
    """Convert counts in a public order, as `counted`; a bare array is refused, its order may be private."""
    if not isinstance(counts, OrderedCounts):
        raise TypeError("this mechanism depends on positions: declare them public by in_public_order(counts)")
    if isinstance(counts.values, SparseCounts):
        raise TypeError("this mechanism takes the counts of all groups")
    return counted(counts.values, groups, trials=trials)


def whole(value: int, name: str) -> int:
    """Check a number of rows: an int of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be a whole number, at least 1")
    return int(value)


def positive(value: Number, name: str) -> Fraction:
    """Convert a positive budget or scale to an exact fraction."""
    number = exact(value)
    if number.numerator <= 0:
        raise ValueError(f"{name} must be positive")
    return number


def between(value: Number, name: str) -> Fraction:
    """Convert a number strictly between 0 and 1: a share of the budget, or a delta."""
    number = exact(value)
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie between 0 and 1")
    return number


def bound(sensitivity: Number) -> Fraction:
    """Check a sensitivity: a whole number of at least 1, because counts are whole numbers."""
    number = exact(sensitivity)
    if number.denominator != 1 or number.numerator < 1:
        raise ValueError("sensitivity must be a whole number, at least 1")
    return number


def kind(noise: str) -> Noise:
    """Check the name of a noise law."""
    for known in get_args(Noise):
        if noise == known:
            return cast("Noise", known)
    raise ValueError("noise must be 'exponential', 'laplace' or 'geometric'")
