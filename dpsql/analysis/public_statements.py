"""Check statements over public tables, which cost no privacy budget; put the policy's views into statements.

They run on the schema database, where private tables are empty, so they reveal nothing about private data.
The checks refuse statements that would write, read files, or read the state of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

import sqlglot
from sqlglot import exp

from dpsql.analysis.aggregate_functions import AGGREGATES, ORDER_DEPENDENT
from dpsql.analysis.compiler import MAX_NODES, find_cte, function_name, split_words
from dpsql.analysis.from_tables import NODES_PER_TABLE, find_declared_table
from dpsql.analysis.lists_and_series import read_series
from dpsql.analysis.public_domains import DP_DOMAIN, put_domains
from dpsql.analysis.scalar_functions import find_nearest_function
from dpsql.analysis.scalar_rules import repeat_comparison
from dpsql.analysis.schema_catalog import Catalog
from dpsql.errors import Fix, QueryRefused
from dpsql.kernel.tree import listed_forms, literal_sql
from dpsql.language import (
    MARK,
    Ask,
    Check,
    Clauses,
    Explain,
    FirstStable,
    Query,
    copy_tree,
    find_nodes,
    find_tables,
    name_columns,
    refuse_unclear,
    replace_name,
    walk_tree,
)
from dpsql.policy import DatabaseSource, Policy, Table, View, fold
from dpsql.types import TIMESTAMPTZ

_NODES = split_words(
    """
    Select Union Except Intersect Subquery With CTE TableAlias From Join Table Where Group Having Order
    Ordered Limit Offset Fetch LimitOptions Distinct Column Identifier Star Literal Null Boolean Paren
    Tuple Alias Anonymous And Or Not EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ Between In Is Case If Cast
    TryCast DataType DataTypeParam Neg Add Sub Mul Div IntDiv Mod Pow BitwiseAnd BitwiseOr
    BitwiseRightShift Like ILike Escape DPipe Interval Var Extract Exists Any Values Filter Window
    WindowSpec Qualify Glob RegexpLike StartsWith SimilarTo CurrentDate CurrentTimestamp IntervalSpan
    Unnest
    """
)
MOST_TABLES = MAX_NODES // NODES_PER_TABLE
"""How many tables a statement may read, each common table expression taken for what it reads.

A private statement of tables alone has the same limit: each of them counts as so many expressions there.
"""
_TABLE_FUNCTIONS = frozenset({"range", "generate_series", DP_DOMAIN})
_SCHEMAS = ("information_schema",)
_CATALOG = frozenset({"tables", "columns", "schemata"})
_MORE = split_words(
    """
    coalesce ifnull nullif if greatest least concat concat_ws now random today row_number rank dense_rank
    percent_rank cume_dist ntile lag lead first_value last_value nth_value stddev variance position lpad
    rpad version list_value map
    """
)


def write_public_sql(query: Query, policy: Policy, catalog: Catalog) -> str:
    """Return the SQL text of a public statement for the schema database; refuse a statement not allowed."""
    source = query.source
    outermost = Clauses(query.options, query.clause, query.has_options)
    written = next((c for c in (outermost, *query.inner.values()) if c != Clauses()), None)
    if written is not None:
        at = next(iter(written.options.at.values()), written.clause.at)
        raise source.refuse(
            "this statement names no private table, so there is nothing to protect",
            at,
            "leave the clause out",
        )
    _refuse_missing_from(query, policy)
    tree = copy_tree(query.tree)
    with source.limited_depth():
        _check_nodes(query, policy, tree)
        name_columns(tree)
        put_domains(tree, source, policy, catalog)
        show_declared_types(tree, catalog, policy)
        placed = copy_tree(tree)  # `write_engine_sql` changes the tree
        sql = write_engine_sql(tree)
        from dpsql.analysis.public_limits import check_times  # noqa: PLC0415  private statements need none

        check_times(source, catalog, placed, sql)
        return sql


def _refuse_missing_from(query: Query, policy: Policy) -> None:
    """Refuse `SELECT COUNT(*) visits`, where a table's name stands as that of a number: FROM is missing."""
    select = query.tree
    last = select.expressions[-1] if isinstance(select, exp.Select) and not select.args.get("from_") else None
    named = last.args["alias"] if isinstance(last, exp.Alias) else None
    if named is None or not named.name.isascii():
        return
    at, joined = named.meta.get("start", -1), named.name[4:]
    if at >= 0 and named.name[:4].upper() == "FROM" and policy.table(joined) is not None:
        said, fix = "a blank is missing behind FROM", Fix(" ", at + 4, at + 4)
        raise query.source.refuse(said, at, f"FROM {joined}", fix)
    if policy.table(named.name) is None:
        return
    if at < 0 or re.search(r"(?i)\bAS\s*\Z", query.source.text[:at]):
        return
    said = f"FROM is missing before {named.name}"
    raise query.source.refuse(said, at, f"FROM {named.name}", Fix("FROM ", at, at))


def show_declared_types(tree: exp.Expr, catalog: Catalog, policy: Policy) -> None:
    """Let `information_schema.columns` say TIMESTAMPTZ of private instants, which are held otherwise."""
    held = [
        (table.name, name)
        for table in policy.tables.values()
        if not table.public and catalog.has_instants(table.name)
        for name, kind in catalog.columns(table.name)
        if kind == TIMESTAMPTZ
    ]
    for node in find_nodes(tree, exp.Table) if held else ():
        if (
            fold(node.name) == "columns"
            and fold(node.args["db"].name if node.args.get("db") else "") in _SCHEMAS
        ):
            listed = ", ".join(f"({literal_sql(table)}, {literal_sql(name)})" for table, name in held)
            query = sqlglot.parse_one(
                f"SELECT * REPLACE (CASE WHEN (table_name, column_name) IN ({listed}) THEN "
                "'TIMESTAMP WITH TIME ZONE' ELSE data_type END AS data_type) FROM information_schema.columns",
                dialect="duckdb",
            )
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
            node.replace(exp.Subquery(this=query, alias=alias, joins=node.args.get("joins")))


def write_engine_sql(tree: exp.Expr) -> str:
    """Return the SQL text of a tree for the schema database; the tree is changed."""
    from dpsql.analysis.public_limits import limit_series, limit_texts  # noqa: PLC0415  as above

    limit_series(tree)
    limit_texts(tree)
    for node in find_nodes(tree, exp.Anonymous):
        name = function_name(node)
        if name is not None:
            node.set("this", name)
    sql: str = tree.sql("duckdb", comments=False, copy=False)
    return sql


def check_outer(query: Query, policy: Policy, tree: exp.Query, released: Collection[str]) -> None:
    """Refuse SQL that would read anything but a statement's released relations and public tables."""
    _check_nodes(query, policy, tree, frozenset(released))


def _check_nodes(
    query: Query, policy: Policy, tree: exp.Expr, released: frozenset[str] | None = None
) -> None:
    source = query.source
    if _count_tables(tree) > MOST_TABLES:
        raise source.refuse(
            f"its tables are more than {MOST_TABLES}, each common table expression taken for what it reads",
            tree.find(exp.Table),
        )
    for node in walk_tree(tree):
        if type(node).__name__ not in _NODES or (isinstance(node, exp.Unnest) and read_series(node) is None):
            what = "in a public statement" if released is None else "over released numbers"
            raise source.refuse(f"this is not supported {what}", node)
        if isinstance(node, (exp.And, exp.Or)) and isinstance(node.expression, exp.Literal):
            what = "a condition must be BOOLEAN, this is a text or a number"
            written, at = repeat_comparison(node.expression), source.position(node.expression)
            fix = None if written is None else Fix(written, at, at + len(node.expression.sql("duckdb")))
            raise source.refuse(what, node.expression, written, fix)
        if isinstance(node, exp.CTE) and not isinstance(node.this, exp.Query):
            raise source.refuse("a common table expression holds a SELECT: dpsql only reads", node)
        if isinstance(node, exp.With) and node.args.get("recursive"):
            raise source.refuse("recursive common table expressions are not supported", node)
        if isinstance(node, exp.Select) and node.args.get("into") is not None:
            raise source.refuse("SELECT INTO writes: dpsql only reads", node.args["into"])
        if isinstance(node, exp.Table):
            if released is None or node.args.get("db") is not None or node.name not in released:
                _check_table(query, policy, node, public=released is not None)
        elif isinstance(node, exp.Anonymous):
            _check_function(query, node)


def _count_tables(tree: exp.Expr) -> int:
    """Return how many tables a query reads at most, where common table expressions are put in their places.

    The engine's binder does that, without regard to its limit on memory.
    """
    sizes: dict[int, int] = {}

    def size(node: exp.Expr) -> int:
        named = (find_cte(table) for table in node.find_all(exp.Table))
        return sum(1 if cte is None else sizes.get(id(cte), 1) for cte in named)

    for cte in _order_ctes(tree):
        sizes[id(cte)] = size(cte.this)
    return size(tree)


def _order_ctes(tree: exp.Expr) -> list[exp.CTE]:
    """Return the common table expressions, each after those within it and those before it."""
    found: list[exp.CTE] = []
    waiting: list[tuple[exp.Expr, bool]] = [(tree, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            assert isinstance(node, exp.CTE)  # noqa: S101
            found.append(node)
            continue
        if isinstance(node, exp.CTE):
            waiting.append((node, True))
        children = sorted(node.iter_expressions(), key=lambda child: not isinstance(child, exp.With))
        waiting += [(child, False) for child in reversed(children)]
    return found


def _check_table(query: Query, policy: Policy, node: exp.Table, *, public: bool) -> None:
    source = query.source
    for name, value in node.args.items():
        if name not in ("this", "alias", "db", "catalog", "joins") and value:
            raise source.refuse(f"{name.upper()} is not supported", node)
    if isinstance(node.this, exp.Anonymous):
        name = function_name(node.this) or str(node.this.this).removeprefix(MARK)
        if name.lower() not in _TABLE_FUNCTIONS:
            raise source.refuse(f"the table function {name[:60]} is not supported", node, unknown="function")
        return
    if not isinstance(node.this, exp.Identifier):
        raise source.refuse("this is not supported in FROM", node)
    table = _check_declared(query, policy, node)
    if public and (table is None or not table.public) and fold(node.name) not in _list_visible_ctes(node):
        raise source.refuse("released and private rows do not meet", node)


def _check_declared(query: Query, policy: Policy, node: exp.Table) -> Table | None:
    """Return the declared table that a name means; None for a common table expression or a catalog's table.

    Every other name is refused.
    """
    database = node.args.get("db")
    if database is None and fold(node.name) in _list_visible_ctes(node):
        return None
    if database is not None and fold(database.name) == "information_schema" and fold(node.name) in _CATALOG:
        return None  # of the schema database, where private tables are empty
    return find_declared_table(query.source, policy, node)


def find_unknown_tables(query: Query, policy: Policy) -> list[QueryRefused]:
    """Return a refusal for each table that a statement names and that is not declared."""
    found = []
    for node in find_nodes(query.tree, exp.Table):
        if isinstance(node.this, exp.Identifier) and not isinstance(node.parent, exp.Into):
            try:
                _check_declared(query, policy, node)
            except QueryRefused as refused:
                found.append(refused)
    return found


def _list_visible_ctes(node: exp.Expr) -> set[str]:
    """Return the names of the common table expressions that a table reference may mean."""
    found: set[str] = set()
    parent = node.parent
    while parent is not None:
        clause = parent.args.get("with_")
        if clause is not None:
            found |= {fold(cte.alias) for cte in clause.expressions}
        parent = parent.parent
    return found


def _check_function(query: Query, node: exp.Anonymous) -> None:
    name = function_name(node)
    allowed = name is not None and (
        name.lower() in listed_forms()
        or name.lower() in AGGREGATES
        or name.lower() in ORDER_DEPENDENT
        or name.lower() in _MORE
        or (name.lower() in _TABLE_FUNCTIONS and isinstance(_find_item(node), (exp.Table, exp.Unnest)))
    )
    if not allowed:
        close = None if name is None else find_nearest_function(name)
        raise refuse_unclear(query.source, node) or query.source.refuse(
            f"the function {str(name or node.this)[:60]} is not supported",
            node,
            f"did you mean {close}?" if close else None,
            replace_name(node, close) if close else None,
            unknown="function",
        )


def _find_item(call: exp.Expr) -> exp.Expr | None:
    """Return the item of FROM that a call is, as it is or as days of a list."""
    return call.parent.parent if isinstance(call.parent, exp.Cast) else call.parent


_Statement = TypeVar("_Statement")


def put_views(statement: _Statement, policy: Policy) -> _Statement:
    """Return a statement with the SELECTs of the views that it reads as its first common table expressions.

    A table that is named as in the owner's database, with its schema, gets the policy's name.

    There they see none of the statement's own common table expressions. Where the statement, or a view, has
    one of a view's name, the view gets another name.
    """
    if isinstance(statement, Explain):
        return replace(statement, query=put_views(statement.query, policy))
    if isinstance(statement, FirstStable):
        return replace(statement, queries=tuple(put_views(each, policy) for each in statement.queries))
    if isinstance(statement, Ask):
        check = put_views(statement.check, policy) if isinstance(statement.check, Check) else statement.check
        return replace(statement, query=put_views(statement.query, policy), check=check)
    if isinstance(statement, Check):
        query, statistics = (put_views(each, policy) for each in (statement.query, statement.statistics))
        return replace(statement, query=query, statistics=statistics)
    if not isinstance(statement, Query):
        return statement
    statement = _name_stored_tables(statement, policy)  # type: ignore[assignment]  # a query, as was given
    if not policy.views:
        return statement
    made = _Expansion(statement, policy)
    return made.query if made.names else statement  # type: ignore[return-value]  # a query, as was given


def _name_stored_tables(query: Query, policy: Policy) -> Query:
    """Return a query that names tables as the policy does, not by a schema of the owner's database."""
    if not any(
        node.args.get("db") is not None and _find_stored(node, policy) is not None
        for node in find_nodes(query.tree, exp.Table)
    ):
        return query
    tree = copy_tree(query.tree)
    for node in find_nodes(tree, exp.Table):
        name = _find_stored(node, policy) if node.args.get("db") is not None else None
        if name is None:
            continue
        stored = [fold(part.name) for part in node.parts[-2:]]
        if fold(name) != fold(node.name) and node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=copy_tree(node.this)))
        for column in find_nodes(tree, exp.Column):
            if [fold(part.name) for part in column.parts[-3:-1]] == stored:
                column.set("db", None)
                column.set("catalog", None)
        node.this.set("this", name)
        node.args["db"].set("this", "main")
        node.set("catalog", None)
    return replace(query, tree=tree)


def _find_stored(node: exp.Table, policy: Policy) -> str | None:
    """Return the policy's name of the table that the owner's database has by the names of a node."""
    catalog, schema, database = node.args.get("catalog"), fold(node.args["db"].name), policy.database
    if catalog is not None and database is not None and fold(catalog.name) != fold(database.stem):
        return None
    found = [
        table.name
        for table in policy.tables.values()
        if isinstance(table.source, DatabaseSource)
        and schema == fold(table.source.schema or "")
        and fold(node.name) == fold(table.source.table)
    ]
    return found[0] if len(found) == 1 else None


class _Expansion:
    """Puts the views into a copy of a query."""

    def __init__(self, query: Query, policy: Policy) -> None:
        self.policy = policy
        self.names: dict[str, str] = {}
        """The folded names of the views that are read, those that others read first, and their new names."""
        self.databases = {"main"} | ({fold(policy.database.stem)} if policy.database is not None else set())
        self.trees: dict[str, exp.CTE] = {}
        tree = copy_tree(query.tree)
        texts = [tree, *(view.tree for view in policy.views.values())]
        self.taken = {fold(cte.alias) for each in texts for cte in each.find_all(exp.CTE)}
        self.taken |= {fold(name) for name in policy.tables}
        self._put_views(tree, None, query)
        if self.names:
            self._put_first(tree)
        self.query = replace(query, tree=tree, views=tuple(policy.views[name].name for name in self.names))

    def _put_first(self, tree: exp.Query) -> None:
        """Put the views before the common table expressions of a query."""
        while isinstance(tree, exp.Subquery) and tree.args.get("with_") is None:
            tree = tree.this
        clause = tree.args.get("with_")
        listed = [self.trees[name] for name in self.names]
        first = exp.With(expressions=[*listed, *(clause.expressions if clause is not None else ())])
        if clause is not None and clause.args.get("recursive"):
            first.set("recursive", True)
        tree.set("with_", first)

    def _put_views(self, tree: exp.Query, at: int | None, query: Query) -> None:
        """Let the names in a query mean the common table expressions of the views that they name."""
        for node in list(find_tables(tree, self.databases)):
            view = self.policy.views.get(node.name) if node.name.isascii() else None
            if view is not None:
                self._put_view(node, view, query.source.position(node) if at is None else at, query)

    def _put_view(self, node: exp.Table, view: View, at: int, query: Query) -> None:
        name = fold(view.name)
        if name not in self.names:
            made = copy_tree(view.tree)
            self._put_views(made, at, query)
            own = view.name
            while fold(own) in self.taken or (own != view.name and own in self.policy.views):
                own += "_"
            self.names[name] = own
            self.taken.add(fold(own))
            alias = exp.TableAlias(this=exp.to_identifier(own, quoted=True))
            self.trees[name] = exp.CTE(this=made, alias=alias)
            for each in self.trees[name].walk():
                each.meta.clear()
                each.meta["view"] = (at, view.name)
                if isinstance(each, exp.Select):
                    each.meta["select"] = -1
        if node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=copy_tree(node.this)))
        named = exp.to_identifier(self.names[name], quoted=True)
        named.meta.update(node.this.meta)
        node.set("this", named)
        node.set("db", None)
        node.set("catalog", None)
