"""The compiled counting query: the engine's binder has confirmed it, and the kernel has certified it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, field, replace

from dpsql.analysis.binder import confirm
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.column_types import give_types
from dpsql.analysis.counted_groups import CountedGroups
from dpsql.analysis.sparse import SparseDomain
from dpsql.errors import InternalError
from dpsql.kernel import tree
from dpsql.kernel.check import Certificate, NotCertified, certify
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy
from dpsql.types import SqlType

_TOKEN = object()
_KEPT = 512
"""How many certificates a schema database keeps."""


@dataclass(frozen=True, slots=True)
class PublicOrder:
    """Proof that columns of a compiled query's groups are public and that no two groups are equal in them.

    Only `seal` makes one, for a counting query over the domains of all keys. `Counts` sorts by these columns.
    Where the query counts the rows of cells, a group has a row for each of its cells, and rows that are equal
    in these columns are of one group. Which cells there are is private.
    """

    terms: tuple[tuple[str, bool], ...]
    """The columns, `k0` a key and `o0` the place of one in its domain, and whether descending."""
    token: InitVar[object]

    def __post_init__(self, token: object) -> None:
        if token is not _TOKEN:
            raise InternalError("only the analysis makes a public order")

    @property
    def places(self) -> tuple[str, ...]:
        """The columns of places, which come after the counts."""
        return tuple(name for name, _ in self.terms if name[0] == "o")


@dataclass(frozen=True, slots=True, eq=False)
class CompiledQuery:
    """A counting query that the analysis proved, the engine's binder confirmed, and the kernel certified.

    Only `seal` makes one, and an engine counts nothing else: `check_sealed` says whether something is one.
    """

    query: tree.Query
    """One row for each group: the keys `k0`, ..., the counts `n0`, ... (BIGINT, never NULL), and the columns
    `o0`, ... of the places that `order` names."""
    sql: str
    """The query in DuckDB's SQL, written once."""
    keys: tuple[SqlType, ...]
    counts: int
    tables: tuple[str, ...]
    counts_only: bool
    """Whether nothing in it computes from private values: it compares, joins and counts."""
    order: PublicOrder | None
    """The public order of the groups, if the selection needs one; rows come in any order."""
    certificate: Certificate = field(repr=False)
    """What the kernel proved of `query`: how far one unit changes each of its numbers."""
    token: InitVar[object]
    cells: bool = field(default=False, kw_only=True)
    """Whether it has a row for each group and cell of its values, or for each bound that some unit exceeds
    without exceeding the next: `n0` is the cell or bound, `n1` its rows or units. Which there are is private.
    """
    groups: CountedGroups | None = field(default=None, kw_only=True, repr=False)
    """What it counts, if one query can count for it and for others; None: it is counted alone."""
    sparse: SparseDomain | None = field(default=None, kw_only=True)
    """The domain, if only groups with rows are counted. The query then has no keys, but their places."""
    faster: tuple[tuple[str, int], ...] = field(default=(), kw_only=True, repr=False)
    """Texts with the same numbers that DuckDB runs faster, unless they have a row for this cell or a greater
    one: then the next is run, and at last the query itself. One that is not certified is none of them. That
    their numbers are those of the query is not certified.
    """

    def __post_init__(self, token: object) -> None:
        if token is not _TOKEN:
            raise InternalError("only the analysis makes a compiled query")
        check_sealed(self)

    @property
    def places(self) -> tuple[str, ...]:
        """The columns `o0`, ..., in order."""
        if self.sparse is not None:
            return self.sparse.columns
        return () if self.order is None else self.order.places


def check_sealed(compiled: object) -> None:
    """Raise `InternalError` unless something is a compiled query with the certificate of its own tree.

    Whatever counts private rows asks this before it does.
    """
    if not isinstance(compiled, CompiledQuery) or compiled.certificate.query is not compiled.query:
        raise InternalError("an engine counts certified queries alone")


def seal(
    query: tree.Query,
    catalog: Catalog,
    policy: Policy,
    tables: tuple[str, ...],
    counts: int,
    *,
    keys: tuple[SqlType, ...] = (),
    order: Sequence[tuple[str, bool]] | None,
    cells: bool = False,
    groups: CountedGroups | None = None,
    sparse: SparseDomain | None = None,
    faster: Sequence[tuple[tree.Query, int]] = (),
) -> CompiledQuery:
    """Make the compiled query, at the end of the analysis; nothing else is ever counted.

    Its columns get their types, the engine's binder confirms its SQL, and the kernel proves from the tree
    and from what the owner declares how far one unit changes its numbers. Raises `InternalError` (uncharged,
    unless it is made after a charge) if one of them objects.
    """
    typed = give_types(query, catalog.stored_types)
    sql = tree.duckdb_sql(typed)
    others = tuple(
        (text, cell)
        for each, cell in faster
        if (text := _certified_text(each, catalog, policy, tables)) is not None
    )
    plain = [confirm(catalog, each, policy) for each in (sql, *(text for text, _ in others))]
    certificate = certificate_of(typed, sql, catalog, policy, tables)
    return CompiledQuery(
        certificate.query,
        sql,
        keys,
        counts,
        tables,
        all(plain),
        None if order is None else PublicOrder(tuple(order), _TOKEN),
        certificate,
        _TOKEN,
        cells=cells,
        groups=groups,
        sparse=sparse,
        faster=others,
    )


def _certified_text(
    query: tree.Query, catalog: Catalog, policy: Policy, tables: tuple[str, ...]
) -> str | None:
    """Return the SQL of a query that may be counted in the place of another; None if it is not certified."""
    typed = give_types(query, catalog.stored_types)
    sql = tree.duckdb_sql(typed)
    try:
        certificate_of(typed, sql, catalog, policy, tables)
    except NotCertified:
        return None
    return sql


def certificate_of(
    query: tree.Query, sql: str, catalog: Catalog, policy: Policy, tables: tuple[str, ...]
) -> Certificate:
    """Return the certificate of a query; that of an equal one if it was made from the same facts."""
    facts = catalog.facts(policy, tables)
    kept = catalog.certified.get(sql)
    if kept is not None and kept[0] == facts and kept[1].query == query:
        return kept[1]
    made = certify(query, facts)
    if len(catalog.certified) >= _KEPT:
        catalog.certified.clear()
    catalog.certified[sql] = facts, made
    return made


def with_query(compiled: CompiledQuery, query: tree.Query, catalog: Catalog, policy: Policy) -> CompiledQuery:
    """Return the compiled query with other constants, such as released values.

    It is confirmed and certified again.
    """
    order = None if compiled.order is None else compiled.order.terms
    made = seal(
        query,
        catalog,
        policy,
        compiled.tables,
        compiled.counts,
        keys=compiled.keys,
        order=order,
        cells=compiled.cells,
        sparse=compiled.sparse,
    )
    return replace(made, counts_only=compiled.counts_only and made.counts_only, token=_TOKEN)
