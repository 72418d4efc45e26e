"""What the analysis hands on: the compiled counting query, the selection, and what the answer looks like."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dpsql.errors import InternalError

if TYPE_CHECKING:
    from dpsql.analysis.relation import Owner
    from dpsql.analysis.released import Count
    from dpsql.language import Options, Query, Selection
    from dpsql.types import SqlType

__all__ = [
    "CompiledQuery",
    "Output",
    "Plan",
    "PublicOrder",
    "max_candidates",
    "seal",
    "unknown_mechanism",
]

LIMITED_DOMAIN_K = 32
"""Up to this k the limited domain mechanism finds more of the true top k, above it Top Stable does."""


def unknown_mechanism(k: int, options: Options) -> str:
    """Name the mechanism that answers a top-k over keys that nobody declared."""
    asked = options.mechanism or "AUTO"
    if asked == "AUTO":
        return "LIMITED_DOMAIN" if k <= LIMITED_DOMAIN_K else "TOP_STABLE"
    return asked


def max_candidates(k: int, options: Options) -> int:
    """Return k-bar: how many of the largest groups take part."""
    return options.candidates or (10 * k if unknown_mechanism(k, options) == "LIMITED_DOMAIN" else k)


_TOKEN = object()


class PublicOrder:
    """Proof that the groups of a compiled query come in an order of public values alone.

    Only `seal` makes one, for counting SQL that ends in an ORDER BY over the domains of all keys. No private
    row can change that order, and no two groups are equal in it.
    """

    __slots__ = ()

    def __init__(self, token: object) -> None:
        if token is not _TOKEN:
            raise InternalError("a public order is proved by the analysis alone")

    def __repr__(self) -> str:
        return "PublicOrder()"


class CompiledQuery:
    """Counting SQL that the analysis proved and the engine's binder confirmed.

    Only `dpsql.analysis` makes one, and an engine counts nothing else. `sql` yields one row a candidate
    group: the keys `k0`, ..., then the counts `n0`, ... (BIGINT, never NULL). `counts_only` says that nothing
    in it computes from private values: it compares, joins and counts. `order` is the proof that the groups
    come in a public order; None where the engine may return them in any order, which then depends on private
    rows.
    """

    __slots__ = ("counts", "counts_only", "keys", "order", "sql", "tables")

    sql: str
    keys: tuple[SqlType, ...]
    counts: int
    tables: tuple[str, ...]
    counts_only: bool
    order: PublicOrder | None

    def __init__(
        self,
        sql: str,
        keys: tuple[SqlType, ...],
        counts: int,
        tables: tuple[str, ...],
        counts_only: bool,
        order: PublicOrder | None,
        token: object,
    ) -> None:
        if token is not _TOKEN:
            raise InternalError("a compiled query is made by the analysis alone")
        object.__setattr__(self, "sql", sql)
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "counts_only", counts_only)
        object.__setattr__(self, "order", order)

    def __setattr__(self, name: str, value: object) -> None:
        raise InternalError("a compiled query is not changed")

    def __repr__(self) -> str:
        return f"CompiledQuery({self.sql!r})"


def seal(
    sql: str,
    keys: tuple[SqlType, ...],
    counts: int,
    tables: tuple[str, ...],
    *,
    counts_only: bool,
    ordered: bool,
) -> CompiledQuery:
    """Make the compiled query; called once, at the end of the proof."""
    order = PublicOrder(_TOKEN) if ordered else None
    return CompiledQuery(sql, keys, counts, tables, counts_only, order, _TOKEN)


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer: a key, a count, or something free about a count (`of`)."""

    name: str
    kind: Literal["key", "count", "gap", "stddev", "low", "high", "p_value", "rank", "derived"]
    of: int = -1
    sql: str = ""
    """Of a derived column: its calculation over the released keys `r.k0`, .. and counts `r.n0`, .."""
    uses: tuple[int, ...] = ()
    """The counts it is calculated from."""
    at: int = field(default=0, compare=False, repr=False)
    """Where it stands in the statement."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A private statement, proved: what to run, how to select, what to show."""

    query: Query
    compiled: CompiledQuery
    selection: Selection
    options: Options
    """Complete: the policy's and connection's defaults filled in."""
    outputs: tuple[Output, ...]
    counts: tuple[Count, ...]
    key_types: tuple[SqlType, ...]
    domain_size: int | None
    """None: nobody declared the keys' values; then the engine yields the largest groups alone."""
    domain: str
    """Where the candidates come from, in words."""
    owner: Owner
    unit: str
    """The privacy unit's name, for people."""

    @property
    def groups(self) -> int:
        """Size of the public domain."""
        if self.domain_size is None:
            raise InternalError("these keys have no public domain")
        return self.domain_size

    @property
    def epsilon(self) -> Fraction:
        """The statement's total epsilon."""
        if self.options.epsilon is None:
            raise InternalError("a plan has an epsilon")
        return self.options.epsilon
