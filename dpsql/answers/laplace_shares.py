"""Divide what a statement has for measuring among numbers with Laplace noise: its epsilon, or its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpsql.epsilon_division import Layout
from dpsql.estimates import split_measuring
from dpsql.kernel import mechanisms
from dpsql.lazy_dataclass import dataclass

_PLACES = 40
"""Bits of square roots, whose last digits do not matter."""


@dataclass(frozen=True, slots=True)
class LaplaceShare:
    """The Laplace noise of one number of every group, or of several that have one noise.

    Attributes
    ----------
    epsilon
        Of each mechanism.
    sensitivity
        The most by which one unit changes what a mechanism measures.
    times
        How many there are at most: a unit changes all groups together by so many sensitivities.
    """

    epsilon: Fraction
    sensitivity: int
    times: int = 1

    @property
    def scale(self) -> Fraction:
        """The scale of the noise."""
        return self.sensitivity / self.epsilon

    def noise(self, size: int, *, resolution: int | None = None, total: bool = False) -> mechanisms.Laplace:
        """Return the noise of so many values, or of their total; of fewer it costs less, and is the same."""
        moved = 1 if total else max(min(self.times, size), 1)
        return mechanisms.Laplace.plan(
            size,
            moved * self.epsilon,
            groups_per_unit=moved,
            sensitivity=self.sensitivity,
            resolution=resolution,
            total=total,
        )


def laplace_shares(layout: Layout, moves: Sequence[int], bounds: Sequence[int]) -> tuple[LaplaceShare, ...]:
    """Divide a layout among numbers so that the sum of their variances is least.

    `moves` are the most by which one unit changes each number in all groups together, `bounds` the most in
    one group. By cost, a number is then measured by several mechanisms, if that has less noise than one for
    all that a unit moves. Raises `ValueError` if an epsilon is too small.

    >>> order = Fraction(4)
    >>> [float(each.scale) for each in laplace_shares(Layout(Fraction(1, 10)), [50], [1])]
    [500.0]
    >>> [round(float(each.scale), 1) for each in laplace_shares(Layout(Fraction(1, 10), order), [50], [1])]
    [71.4]
    """
    if layout.order is None:
        split = split_measuring(layout.epsilon, moves)
        return tuple(LaplaceShare(own, move) for own, move in zip(split, moves, strict=True))
    known = [min(pair) for pair in zip(moves, bounds, strict=True)]
    # The cost of a scale s is about that of Gaussian noise of its variance, in proportion to n (c/s)^2.
    roots = [
        math.isqrt(min(-(-move // c) * c * c, move * move) << 2 * _PLACES)
        for move, c in zip(moves, known, strict=True)
    ]
    found = []
    for move, c, root in zip(moves, known, roots, strict=True):
        share, times = Fraction(root, sum(roots)), -(-move // c)
        ways = [(layout.pure(share), move, 1), (layout.pure(share, times), c, times)]
        if not all(epsilon for epsilon, *_ in ways):
            raise ValueError("epsilon is too small to be divided")
        found.append(min((LaplaceShare(*way) for way in ways), key=lambda each: each.scale))
    return tuple(found)
