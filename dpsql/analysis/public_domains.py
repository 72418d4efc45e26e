"""Public domains of group keys: the values a key may take, from public data only; as items of FROM, too.

Which days have rows is private. Where the block groups by the day, a value only decides about its own group:
the declared values have all groups of plain SQL. Which of them are shown is decided by a release of its own
(`composition` marks the SELECT). In every other place the values would decide
about other rows, so there the private DISTINCT stays refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import sqlglot
from sqlglot import exp

from dpsql.analysis.compiled_relation import CELL, Cte, Relation, find_cte
from dpsql.analysis.compiler import StatementCompiler, function_name, read_whole_number
from dpsql.analysis.facts_of_values import bounds_of_column
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import MAX_LISTED, KeyDomain, Typed
from dpsql.kernel import tree
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    InQuery,
    IsNull,
    Item,
    Join,
    Paren,
    Query,
    Range,
    ScalarQuery,
    Scan,
    Select,
    SetOperation,
    Source,
    Unary,
    UtcTime,
    Values,
    conjunction,
    duckdb_sql,
    list_tables,
    walk,
)
from dpsql.kernel.tree import Column as TreeColumn
from dpsql.kernel.tree.relations import in_range
from dpsql.language import StatementText, copy_tree, find_nodes, list_terms
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import Policy, Table, fold
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, NULL, TIMESTAMPTZ, SqlType

_BOTH = Values(tuple((Constant(bool(i), BOOLEAN), Constant(i, INTEGER)) for i in (0, 1)), "r", ("v", "o"))
BOOLEANS = KeyDomain(
    Select((Item(Column("", "v")), Item(Column("", "o"))), _BOTH),
    ordered=True,
    origin="FALSE and TRUE",
    complete=True,
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The combinations of values that some keys can take together: columns `v0`, `v1`, .. of the domain.

    Of one key the column is `v`.
    """

    keys: tuple[int, ...]
    """The places of the keys in GROUP BY."""
    domain: KeyDomain

    @property
    def listed(self) -> tree.Candidates:
        """The candidates for the groups as a node of the kernel's tree."""
        return tree.Candidates(self.domain.query, self.keys, self.domain.null, self.domain.ordered)

    @property
    def long_range(self) -> tree.Numbered | None:
        """The range of whole numbers of which the candidates consist, if it is too long for a list."""
        every = read_range(self.domain.query)
        if every is None or every.stop - every.start <= MAX_LISTED:
            return None
        return tree.Numbered(self.keys, None, self.domain.null, (every.start, every.stop - 1))

    def join_rows(self, source: Source, keys: Sequence[Expr], alias: str) -> tuple[Source, list[Expr]]:
        """Join rows with the candidates of their keys; return the source, and conditions on it."""
        every = self.long_range
        if every is not None:
            return source, in_range(keys[self.keys[0]], every.ends, null=every.nullable)
        known = conjunction(self.listed.match_keys(keys, alias))
        return Join(source, "", Derived(self.domain.query, alias), known), []


_LAST = 2**62
"""The place of NULL in a domain that is no range of integers: behind all others, a constant."""
_IN_BIGINT = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


def read_range(query: Query) -> Range | None:
    """Return the range of integers that a domain consists of, perhaps with NULL; None for another domain."""
    match query:
        case SetOperation(
            Select(_, Derived(values, "d")), "UNION ALL", Select((Item(Constant(None), "v"), *_))
        ):
            return read_range(values)
        case Select(
            (Item(Cast(Column("", "i"), sql_type), "v"), Item(Column("", "i"), "o")), Range() as every
        ):
            plain = query == Select(query.items, every) and every.step is None
            return every if plain and is_within_bigint(sql_type) else None
    return None


def is_within_bigint(sql_type: SqlType) -> bool:
    """Return whether every value of an integer type is a BIGINT."""
    return sql_type.name in _IN_BIGINT


def bigint_constant(number: int) -> Expr:
    """Return an integer as a constant of type BIGINT in the query tree."""
    return Constant(number, BIGINT)


def equal_condition(value: Expr, other: Expr, *, null: bool) -> Expr:
    """Return the condition that two values are equal; with `null`, NULL equals NULL."""
    return Binary("IS NOT DISTINCT FROM" if null else "=", value, other)


def add_null(domain: KeyDomain) -> KeyDomain:
    """Return a domain with NULL as its last value."""
    values = domain.without_null()
    every = read_range(values.query)
    there = IsNull(Column("d", "v"), negated=True) if _has_computed_values(values.query) else None
    cells = Select(values.cells, Derived(values.query, "d"), there)
    null = Item(Constant(None, NULL), "v")
    # Values from which NULL was taken out have its place no more, but the kernel knows no ends without it.
    known = [n.value for n in walk(values.query) if isinstance(n, Constant)] if domain.null else []
    after = max((n + 1 for n in known if isinstance(n, int) and n >= _LAST), default=_LAST)
    place = Item(bigint_constant(after if every is None else every.stop), "o")
    last = Select((null, place) if values.ordered else (null,))
    return replace(values, query=SetOperation(cells, "UNION ALL", last), null=True)


def _has_computed_values(query: Query) -> bool:
    """Return whether values are computed from others: a function may have none."""
    if not isinstance(query, Select) or not query.distinct:
        return False
    values = (item.expr for item in query.items if not isinstance(item.expr, Column))
    return any(query.where != IsNull(value, negated=True) for value in values)


def make_domain(values: Sequence[Expr]) -> KeyDomain:
    """Return the domain that consists of the literals of an IN list."""
    return KeyDomain(
        list_constants(values, IsNull(Column("", "v"), negated=True)),
        ordered=True,
        origin="the IN list",
        complete=True,
    )


def join_domains(domains: Sequence[KeyDomain | None]) -> KeyDomain | None:
    """Return the domain with the values of several domains; None if one is not known."""
    known = [each for each in domains if each is not None]
    if len(known) < len(domains) or len(known) == 1:
        return domains[0] if len(known) == len(domains) else None
    every = reduce(lambda a, b: SetOperation(a, "UNION", b), (_list_values(each) for each in known))
    origin = " and ".join(dict.fromkeys(each.origin for each in known))
    null, complete = any(d.null for d in known), all(d.complete for d in known)
    return KeyDomain(every, origin=origin, null=null, complete=complete)


def _list_values(domain: KeyDomain) -> Query:
    return Select((Item(Column("d", "v"), "v"),), Derived(domain.query, "d"))


def make_distinct_domain(value: Expr, source: Source, origin: str) -> KeyDomain:
    """Return the domain that consists of the values of an expression over public rows."""
    query = Select((Item(value, "v"),), source, IsNull(value, negated=True), distinct=True)
    return KeyDomain(query, origin=origin)


def is_public(policy: Policy, query: Query) -> bool:
    """Return whether a query reads public tables only."""
    tables = map(policy.table, list_tables(query))
    return all(t is not None and t.unit is None for t in tables)


def find_public_lists(policy: Policy, conditions: Iterable[Expr]) -> tuple[InQuery, ...]:
    """Return the conditions by which a value is one of public rows; a list not released yet is none."""
    lists = (each for each in conditions if isinstance(each, InQuery) and is_public(policy, each.query))
    unknown = (ScalarQuery, Values)
    return tuple(each for each in lists if not any(isinstance(n, unknown) for n in walk(each.query)))


def cross_join(sources: Sequence[Source]) -> Source:
    """Return all combinations of the rows of several sources."""
    return reduce(lambda left, right: Join(left, "CROSS", right), sources)


def list_names(query: Query) -> list[str]:
    """Return the names of the columns of a query, in order."""
    while isinstance(query, SetOperation):
        query = query.left
    items = query.items if isinstance(query, Select) else ()
    return [i.column for i in items]


def connect_names(links: Iterable[Collection[str]]) -> list[frozenset[str]]:
    """Join sets of names that overlap, directly or through others; return the disjoint sets, in order.

    >>> [sorted(s) for s in connect_names([["a"], ["b", "c"], ["c", "d"]])]
    [['a'], ['b', 'c', 'd']]
    """
    found: list[frozenset[str]] = []
    for link in links:
        if link:
            touched = [s for s in found if s & set(link)]
            found = [s for s in found if s not in touched]
            found.append(frozenset(link).union(*touched))
    return found


def make_literal_domain(values: Sequence[Typed]) -> KeyDomain | None:
    """Return the domain of an expression that chooses among literals; None if one is not a literal."""
    if any(v.literal is None for v in values):
        return None
    shown = [v.node for v in values if v.literal is not None and v.literal.value is not None]
    return (
        KeyDomain(list_constants(dict.fromkeys(shown)), ordered=True, origin="the CASE", complete=True)
        if shown
        else None
    )


def list_constants(values: Iterable[Expr], where: Expr | None = None) -> Select:
    """Return the query of a domain that consists of constants, in their order."""
    v, o = Column("", "v"), Column("", "o")
    rows = tuple((_with_one_zero(node), Constant(i, INTEGER)) for i, node in enumerate(values))
    items = (Item(v), Item(Aggregate("MIN", (o,)), "o"))
    return Select(items, Values(rows, "r", ("v", "o")), where, group=(v,))


def _with_one_zero(node: Expr) -> Expr:
    """Return a constant, 0 for the other zero of DOUBLEs: of equal values a domain has one, as rows do."""
    inner = node
    while isinstance(inner, Paren):
        inner = inner.inner
    if isinstance(inner, Unary) and isinstance(inner.operand, Constant) and inner.operand == _ZERO:
        return _ZERO
    return node


_ZERO = Constant(0.0, DOUBLE)

DP_DOMAIN = "dp_domain"


def is_domain_table(node: exp.Expr) -> bool:
    """Return whether an item of FROM is a call of DP_DOMAIN."""
    return isinstance(node, exp.Table) and (function_name(node.this) or "").lower() == DP_DOMAIN


def compile_domain_table(
    source: StatementText, policy: Policy, catalog: Catalog, node: exp.Table
) -> Relation:
    """Compile a call of DP_DOMAIN; refuse a column without public values."""
    arguments = node.this.expressions
    named = arguments[0] if len(arguments) == 1 else None
    if not isinstance(named, exp.Column) or not named.table:
        raise source.refuse(
            "DP_DOMAIN takes the name of a column, with its table", node, _write_example(policy)
        )
    owner, *parts = (part.name for part in named.parts)
    name = ".".join(parts)  # of a field of a struct, `address.city`
    table = policy.table(owner) if owner.isascii() else None
    if table is None:
        raise source.refuse(f"there is no table {owner[:60]}", named, _write_example(policy), unknown="table")
    found = next((c for c in catalog.columns(table.name) if fold(c[0]) == fold(name)), None)
    if found is None:
        raise source.refuse(
            f"there is no column {table.name}.{name[:60]}", named, _write_example(policy), unknown="column"
        )
    domain = BOOLEANS if found[1] == BOOLEAN else find_public_values(catalog, table, found[0])
    if domain is None:
        what = "has a range of times, no list of values" if catalog.span(table.name, found[0]) else ""
        if catalog.integers(table.name, found[0]) is not None:
            what = "has a range of integers that is too long for a list"
        raise source.refuse(
            f"{table.name}.{found[0]} {what or 'has no declared values'}", named, _write_example(policy)
        )
    query = Select((Item(TreeColumn("", "v"), "c0"),), Derived(domain.query, "d"))
    bounds = bounds_of_column(catalog, table, *found)
    column = Typed(CELL, found[1], name=found[0], domain=domain, bounds=bounds)
    return Relation(query, (column,), None, frozenset({frozenset({0})}))


def find_public_values(catalog: Catalog, table: Table, column: str) -> KeyDomain | None:
    """Return the values of a public column, or those that are declared for a private one."""
    place = f"{table.name}.{column}"
    if table.unit is None:
        cell: Expr = TreeColumn("b", column, stored=True)
        if any(fold(n) == fold(column) and kind == TIMESTAMPTZ for n, kind in catalog.columns(table.name)):
            cell = UtcTime(cell)
        return make_distinct_domain(cell, Scan(table.name, "b"), f"the values of {place}")
    query = catalog.domain(table.name, column)
    if query is None:
        return None
    complete = catalog.complete(table.name, column)
    return KeyDomain(query, ordered=True, origin=f"the declared domain of {place}", complete=complete)


def put_domains(tree: exp.Expr, source: StatementText, policy: Policy, catalog: Catalog) -> None:
    """Replace the calls of DP_DOMAIN in a statement that the schema database runs by their queries."""
    for node in find_nodes(tree, exp.Table):
        if is_domain_table(node):
            relation = compile_domain_table(source, policy, catalog, node)
            query = sqlglot.parse_one(duckdb_sql(relation.query), dialect="duckdb")
            if relation.columns[0].type == TIMESTAMPTZ:
                v = query.expressions[0].unalias()
                zone = exp.Literal.string("UTC")
                query.expressions[0].set("this", exp.Anonymous(this="timezone", expressions=[zone, v]))
            query.expressions[0].set("alias", exp.to_identifier(relation.columns[0].name, quoted=True))
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(DP_DOMAIN))
            node.replace(exp.Subquery(this=query, alias=alias, joins=node.args.get("joins")))


def _write_example(policy: Policy) -> str | None:
    """Return a call with a column of the policy that has declared values."""
    named = (f"{t.name}.{c}" for t in policy.tables.values() for c in t.domain)
    first = next(named, None)
    return None if first is None else f"FROM {DP_DOMAIN}({first})"


_KNOWN = frozenset({"expressions", "from_", "joins", "where", "distinct", "with_", "kind"})


DECLARED_MARK = "declared"
"""The mark of a SELECT DISTINCT whose groups are shown by a release of their own."""


class SelectDistinct(NamedTuple):
    """A SELECT DISTINCT of one column in FROM, what it may name, and the names of both."""

    select: exp.Select
    visible: tuple[Cte, ...]
    alias: str
    name: str


def compile_declared_values(
    compiler: StatementCompiler, block: exp.Select, item: exp.Expr, ctes: tuple[Cte, ...], depth: int
) -> Relation | None:
    """Return the declared values that an item of FROM stands for; None if it stands for none."""
    found = read_select_distinct(item, ctes)
    if found is None or not found.select.meta.get(DECLARED_MARK) or not block.args.get("joins"):
        return None
    if not is_grouped_by(block, found.alias, found.name):
        return None
    plain = copy_tree(found.select)
    plain.set("distinct", None)
    rows = compiler.query(plain, found.visible, depth + 1)
    column = rows.columns[0]
    if rows.owner is None or column.domain is None or column.unit.held:
        return None
    query = Select((Item(TreeColumn("", "v"), "c0"),), Derived(column.domain.without_null().query, "d"))
    only = Typed(
        CELL, column.type, name=found.name, domain=column.domain.without_null(), bounds=column.bounds
    )
    return Relation(query, (only,), None, frozenset({frozenset({0})}))


def read_select_distinct(item: exp.Expr, ctes: tuple[Cte, ...]) -> SelectDistinct | None:
    """Return the SELECT DISTINCT of one column that an item of FROM is; None for other items."""
    alias, query, visible, names = item.alias_or_name, None, ctes, tuple[str, ...]()
    if isinstance(item, exp.Subquery):
        query = item.this
    elif isinstance(item, exp.Table) and item.args.get("db") is None:
        cte = find_cte(item.name, ctes)
        query, visible, names = (cte.query, cte.visible, cte.columns) if cte else (None, ctes, ())
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or query.expressions[0].is_star:
        return None
    distinct = query.args.get("distinct")
    renamed = item.args.get("alias") is not None and bool(item.args["alias"].args.get("columns"))
    if distinct is None or distinct.args.get("on") is not None or renamed:
        return None
    if any(value for name, value in query.args.items() if name not in _KNOWN):
        return None
    return SelectDistinct(query, visible, alias, names[0] if names else query.expressions[0].alias_or_name)


def is_grouped_by(block: exp.Select, alias: str, name: str) -> bool:
    """Return whether a block groups by a column of one of its items."""
    for node in list_terms(block):
        place = read_whole_number(node)
        key = block.expressions[place - 1].unalias() if place and place <= len(block.expressions) else node
        own = isinstance(key, exp.Column) and (not key.table or fold(key.table) == fold(alias))
        if own and name and fold(key.name) == fold(name):
            return True
    return False
