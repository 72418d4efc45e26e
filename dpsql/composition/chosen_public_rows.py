"""Public rows chosen by private values; the values of earlier releases that a release reads as constants.

Which public rows are left depends on private ones, though no unit owns a row. Where each value of the column
stands in one public row, the rows that are found are as many as different values that rows of units have: a
release, in which a unit counts with the values that it keeps. Those that are not found are the rest of the
public rows, which are counted exactly. Rows that are shown are chosen by a list of found values.

NOT IN is empty in SQL as soon as the list has a NULL. Rows without a value are left out instead, and the
answer says so.

The type of a value follows from the columns of the releases that it is computed from, so these are analysed
first. A value that is a number is a DOUBLE, whatever SQL computes it as; the numbers of a list keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace

from sqlglot import exp

from dpsql.analysis import Catalog, Plan, check_outer, put_domains, write_engine_sql, write_public_sql
from dpsql.analysis.aggregate_functions import aggregate_name, is_row_count
from dpsql.analysis.compiler import find_cte, function_name, read_item, read_whole_number
from dpsql.analysis.released_values import TYPES
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.found_values import lists_rows
from dpsql.composition.kinds import VALUE_MARK, Kinds, ReadValue, below
from dpsql.composition.planned_count import columns_of
from dpsql.composition.values_by_key import read_anti_join, read_exists
from dpsql.engines import UnboundQuery
from dpsql.errors import Error, QueryRefused, with_article
from dpsql.language import (
    MARK,
    Clause,
    Options,
    Query,
    copy_rows,
    copy_tree,
    find_nodes,
    list_conjuncts,
    list_from_items,
    list_given,
    list_terms,
    make_presence,
    make_select,
    name_query,
    read_clause,
    set_where,
    title_of,
    walk_tree,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import Policy, fold
from dpsql.types import BIGINT, DOUBLE, SqlType

_READ = frozenset({"expressions", "from_", "joins", "where", "group", "order", "limit", "kind"})
_LISTED = frozenset({"expressions", "from_", "joins", "where", "distinct", "kind"})
_HALF = "0.5"


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A block that counts public rows whose column is in a list of private values, or not in it."""

    select: exp.Select
    column: exp.Column
    listed: exp.Select
    rest: tuple[exp.Expr, ...]
    """The other conditions on the public rows."""
    negated: bool
    by_in: bool = True
    """Whether it is written with IN, of which NULL decides nothing; not with EXISTS."""


def with_chosen_public_rows(query: Query, provenance: Provenance) -> exp.Query:
    """Replace counts of public rows that private values choose by SELECTs over releases; return the tree."""
    tree: exp.Query = query.tree
    policy, catalog = provenance.policy, provenance.catalog
    for select in find_nodes(tree, exp.Select):
        found = _read(read_anti_join(select) or select, policy, catalog)
        if found is None or provenance.find_unit(found.listed, ()) is None:
            continue
        if select is tree and lists_rows(select):
            made: exp.Select | None = _choose(found)
        elif _is_found_once(query, found, policy, catalog):
            made = _write(found)
        else:
            continue
        if made is not None and select is tree:
            tree = made
        elif made is not None:
            select.replace(made)
    return tree


def _read(select: exp.Select, policy: Policy, catalog: Catalog) -> _Chosen | None:
    if list_given(select) - _READ or not _is_public(select, policy):
        return None

    def columns_of(item: exp.Table) -> set[str] | None:
        table = policy.table(item.name) if item.name.isascii() and item.args.get("db") is None else None
        return None if table is None else {fold(name) for name, _ in catalog.columns(table.name)}

    found, rest = list[_Chosen](), list[exp.Expr]()
    for part in list_conjuncts(read_clause(select)):
        negated = isinstance(part, exp.Not)
        inner = part.this.unnest() if isinstance(part, exp.Not) else part
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            listed = inner.args["query"].unnest()
            plain = isinstance(listed, exp.Select) and not list_given(listed) - _LISTED
            if not (plain and isinstance(inner.this, exp.Column) and len(listed.expressions) == 1):
                return None
            found.append(_Chosen(select, inner.this, listed, (), negated))
        elif isinstance(inner, exp.Exists) and (read := read_exists(inner, columns_of)) is not None:
            found.append(_Chosen(select, *read, (), negated, by_in=False))
        elif any(isinstance(node, exp.Query) for node in part.walk()):
            return None
        else:
            rest.append(part)
    if len(found) != 1 or found[0].listed.expressions[0].is_star:
        return None
    return replace(found[0], rest=tuple(rest))


def _is_public(select: exp.Select, policy: Policy) -> bool:
    """Return whether FROM has nothing but public tables, joined by inner joins."""
    items = list_from_items(select)
    if any(
        join.args.get("side") or str(join.args.get("kind") or "") not in ("", "INNER", "CROSS")
        for join in select.args.get("joins") or ()
    ):
        return False
    for item in items:
        table = policy.table(item.name) if isinstance(item, exp.Table) and item.name.isascii() else None
        if table is None or not table.public or find_cte(item) is not None or item.args.get("joins"):
            return False
    return bool(items)


def _is_found_once(query: Query, found: _Chosen, policy: Policy, catalog: Catalog) -> bool:
    """Return whether each value of the column stands in one public row; these rows are public."""
    rows = exp.Select(expressions=[exp.alias_(copy_tree(found.column), "x", quoted=True)])
    _copy_rows(found, rows)
    x = exp.column("x", quoted=True)
    several = exp.GT(
        this=exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Star()]), expression=exp.Literal.number(1)
    )
    made = make_select([x], name_query(rows, "s", quoted=False), make_presence(x))
    made.set("group", exp.Group(expressions=[copy_tree(x)]))
    made.set("having", exp.Having(this=several))
    made.set("limit", exp.Limit(expression=exp.Literal.number(1)))
    public = replace(query, tree=made, inner={}, options=Options(), clause=Clause(), has_options=False)
    try:
        return bool(catalog.run(write_public_sql(public, policy, catalog)).num_rows == 0)
    except (Error, ValueError):
        return False


def _copy_rows(found: _Chosen, into: exp.Select) -> None:
    copy_rows(found.select, into)
    set_where(into, *map(copy_tree, found.rest))


def _choose(found: _Chosen) -> exp.Select:
    """Return the SELECT of the rows themselves, chosen by IN; their list is released as others are."""
    made, column = copy_tree(found.select), found.column
    chosen: exp.Expr = exp.In(this=copy_tree(column), query=exp.Subquery(this=copy_tree(found.listed)))
    if found.negated and not found.by_in:
        chosen = exp.paren(exp.and_(make_presence(column), chosen, copy=False), copy=False)
    chosen = exp.Not(this=chosen) if found.negated else chosen
    set_where(made, *map(copy_tree, found.rest), chosen)
    return made


def _write(found: _Chosen) -> exp.Select | None:
    """Return the SELECT over a release of the rows that are found, and over all public rows."""
    select, group = found.select, found.select.args.get("group")
    if group is not None and list_given(group) - {"expressions"}:
        return None
    items = select.expressions
    keys = [read_item(select, key) for key in list_terms(select)]
    texts = [key.sql() for key in keys]
    shown = list[exp.Expr]()
    for item in items:
        node, name = item.unalias(), item.alias_or_name
        if is_row_count(node):
            title = name if isinstance(item, exp.Alias) else title_of(node)
            shown.append(exp.alias_(exp.column("n", table="b"), title, quoted=True))
        elif node.sql() in texts:
            column = exp.column(f"k{texts.index(node.sql())}", table="b", quoted=False)
            shown.append(exp.alias_(column, name, quoted=True))
        else:
            return None
    terms = list[exp.Expr]()
    for term in list_terms(select, "order"):
        place = _place_of(items, term.this)
        if place is None:
            return None
        moved = copy_tree(term)
        moved.set("this", exp.Literal.number(place))
        terms.append(moved)
    counted = _counted(found, keys)
    made = exp.Select(expressions=shown)
    made.set(
        "from_",
        exp.From(
            this=name_query(_whole(found, keys, counted) if found.negated else counted, "b", quoted=False)
        ),
    )
    if group is not None:
        set_where(made, exp.GT(this=exp.column("n", table="b"), expression=exp.Literal.number(_HALF)))
    if terms:
        made.set("order", exp.Order(expressions=terms))
    made.set("limit", select.args.get("limit"))
    made.meta["select"] = select.meta.get("select", -1)
    return made


def _place_of(items: list[exp.Expr], term: exp.Expr) -> int | None:
    place = read_whole_number(term)
    if place is not None:
        return place
    for i, item in enumerate(items):
        named = (
            isinstance(term, exp.Column) and not term.table and fold(term.name) == fold(item.alias_or_name)
        )
        if named or item.unalias().sql() == term.sql():
            return i + 1
    return None


def _counted(found: _Chosen, keys: list[exp.Expr]) -> exp.Select:
    """Return the SELECT of a release that counts the public rows whose value is in the private list."""
    distinct = exp.Distinct(expressions=[exp.column("x", table="found", quoted=True)])
    count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[distinct])
    made = _grouped(found, keys, count)
    listed = copy_tree(found.listed, "distinct")
    listed.set("expressions", [exp.alias_(copy_tree(listed.expressions[0].unalias()), "x", quoted=True)])
    same = exp.EQ(this=copy_tree(found.column), expression=exp.column("x", table="found", quoted=True))
    made.append("joins", exp.Join(this=name_query(listed, "found", quoted=False), on=same))
    name = found.column.name
    said = (
        [f"NOT IN: rows without {with_article(name)} are left out; with one, SQL's NOT IN is empty"]
        if found.negated and found.by_in
        else []
    )
    said += ["groups whose number rounds to 0 are left out"] if keys else []
    made.meta["note"] = "; ".join(said)
    return made


def _grouped(found: _Chosen, keys: list[exp.Expr], count: exp.Expr) -> exp.Select:
    listed = [exp.alias_(copy_tree(key), f"k{i}") for i, key in enumerate(keys)]
    made = exp.Select(expressions=[*listed, exp.alias_(count, "n")])
    _copy_rows(found, made)
    if keys:
        made.set("group", exp.Group(expressions=[copy_tree(key) for key in keys]))
    made.meta["select"] = -1
    return made


def _whole(found: _Chosen, keys: list[exp.Expr], counted: exp.Select) -> exp.Select:
    """Return the SELECT that subtracts the rows found from the numbers of all public rows of each group."""
    every = _grouped(found, keys, exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Star()]))
    if found.by_in:
        set_where(every, read_clause(every), make_presence(found.column))
    own = exp.column("n", table="a")
    less = exp.Anonymous(
        this=f"{MARK}COALESCE", expressions=[exp.column("n", table="f"), exp.Literal.number(0)]
    )
    listed = [exp.alias_(exp.column(f"k{i}", table="a"), f"k{i}") for i in range(len(keys))]
    made = exp.Select(expressions=[*listed, exp.alias_(exp.Sub(this=own, expression=less), "n")])
    made.set("from_", exp.From(this=name_query(every, "a", quoted=False)))
    same = [
        exp.NullSafeEQ(this=exp.column(f"k{i}", table="a"), expression=exp.column(f"k{i}", table="f"))
        for i in range(len(keys))
    ]
    side = "LEFT" if same else None
    on = exp.and_(*same, copy=False) if same else None
    kind = None if same else "CROSS"
    made.append("joins", exp.Join(this=name_query(counted, "f", quoted=False), side=side, kind=kind, on=on))
    made.meta["select"] = -1
    return made


Columns = tuple[tuple[str, SqlType], ...]

_WHOLE = lazy_pattern(r"U?(TINY|SMALL|BIG)?INT(EGER)?")
_NUMBER = lazy_pattern(rf"DOUBLE|FLOAT|{_WHOLE.pattern}|DECIMAL.*")


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value that releases read as a constant: one, or the list of IN."""

    query: exp.Query
    """SQL over the released relations and public tables, of one column; of one row, if it is no list."""
    at: exp.Expr
    """The subquery as it stands in the statement."""
    type: SqlType
    listed: bool = False

    def has_type(self, found: str) -> bool:
        """Return whether a column of an engine's type can be the value."""
        return constant_type(found, listed=self.listed) == self.type


def constant_type(found: str, *, listed: bool) -> SqlType | None:
    """Return the type as which a released value of an engine's type is a constant; None if it is none.

    >>> [str(constant_type("INTEGER", listed=listed)) for listed in (False, True)]
    ['DOUBLE', 'BIGINT']
    """
    if listed and _WHOLE.fullmatch(found):
        return BIGINT
    if _NUMBER.fullmatch(found):
        return DOUBLE
    return next((each for each in TYPES if str(each) == found), None)


_COMPUTED = (exp.Add, exp.Sub, exp.Paren, exp.Cast, exp.TryCast, exp.Anonymous)
"""What may be computed of a value that is no number."""


def _is_of_constants(node: exp.Expr, value: exp.Expr) -> bool:
    """Return whether an expression has nothing but constants beside a value."""
    beside = (exp.Column, exp.Query, exp.CurrentDate, exp.CurrentTimestamp, exp.SessionParameter, exp.Star)
    names = ("now", "today", "current_date", "current_timestamp", "get_current_timestamp")
    return aggregate_name(node) is None and not any(
        (isinstance(n, beside) and n is not value) or (function_name(n) or "").lower() in names
        for n in walk_tree(node, lambda n: n is value)
    )


@dataclass(slots=True)
class ValueTypes:
    """Finds the types of the values of one statement, release after release."""

    query: Query
    policy: Policy
    catalog: Catalog
    kinds: Kinds
    plan: Callable[[Query], Plan]
    """Analyses a release."""
    marked: dict[str, Query] = field(default_factory=dict)
    """The releases that were taken out so far, by the names that stand for them."""
    judged: bool = False
    """Whether the blocks are only listed, for a statement that was refused."""
    numbers: dict[str, bool] = field(default_factory=dict)
    """Which of the releases are one row of numbers."""

    def find_type(self, select: exp.Select, value: ReadValue) -> SqlType:
        """Return the type that a value has as a constant: that of its column over the releases before it."""
        made, types = copy_tree(select), dict[str, Columns]()
        named = [table for table in find_nodes(made, exp.Table) if table.name.startswith(VALUE_MARK)]
        for name in {table.name for table in named} - self.numbers.keys():
            self.numbers[name] = self._is_one_number(self.marked.get(name))
        if not value.listed and all(self.numbers[table.name] for table in named):
            return DOUBLE
        for table in named:
            name = f"r{table.name.removeprefix(VALUE_MARK)}"
            try:
                types[name] = columns_of(self.plan(self.marked[table.name]))
            except QueryRefused:
                if not self.judged:
                    raise
                return DOUBLE  # it is refused where it is analysed
            if not table.alias:
                table.set("alias", exp.TableAlias(this=copy_tree(table.this)))
            table.set("this", exp.to_identifier(name, quoted=True))
        check_outer(self.query, self.policy, made, types)
        put_domains(made, self.query.source, self.policy, self.catalog)
        found = self._describe(types, write_engine_sql(made))
        constant = None if found is None else constant_type(found, listed=value.listed)
        if constant is None:
            raise below(self.query.source, value.subquery)
        return constant

    def find_widest(
        self, select: exp.Select, value: ReadValue, sql_type: SqlType
    ) -> tuple[exp.Expr, exp.Select, SqlType]:
        """Return the largest expression that is made of a value and constants, its SQL and its type.

        Then what is computed of the value is computed with released rows, and the constant is its result.
        """
        best: tuple[exp.Expr, exp.Select, SqlType] = (value.subquery, select, sql_type)
        around = value.subquery.parent
        while isinstance(around, _COMPUTED) and _is_of_constants(around, value.subquery):
            made, at = copy_tree(around), [n is value.subquery for n in walk_tree(around)].index(True)
            inner = exp.Subquery(this=copy_tree(select, "with_"))
            walk_tree(made)[at].replace(inner)
            whole = exp.Select(expressions=[made])
            if (clause := select.args.get("with_")) is not None:
                whole.set("with_", copy_tree(clause))
            with suppress(QueryRefused):
                found = self.find_type(whole, value)
                if not found.numeric:
                    best = around, whole, found
            around = around.parent
        return best

    def _describe(self, types: Mapping[str, Columns], sql: str) -> str | None:
        """Return the type of the only column of SQL over releases; None if it has others or does not bind."""
        try:
            columns = self.catalog.describe_over(types, sql)
        except UnboundQuery:
            return None
        return columns[0][1] if len(columns) == 1 else None

    def _is_one_number(self, query: Query | None) -> bool:
        """Return whether a release is one row of numbers, so that what is computed of it is a number."""
        if query is None:
            return True
        try:
            select, of = query.tree, self.kinds.provenance
            if not isinstance(select, exp.Select) or select.args.get("group") is not None:
                return False
            return of.is_numeric(select, of.list_ctes(select, ()))
        except QueryRefused:
            return True  # it is refused where it is analysed
