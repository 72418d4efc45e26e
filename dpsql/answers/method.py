"""How a selection is answered: priced before anything is read, then run on exact counts once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsql.charge import Charge
    from dpsql.engines import Counts
    from dpsql.estimates import Combined

__all__ = ["Method", "NoisyResult"]


@dataclass(frozen=True, slots=True)
class NoisyResult:
    """What a method releases: everything in it is differentially private, at `charge`.

    `rows` are positions of the released groups among the candidates, in release order: that of noisy values
    (ties by random ranks), of a public order, or of the keys, never that of the engine; `gap` and
    `p_value` have one value a row (NaN where there is none) or are None; `counts` has, for each count of
    the plan, its estimates over the rows, or None if nobody paid for it.
    """

    rows: NDArray[np.int64]
    charge: Charge
    counts: tuple[Combined | None, ...]
    gap: NDArray[np.float64] | None = None
    p_value: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """What is known of an answer before it is asked for: its price, and how good it will be."""

    charge: Charge
    """The most it may cost."""
    mechanism: str
    """In words: `noisy top-k with gap`."""
    scale: float
    """Scale of the selection noise, in counts."""
    split: str
    """How epsilon is divided, in words."""
    predicted_stddev: float | None
    """Of the ordering count, the largest that a row may have; None if no count is released."""
    half_width: float | None
    """Of its interval."""
    tells_apart: float | None
    """The gap between two counts that is seen as one, at the confidence asked for."""
    notes: tuple[str, ...] = field(default=())
    """Sentences for the analyst, in EXPLAIN and with the release."""
    outlook: dict[str, float] = field(default_factory=dict)
    """Further predictions for EXPLAIN, by name."""


class Method(Protocol):
    """One way to answer a plan."""

    @property
    def quote(self) -> Quote:
        """What is known before it is asked for."""

    def run(self, counts: Counts) -> NoisyResult:
        """Select and measure; the only place where exact counts meet noise."""
