"""Subqueries over private rows: the first and last day of a table, and how many different rows there are.

Where the owner declares the days that a table covers, its MIN and MAX are literals, and free. Otherwise the
last day is a release: the last of the declared days that clearly has some units, found from the end. One
unit adds at most one to the number of units of each day, in one direction, so the sparse vector technique
pays once, however many days are looked at. The day has rows, which an inward quantile may not have.

*Threshold.* With G days and epsilon e, tau = 2 ln(400 G) / e units: that a day without rows passes has a
probability far below 1 in 400, and a day with twice as many is hardly ever missed.

The number of different rows is the number of different values of one text that has all columns of a row:
of each column its length and its value, or that it is NULL, so that two rows have one text only if they are
equal as DISTINCT compares them, where NULL is a value like any other. `COUNT(DISTINCT (a, b))` is the same
number. One unit adds the rows that it alone has, at most as many as it keeps: it is bounded and released as
every number of different values is.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import date
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import Catalog
from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name, contains_aggregate
from dpsql.analysis.compiler import call_name, find_cte
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.kinds import EPSILON, Kinds, ReleaseBlock
from dpsql.composition.prepared import TAKEN
from dpsql.errors import QueryRefused
from dpsql.language import (
    MARK,
    Clauses,
    Options,
    Query,
    copy_tree,
    find_nodes,
    keep_title,
    list_from_items,
    list_given,
    read_clause,
    set_where,
    walk_tree,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Assumed, Policy, RangeDomain, Table, fold

SHARE = Fraction(1, 8)
"""The part of a statement's epsilon that finds a day."""
MOST = 4
"""The most days that a statement finds."""


@dataclass(frozen=True, slots=True)
class _Extreme:
    """MIN or MAX of a column of a private table."""

    call: exp.Expr
    column: exp.Column
    table: Table
    last: bool

    @property
    def word(self) -> str:
        """The words for the value: "the last" or "the first", and the column's name."""
        return f"the {'last' if self.last else 'first'} {self.column.name}"


def with_covered(tree: exp.Query, policy: Policy) -> exp.Query:
    """Return a statement with literals for the first and last days of whole tables; the tree is changed."""
    for select in find_nodes(tree, exp.Select):
        if select is tree or not any(table.covers for table in policy.tables.values()):
            continue
        found = _read_extremes(select, policy)
        if found is None or select.args.get("where") is not None:
            continue
        days = [each.table.covers.get(each.column.name) for each in found]
        if None in days:
            continue
        for each, both in zip(found, days, strict=True):
            assert both is not None  # noqa: S101  as seen
            each.call.replace(_literal(both[each.last], f"{each.word} is {both[each.last]}"))
        select.set("from_", None)
        holder = select.parent
        scalar = isinstance(holder, exp.Subquery) and not isinstance(holder.parent, (exp.From, exp.Join))
        if scalar and len(select.expressions) == 1 and holder is not None:
            holder.replace(exp.Paren(this=select.expressions[0].unalias()))
    return tree


def with_constants(tree: exp.Query) -> exp.Query:
    """Return a statement with the values of rows of constants for subqueries that read them; it is changed.

    >>> from dpsql.language import parse
    >>> text = "WITH p AS (SELECT 7 AS n) SELECT a FROM t WHERE a > (SELECT n + 1 FROM p)"
    >>> with_constants(parse(text).tree).sql()
    'WITH p AS (SELECT 7 AS n) SELECT a FROM t WHERE a > ((7) + 1)'
    >>> with_constants(parse("SELECT a FROM t ORDER BY (SELECT 2)").tree).sql()
    'SELECT a FROM t ORDER BY (SELECT 2) NULLS LAST'
    """
    for subquery in find_nodes(tree, exp.Subquery):
        around = subquery.parent
        while isinstance(around, (exp.Paren, exp.Subquery)):
            around = around.parent
        # A number in GROUP BY or ORDER BY would be that of a column.
        if isinstance(
            around, (exp.From, exp.Join, exp.CTE, exp.In, exp.SetOperation, exp.Group, exp.Ordered)
        ):
            continue
        row = _read_constants(subquery.this)
        if row is not None and len(row) == 1 and not subquery.args.get("alias"):
            subquery.replace(keep_title(subquery, exp.Paren(this=copy_tree(row[0][1]))))
    for series in find_nodes(tree, exp.Unnest):
        _put_constants(series)
    return tree


_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_ROWS = frozenset({"expressions", "from_", "joins", "where", "kind"})


def with_quantified(tree: exp.Query) -> exp.Query:
    """Return a statement with IN and EXISTS for comparisons with ALL or ANY of a subquery; it is changed.

    `= ANY` is IN, `<> ALL` is NOT IN. WHERE keeps a row of `x > ANY (..)` if there is a value below x, and
    one of `x > ALL (..)` if there is none of which `x > value` is FALSE or NULL.

    >>> from dpsql.language import parse
    >>> with_quantified(parse("SELECT a FROM t WHERE a > ALL (SELECT b FROM u)").tree).sql()
    'SELECT a FROM t WHERE NOT EXISTS(SELECT 1 FROM u WHERE NOT (t.a > b) IS TRUE)'
    >>> with_quantified(parse("SELECT a FROM t WHERE a = ANY (SELECT b FROM u)").tree).sql()
    'SELECT a FROM t WHERE a IN (SELECT b FROM u)'
    """
    for node in find_nodes(tree, exp.All, exp.Any):
        compared, inner = node.parent, node.this.unnest() if node.this is not None else None
        if not isinstance(compared, _COMPARED) or compared.expression is not node:
            continue
        every, around = isinstance(node, exp.All), compared.find_ancestor(exp.Select)
        if not isinstance(inner, exp.Select) or around is None or len(inner.expressions) != 1:
            continue
        if isinstance(compared, exp.NEQ if every else exp.EQ):
            listed = exp.In(this=compared.this, query=exp.Subquery(this=inner))
            compared.replace(exp.Not(this=listed) if every else listed)
            continue
        value, above = _name_tables(compared.this, around, inner), compared.parent
        while isinstance(above, (exp.Paren, exp.And, exp.Or)):
            above = above.parent
        plain = not list_given(inner) - _ROWS and not contains_aggregate(inner.expressions[0])
        if value is None or not plain or not isinstance(above, exp.Where):
            continue
        item = copy_tree(inner.expressions[0].unalias())
        held: exp.Expr = type(compared)(this=value, expression=item)
        held = exp.Not(this=exp.Is(this=exp.Paren(this=held), expression=exp.true())) if every else held
        rows = copy_tree(inner, "expressions")
        rows.set("expressions", [exp.Literal.number(1)])
        set_where(rows, read_clause(rows), held)
        found = exp.Exists(this=rows)
        compared.replace(exp.Not(this=found) if every else found)
    return tree


def _name_tables(value: exp.Expr, around: exp.Select, inner: exp.Select) -> exp.Expr | None:
    """Return a value with its columns' tables, as a subquery reads it; None where one may mean another."""
    items = [each.alias_or_name for each in list_from_items(around)]
    own, made = {fold(each.alias_or_name) for each in list_from_items(inner)}, copy_tree(value)
    for column in find_nodes(made, exp.Column):
        if not column.table and len(items) == 1 and items[0]:
            column.set("table", exp.to_identifier(items[0]))
        if not column.table or fold(column.table) in own:
            return None
    return None if find_nodes(made, exp.Query) or contains_aggregate(made) else made


def _put_constants(series: exp.Unnest) -> None:
    """Put the values of a row of constants in FROM into a list beside it that reads them."""
    around = series.find_ancestor(exp.Select)
    items = [] if around is None else [each for each in list_from_items(around) if each is not series]
    for column in [each for part in series.expressions for each in find_nodes(part, exp.Column)]:
        for item in items if column.table or len(items) == 1 else ():
            known = _read_origin(item) if column.table in ("", item.alias_or_name) else None
            if known is not None and fold(column.name) in known:
                column.replace(exp.Paren(this=copy_tree(known[fold(column.name)])))
                break


def _read_constants(query: exp.Expr | None) -> list[tuple[str, exp.Expr]] | None:
    """Return the names and values of a query whose one row is of constants; None for other queries."""
    if not isinstance(query, exp.Select) or not query.expressions:
        return None
    if list_given(query) - {"expressions", "from_", "with_"}:
        return None
    origin = read_clause(query, "from_")
    known = dict[str, exp.Expr]() if origin is None else _read_origin(origin)
    if known is None:
        return None
    found = list[tuple[str, exp.Expr]]()
    for item in query.expressions:
        value = exp.Paren(this=copy_tree(item.unalias()))
        for node in find_nodes(value, exp.Column, exp.Star, exp.Query, exp.Window):
            of = known.get(fold(node.name)) if isinstance(node, exp.Column) and origin is not None else None
            table = fold(node.text("table"))
            if of is None or origin is None or table not in ("", fold(origin.alias_or_name)):
                return None
            node.replace(exp.Paren(this=copy_tree(of)))
        if contains_aggregate(value):
            return None
        found.append((item.alias_or_name, value.this))
    return found


def _read_origin(origin: exp.Expr) -> dict[str, exp.Expr] | None:
    """Return the values of a row of constants in FROM by their folded names; None for another item."""
    within = find_cte(origin) if isinstance(origin, exp.Table) else origin
    row = None if within is None or origin.args.get("joins") else _read_constants(within.this)
    if row is None or within is None:
        return None
    names = origin.alias_column_names or within.alias_column_names
    renamed = [fold(name) for name in (*names, *(name for name, _ in row[len(names) :]))]
    if len(set(renamed)) < len(row):
        return None
    return {name: value for name, (_, value) in zip(renamed, row, strict=True)}


def with_clock(tree: exp.Query, day: date) -> exp.Query:
    """Return a statement in which current_date is a day, and the current time its beginning."""
    for node in find_nodes(tree, exp.CurrentDate, exp.CurrentTimestamp, exp.Anonymous):
        name = call_name(node)
        is_day = isinstance(node, exp.CurrentDate) or name in ("today", "current_date")
        if is_day or isinstance(node, exp.CurrentTimestamp) or name in ("now", "current_timestamp"):
            made = exp.cast(exp.Literal.string(day.isoformat()), "DATE" if is_day else "TIMESTAMP")
            node.replace(keep_title(node, made))
    return tree


def _literal(day: date, said: str) -> exp.Expr:
    made = exp.cast(exp.Literal.string(day.isoformat()), "DATE")
    made.meta["assumed"] = Assumed(said, where="policy")
    return made


def _read_extremes(select: exp.Select, policy: Policy) -> list[_Extreme] | None:
    """Return the calls of MIN and MAX of a SELECT over one table that has nothing else; None for others."""
    if list_given(select) - {"expressions", "from_", "where", "kind"}:
        return None
    node = read_clause(select, "from_")
    if not isinstance(node, exp.Table) or node.args.get("joins") or not isinstance(node.this, exp.Identifier):
        return None
    table = policy.table(node.name) if node.name.isascii() and find_cte(node) is None else None
    if table is None or table.public or not select.expressions:
        return None
    found = list[_Extreme]()
    for item in select.expressions:
        inside = {id(n) for call in aggregate_calls(item) for n in walk_tree(call)}
        if any(isinstance(n, (exp.Column, exp.Query)) and id(n) not in inside for n in walk_tree(item)):
            return None
        for call in aggregate_calls(item):
            name, arguments = aggregate_name(call), getattr(call, "expressions", [])
            column = arguments[0] if len(arguments) == 1 else None
            if name not in ("min", "max") or not isinstance(column, exp.Column):
                return None
            found.append(_Extreme(call, column, table, name == "max"))
    return found or None


def with_anchors(
    query: Query, kinds: Kinds, policy: Policy, catalog: Catalog, defaults: Options
) -> Query | None:
    """Return a statement with releases of last days in the place of MAX over many; None if there is none.

    Its tree is changed. Such a release gets an eighth of the statement's epsilon, and the others the rest.
    """
    epsilon = query.options.epsilon or (defaults.epsilon if defaults.error is None else None)
    root = query.tree
    if not kinds.values or epsilon is None or query.inner or query.options.error is not None:
        return None
    if not isinstance(root, exp.Select):
        return None
    read = {id(select) for value in kinds.values for select in find_nodes(value.subquery, exp.Select)}
    own, inner = Fraction(epsilon) * SHARE, dict[int, Clauses]()
    for release in kinds.releases:
        made = _find_anchor(release, kinds, read, policy, catalog)
        if made is None or len(inner) == MOST:
            continue
        extreme, unit, days = made
        number = -2 - len(inner)
        _put_anchor(release.select, extreme, unit, math.ceil(2 * math.log(400 * days) / own))
        release.select.meta["select"] = number
        release.select.meta["note"] = f"{extreme.word} was taken as {TAKEN}"
        release.select.meta[EPSILON] = own
        inner[number] = Clauses(Options(mechanism="SPARSE_VECTOR"), has_options=True)
    if not inner:
        return None
    rest = replace(query.options, epsilon=Fraction(epsilon) - own * len(inner))
    return replace(query, inner=inner, options=rest, has_options=True)


def _find_anchor(
    release: ReleaseBlock, kinds: Kinds, read: Collection[int], policy: Policy, catalog: Catalog
) -> tuple[_Extreme, exp.Column, int] | None:
    """Return the last day that a release is, the unit of its rows, and the number of declared days."""
    select = release.select
    holder = select.parent
    place = holder.meta.get("cte") if isinstance(holder, exp.CTE) else None
    uses = [
        t for t in find_nodes(kinds.query.tree, exp.Table) if place is not None and t.meta.get("cte") == place
    ]
    inside = all(_is_inside(t, read) for t in uses) if place is not None else id(select) in read
    found = _read_extremes(select, policy) if inside else None
    if found is None or len(found) != 1 or select.expressions[0].unalias() is not found[0].call:
        return None
    domain = found[0].table.domain.get(found[0].column.name)
    if not isinstance(domain, RangeDomain) or not isinstance(domain.start, date):
        return None
    types = {name.lower(): kind for name, kind in catalog.columns(found[0].table.name)}
    unit = kinds.provenance.find_unit(select, release.ctes)
    if str(types.get(found[0].column.name.lower())) != "DATE" or unit is None:
        return None
    return found[0], unit, domain.size


def _is_inside(node: exp.Expr, selects: Collection[int]) -> bool:
    around: exp.Expr | None = node
    while around is not None and id(around) not in selects:
        around = around.parent
    return around is not None


def _put_anchor(select: exp.Select, extreme: _Extreme, unit: exp.Column, least: int) -> None:
    """Make a SELECT of MIN or MAX that of the first day, or the last, that has a given number of units."""
    item = select.expressions[0]
    name = item.alias or f"{'max' if extreme.last else 'min'}({extreme.column.name})"
    day = copy_tree(extreme.column)
    count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Distinct(expressions=[unit])])
    select.set("expressions", [exp.alias_(copy_tree(day), name, quoted=True)])
    select.set("group", exp.Group(expressions=[copy_tree(day)]))
    select.set("having", exp.Having(this=exp.GTE(this=count, expression=exp.Literal.number(least))))
    select.set("order", exp.Order(expressions=[exp.Ordered(this=copy_tree(day), desc=extreme.last)]))
    select.set("limit", exp.Limit(expression=exp.Literal.number(1)))


_INNER = frozenset({"expressions", "from_", "joins", "where", "distinct", "kind"})
_OUTER = frozenset({"expressions", "from_", "with_", "kind"})


def with_distinct_rows(query: Query, provenance: Provenance) -> exp.Query:
    """Return a statement that counts different rows by one text; its tree is changed."""
    tree: exp.Query = query.tree
    for node in find_nodes(tree, exp.Distinct):
        if len(node.expressions) == 1 and isinstance(node.parent, exp.Anonymous):
            row = node.expressions[0].unnest() if not isinstance(node.expressions[0], exp.Tuple) else None
            row = node.expressions[0] if row is None else row
            called = isinstance(row, exp.Anonymous) and row.name.lower().removeprefix(MARK.lower()) == "row"
            if (isinstance(row, exp.Tuple) or called) and len(row.expressions) > 1:
                node.set("expressions", [text_of_row(row.expressions)])
    for select in find_nodes(tree, exp.Select):
        inner = _read(select)
        if inner is None or not _is_of_units(inner, provenance):
            continue
        values = [copy_tree(item.unalias()) for item in inner.expressions]
        distinct, call = exp.Distinct(expressions=[text_of_row(values)]), select.expressions[0].unalias()
        bounds = [copy_tree(each) for each in call.expressions[1:]]
        count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[distinct, *bounds])
        call.replace(keep_title(call, count))
        for name in ("from_", "joins", "where"):
            select.set(name, inner.args.get(name))
    return tree


def _read(select: exp.Select) -> exp.Select | None:
    """Return the SELECT whose different rows a block counts, if it does nothing else; None for others.

    They are those of DISTINCT, or of GROUP BY all that it selects.
    """
    item = read_clause(select, "from_")
    if list_given(select) - _OUTER or len(select.expressions) != 1 or not isinstance(item, exp.Subquery):
        return None
    call, inner = select.expressions[0].unalias(), item.this
    arguments = getattr(call, "expressions", [])
    counts = call_name(call) == "count" and bool(arguments)
    if not counts or not isinstance(arguments[0], exp.Star) or item.args.get("joins"):
        return None
    if not all(isinstance(each, exp.Kwarg) for each in arguments[1:]):
        return None
    if not isinstance(inner, exp.Select) or list_given(inner) - _INNER - {"order", "group"}:
        return None
    distinct, group = inner.args.get("distinct"), inner.args.get("group")
    if (distinct is None) == (group is None) or (group is not None and not _is_of_items(group, inner)):
        return None
    on = distinct.args.get("on") if distinct is not None else None
    if on is not None:  # each row of DISTINCT ON is that of one value, whichever row it is
        listed = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
        renamed = {i.alias for i in inner.expressions if isinstance(i, exp.Alias)} - {""}
        if not all(isinstance(each, exp.Column) and each.name not in renamed for each in listed):
            return None
        inner = copy_tree(inner, "expressions", "distinct", "order")
        inner.set("expressions", [copy_tree(each) for each in listed])
    plain = not any(each.is_star or contains_aggregate(each) for each in inner.expressions)
    return inner if plain else None


def _is_of_items(group: exp.Group, select: exp.Select) -> bool:
    """Return whether the keys of a GROUP BY are what its SELECT selects, and nothing else."""
    if list_given(group) - {"expressions"}:
        return False
    named = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
    keys = [
        named.get(k.name, k) if isinstance(k, exp.Column) and not k.table else k for k in group.expressions
    ]
    return {key.sql() for key in keys} == {item.unalias().sql() for item in select.expressions}


def _is_of_units(inner: exp.Select, provenance: Provenance) -> bool:
    """Return whether different rows are those of several units: none of their columns is one unit's.

    Groups of keys without declared values are counted another way (see `counted_groups`).
    """
    if provenance.find_unit(inner, ()) is None:
        return False
    try:
        judged = [provenance.read_values(inner, item.unalias(), ()) for item in inner.expressions]
    except QueryRefused:
        return False
    declared = inner.args.get("group") is None or all(known for _, known in judged)
    return declared and not any(owned for owned, _ in judged)


def text_of_row(values: list[exp.Expr]) -> exp.Expr:
    """Return one text of several values, which no other values have."""
    parts = [_text_of(value) for value in values]
    made = parts[0]
    for part in parts[1:]:
        made = exp.DPipe(this=made, expression=part)
    return made


def _text_of(value: exp.Expr) -> exp.Expr:
    """Return a value's length and text, or that it is NULL."""
    text = exp.cast(copy_tree(value), "VARCHAR")
    length = exp.cast(exp.Anonymous(this=f"{MARK}LENGTH", expressions=[copy_tree(text)]), "VARCHAR")
    colon = exp.DPipe(this=length, expression=exp.Literal.string(":"))
    null = exp.Is(this=copy_tree(value), expression=exp.Null())
    case = exp.Case(
        ifs=[exp.If(this=null, true=exp.Literal.string("-"))], default=exp.DPipe(this=colon, expression=text)
    )
    return exp.Paren(this=case)
