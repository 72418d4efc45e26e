"""The types of an answer: a method, its quote before data is read, and its noisy result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.engines import Counts
from dpsql.estimates import Combined
from dpsql.privacy import Charge, PrivacyLoss


@dataclass(frozen=True, slots=True)
class NoisyResult:
    """The release of a method: everything in it is differentially private, at this loss.

    `rows` are positions of the released groups among the candidates, in release order: that of noisy values
    (ties by random ranks), of a public order, or of the keys, never that of the engine; `gap` and
    `p_value` have one value a row (NaN where there is none) or are None; `counts` has, for each count of
    the plan, its estimates over the rows, or None if it was not measured.
    """

    rows: NDArray[np.int64]
    loss: PrivacyLoss
    counts: tuple[Combined | None, ...]
    gap: NDArray[np.float64] | None = None
    p_value: NDArray[np.float64] | None = None

    @property
    def charge(self) -> Charge:
        """What was spent, by basic composition."""
        return self.loss.charge


@dataclass(frozen=True, slots=True)
class Considered:
    """A mechanism that could answer a selection, with its predicted error, from public figures alone."""

    mechanism: str
    """Its name as `OPTIONS (mechanism = ..)` takes it, and what measures: `NOISY_TOP_K + BOX`."""
    tells_apart: float | None
    """As in `Quote`."""
    stddev: float | None
    """Predicted standard deviation of a count; None if none is released."""
    half_width: float | None
    """Predicted half of the width of its interval; None if none is released, or it is not predicted."""
    charge: Charge
    """The largest charge."""
    why: str
    """`chosen`, or the reason why it was not, in a few words."""


@dataclass(frozen=True, slots=True)
class Quote:
    """The price and the predicted error of an answer, from public parameters alone."""

    charge: Charge
    """The largest charge."""
    mechanism: str
    """Name of the mechanism in words, such as `noisy top-k with gap`."""
    scale: float
    """Scale of the selection noise, in counts."""
    split: str
    """How epsilon is divided, in words."""
    predicted_stddev: float | None
    """Largest standard deviation of a count in a row; None if no count is released."""
    half_width: float | None
    """Half the width of the widest interval; None if no count is released, or it is not predicted."""
    tells_apart: float | None
    """The smallest difference of two counts that the selection detects at the requested confidence."""
    notes: tuple[str, ...] = field(default=())
    """Sentences for the analyst, in EXPLAIN and with the release."""
    outlook: dict[str, float] = field(default_factory=dict)
    """Further predictions for EXPLAIN, by name."""
    widest: float | None = None
    """Half the width of the widest interval of any count; None: `half_width` is."""


class Method(Protocol):
    """A method of answering a plan: quotes a price, then runs once."""

    @property
    def quote(self) -> Quote:
        """The price and the predicted error."""

    def run(self, counts: Counts) -> NoisyResult:
        """Select and measure; the only step that reads exact counts and adds noise."""
