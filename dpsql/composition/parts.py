"""Take a private statement apart into its releases and the query over the released rows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dpsql.analysis import Catalog
from dpsql.language import Options, Query
from dpsql.policy import Policy


@dataclass(frozen=True, slots=True)
class ReleasePart:
    """One release of a statement: a query that is analysed, priced and run like a statement of its own."""

    name: str
    """The name of the released relation in the outer query: `r0`, `r1`, ..."""
    query: Query
    """The release block; its options hold the part of epsilon and delta that belongs to it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The releases of a statement, in the order in which they were written, and the query over them."""

    releases: tuple[ReleasePart, ...]
    outer: exp.Query | None = None
    """SQL over the released relations and public tables; None if the statement is its one release."""


def parts_of(query: Query, policy: Policy, catalog: Catalog, defaults: Options) -> Parts:
    """Return the parts of a private statement; refuse one that cannot be taken apart."""
    return Parts((ReleasePart("r0", query),))
