"""Rows that no unit owns, and of which one unit changes few: groups of rows of many units, and their number.

*few(s)*: one unit more adds, deletes or alters at most s rows of the relation D -> R(D): so many rows of R(D)
and of R(D - u) are left where each row that both have is taken away once from both, a row that is altered
counted once. *Adds only*: it deletes and alters none, so R(D - u) is a part of R(D).

*Groups.* Let the rows be owned, none of them a stray, and let those of each unit have at most m different
values of the expressions k (`Bounded`). GROUP BY k has one row for each value that rows have, computed from
the rows with this value. The rows of u have at most m values; of any other value the rows are the same with
u and without, and so is its group. So it is few(m). Without aggregates a group is its key: it is there with
u if it is without, so u adds only.

*Groups of few(s).* One row that is added or deleted alters, adds or deletes the group of its key, and one
that is altered does so to the group that it leaves and to the one that it enters. So GROUP BY is few(2s), and
few(s) where u adds only. A group with aggregates may be altered by a row that is added.

*First rows* (`FirstRows`, which has the lemma): of n rows no more than min(c, n) leave with a unit, and no
more come. Each that comes is one that left, altered: few(min(c, n)).

*WHERE and projection* make of each row one or none, whichever other rows there are: few(s) stays few(s), and
what only adds, adds only. A window, DISTINCT, LIMIT or a subquery that is not public would read other rows.

*Numbers.* COUNT(*), with FILTER too, of few(s) changes by at most s, either way: a row that is altered may
meet the condition before or after. Where u adds only, it never decreases. A sum of whole numbers from L to U
is COUNT(*) for L = 0, U = 1. A row that it leaves out, for FILTER or NULL, is 0 in it: let L <= 0 <= U. A row
that is added or deleted moves it by L to U either way, one that is altered by at most U - L, and so s rows by
s (U - L). Where u adds only, it is from s L to s U. A cut of the sum to its type moves less (`saturate`).
"""

from __future__ import annotations

import math

from dpsql.kernel.check.certificate import NONE, Groups, Kind, Number, Relation
from dpsql.kernel.check.derive import exact
from dpsql.kernel.check.proof import Proof, has_aggregate, has_window, nodes_of_row, reads_of, some
from dpsql.kernel.check.row_subqueries import check_row
from dpsql.kernel.check.unit_groups import UNIT
from dpsql.kernel.tree import Aggregate, Expr, FirstRows, Select
from dpsql.kernel.tree.exact import FURTHEST, saturate


def relation_of_groups(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation | None:
    """Return the groups of rows of many units, of which a unit changes few; None if that has no bound."""
    reads = frozenset[str]().union(*map(reads_of, group))
    within = [most for by, most in source.few if reads <= source.closure(by)]
    if not group or not within or source.strays or source.by_row:
        return None
    _check_rows(proof, query, source, group)
    alters = any(has_aggregate(item.expr) for item in query.items)
    proof.note("groups of few", f"a unit is in at most {some(min(within), 'group')}")
    return Relation(Kind.FEW, names, parts=source.parts, changes=min(within), alters=alters)


def relation_of_first(proof: Proof, node: FirstRows) -> Relation:
    """Return the first rows of many units, of which a unit changes as few as it keeps."""
    rows, named = proof.query(node.rows, "rows"), {"u", "j", "p", "q", *node.columns}
    owned = rows.kind is Kind.OWNED and UNIT in rows.unit and not (rows.by_row or rows.strays)
    if not owned or proof.outer:
        return proof.refuse("the first rows of what are no rows of units", node)
    if not {*node.columns} <= {*rows.columns} or len(named) < 4 + len(node.columns):
        return proof.refuse("first rows by columns with names that others have", node)
    if not {name for name, *_ in node.order} <= {*node.columns} or min(node.most, node.first) < 1:
        return proof.refuse("first rows in an order that the rows do not have", node)
    return _few_of_first(proof, node, rows)


def _few_of_first(proof: Proof, node: FirstRows, rows: Relation) -> Relation:
    changes = min(node.most, node.first)
    proof.note("first rows", f"a unit changes at most {some(changes, 'row')} of {node.first}")
    return Relation(Kind.FEW, node.columns, parts=rows.parts, changes=changes, alters=True)


def relation_over_few(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation:
    """Return what a SELECT makes of rows of which a unit changes few: rows again, or their number."""
    _check_rows(proof, query, source, group)
    source = source._replace(columns=names, depends=())
    most, aggregates = source.changes, [i.expr for i in query.items if has_aggregate(i.expr)]
    if group:
        most *= 1 + source.alters
        proof.note("groups of few rows", f"a unit changes at most {some(most, 'group')}")
        return source._replace(changes=most, alters=source.alters or bool(aggregates))
    if not aggregates:
        return source
    if len(aggregates) < len(query.items):
        return proof.refuse("a row of few rows beside their number", query)
    proof.note("number of few rows", f"a unit changes at most {some(most, 'row')}")
    numbers = {}
    for name, expr in zip(names, aggregates, strict=True):
        low, high = _ends_of_row(proof, query, expr)
        end = most * (high - low)
        ends = (-end, end) if source.alters else (most * low, most * high)
        numbers[name] = Number(*ends, max(-ends[0], ends[1]))
    groups = Groups((), numbers, declared=True, most=1)
    return Relation(
        Kind.GROUPS, names, unique=frozenset((NONE,)), few=((NONE, 1),), groups=groups, parts=source.parts
    )


def _ends_of_row(proof: Proof, query: Select, expr: Expr) -> tuple[int, int]:
    """Return the least and the greatest that one row adds to a number, from 0 on to both sides."""
    call, *others = (node for node in nodes_of_row(expr) if isinstance(node, Aggregate))
    if call.name == "COUNT" and expr == call and not (call.arguments or call.distinct):
        return 0, 1
    if others or call.name != "SUM" or call.distinct or expr != saturate(call):
        proof.refuse("a number of few rows that is not how many there are, nor what they have", query)
    value = proof.value(call.arguments[0], query)
    if not exact(value.type) or not -FURTHEST <= value.low <= value.high <= FURTHEST:
        proof.refuse("a sum over few rows of what has no ends", query)
    return min(math.floor(value.low), 0), max(math.ceil(value.high), 0)


def _check_rows(proof: Proof, query: Select, source: Relation, group: tuple[Expr, ...]) -> None:
    """Refuse what reads other rows than one, or than those of one group."""
    if query.distinct or proof.outer:
        proof.refuse("different ones of rows that no unit owns", query)
    for expr in (*group, *(item.expr for item in query.items)):
        if check_row(proof, expr, source) or has_window(expr):
            proof.refuse("a window or a tied subquery over rows that no unit owns", expr)
    if any(map(has_aggregate, group)):
        proof.refuse("an aggregate among keys", query)
