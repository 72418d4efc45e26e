"""Recognise statements by their shape: those that tools send; what a block of private rows groups by.

No private row is read for them: an answer is empty, or consists of values that the policy declares. A
statement with a private clause is none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from sqlglot import exp

from dpsql.analysis import aggregate_functions, select_blocks
from dpsql.analysis.aggregate_functions import is_aggregate
from dpsql.analysis.block_groups import list_group_nodes
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Block, Cte, From, Scope
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.from_joins import compile_from
from dpsql.analysis.known_subqueries import KnownSubqueries, find_rule
from dpsql.analysis.public_domains import DECLARED_MARK, DP_DOMAIN, read_select_distinct
from dpsql.analysis.released import find_default
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import UnitRole, tells_units
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Query, StatementText, copy_tree, list_terms, read_clause, walk_tree
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import Policy, Table, fold

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


@dataclass(frozen=True, slots=True)
class NoRows:
    """A statement that has no rows, whatever the data; `columns` is a statement with the same columns."""

    columns: Query


@dataclass(frozen=True, slots=True)
class DeclaredValues:
    """A statement that asks which values a key has; `query` asks for the declared ones."""

    query: Query


@dataclass(frozen=True, slots=True)
class Preview:
    """A statement that asks for rows of private tables."""


Probe = NoRows | DeclaredValues | Preview


def find_probe(query: Query, policy: Policy, catalog: Catalog) -> Probe | None:
    """Return what a private statement is, if it is sent for its columns or values; else None."""
    if query.has_options or query.clause.spelling or query.inner:
        return None
    if _is_empty(query.tree):
        return NoRows(replace(query, tree=_drop_condition(query.tree)))
    values = _ask_declared_values(query, policy, catalog)
    if values is not None:
        return DeclaredValues(replace(query, tree=values))
    return Preview() if _is_showing_rows(query.tree) else None


# -- no rows


def _is_empty(tree: exp.Expr | None) -> bool:
    """Return whether a query has no rows, whatever is in its tables."""
    match tree:
        case exp.Subquery():
            return _has_zero_limit(tree) or _is_empty(tree.this)
        case exp.Union():
            return _has_zero_limit(tree) or (_is_empty(tree.this) and _is_empty(tree.expression))
        case exp.Except() | exp.Intersect():
            return _has_zero_limit(tree) or _is_empty(tree.this)
        case exp.Select():
            if (
                _has_zero_limit(tree)
                or _is_false(read_clause(tree, "having"))
                or _is_false(read_clause(tree, "qualify"))
            ):
                return True
            # Aggregates without GROUP BY have one row over no rows.
            grouped = tree.args.get("group") is not None
            total = not grouped and any(
                is_aggregate(n) for item in tree.expressions for n in _walk_expression(item)
            )
            if total or tree.args.get("having") is not None:
                return False
            if _has_grouping_sets(tree):
                return False
            return _is_false(read_clause(tree)) or _is_from_nothing(tree)
    return False


def _has_zero_limit(tree: exp.Expr) -> bool:
    limit = tree.args.get("limit")
    count = None if limit is None else limit.args.get("count") or limit.args.get("expression")
    return isinstance(count, exp.Literal) and not count.is_string and str(count.this) == "0"


def _is_false(node: exp.Expr | None) -> bool:
    """Return whether a condition of constants is false."""
    node = None if node is None else node.unnest()
    if isinstance(node, exp.And):
        return _is_false(node.this) or _is_false(node.expression)
    if isinstance(node, exp.Boolean):
        return not node.this
    if not isinstance(node, _COMPARISONS):
        return False
    one, other = (each.unnest() for each in (node.this, node.expression))
    both = isinstance(one, exp.Literal) and isinstance(other, exp.Literal)
    if not both or one.is_string or other.is_string:
        return False
    if not (str(one.this).isdecimal() and str(other.this).isdecimal()):
        return False
    a, b = int(one.this), int(other.this)
    return not {
        exp.EQ: a == b,
        exp.NEQ: a != b,
        exp.LT: a < b,
        exp.LTE: a <= b,
        exp.GT: a > b,
        exp.GTE: a >= b,
    }[type(node)]


def _has_grouping_sets(select: exp.Select) -> bool:
    """Return whether GROUP BY may have a group of no rows: `()`, ROLLUP, CUBE, GROUPING SETS."""
    group = select.args.get("group")
    if group is None:
        return False
    plain = all(isinstance(term, (exp.Column, exp.Literal)) for term in group.expressions)
    return not plain or any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets", "totals"))


def _is_from_nothing(select: exp.Select) -> bool:
    """Return whether the only item of FROM is a subquery without rows."""
    item = read_clause(select, "from_")
    return isinstance(item, exp.Subquery) and not select.args.get("joins") and _is_empty(item)


def _drop_condition(tree: exp.Query) -> exp.Query:
    """Return a query of the same columns, without what makes it empty where a limit or WHERE does."""
    made = copy_tree(tree)
    if _has_zero_limit(made):
        made.set("limit", None)
    if isinstance(made, exp.Select) and _is_false(read_clause(made)):
        made.set("where", None)
    return made


# -- declared values


def _ask_declared_values(query: Query, policy: Policy, catalog: Catalog) -> exp.Query | None:
    """Return the query of declared values for `SELECT [DISTINCT] key FROM t [GROUP BY key] ..`."""
    select = query.tree
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return None
    if any(
        isinstance(node, exp.Query) for name in ("limit", "offset") for node in _walk_clause(select, name)
    ):
        return None  # how many values are shown would depend on what it reads
    known = {"expressions", "from_", "where", "group", "order", "limit", "offset", "distinct"}
    if any(value for name, value in select.args.items() if name not in known):
        return None
    table = _find_only_table(select, policy)
    item = select.expressions[0]
    key = item.this if isinstance(item, exp.Alias) else item
    distinct = select.args.get("distinct")
    if table is None or not isinstance(key, exp.Column) or isinstance(key.this, exp.Star):
        return None
    if (distinct is not None and distinct.args.get("on") is not None) or _has_grouping_sets(select):
        return None
    if catalog.domain(table.name, key.name) is None:
        return None
    terms = [*list_terms(select), *(term.this for term in list_terms(select, "order"))]
    if not all(_is_key(term, key, item) for term in terms):
        return None
    where = select.args.get("where")
    asked = [] if where is None else list(where.find_all(exp.Column, exp.Query))
    if not all(isinstance(node, exp.Column) and fold(node.name) == fold(key.name) for node in asked):
        return None
    return _read_domain(select, table, key)


def _walk_clause(select: exp.Select, name: str) -> Iterator[exp.Expr]:
    clause = select.args.get(name)
    if clause is not None:
        yield from clause.walk()


def _is_key(term: exp.Expr, key: exp.Column, item: exp.Expr) -> bool:
    """Return whether a term of GROUP BY or ORDER BY is the key: by its name, its alias or its place."""
    if isinstance(term, exp.Literal):
        return not term.is_string and str(term.this) == "1"
    return isinstance(term, exp.Column) and fold(term.name) in (fold(key.name), fold(item.alias_or_name))


def _find_only_table(select: exp.Select, policy: Policy) -> Table | None:
    """Return the declared private table that FROM consists of."""
    node = read_clause(select, "from_")
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        return None
    database = node.args.get("db")
    plain = all(not value for name, value in node.args.items() if name not in ("this", "db", "alias"))
    if not plain or (database is not None and fold(database.name) != "main"):
        return None
    table = policy.table(node.name) if node.name.isascii() else None
    return None if table is None or table.public else table


def _read_domain(select: exp.Select, table: Table, key: exp.Column) -> exp.Query:
    """Return the query with the values of the key's domain, which are distinct, in the place of the table."""
    made = copy_tree(select)
    named = exp.Column(
        this=exp.to_identifier(key.name, quoted=True), table=exp.to_identifier(table.name, quoted=True)
    )
    node = made.args["from_"].this
    alias = node.args.get("alias") or exp.TableAlias(this=copy_tree(node.this))
    call = exp.Anonymous(this=f"{MARK}{DP_DOMAIN}", expressions=[named])
    made.set("from_", exp.From(this=exp.Table(this=call, alias=alias)))
    made.set("distinct", None)
    made.set("group", None)
    for column in made.find_all(exp.Column):
        if column is not named:
            column.set("db", None)
    return made


# -- previews


def _is_showing_rows(tree: exp.Expr) -> bool:
    """Return whether a SELECT shows rows as they are: columns alone, without any grouping."""
    if not isinstance(tree, exp.Select) or tree.args.get("from_") is None:
        return False
    if any(tree.args.get(name) for name in ("group", "having", "qualify", "distinct", "windows")):
        return False
    items = [item.this if isinstance(item, exp.Alias) else item for item in tree.expressions]
    if not all(isinstance(item, (exp.Column, exp.Star)) for item in items):
        return False
    source = tree.args["from_"].this
    if isinstance(source, exp.Subquery):
        return not tree.args.get("joins") and _is_showing_rows(source.this)
    return isinstance(source, exp.Table) and tree.args.get("with_") is None


def _walk_expression(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression, without the nodes of its subqueries."""
    yield from node.walk(prune=lambda each: isinstance(each, exp.Query))


class Provenance:
    """Compiles parts of a statement to find out where their columns come from.

    What it compiles is dropped: the statement's own compilation decides what is released.
    """

    def __init__(self, source: StatementText, policy: Policy, catalog: Catalog) -> None:
        self.source, self.policy, self.catalog = source, policy, catalog
        self.subqueries = KnownSubqueries(select_blocks.compile_query)
        self._compiled: dict[object, tuple[StatementCompiler, From]] = {}
        """The FROM clauses so far, by the nodes on which they depend."""

    def make_compiler(self) -> StatementCompiler:
        """Return a new compiler of the statement; what it compiles is dropped."""
        return StatementCompiler(
            self.source, self.policy, self.catalog, find_rule, self.subqueries, now=self.subqueries.now
        )

    def list_ctes(self, node: exp.Expr, outer: tuple[Cte, ...]) -> tuple[Cte, ...]:
        """Return the common table expressions that a query may name."""
        return select_blocks.list_ctes(self.make_compiler(), node, outer)

    def find_roles(self, select: exp.Select, ctes: tuple[Cte, ...]) -> tuple[set[UnitRole], bool]:
        """Return the roles of the keys of a grouped block; whether one is computed from the unit.

        A unique key of a private table has the role of the unit.
        """
        compiler, made = self.compile_rows(select, ctes)
        made.scope.block = Block(made.owner, made.unit, ctes, 1)
        scope = made.scope.copy()
        items = select_blocks.expand_star(compiler, select, scope)
        for item in items:
            if not aggregate_functions.contains_aggregate(item.node):
                with suppress(QueryRefused):  # it is judged with the block
                    scope.aliases.setdefault(fold(item.name), compiler.expression(item.node, scope))
        nodes = list_group_nodes(compiler, select, items, scope)
        keys = [make_canonical(compiler.expression(node, scope)) for node in nodes]
        units = frozenset[str]().union(*(c.reads for c in scope.columns if c.unit.names_units))
        computed = any(not k.unit.names_units and bool(k.reads & units) for k in keys)
        if tells_units(keys):
            return {UnitRole.EXACT}, computed
        return {UnitRole.EXACT if k.groups_units else k.unit for k in keys}, computed

    def has_column(self, select: exp.Select, ctes: tuple[Cte, ...], name: str) -> bool:
        """Return whether the items of FROM of a block have a column; not if they are refused."""
        try:
            return self.find_scope(select, ctes).has(fold(name))
        except QueryRefused:  # it is judged with the block
            return False

    def find_unit(self, select: exp.Select, ctes: tuple[Cte, ...]) -> exp.Column | None:
        """Return a column of FROM that holds the privacy unit of each row; None if there is none."""
        try:
            scope = self.find_scope(select, ctes)
        except QueryRefused:
            return None
        for origin in scope.origins:
            for name, column in zip(origin.names, origin.columns, strict=True):
                if column.unit is UnitRole.EXACT:
                    return exp.column(name, table=origin.alias, quoted=True)
        return None

    def read_values(self, select: exp.Select, value: exp.Expr, ctes: tuple[Cte, ...]) -> tuple[bool, bool]:
        """Return whether values of a block are each of one unit, and whether they are declared."""
        found = self.make_compiler().expression(value, self.find_scope(select, ctes))
        return bool(found.link) or found.unit.names_units, found.domain is not None

    def find_bound_on_groups(self, select: exp.Select, ctes: tuple[Cte, ...]) -> int | None:
        """Return how many groups of rows of a block a unit is in, as the policy says; None: it does not."""
        made = self.compile_rows(select, ctes)[1]
        if frozenset() in made.unique:  # a unit has one row
            return 1
        bounds = (find_default(self.policy, made.source, name) for name in ("groups", "rows_per_unit"))
        return next((most for most in bounds if most), None)

    def is_numeric(self, select: exp.Select, ctes: tuple[Cte, ...]) -> bool:
        """Return whether no aggregate of a block has values that are no numbers, such as the latest day."""
        scope = self.find_scope(select, ctes)
        for call in (
            call for item in select.expressions for call in aggregate_functions.aggregate_calls(item)
        ):
            inner = call.this if isinstance(call, exp.Filter) else call
            if aggregate_functions.aggregate_name(call) == "count" or not inner.expressions:
                continue
            if not self.make_compiler().expression(inner.expressions[0], scope).type.numeric:
                return False
        return True

    def find_outer_column(self, select: exp.Select, ctes: tuple[Cte, ...]) -> exp.Column | None:
        """Return a column that a block takes from a block around it; None if it takes none."""
        try:
            scope = self.find_scope(select, ctes)
        except QueryRefused:
            return None  # refused where the block is judged
        aliases = {fold(item.alias) for item in select.expressions if isinstance(item, exp.Alias)}
        return next((c for c in _list_columns(select) if not _is_inside(c, scope, aliases)), None)

    def find_scope(self, select: exp.Select, ctes: tuple[Cte, ...]) -> Scope:
        """Return the columns of a block's FROM clause; raises its refusals."""
        return self.compile_rows(select, ctes)[1].scope

    def compile_rows(self, select: exp.Select, ctes: tuple[Cte, ...]) -> tuple[StatementCompiler, From]:
        """Return the FROM clause of a block, and a compiler that goes on behind it; raises its refusals.

        Equal clauses of the statement are compiled once: a block is looked at several times, and copied.
        """
        with self.subqueries.read_trees_once():
            read = len(ctes), self.subqueries.identify(_list_read(select, ctes), ctes)
            found = self._compiled.get(read)
            if found is None:
                compiler = self.make_compiler()
                found = self._compiled[read] = compiler, compile_from(compiler, select, ctes, 1)
        before, rows = found
        behind = self.make_compiler()
        behind.tables, behind.nodes = before.tables, before.nodes
        behind.columns, behind.intervals = dict(before.columns), dict(before.intervals)
        return behind, replace(rows, scope=rows.scope.copy())


def _list_read(select: exp.Select, ctes: tuple[Cte, ...]) -> list[exp.Expr]:
    """Return the nodes of a block on which its FROM clause depends."""
    first, joins = select.args.get("from_"), select.args.get("joins") or []
    read = [part for part in (first, *joins, select.args.get("where")) if part is not None]
    if first is not None and joins:
        values = (read_select_distinct(item.this, ctes) for item in (first, *joins))
        if any(each is not None and each.select.meta.get(DECLARED_MARK) for each in values):
            read.append(select)  # whether declared values are read depends on the keys
    return read


def _list_columns(select: exp.Select) -> Iterator[exp.Column]:
    """Yield the columns that a block names outside its FROM items and subqueries."""
    for name, part in select.args.items():
        if name in ("from_", "with_"):
            continue
        for root in part if isinstance(part, list) else [part]:
            if isinstance(root, exp.Expr):
                for node in walk_tree(root, lambda n: isinstance(n, exp.Query)):
                    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                        yield node


def _is_inside(node: exp.Column, scope: Scope, aliases: set[str]) -> bool:
    table = node.args.get("table")
    if table is not None:
        return any(fold(o.alias) == fold(table.name) for o in scope.origins)
    return scope.has(fold(node.name)) or fold(node.name) in aliases
