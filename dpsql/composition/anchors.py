"""The first and the last day of a table, to which people anchor ranges: `(SELECT MAX(day) FROM visits)`.

Where the owner declares the days that a table covers, its MIN and MAX are literals, and free. Otherwise the
last day is a release: the last of the declared days that clearly has some units, found from the end. One
unit adds at most one to the number of units of each day, in one direction, so the sparse vector technique
pays once, however many days are looked at. The day has rows, which an inward quantile may not have.

*Threshold.* With G days and epsilon e, tau = 2 ln(400 G) / e units: that a day without rows passes has a
probability far below 1 in 400, and a day with twice as many is hardly ever missed.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import date
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import Catalog
from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name
from dpsql.analysis.compiler import find_cte, function_name
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.kinds import Kinds, ReleaseBlock
from dpsql.language import MARK, Clauses, Options, Query, copy_tree, find_nodes, keep_title, walk_tree
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
    """Make a SELECT of MIN or MAX that of the first day, or the last, that has so many units."""
    item = select.expressions[0]
    name = item.alias or f"{'max' if extreme.last else 'min'}({extreme.column.name})"
    day = copy_tree(extreme.column)
    count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Distinct(expressions=[unit])])
    select.set("expressions", [exp.alias_(copy_tree(day), name, quoted=True)])
    select.set("group", exp.Group(expressions=[copy_tree(day)]))
    select.set("having", exp.Having(this=exp.GTE(this=count, expression=exp.Literal.number(least))))
    select.set("order", exp.Order(expressions=[exp.Ordered(this=copy_tree(day), desc=extreme.last)]))
    select.set("limit", exp.Limit(expression=exp.Literal.number(1)))
