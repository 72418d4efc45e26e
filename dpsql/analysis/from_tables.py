"""Compile the items of FROM: declared tables, common table expressions, subqueries, VALUES."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import CELL, Cte, Origin, Owner, Relation, Scope, find_cte, select_list
from dpsql.analysis.compiler import StatementCompiler, check_arguments
from dpsql.analysis.facts_of_values import bounds_of_column, hull_of_bounds
from dpsql.analysis.lists_and_series import compile_series, read_series
from dpsql.analysis.public_domains import (
    DP_DOMAIN,
    compile_domain_table,
    find_public_values,
    is_domain_table,
    make_distinct_domain,
)
from dpsql.analysis.released_values import find_mark, relation_of_list
from dpsql.analysis.row_conditions import find_fact_places
from dpsql.analysis.scalar_rules import convert_to_common
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import Span, Typed, UnitRole
from dpsql.analysis.unit_periods import compile_periods
from dpsql.errors import Fix
from dpsql.kernel import tree
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Constant,
    Derived,
    Expr,
    IsNull,
    Item,
    Join,
    Scan,
    Select,
    UtcTime,
    Values,
    guarded,
)
from dpsql.kernel.tree.period_units import unit_in_period
from dpsql.language import StatementText, replace_name
from dpsql.policy import (
    Assumed,
    Policy,
    Table,
    UnitColumn,
    UnitPeriod,
    UnitRow,
    UnitVia,
    find_owned_keys,
    fold,
    path_of,
    zones,
)
from dpsql.types import BOOLEAN, DATE, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

NODES_PER_TABLE = 25
"""How many expressions a table named in FROM counts as, toward the limit of a statement's size."""
_ORIGINS = 16
"""How many aliases of a table are remembered with its columns."""


def compile_from_item(
    compiler: StatementCompiler, node: exp.Expr, ctes: tuple[Cte, ...], depth: int
) -> tuple[Relation, str]:
    """Compile one item of FROM; return its relation and its alias."""
    series = read_series(node)
    if series is not None:
        check_arguments(compiler.source, node, frozenset({"this", "expressions", "alias"}))
        relation = compile_series(compiler, series[0], days=series[1])
        alias = node.args.get("alias")
        if alias is not None and alias.this is not None and not alias.args.get("columns"):
            relation = rename_columns(compiler, relation, [alias.name], node)
        elif isinstance(node, exp.Unnest):
            relation = rename_columns(compiler, relation, ["unnest"], node)
        return _apply_alias(compiler, node, relation, relation.columns[0].name)
    match node:
        case exp.Table():
            return _compile_table(compiler, node, ctes, depth)
        case exp.Subquery():
            check_arguments(compiler.source, node, frozenset({"this", "alias"}))
            if (mark := find_mark(node.this)) is not None and mark.listed:
                return _apply_alias(compiler, node, relation_of_list(mark), "")
            relation = compiler.query(node.this, ctes, depth + 1)
            return _apply_alias(compiler, node, relation, "")
        case exp.Values():
            check_arguments(compiler.source, node, frozenset({"expressions", "alias"}))
            return _apply_alias(compiler, node, _compile_values(compiler, node), "")
    if isinstance(node, exp.Unnest) and (listed := _read_unnest(node)) is not None:
        check_arguments(compiler.source, node, frozenset({"expressions", "alias"}))
        relation = rename_columns(compiler, _compile_values(compiler, listed), ["unnest"], node)
        return _apply_alias(compiler, node, relation, "unnest")
    if isinstance(node, exp.Paren):
        raise compiler.source.refuse(
            "write the joins in parentheses as a subquery", node, "(SELECT ... FROM a JOIN b ...)"
        )
    raise compiler.source.refuse("this is not supported in FROM over private data", node)


def _apply_alias(
    compiler: StatementCompiler, node: exp.Expr, relation: Relation, name: str
) -> tuple[Relation, str]:
    alias = node.args.get("alias")
    if alias is None:
        return relation, name
    check_arguments(compiler.source, alias, frozenset({"this", "columns"}))
    columns = [c.name for c in alias.args.get("columns") or ()]
    for name_node in alias.args.get("columns") or ():
        if not isinstance(name_node, exp.Identifier):
            raise compiler.source.refuse("expected a list of column names", name_node)
    if columns:
        relation = rename_columns(compiler, relation, columns, alias)
    return relation, alias.name if alias.this is not None else name


def rename_columns(
    compiler: StatementCompiler, relation: Relation, names: Sequence[str], at: exp.Expr
) -> Relation:
    """Return a relation with new visible names for its first columns."""
    if len(names) > len(relation.columns):
        raise compiler.source.refuse(f"{len(names)} column names for {len(relation.columns)} columns", at)
    new = [replace(c, name=name) for name, c in zip(names, relation.columns, strict=False)]
    return replace(relation, columns=(*new, *relation.columns[len(names) :]))


def _compile_table(
    compiler: StatementCompiler, node: exp.Table, ctes: tuple[Cte, ...], depth: int
) -> tuple[Relation, str]:
    check_arguments(compiler.source, node, frozenset({"this", "alias", "db", "catalog"}))
    compiler.count(NODES_PER_TABLE, node)  # WITH subqueries that name each other twice grow exponentially
    if is_domain_table(node):
        relation = compile_domain_table(compiler.source, compiler.policy, compiler.catalog, node)
        return _apply_alias(compiler, node, relation, DP_DOMAIN)
    if not isinstance(node.this, exp.Identifier):
        raise compiler.source.refuse(
            "table functions are not supported over private data", node, "name a declared table"
        )
    cte = find_cte(node.name, ctes) if node.args.get("db") is None else None
    if cte is not None:
        relation = compiler.query(cte.query, cte.visible, depth + 1)
        if cte.columns:
            relation = rename_columns(compiler, relation, cte.columns, cte.query)
        return _apply_alias(compiler, node, relation, cte.name)
    table = find_declared_table(compiler.source, compiler.policy, node)
    compiler.used.add(table.name)
    compiler.used.update(parent.name for parent in path_of(compiler.policy.tables, table))
    return _apply_alias(compiler, node, compile_declared_table(compiler, table, node), table.name)


def find_declared_table(source: StatementText, policy: Policy, node: exp.Table) -> Table:
    """Return the declared table that a node names; refuse any other name."""
    database = node.args.get("db")
    table = policy.table(node.name) if node.name.isascii() else None
    own = {"main", fold(policy.database.stem)} if policy.database is not None else {"main"}
    above = [fold(n.name) for n in (database, node.args.get("catalog")) if n is not None]
    elsewhere = not own.issuperset(above) or (len(above) > 1 and above[0] != "main")
    if table is None or elsewhere:
        if table is not None and "start" in node.this.meta:
            written = ".".join(part.name for part in node.parts)
            first = min(part.meta.get("start", -1) for part in node.parts)
            fix = Fix(table.name, first, node.this.meta["end"] + 1) if first >= 0 else None
            raise source.refuse(
                f"there is no table {written[:100]}",
                node,
                f"did you mean {table.name}?",
                fix,
                unknown="table",
            )
        known = [*(t.name for t in policy.tables.values()), *(v.name for v in policy.views.values())]
        known = [*_list_cte_names(node), *known]
        begun = [name for name in known if len(node.name) > 2 and fold(name).startswith(fold(node.name))]
        close = begun if len(begun) == 1 else difflib.get_close_matches(node.name, known, 2)
        close = close[:1] if difflib.get_close_matches(node.name, close, 2, 0.85) == close[:1] else close
        hint = f"did you mean {close[0]}?" if close else "tables are " + ", ".join(known)[:200]
        fix = replace_name(node.this, close[0]) if len(close) == 1 and not elsewhere else None
        raise source.refuse(f"there is no table {node.name[:60]}", node, hint, fix, unknown="table")
    return table


def _list_cte_names(node: exp.Expr) -> list[str]:
    """Return the names of the queries of WITH that may be meant by a name of a table."""
    found, at = list[str](), node.parent
    while at is not None:
        found += (
            [cte.alias for cte in at.args["with_"].expressions] if at.args.get("with_") is not None else []
        )
        at = at.parent
    return [name for name in found if fold(name) != fold(node.name)]


def compile_declared_table(compiler: StatementCompiler, table: Table, at: exp.Expr) -> Relation:
    """Return the relation of a declared table, which is compiled once for a policy and its public data."""
    made_for, relation = compiler.catalog.relations.get(table.name, (None, None))
    if relation is None or made_for is not compiler.policy:
        relation = _compile_declared_table(compiler, table, at)
        compiler.catalog.relations[table.name] = compiler.policy, relation
    return relation


def _make_cell(compiler: StatementCompiler, table: Table, name: str, sql_type: SqlType) -> Expr:
    """Return a column of a declared table, an instant as the TIMESTAMP of UTC.

    Scans of private tables read that already, but of a column with a declared zone they read its local time.
    """
    cell = tree.Column("b", name, stored=True)
    if name in table.zone:
        from dpsql.analysis.syntax_rules import find_steps, move_time  # noqa: PLC0415  few columns have a zone

        span = _find_span(compiler.catalog, table, name)
        return guarded(move_time(cell, find_steps(TIMESTAMP, zones.zone(table.zone[name]), span)))
    return UtcTime(cell) if table.public and sql_type == TIMESTAMPTZ else cell


def _compile_declared_table(compiler: StatementCompiler, table: Table, at: exp.Expr) -> Relation:
    """Compile a declared table: its declared columns and, of a private one, the rows that have a unit."""
    declared = compiler.catalog.columns(table.name)
    places = {fold(name): i for i, (name, _) in enumerate(declared)}
    cells = [_make_cell(compiler, table, name, sql_type) for name, sql_type in declared]
    source = Scan(table.name, "b")
    facts = table.unique if table.unit is not None else compiler.catalog.unique(table.name)
    unique = frozenset(frozenset(places[fold(c)] for c in fact) for fact in facts)
    owned = find_owned_keys(compiler.policy.tables)
    links = {column: key for (name, column), key in owned.items() if name == fold(table.name)}
    columns = tuple(_describe_column(compiler, table, name, sql_type, links) for name, sql_type in declared)
    match table.unit:
        case None:
            return Relation(Select(tree.items("c", cells), source), columns, None, unique)
        case UnitRow(kind=kind):
            owner = Owner(kind, None, row=True, table=table.name)
            query = Select(select_list(Constant(True, BOOLEAN), "c", cells), source)
            return Relation(query, columns, owner, frozenset())
        case UnitPeriod():
            return compile_periods(compiler, table, table.unit, columns, cells, unique)
        case UnitColumn(column=named, kind=kind):
            place = places[fold(named)]
            unit = cells[place]
            columns = tuple(
                replace(c, unit=UnitRole.EXACT, nulls=False) if i == place else c
                for i, c in enumerate(columns)
            )
            unique = frozenset(fact - {place} for fact in unique)
            owner = Owner(kind, columns[place].type)
            query = Select(select_list(unit, "c", cells), source, IsNull(unit, negated=True))
            return Relation(query, columns, owner, unique)
        case UnitVia():
            return _compile_child(compiler, table, table.unit, columns, cells, source, at)
    raise compiler.source.refuse(f"table {table.name} has an unknown kind of unit", at)


def _compile_child(
    compiler: StatementCompiler,
    table: Table,
    unit: UnitVia,
    columns: tuple[Typed, ...],
    cells: Sequence[Expr],
    source: Scan,
    at: exp.Expr,
) -> Relation:
    """Compile a table whose rows find their unit through a parent table, in one hop or several.

    A row is owned by the least owner among the parent's rows with its key: the one row, where the key is
    unique. Rows of the table at the end name their owner. A row that finds no owner, because of a NULL or of
    a key that is not there, is nobody's and is never counted.

    *Sensitivity.* Take the rows of a unit u out of all tables. Claim: each row that stays has the owner
    that it had, or none as before. By induction on the number of hops. A row of the last table keeps its
    unit column. Of a row further down, the parent's rows with its key keep their owners by the claim, and
    those of u are gone. If it had no owner, they had none, and have none. If its owner was v, a row of v is
    there still, and none of a lesser unit was there, so that it is v's. Hence u's removal takes away the rows
    of u from this relation and changes no other, as with a table that has a unit column: all that is proved
    of those holds here, with the same constants.

    Where keys are unique, which is verified of each table of the path for each version of the data, u's rows
    further down may even stay: without the parent's row they are nobody's. If a key were not unique, such a
    row could pass to another unit.
    """
    owners, sql_type = _find_owners(compiler, table, unit, at)
    named = path_of(compiler.policy.tables, table)[-1].unit
    assert isinstance(named, UnitColumn)  # noqa: S101  `_find_owners` has refused other paths
    every = named.every if isinstance(named, UnitPeriod) else ""
    if not every and fold(named.column) not in {fold(c.name) for c in columns}:
        # The unit has its name in the last table, so that it can be counted and joined on.
        cells = (*cells, tree.Column("q", "u"))
        columns = (
            *columns,
            Typed(CELL, sql_type, name=named.column, unit=UnitRole.EXACT, borrowed=True, nulls=False),
        )
    columns = tuple(replace(c, nulls=False) if fold(c.name) == fold(unit.via) else c for c in columns)
    rows = _join_owners(unit, source, owners)
    query = Select(select_list(tree.Column("q", "u"), "c", cells), rows)
    return Relation(query, columns, Owner(unit.kind, sql_type, every=every))


def _find_owners(
    compiler: StatementCompiler, table: Table, unit: UnitVia, at: exp.Expr
) -> tuple[Select, SqlType]:
    """Return the keys of a table's parent with the owner of each, and the type of units."""
    parent = compiler.policy.table(unit.table)
    if parent is None or not isinstance(parent.unit, UnitColumn | UnitVia):
        raise compiler.source.refuse(
            f"the unit of {table.name} goes through a table without a unit column", at
        )
    own = {fold(name): sql_type for name, sql_type in compiler.catalog.columns(table.name)}
    kinds = {fold(name): sql_type for name, sql_type in compiler.catalog.columns(parent.name)}
    link, parent_key = own[fold(unit.via)], kinds[fold(unit.column)]
    if link != parent_key and not (link.integer and parent_key.integer):
        raise compiler.source.refuse(
            f"{unit.via} of {table.name} and {unit.column} of {unit.table} differ in type", at
        )
    # The policy declares that a parent key is unique. If it is not, MIN still makes one row of each.
    key, source = tree.Column("p", unit.column, stored=True), Scan(parent.name, "p")
    if isinstance(parent.unit, UnitVia):
        above, sql_type = _find_owners(compiler, parent, parent.unit, at)
        listed = (Item(key, "k"), Item(Aggregate("MIN", (tree.Column("q", "u"),)), "u"))
        return Select(listed, _join_owners(parent.unit, source, above), group=(key,)), sql_type
    up: Expr = tree.Column("p", parent.unit.column, stored=True)
    if isinstance(parent.unit, UnitPeriod):
        date, days = parent.unit.date, kinds[fold(parent.unit.date)] == DATE
        up = unit_in_period(up, tree.Column("p", date, stored=True), parent.unit.period, dates=days)
    listed = (Item(key, "k"), Item(Aggregate("MIN", (up,)), "u"))
    chosen = Select(listed, source, IsNull(up, negated=True), group=(key,))
    return chosen, VARCHAR if isinstance(parent.unit, UnitPeriod) else kinds[fold(parent.unit.column)]


def _join_owners(unit: UnitVia, source: Scan, owners: Select) -> Join:
    """Join rows to the owners of their parent's keys, as `q`; rows without an owner are left out."""
    same = Binary("=", tree.Column(source.alias, unit.via, stored=True), tree.Column("q", "k"))
    return Join(source, "", Derived(owners, "q"), same)


def _describe_column(
    compiler: StatementCompiler, table: Table, name: str, sql_type: SqlType, links: dict[str, str]
) -> Typed:
    """Return a column of a declared table, with what is public about its values."""
    bounds = bounds_of_column(compiler.catalog, table, name, sql_type)
    domain = find_public_values(compiler.catalog, table, name)
    if table.unit is None:
        return Typed(CELL, sql_type, name=name, domain=domain, bounds=bounds)
    ends = compiler.catalog.integers(table.name, name)
    complete = compiler.catalog.complete(table.name, name)
    span = _find_span(compiler.catalog, table, name)
    notes: tuple[Assumed, ...] = ()
    if name in table.zone:
        from dpsql.analysis.syntax_rules import note_zone  # noqa: PLC0415  as above

        notes = (note_zone(zones.zone(table.zone[name]), span),)
    if ends is not None:
        span = Span(*ends, f"the declared domain of {table.name}.{name}")
    span = replace(span, complete=complete) if span is not None else None
    return Typed(
        CELL,
        sql_type,
        name=name,
        domain=domain,
        link=links.get(fold(name), ""),
        span=span,
        bounds=bounds,
        nulls=not compiler.catalog.not_null(table.name, name),
        not_negative=compiler.catalog.not_negative(table.name, name),
        notes=notes,
    )


def _find_span(catalog: Catalog, table: Table, name: str) -> Span | None:
    days = catalog.span(table.name, name)
    return Span.of_days(*days, f"the declared range of {table.name}.{name}") if days else None


def _read_unnest(node: exp.Unnest) -> exp.Values | None:
    """Return the VALUES that UNNEST of one written list is; None for other arguments."""
    items = node.expressions[0].expressions if len(node.expressions) == 1 else []
    if not items or not isinstance(node.expressions[0], exp.Array):
        return None
    return exp.Values(expressions=[exp.Tuple(expressions=[item]) for item in items])


def _compile_values(compiler: StatementCompiler, node: exp.Values) -> Relation:
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise compiler.source.refuse("the rows of VALUES differ in length", node)
    empty = Scope(compiler.source)
    columns = [
        convert_to_common(
            compiler,
            [make_canonical(compiler.expression(row[i], empty)) for row in rows],
            [row[i] for row in rows],
        )
        for i in range(width)
    ]
    values = tuple(tuple(columns[i][j].guarded_node for i in range(width)) for j in range(len(rows)))
    names = tree.columns("", "c", width)
    listed = Values(values, "w", tuple(c.name for c in names))
    query = Select(tuple(Item(c) for c in names), listed)
    domains = [make_distinct_domain(c, Derived(query, "w"), "the list") for c in names]
    listed_columns = (
        Typed(CELL, c[0].type, name=f"col{i}", domain=domains[i], bounds=hull_of_bounds(c))
        for i, c in enumerate(columns)
    )
    return Relation(query, tuple(listed_columns))


def place_in_from(relation: Relation, generated: str, alias: str) -> Origin:
    """Return a relation's columns under an alias, with the generated names `generated.c0`, ..."""
    known = relation.origins.get((generated, alias))
    if known is None:
        if len(relation.origins) >= _ORIGINS:
            relation.origins.clear()
        known = relation.origins[generated, alias] = _place_in_from(relation, generated, alias)
    return known


def _place_in_from(relation: Relation, generated: str, alias: str) -> Origin:
    single = find_fact_places(relation)
    columns = tuple(
        replace(c, node=tree.Column(generated, f"c{i}"), name="", fact=i in single)
        for i, c in enumerate(relation.columns)
    )
    return Origin(alias or generated, tuple(c.name for c in relation.columns), columns)
