"""Subqueries over private rows: the first and last day of a table, values that rows have, different rows.

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

The only unit that has a value would move the rows of all others who have it, so the list is a release of
its own: the values that are surely there. Each unit speaks for one of its values, the first by a hash of unit
and value, so it moves one number of speakers by one, however many there are. A value is found if its speakers
with their noise reach tau: with G candidates and noise of scale s, tau = s ln G, so that at most one half of
a value that nobody has is to be expected. Values that are not declared are found as groups of undeclared keys
are, with delta. What is counted among the rows afterwards is another release, which reads the list as a
constant.

A list of other units' values chooses rows of a unit only through that constant. Values of few units may be
missed, so the interval of the count is that of its noise alone, and the answer says so. Lists of values that
belong to one unit each are no such lists: they stay within the unit.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import date
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import Catalog, Plan
from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name, contains_aggregate
from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import find_cte, function_name
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.kinds import Kinds, ReleaseBlock
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Clause, Clauses, Options, Query, copy_tree, find_nodes, keep_title, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Assumed, Policy, RangeDomain, Table

SHARE = Fraction(1, 8)
"""The part of a statement's epsilon that finds a day."""
EPSILON = "epsilon"
"""The meta of a release block's tree: its own part of the statement's epsilon."""
MOST = 4
"""The most days that a statement finds."""
_PLAIN = ("expressions", "from_", "where", "kind")
TAKEN = "{value}"
"""What stands in a note for the day that was found."""


@dataclass(frozen=True, slots=True)
class _Extreme:
    """MIN or MAX of a column of a private table."""

    call: exp.Expr
    column: exp.Column
    table: Table
    last: bool

    @property
    def word(self) -> str:
        """Which day it is, in words."""
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


def with_clock(tree: exp.Query, day: date) -> exp.Query:
    """Return a statement in which current_date is a day, and the current time its beginning."""
    for node in find_nodes(tree, exp.CurrentDate, exp.CurrentTimestamp, exp.Anonymous):
        name = (function_name(node) or "").lower()
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
    if any(
        value for name, value in select.args.items() if name not in ("expressions", "from_", "where", "kind")
    ):
        return None
    first = select.args.get("from_")
    node = None if first is None else first.this
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
    unit = Provenance(kinds.query.source, policy, catalog).find_unit(select, release.ctes)
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


def with_distinct_rows(query: Query, policy: Policy, catalog: Catalog) -> exp.Query:
    """Return a statement that counts different rows by one text; its tree is changed."""
    tree: exp.Query = query.tree
    for node in find_nodes(tree, exp.Distinct):
        if len(node.expressions) == 1 and isinstance(node.parent, exp.Anonymous):
            row = node.expressions[0].unnest() if not isinstance(node.expressions[0], exp.Tuple) else None
            row = node.expressions[0] if row is None else row
            called = isinstance(row, exp.Anonymous) and row.name.lower().removeprefix(MARK.lower()) == "row"
            if (isinstance(row, exp.Tuple) or called) and len(row.expressions) > 1:
                node.set("expressions", [text_of_row(row.expressions)])
    provenance = Provenance(query.source, policy, catalog)
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


def _given_rows(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _read(select: exp.Select) -> exp.Select | None:
    """Return the SELECT DISTINCT whose rows a block counts, if it does nothing else; None for others."""
    first = select.args.get("from_")
    item = None if first is None else first.this
    if (
        set(_given_rows(select)) - _OUTER
        or len(select.expressions) != 1
        or not isinstance(item, exp.Subquery)
    ):
        return None
    call, inner = select.expressions[0].unalias(), item.this
    arguments = getattr(call, "expressions", [])
    counts = (function_name(call) or "").lower() == "count" and bool(arguments)
    if not counts or not isinstance(arguments[0], exp.Star) or item.args.get("joins"):
        return None
    if not all(isinstance(each, exp.Kwarg) for each in arguments[1:]):
        return None
    if not isinstance(inner, exp.Select) or set(_given_rows(inner)) - _INNER:
        return None
    distinct = inner.args.get("distinct")
    if distinct is None or distinct.args.get("on") is not None:
        return None
    plain = not any(each.is_star or contains_aggregate(each) for each in inner.expressions)
    return inner if plain else None


def _is_of_units(inner: exp.Select, provenance: Provenance) -> bool:
    """Return whether different rows are those of several units: none of their columns is one unit's."""
    if provenance.find_unit(inner, ()) is None:
        return False
    try:
        return not any(provenance.read_values(inner, item.unalias(), ())[0] for item in inner.expressions)
    except QueryRefused:
        return False


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


FOUND = "found"
"""The meta of a literal that stands for the least number of speakers, with the column that they speak for."""
ABSENT = "absent"
"""The meta of that literal which says what the list leaves out."""
OF_NO_ROWS = "of no rows is some value of its domain, where SQL has NULL: COUNT beside it tells"
"""What an answer says of MODE, if the values are declared: which rows there are is not known."""
_READ = frozenset({"expressions", "from_", "joins", "where", "distinct", "group", "kind"})
_FIRST = -100
"""The position that the first SELECT of speakers has: that of no SELECT in the text."""


def with_found_values(query: Query, policy: Policy, catalog: Catalog) -> Query:
    """Return a statement with released lists in the place of values of private rows; its tree is changed."""
    if query.clause != Clause():
        return query
    provenance, inner = Provenance(query.source, policy, catalog), dict(query.inner)
    for node in find_nodes(query.tree, exp.In):
        listed, around = node.args.get("query"), node.find_ancestor(exp.Select)
        select = listed.unnest() if isinstance(listed, exp.Subquery) else listed
        if around is None or not isinstance(select, exp.Select) or set(_given(select)) - _READ:
            continue
        try:
            ctes = list_ctes_of(select, provenance)
            unit = _find_speakers(node, select, around, provenance, ctes)
        except QueryRefused:
            continue
        if unit is not None and listed is not None:
            number = _FIRST - len(inner)
            mechanism = "LAPLACE" if unit[1] else None
            inner[number] = Clauses(Options(max_groups_contributed=1, mechanism=mechanism), has_options=True)
            listed.replace(
                exp.Subquery(
                    this=list_found_values(select, unit[0], number, negated=isinstance(node.parent, exp.Not))
                )
            )
    return query if inner == query.inner else replace(query, inner=inner)


def _given(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value]


def list_ctes_of(node: exp.Expr, provenance: Provenance) -> tuple[Cte, ...]:
    """Return the common table expressions that a query within a statement may name."""
    around = list[exp.Expr]()
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Query) and parent.args.get("with_") is not None:
            around.append(parent)
        parent = parent.parent
    ctes: tuple[Cte, ...] = ()
    for each in reversed(around):
        ctes = provenance.list_ctes(each, ctes)
    return ctes


def _find_speakers(
    node: exp.In, select: exp.Select, around: exp.Select, of: Provenance, ctes: tuple[Cte, ...]
) -> tuple[exp.Column, bool] | None:
    """Return the unit of the rows whose values are listed, and whether these are declared.

    None if the list does not choose rows of other units.
    """
    items, group = select.expressions, select.args.get("group")
    if len(items) != 1 or contains_aggregate(items[0]) or items[0].is_star:
        return None
    value = items[0].unalias()
    if group is not None and [each.sql() for each in group.expressions] not in ([value.sql()], ["1"]):
        return None
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        return None
    unit = of.find_unit(select, ctes)
    if unit is None or of.find_unit(around, ctes) is None or of.find_outer_column(select, ctes) is not None:
        return None
    owned, declared = of.read_values(select, value, ctes)
    return None if owned else (unit, declared)


def list_found_values(select: exp.Select, unit: exp.Column, number: int, *, negated: bool) -> exp.Select:
    """Return the SELECT of the values of rows for which enough units speak."""
    value = select.expressions[0].unalias()
    counted = exp.Select(
        expressions=[
            exp.alias_(copy_tree(value), "k", quoted=True),
            exp.alias_(
                exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Distinct(expressions=[unit])]),
                "n",
                quoted=True,
            ),
        ]
    )
    where = select.args.get("where")
    there = exp.Not(this=exp.Is(this=copy_tree(value), expression=exp.Null()))
    both = there if where is None else exp.and_(copy_tree(where.this), there, copy=False)
    for name in ("from_", "joins"):
        part = select.args.get(name)
        made = [copy_tree(each) for each in part] if isinstance(part, list) else part and copy_tree(part)
        counted.set(name, made or None)
    counted.set("where", exp.Where(this=both))
    counted.set("group", exp.Group(expressions=[copy_tree(value)]))
    counted.meta["select"] = number
    outer = exp.Select(expressions=[exp.column("k", quoted=True)])
    least = exp.Literal.number(1)
    least.meta[FOUND] = word = word_of(value)
    if negated:
        least.meta[ABSENT] = f"NOT IN: rows without a {word} are left out; with one, SQL's NOT IN is empty"
    alias = exp.TableAlias(this=exp.to_identifier("s", quoted=True))
    outer.set("from_", exp.From(this=exp.Subquery(this=counted, alias=alias)))
    outer.set("where", exp.Where(this=exp.GTE(this=exp.column("n", quoted=True), expression=least)))
    outer.meta["select"] = -1
    return outer


def word_of(value: exp.Expr) -> str:
    """Return the name of a column as a sentence has it; "value" for what is computed."""
    return ("" if isinstance(value, exp.Anonymous) else value.name) or "value"


def say_absent(listed: exp.Select, text: str) -> None:
    """Let the answer say of a list of found values what is not in it."""
    for literal in find_nodes(listed.args["where"], exp.Literal):
        if FOUND in literal.meta:
            literal.meta[ABSENT] = text


def put_least(tree: exp.Expr, plan: Plan, scale: float) -> str:
    """Put the least number of speakers into the SQL of a list; return what the answer says of it, if any."""
    said = ""
    for node in find_nodes(tree, exp.Literal):
        name = node.meta.get(FOUND)
        if name is None:
            continue
        least = 1 if plan.domain_size is None else max(1, math.ceil(scale * math.log(plan.domain_size)))
        absent = node.meta.get(ABSENT)
        node.replace(exp.Literal.number(least))
        from_ = f"counts as there from about {least:,} units that speak for it"
        how = "is found as a group of undeclared keys is" if plan.domain_size is None else from_
        said = f"found: a {name} {how}; rarer ones are more often missed, so intervals are of the noise alone"
        said = f"{said}. {absent}" if absent else said
    return said
