"""Measure counts with Laplace noise: each count, or their total."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import bound, counted, positive, whole
from dpsql.mechanisms.audited import AuditCase
from dpsql.mechanisms.grid import SYSTEM, NoiseSource, grid_of, in_counts
from dpsql.mechanisms.mechanism import Mechanism, Result, in_one_call
from dpsql.privacy import PrivacyLoss

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpsql.privacy import Number

__all__ = ["AUDITED", "Anchor", "Laplace", "Measured", "Total", "anchor", "laplace", "release_all"]

R = TypeVar("R")


@dataclass(frozen=True, eq=False, slots=True)
class Measured(Result["Laplace"]):
    """Counts with independent Laplace noise: `value`, float64, a multiple of 2^-resolution for each."""

    value: NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Total(Result["Anchor"]):
    """The noisy total of several counts, which locates counts known only by their gaps: `total`, float64."""

    total: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _LaplaceNoise(Mechanism[R]):
    """The public facts of Laplace noise on counts.

    Attributes
    ----------
    groups
        Number of counts.
    scale
        Scale of the noise drawn, in counts.
    resolution
        b, for a grid of 2^-b counts.
    """

    groups: int
    scale: Fraction
    resolution: int


@dataclass(frozen=True, slots=True)
class Laplace(_LaplaceNoise[Measured]):
    """Independent Laplace noise on each count, clamped to 2^40; of one public count too.

    Notes
    -----
    Discrete Laplace noise of scale m c/epsilon on the grid: P(z) proportional to e^(-|z|/scale). *Private:*
    neighbouring databases differ in at most m counts, by at most c each, a whole number of steps; so the
    probability of any output by at most a factor (e^(c/scale))^m. The values have the positions of their
    counts: the order of release must be public, or itself be released.
    """

    @classmethod
    def with_scale(
        cls,
        groups: int,
        scale: Number,
        *,
        groups_per_unit: int | None = None,
        sensitivity: Number = 1,
        resolution: int | None = None,
    ) -> Self:
        """Plan noise of this scale, in counts; other parameters as in `plan`."""
        width, moved = positive(scale, "scale"), bound(sensitivity)
        m = groups if groups_per_unit is None else min(whole(groups_per_unit, "groups_per_unit"), groups)
        bits = grid_of("laplace", resolution, width)
        return cls(groups, width, bits, loss=PrivacyLoss.of(moved / width, times=m))

    @classmethod
    def plan(
        cls,
        groups: int,
        epsilon: Number,
        *,
        groups_per_unit: int | None = None,
        sensitivity: Number = 1,
        resolution: int | None = None,
    ) -> Self:
        """Plan the release of every count; all of epsilon is spent, unless there is no count.

        Parameters
        ----------
        groups
            Number of counts.
        epsilon
            Budget of a run.
        groups_per_unit
            m, the largest number of groups in which a privacy unit is counted. None: all of them.
        sensitivity
            c, how much a unit can change each of these counts.
        resolution
            b for a grid of 2^-b counts; chosen from the scale if left out.

        Examples
        --------
        >>> Laplace.plan(3, 1, groups_per_unit=2).scale
        Fraction(2, 1)
        """
        m = groups if groups_per_unit is None else min(whole(groups_per_unit, "groups_per_unit"), groups)
        scale = max(m, 1) * bound(sensitivity) / positive(epsilon, "epsilon")
        return cls.with_scale(
            groups, scale, groups_per_unit=groups_per_unit, sensitivity=sensitivity, resolution=resolution
        )

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Measured:
        """Add noise to each count."""
        array = counted(counts, self.groups, trials=True)
        values = exact_noise.place(array, self.resolution)
        values += source.draw("laplace", self.scale, self.resolution, array.shape)
        return Measured(self, in_counts(values, self.resolution))


@dataclass(frozen=True, slots=True)
class Anchor(_LaplaceNoise[Total]):
    """Laplace noise on the total of selected counts; with their gaps it determines each count.

    *Private:* one unit changes the total of k counts by at most k c; the noise has scale k c/epsilon.
    """

    @classmethod
    def with_scale(
        cls, groups: int, scale: Number, *, sensitivity: Number = 1, resolution: int | None = None
    ) -> Self:
        """Plan noise of this scale on the total; other parameters as in `plan`."""
        width, moved = positive(scale, "scale"), bound(sensitivity)
        if groups < 1:
            raise ValueError("an anchor needs at least one count")
        bits = grid_of("laplace", resolution, width)
        return cls(groups, width, bits, loss=PrivacyLoss.of(groups * moved / width))

    @classmethod
    def plan(
        cls, groups: int, epsilon: Number, *, sensitivity: Number = 1, resolution: int | None = None
    ) -> Self:
        """Plan the release of a total; parameters as in `Laplace.plan`."""
        scale = groups * bound(sensitivity) / positive(epsilon, "epsilon")
        return cls.with_scale(groups, scale, sensitivity=sensitivity, resolution=resolution)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Total:
        """Add the counts, then noise."""
        placed = exact_noise.place(counted(counts, self.groups, trials=True), self.resolution)
        noise = source.draw("laplace", self.scale, self.resolution, (*placed.shape[:-1], 1))
        # Python integers where a sum of clamped counts may pass 2^63; converted once noise is added.
        wide = self.groups * exact_noise.COUNT_LIMIT << self.resolution > exact_noise.LARGEST
        total = np.add.reduce(
            np.concatenate([placed, noise], axis=-1), axis=-1, dtype=object if wide else np.int64
        )
        return Total(self, in_counts(np.asarray(total).astype(np.float64), self.resolution))


release_all = in_one_call(Laplace.plan)
"""Release each of given counts; arguments as in `Laplace.plan`, with the counts first."""

laplace = in_one_call(Laplace.with_scale)
"""Release each of given counts with noise of a given scale: `Laplace.with_scale`."""

anchor = in_one_call(Anchor.with_scale)
"""Release the total of given counts with noise of a given scale: `Anchor.with_scale`."""

AUDITED = (
    AuditCase(
        "laplace, each count", "each of k counts with noise of scale k/epsilon", Laplace.plan, "monotone"
    ),
    AuditCase("anchor", "the total of k counts with noise of scale k/epsilon", Anchor.plan, "monotone"),
    AuditCase(
        "release all, 1 group a unit",
        "a histogram: all counts, of which a unit changes one",
        partial(Laplace.plan, groups_per_unit=1),
        "one",
    ),
    AuditCase(
        "release all, 2 groups a unit",
        "all counts, of which a unit changes two",
        partial(Laplace.plan, groups_per_unit=2),
        inputs=lambda _: [
            ("two above", (1, 1, 1, 1, 1), (2, 2, 1, 1, 1)),
            ("one above, one below", (1, 1, 1, 1, 1), (2, 0, 1, 1, 1)),
            ("two below", (3, 1, 2), (2, 0, 2)),
        ],
    ),
)
"""How they are audited."""
