"""The release of a private statement: its rows, what is free beside them, and its charge."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.policy import Assumed
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Release:
    """One differentially private answer. Reading it costs nothing more, however often."""

    rows: pa.Table
    """The columns of the select list, named and typed as asked: what `fetchall` returns."""
    table: pa.Table
    """`rows` and everything free beside them, one row a released group: `gap` when the mechanism has one, and
    for each noisy count `n` the columns `n_stddev`, `n_low`, `n_high` (DOUBLE; NULL where there is none).
    """
    keys: tuple[str, ...]
    counts: tuple[str, ...]
    """Names of the key columns and of the noisy count columns of `rows`."""
    selection: str
    """`"top-k"`, `"argmax"`, `"above threshold"`, ..."""
    mechanism: str
    """The mechanism in words: `"noisy top-k with gap"`."""
    guarantee: str
    """The privacy guarantee, in a sentence."""
    charge: Charge
    """What was spent, exact."""
    scale: float
    """Scale of the selection noise, in the unit of the number that orders the groups."""
    statement: str
    """The statement as typed."""
    confidence: Fraction = Fraction(95, 100)
    """Level of the intervals."""
    warnings: tuple[str, ...] = ()
    """Sentences for the analyst; they never depend on unreleased data."""
    number: int | None = None
    """The release's number in the ledger."""
    reused: datetime | None = None
    """When the stored answer was first given, if this one cost nothing because it was asked before."""
    charged_again: str = ""
    """If the same statement was answered before: when, and why it was charged again."""
    parts: tuple[Release, ...] = ()
    """The releases of a statement that computes from several; `rows` are then those of its outer query."""
    assumed: tuple[Assumed, ...] = ()
    """What the statement left open and was answered with, such as a bound of the policy."""
    properties: dict[str, str] = field(default_factory=dict)
    """Further facts shown by front ends: the split, the unit, the domain's size, the count that orders."""

    def __repr__(self) -> str:
        # Imported on use, as below: modules that only name the type need not load it.
        from dpsql.render.table import release_text  # noqa: PLC0415

        return release_text(self)

    def _repr_html_(self) -> str:
        """Show the answer in a notebook: a table with bars and intervals, no script, nothing fetched."""
        from dpsql.render.html import release_html  # noqa: PLC0415

        return release_html(self)


_FACTS = ("keys", "counts", "mechanism", "guarantee", "scale", "statement", "warnings", "properties")
"""Attributes stored as they are; `reading` is the name under which the first ledgers stored the selection."""


def to_bytes(release: Release) -> bytes:
    """Write a release as the ledger stores it: its facts as JSON, its two tables as Arrow streams."""
    import pyarrow as pa  # noqa: PLC0415  loaded only where a release is stored

    facts = {name: getattr(release, name) for name in _FACTS} | {
        "reading": release.selection,
        "charge": [str(release.charge.epsilon), str(release.charge.delta)],
        "confidence": str(release.confidence),
        "assumed": [[each.what, each.value, each.where] for each in release.assumed],
    }
    parts = [json.dumps(facts).encode()]
    for table in (release.rows, release.table):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        parts.append(sink.getvalue().to_pybytes())
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def from_bytes(data: bytes) -> Release:
    """Read a stored release back."""
    import pyarrow as pa  # noqa: PLC0415

    parts = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        parts.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    facts = json.loads(parts[0])
    rows, table = (pa.ipc.open_stream(part).read_all() for part in parts[1:3])
    facts |= {name: tuple(facts[name]) for name in ("keys", "counts", "warnings")}
    facts["assumed"] = tuple(Assumed(*each) for each in facts.pop("assumed", ()))
    facts["selection"] = facts.pop("reading")
    facts["charge"] = Charge(*map(Fraction, facts["charge"]))
    facts["confidence"] = Fraction(facts["confidence"])
    return Release(rows=rows, table=table, **facts)
