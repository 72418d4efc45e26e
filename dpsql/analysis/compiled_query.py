"""Seal the counting query: the engine's binder confirms it, the kernel certifies it; merge several.

The SQL is bound on the schema database (private tables are empty, nothing is read), and every function,
conversion and scan of the bound plan is checked. This catches implicit conversions, unexpected overloads and
errors of the SQL generator. A refusal here is never the analyst's fault: it is a bug of dpsql, or the engine
is a version that dpsql was not tested with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, field, replace
from typing import Any

from dpsql.analysis.column_types import give_types
from dpsql.analysis.compiler import split_words
from dpsql.analysis.counting_query import CountedGroups
from dpsql.analysis.large_domains import SparseDomain
from dpsql.analysis.plan_shapes import is_moment, omit_constants, shape_of
from dpsql.analysis.schema_catalog import Catalog
from dpsql.errors import InternalError
from dpsql.kernel import tree
from dpsql.kernel.check import Certificate, NotCertified, Proofs, certify, renew
from dpsql.kernel.tree import DOMAIN_SCHEMA, duckdb_sql, literal_sql
from dpsql.lazy_dataclass import dataclass
from dpsql.old_objects import pause_collection
from dpsql.policy import Policy
from dpsql.types import SqlType

_WIDTH = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127}
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
_DIGITS = {name: len(str(2**bits)) for name, bits in {**_WIDTH, **_UNSIGNED}.items()}
"""The most decimal digits of each integer type."""


_PLAIN_FUNCTIONS = frozenset({"count", "count_star"})
_PLAIN_EXPRESSIONS = frozenset(
    {"BOUND_BETWEEN", "BOUND_CASE", "BOUND_COLUMN_REF", "BOUND_CONJUNCTION", "BOUND_CONSTANT", "BOUND_REF"}
)
_PLAIN_OPERATORS = split_words(
    "COMPARE_IN OPERATOR_COALESCE OPERATOR_IS_NOT_NULL OPERATOR_IS_NULL OPERATOR_NOT"
)
_PLAIN_PLANS = split_words(
    """
    LOGICAL_AGGREGATE_AND_GROUP_BY LOGICAL_COMPARISON_JOIN LOGICAL_CROSS_PRODUCT LOGICAL_DISTINCT
    LOGICAL_DUMMY_SCAN LOGICAL_EXPRESSION_GET LOGICAL_FILTER LOGICAL_GET LOGICAL_LIMIT LOGICAL_ORDER_BY
    LOGICAL_PROJECTION LOGICAL_UNION
    """
)


_STATEMENTS_KEPT = 256
"""How many checked statements a schema database remembers, by their shapes."""


def confirm(catalog: Catalog, sql: str, policy: Policy) -> bool:
    """Check the bound plan of counting SQL; raises `InternalError` (uncharged, nothing was run).

    With an engine that is no tested version, it raises `EngineNotTested`.

    Returns
    -------
    bool
        Whether the plan only counts, joins, compares and chooses. Then it may run with the optimizer that
        uses the minimum and maximum of columns: no expression that the optimizer evaluates on them can fail.
    """
    shape = shape_of(sql)
    for text in (shape, sql):
        known = catalog.confirmed.get(text)
        if known is not None:
            return known
    checker = _PlanChecker(catalog, frozenset(t.name for t in policy.tables.values()))
    try:
        with pause_collection():  # a plan has thousands of parts
            checker.visit(catalog.plan(sql))
    except ValueError:
        raise catalog.vocabulary.refuse("the compiled statement does not bind") from None
    if len(catalog.confirmed) >= _STATEMENTS_KEPT:
        catalog.confirmed.clear()
    catalog.confirmed[sql if checker.reads_constants else shape] = checker.counts_only
    return checker.counts_only


class _PlanChecker:
    """Visits the nodes of a bound plan and raises an error for one that is not allowed."""

    def __init__(self, catalog: Catalog, tables: frozenset[str]) -> None:
        self.catalog = catalog
        self.vocabulary = catalog.vocabulary
        self.tables = tables
        self.counts_only = True
        self.reads_constants = False
        """Whether the plan was found right by the value of a constant, so that it holds for this one."""

    def visit(self, plan: object) -> None:
        waiting = [plan]
        while waiting:
            node = waiting.pop()
            values: Iterable[object] = node  # type: ignore[assignment]  # else it is a list
            if isinstance(node, dict):
                if "expression_class" in node:
                    self.expression(node)
                elif str(node.get("type")).startswith("LOGICAL_"):
                    self.plan(node)
                values = node.values()
            for value in values:
                kind = type(value)  # of what is read from JSON; isinstance() takes twice as long
                if kind is dict or kind is list:
                    waiting.append(value)

    def plan(self, node: dict[str, Any]) -> None:
        kind = node["type"]
        if kind not in self.vocabulary.plans:
            raise self.vocabulary.refuse(f"the plan has a {kind}")
        self.counts_only &= kind in _PLAIN_PLANS
        if kind == "LOGICAL_DISTINCT" and node.get("distinct_type") != "DISTINCT":
            raise self.vocabulary.refuse("the plan has a DISTINCT ON")
        if kind != "LOGICAL_GET":
            return
        path = (node.get("qname") or {}).get("path") or []
        if path in (["system", "main", "range"], ["system", "main", "unnest"]):
            return
        data = node.get("function_data") or {}
        schema, table = data.get("schema"), data.get("table")
        scanned = (schema == "main" and table in self.tables) or schema == DOMAIN_SCHEMA
        if path != ["seq_scan"] or data.get("catalog") != "memory" or not scanned:
            raise self.vocabulary.refuse("the plan scans something that is not declared")

    def expression(self, node: dict[str, Any]) -> None:
        kind, name = node["expression_class"], node["type"]
        if kind not in self.vocabulary.expressions:
            raise self.vocabulary.refuse(f"the plan has a {kind}")
        if kind == "BOUND_OPERATOR" and name not in self.vocabulary.operators:
            raise self.vocabulary.refuse(f"the plan has a {name}")
        if kind == "BOUND_WINDOW" and name not in self.vocabulary.windows:
            raise self.vocabulary.refuse(f"the plan has a {name}")
        self.counts_only &= _is_plain(node)
        if name == "OPERATOR_CAST":
            self.cast(node)
        elif kind in ("BOUND_FUNCTION", "BOUND_AGGREGATE"):
            path = (node.get("qname") or {}).get("path") or [""]
            builtin = path[:-1] == ["system", "main"] or (len(path) == 1 and name.startswith("COMPARE_"))
            if not builtin or path[-1] not in self.vocabulary.functions:
                raise self.vocabulary.refuse(f"the plan calls {path[-1]}")

    def cast(self, node: dict[str, Any]) -> None:
        if (node.get("function_data") or {}).get("try_cast") is True:
            return
        child, after = node["children"][0], node["return_type"]
        value = child.get("value") or {}
        before = value.get("type") or child.get("return_type") or node["arguments"][0]
        if is_lossless(before, after):
            return
        if child["expression_class"] == "BOUND_CONSTANT" and isinstance(value.get("value"), str):
            if is_moment(after["id"], value["value"]):
                return
            self.reads_constants = True
            try:
                self.catalog.evaluate(f"CAST({literal_sql(value['value'])} AS {after['id']})")
            except ValueError:
                raise self.vocabulary.refuse("a constant does not convert") from None
            return
        raise self.vocabulary.refuse(f"the plan converts {before['id']} to {after['id']}")


def _is_plain(node: dict[str, Any]) -> bool:
    """Return whether an expression only compares, chooses, counts or changes the width of an integer."""
    kind, name = node["expression_class"], node["type"]
    if name == "OPERATOR_CAST":
        child = node["children"][0]
        before = child.get("return_type") or node["arguments"][0]
        constant = child["expression_class"] == "BOUND_CONSTANT"
        return constant or (before["id"] in _WIDTH and node["return_type"]["id"] in _WIDTH)
    if kind in ("BOUND_FUNCTION", "BOUND_AGGREGATE"):
        path = (node.get("qname") or {}).get("path") or [""]
        return name.startswith("COMPARE_") or path[-1] in _PLAIN_FUNCTIONS
    return kind in _PLAIN_EXPRESSIONS or (kind == "BOUND_OPERATOR" and name in _PLAIN_OPERATORS)


def _read_decimal(kind: dict[str, Any]) -> tuple[int, int]:
    info = kind.get("type_info") or {}
    return int(info.get("width", 18)), int(info.get("scale", 3))


def is_lossless(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether every value of one engine type converts to the other without an error."""
    a, b = str(before["id"]), str(after["id"])
    if a == "NULL" or (a == b and a != "DECIMAL"):
        return True
    if a in _WIDTH and b in _WIDTH:
        return _WIDTH[b] >= _WIDTH[a]
    if a in _UNSIGNED:
        if b in _UNSIGNED:
            return _UNSIGNED[b] >= _UNSIGNED[a]
        if b in _WIDTH:
            return _WIDTH[b] >= _UNSIGNED[a]
    if b == "DOUBLE":
        return a in _WIDTH or a in _UNSIGNED or a in ("DECIMAL", "FLOAT")
    if b == "DECIMAL":
        width, scale = _read_decimal(after)
        if a in _DIGITS:
            return width - scale >= _DIGITS[a]
        if a == "DECIMAL":
            old_width, old_scale = _read_decimal(before)
            return scale >= old_scale and width - scale >= old_width - old_scale
    return a == "ENUM" and b == "VARCHAR"


_TOKEN = object()
_CERTIFICATES_KEPT = 512
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
        """The names `o0`, `o1`, .. of the query's columns, in order."""
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
    proofs: Proofs | None = None,
) -> CompiledQuery:
    """Make the compiled query, at the end of the analysis; nothing else is ever counted.

    Its columns get their types, the engine's binder confirms its SQL, and the kernel proves from the tree
    and from what the owner declares how far one unit changes its numbers. Raises `InternalError` (uncharged,
    unless it is made after a charge) if one of them objects. `proofs` has what it has proved of other
    queries of the statement.
    """
    typed = give_types(query, catalog.stored_types)
    sql = tree.duckdb_sql(typed)
    plain = [confirm(catalog, sql, policy)]
    certificate = certificate_of(typed, sql, catalog, policy, tables, proofs)
    others = tuple(
        (text, cell)
        for each, cell in faster
        if (text := _certified_text(each, catalog, policy, tables, certificate, proofs)) is not None
    )
    plain += [confirm(catalog, text, policy) for text, _ in others]
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
    query: tree.Query,
    catalog: Catalog,
    policy: Policy,
    tables: tuple[str, ...],
    of: Certificate,
    proofs: Proofs | None,
) -> str | None:
    """Return the SQL of a query that may be counted in the place of another; None if it is not certified.

    It has to depend on units of the same parts.
    """
    typed = give_types(query, catalog.stored_types)
    sql = tree.duckdb_sql(typed)
    try:
        found = certificate_of(typed, sql, catalog, policy, tables, proofs)
    except NotCertified:
        return None
    return sql if found.parts == of.parts else None


def certificate_of(
    query: tree.Query,
    sql: str,
    catalog: Catalog,
    policy: Policy,
    tables: tuple[str, ...],
    proofs: Proofs | None = None,
) -> Certificate:
    """Return the certificate of a query, made anew unless a like query has one from the same facts."""
    facts, shape = catalog.facts(policy, tables), omit_constants(sql)
    kept = catalog.certified.get(sql)
    if kept is not None and kept[0] == facts and kept[1].query == query:
        return kept[1]
    like = catalog.certified.get(shape)
    found = renew(like[1], query, facts) if like is not None and like[0] == facts else None
    made = certify(query, facts, proofs) if found is None else found
    if len(catalog.certified) >= _CERTIFICATES_KEPT:
        catalog.certified.clear()
    catalog.certified.update(dict.fromkeys((sql, shape), (facts, made)))
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


_MOST_NUMBERS = 64
"""How many numbers one query counts at most."""


def is_alike(one: CompiledQuery, other: CompiledQuery) -> bool:
    """Return whether one query could count for both: equal tables, rows, groups and ways of counting.

    One query for both then takes little more time than the slower one.
    """
    if one.groups is None or other.groups is None or one.tables != other.tables:
        return False
    return one.groups.way == other.groups.way and one.groups.shape == other.groups.shape


def merge_queries(
    compiled: CompiledQuery, others: Sequence[CompiledQuery], policy: Policy, catalog: Catalog
) -> CompiledQuery:
    """Merge a counting query with other queries that count the same groups of the same rows (`is_alike`).

    It also has the places of its keys in their domains, and more of the largest groups, for statements that
    select other groups. The engine's binder confirms it as it does every query.
    """
    if compiled.groups is None:
        return compiled
    chosen = [
        o.groups for o in others if o is not compiled and o.groups is not None and is_alike(compiled, o)
    ]
    groups = compiled.groups.merge(chosen)
    if len(groups.numbers) > _MOST_NUMBERS:
        groups = compiled.groups.merge(())
    counting = groups.build_query(())
    if duckdb_sql(counting.query) == compiled.sql:
        return compiled
    return seal(
        counting.query,
        catalog,
        policy,
        compiled.tables,
        len(groups.numbers),
        keys=compiled.keys,
        order=counting.order,
        groups=groups,
    )
