"""The types of an answer: a method, its quote before data is read, and its noisy result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Output, Quantile
from dpsql.estimates import Combined, Formula, with_noun
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.release import Rows, Run
from dpsql.lazy_dataclass import dataclass

SHOWN = "a group is shown if its noisy number of units"
"""How the note begins that says which groups of undeclared keys are shown."""


@dataclass(frozen=True, slots=True)
class NoisyResult:
    """The release of a method: everything in it is differentially private, at the loss of its run.

    `rows` are the released groups in release order: that of noisy values (ties by random ranks), of a public
    order, or of the keys, never that of the engine; `gap` and
    `p_value` have one value a row (NaN where there is none) or are None; `counts` has, for each count of
    the plan, its estimates over the rows, or None if it was not measured.
    """

    rows: Rows
    counts: tuple[Combined | None, ...]
    values: Mapping[tuple[tuple[int, ...], Formula], Combined] = field(default_factory=dict)
    """The estimates of numbers that follow from several counts, by the places of these and the formula."""
    gap: NDArray[np.float64] | None = None
    p_value: NDArray[np.float64] | None = None
    rank: NDArray[np.int64] | None = None
    """The rank of each row where it is not its place in the release."""
    notes: tuple[str, ...] = ()
    """Sentences for the analyst that follow from what is released here."""
    untold: frozenset[str] = frozenset()
    """The notes of the quote that are not true of this answer."""
    mechanism: str = ""
    """The mechanism that answered, where the bounds that were found choose it; "": that of the quote."""
    cells: Mapping[Quantile, NDArray[np.int64]] = field(default_factory=dict)
    """The cells that were chosen for quantiles, one a row."""
    alone: NoisyResult | None = None
    """The same with intervals of the noise alone, if these have what bounds that were found leave out."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Sentences on what bounds that were found leave out, as properties of the release (`render.lines`)."""
    excess: Mapping[int, float] = field(default_factory=dict)
    """Estimates of what these bounds leave out of numbers in all groups together, by their places."""
    most_left_out: Mapping[int, float] = field(default_factory=dict)
    """What units have beyond bounds in all groups together at most, by the places of the numbers."""
    units_above: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """How many units are above these bounds at least and at most, by the places of the searches."""
    sums: Mapping[int, float] = field(default_factory=dict)
    """The sums of noisy numbers over all groups, by place, where some are not shown but all were measured."""
    outside: NoisyResult | None = None
    """The numbers of the rows in no group, as a result of one row."""


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
class AtDistance:
    """What a sparse vector does with groups at one distance from its threshold, from public figures alone."""

    distance: float
    """Count less threshold."""
    rows: float
    """Expected rows if all groups lie there."""
    hit: float
    """Probability that such a group is a hit."""
    stddev: float | None
    """Standard deviation of the estimate of a hit; None where it is not predicted."""
    charge: float | None
    """Expected charge of a hit, as a share of that of a base hit; None if there is none."""

    def __str__(self) -> str:
        """Write what to expect at a distance from the threshold, for a cell of EXPLAIN."""
        parts = [f"{self.distance:+.3g}: {with_noun(f'{self.rows:.3g}', 'row')}", f"hit {self.hit:.2g}"]
        if self.stddev is not None:
            parts.append(f"stddev {self.stddev:.3g}")
        if self.charge is not None:
            parts.append(f"charge {self.charge:.2g}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Quote:
    """The price and the predicted error of an answer, from public parameters alone."""

    charge: Charge
    """The largest charge, by the price that the statement names."""
    mechanism: str
    """Name of the mechanism in words, such as `noisy top-k with gap`."""
    scale: float
    """Scale of the selection noise, in the unit of the number that orders the groups."""
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
    errors: Mapping[Output, str] = field(default_factory=dict)
    """The predicted error of each number, in words, where they are not of one kind."""
    measured_by: str = ""
    """The strategy that measures counts of selected groups: `BOX`, `EACH` or `ANCHOR`; empty: none does."""
    outlook: Mapping[str, float | tuple[float, float] | AtDistance] = field(default_factory=dict)
    """Further predictions for EXPLAIN, by name; a pair is a range."""
    divided: PrivacyLoss | None = None
    """The largest loss, where the statement's cost at one order is divided; None: that of the charge."""

    @property
    def loss(self) -> PrivacyLoss:
        """The largest privacy loss that a run of the method can have."""
        return (
            PrivacyLoss.of(self.charge.epsilon, self.charge.delta) if self.divided is None else self.divided
        )


class Method(Protocol):
    """A method of answering a plan: quotes a price, then runs once, in steps that the kernel runs."""

    @property
    def quote(self) -> Quote:
        """The price and the predicted error."""

    def run(self, run: Run) -> NoisyResult:
        """Select groups and measure their numbers, once, with the noise of the method."""


class KeepsQuote:
    """The base class of methods whose quote is computed when it is first read, then kept."""

    __slots__ = ("_quote",)
    _quote: Quote

    @property
    def quote(self) -> Quote:
        """The price and the predicted error, from public parameters alone."""
        found: Quote | None = getattr(self, "_quote", None)
        if found is None:
            found = self.compute_quote()
            object.__setattr__(self, "_quote", found)
        return found

    def compute_quote(self) -> Quote:
        """Compute the price and the predicted error."""
        raise NotImplementedError
