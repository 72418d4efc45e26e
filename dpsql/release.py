"""What a private statement hands out: the rows asked for, everything that is free beside them, and the price."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from dpsql.charge import Charge

__all__ = ["Release"]


@dataclass(frozen=True, slots=True)
class Release:
    """One differentially private answer. Reading it, again and again, costs nothing more.

    Attributes
    ----------
    rows
        The columns of the select list, named and typed as asked: what `fetchall` returns.
    table
        `rows` and everything free beside them, one row a released group: `gap` when the mechanism has
        one, and for each noisy count `n` the columns `n_stddev`, `n_low`, `n_high` (DOUBLE; NULL where
        there is none).
    keys, counts
        Names of the key columns and of the noisy count columns of `rows`.
    reading
        `"top-k"`, `"argmax"`, `"above threshold"`, ...
    mechanism
        The mechanism in words: `"noisy top-k with gap"`.
    guarantee
        In words, for people: what was promised to whom.
    charge
        What was spent, exact.
    scale
        Scale of the selection noise, in counts.
    confidence
        Level of the intervals.
    warnings
        Sentences for the analyst; they never depend on unreleased data.
    statement
        The statement as typed.
    number
        The release's number in the ledger.
    reused
        When the stored answer was first given, if this one cost nothing because it was asked before.
    """

    rows: pa.Table
    table: pa.Table
    keys: tuple[str, ...]
    counts: tuple[str, ...]
    reading: str
    mechanism: str
    guarantee: str
    charge: Charge
    scale: float
    statement: str
    confidence: Fraction = Fraction(95, 100)
    warnings: tuple[str, ...] = ()
    number: int | None = None
    reused: datetime | None = None
    properties: dict[str, str] = field(default_factory=dict)
    """Further facts shown by front ends: the split, the unit, the domain's size."""
