"""A table of an engine that a policy cannot declare."""

from __future__ import annotations

from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """A table that is left out, why, and the statement or option that would let it be declared."""

    name: str
    why: str
    mend: str = ""
