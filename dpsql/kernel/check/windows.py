"""Window functions over owned rows, and what their columns count.

A window with a unit among its PARTITION BY computes the values of a unit's rows from that unit's rows alone.
So what is owned stays owned. `values` proves that no value depends on the order of rows.

`ROW_NUMBER` with the unit and P among PARTITION BY is 1, 2, .. in the rows of a unit that are equal in P: the
number and P are unique within a unit.
"""

from __future__ import annotations

from dpsql.kernel.check.marks import (
    AtLeast,
    First,
    Kept,
    Mark,
    OfUnit,
    Rank,
    Sums,
    UpTo,
    Whole,
)
from dpsql.kernel.check.proof import (
    Proof,
    absolute_of,
    conjuncts,
    has_window,
    nodes_of_row,
    reads_of,
    strip_casts,
    strip_parens,
    whole_number,
)
from dpsql.kernel.check.relation import Kind, Names, Relation, name_of
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Expr,
    Frame,
    IsNull,
    Window,
)

RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})


def check_windows(proof: Proof, expr: Expr, relation: Relation) -> None:
    """Refuse windows over rows of several units, but that of `first_of_units`."""
    if not has_window(expr) or relation.kind is not Kind.OWNED:
        return
    if first_of_units(expr, relation) is not None:
        proof.note("first of equal values", "of all rows with one value, one keeps it")
        return
    for node in nodes_of_row(expr):
        if isinstance(node, Window):
            if relation.by_row or not any(part in relation.unit for part in node.partition):
                proof.refuse("a window over rows of several units", node)
            proof.note("window of the unit", "the window function reads the rows of one unit")


def follows_from(expr: Expr, relation: Relation) -> Names | None:
    """Return columns from which an expression follows, within a unit; None if that is not known."""
    if not has_window(expr):
        return reads_of(expr)
    if relation.kind is not Kind.OWNED:
        return None
    found: set[str] = set()
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Window):
            if node.order or node.frame is not None or _function(node) in RANKS:
                return None
            for part in node.partition:
                found |= reads_of(part)
        elif has_window(node):
            waiting += [n for n in nodes_of_row(node) if isinstance(n, Window)]
            found |= _outside_windows(node)
        else:
            found |= reads_of(node)
    return frozenset(found)


def _outside_windows(expr: Expr) -> Names:
    """Return the columns that an expression reads beside its windows."""
    inside: set[int] = set()
    for node in nodes_of_row(expr):
        if isinstance(node, Window):
            inside |= {id(n) for n in nodes_of_row(node)}
    return frozenset(name_of(n) for n in nodes_of_row(expr) if isinstance(n, Column) and id(n) not in inside)


def _function(window: Window) -> str:
    name = window.function.name if isinstance(window.function, (Call, Aggregate)) else ""
    return name.upper()


def unique_by_number(expr: Expr, relation: Relation) -> Names | None:
    """Return the columns that are unique together with an expression, if it numbers the rows of a unit."""
    window = strip_parens(expr)
    if not isinstance(window, Window) or _function(window) != "ROW_NUMBER" or relation.kind is not Kind.OWNED:
        return None
    rest = [part for part in window.partition if part not in relation.unit]
    if len(rest) == len(window.partition) or not all(isinstance(part, Column) for part in rest):
        return None
    return frozenset(name_of(part) for part in rest if isinstance(part, Column))


def mark_of(expr: Expr, relation: Relation) -> Mark | None:
    """Return what an expression of owned rows counts, if it is known."""
    expr = strip_parens(expr)
    if isinstance(expr, Column):
        return relation.marks.get(name_of(expr))
    if isinstance(expr, Window):
        return _up_to(expr, relation) or (Rank() if _function(expr) in RANKS else None)
    if isinstance(expr, Case):
        return (
            kept_values(expr, relation)
            or first_of_units(expr, relation)
            or _of_unit(expr, relation)
            or _whole_of_units(expr, relation)
        )
    return None if relation.merged else _greatest(expr, relation)


def _greatest(expr: Expr, relation: Relation) -> Mark | None:
    inner = strip_casts(expr)
    if not (isinstance(inner, Call) and inner.name.upper() == "GREATEST" and len(inner.arguments) == 2):
        return None
    at_least_one = whole_number(inner.arguments[1]) == 1
    x = strip_parens(inner.arguments[0])
    while isinstance(x, Cast) and x.type.name == "HUGEINT":
        x = strip_parens(x.operand)
    return _whole(x, relation) if at_least_one else None


def _whole_of_units(expr: Case, relation: Relation) -> Mark | None:
    """Return the mark of CASE WHEN u IS NULL THEN 1 ELSE GREATEST(x, 1) END: NULL is for units that share."""
    if len(expr.branches) != 1 or expr.default is None:
        return None
    condition, value = expr.branches[0]
    condition = strip_parens(condition)
    if not (isinstance(condition, IsNull) and not condition.negated and condition.operand in relation.unit):
        return None
    return _greatest(expr.default, relation) if whole_number(value) == 1 else None


def _sum_of(expr: Expr, relation: Relation) -> tuple[str, bool] | None:
    """Return the column whose values an aggregate adds up, and whether it takes absolute ones."""
    if not (isinstance(expr, Aggregate) and expr.name.upper() == "SUM" and len(expr.arguments) == 1):
        return None
    if expr.distinct or expr.filter is not None or expr.order:
        return None
    return _measured(expr.arguments[0], relation)


def _measured(expr: Expr, relation: Relation) -> tuple[str, bool] | None:
    x = strip_parens(expr)
    y = absolute_of(x)
    if y is not None:
        return (name_of(y), True) if isinstance(y, Column) else None
    mark = relation.marks.get(name_of(x)) if isinstance(x, Column) else None
    if isinstance(x, Column) and isinstance(mark, Sums) and mark.positive:
        return name_of(x), False
    return None


def _whole(expr: Expr, relation: Relation) -> Mark | None:
    """Return the mark of GREATEST(x, 1): at least the sum of a column over the unit's rows.

    Proof: x is such a sum, over a window that has all rows of the unit, since what it is partitioned by is
    the same in all of them; or x is the column, in the only row of the unit.
    """
    if isinstance(expr, Window):
        if expr.order or expr.frame is not None or relation.by_row:
            return None
        fixed = relation.closure(())
        if not any(part in relation.unit for part in expr.partition):
            return None
        if not all(part in relation.unit or reads_of(part) <= fixed for part in expr.partition):
            return None
        found = _sum_of(expr.function, relation)
        return None if found is None else Whole(*found)
    found = _measured(expr, relation)
    if found is None:
        return None
    return Whole(*found) if relation.single(()) else AtLeast(*found)


def _up_to(window: Window, relation: Relation) -> Mark | None:
    """Return the mark of a running sum of counts over the rows of the unit, in any order of them."""
    fixed = relation.closure(())
    if not window.order or relation.by_row or not any(part in relation.unit for part in window.partition):
        return None
    if not all(part in relation.unit or reads_of(part) <= fixed for part in window.partition):
        return None
    if not _runs(window.frame):
        return None
    found = _sum_of(window.function, relation)
    return UpTo(found[0]) if found is not None and not found[1] else None


def _runs(frame: Frame | None) -> bool:
    """Return whether a frame has the rows up to the current one."""
    if frame is None or frame.unit != "ROWS":
        return False
    start, end = frame.start, frame.end
    first = start.side == "PRECEDING" and start.offset is None
    return first and (end is None or end.side == "CURRENT ROW")


def _only_branch(expr: Case) -> tuple[list[Expr], Expr] | None:
    """Return the conditions and the value of CASE WHEN .. THEN value END."""
    if len(expr.branches) != 1 or expr.default is not None:
        return None
    condition, value = expr.branches[0]
    return conjuncts(condition), value


def _guarded(conditions: list[Expr], relation: Relation) -> bool:
    """Return whether conditions hold in no row without a unit that may depend on units."""
    return not relation.strays or any(
        isinstance(c, IsNull) and c.negated and c.operand in relation.unit for c in conditions
    )


def _of_unit(expr: Case, relation: Relation) -> Mark | None:
    found = _only_branch(expr)
    return OfUnit() if found is not None and relation.strays and _guarded(found[0], relation) else None


def kept_values(expr: Case, relation: Relation) -> Mark | None:
    """Return the mark of a value where its rank is at most m, among those of its unit.

    Proof: let rows of a unit with equal P be ranked by terms of which the last is the value itself. Equal
    dense ranks have equal values, so the ranks 1 to m have at most m values.
    """
    found = _only_branch(expr)
    if found is None or relation.by_row or not _guarded(found[0], relation):
        return None
    conditions, value = found
    for condition in conditions:
        if not (isinstance(condition, Binary) and condition.operator == "<="):
            continue
        rank, most = strip_parens(condition.left), whole_number(condition.right)
        if not isinstance(rank, Window) or most is None or most < 0 or _function(rank) != "DENSE_RANK":
            continue
        if not any(term.expr == value for term in rank.order):
            continue
        rest = [part for part in rank.partition if part not in relation.unit]
        if len(rest) == len(rank.partition):
            continue
        rest = [part for part in rest if not (isinstance(part, IsNull) and part.operand == value)]
        if all(isinstance(part, Column) for part in rest):
            return Kept(most, frozenset(name_of(part) for part in rest if isinstance(part, Column)))
    return None


def first_of_units(expr: Expr, relation: Relation) -> Mark | None:
    """Return the mark of a kept value in the first of all rows with it, of whatever unit.

    A value that follows from the other columns of PARTITION BY is one in the rows of a unit that are equal in
    these.
    """
    case = strip_parens(expr)
    if not isinstance(case, Case) or (found := _only_branch(case)) is None or len(found[0]) != 1:
        return None
    (condition,), value = found
    if not (
        isinstance(condition, Binary) and condition.operator == "=" and whole_number(condition.right) == 1
    ):
        return None
    window = strip_parens(condition.left)
    if not isinstance(window, Window) or _function(window) != "ROW_NUMBER" or not isinstance(value, Column):
        return None
    if value not in window.partition:
        return None
    if not all(isinstance(part, Column) for part in window.partition):
        return None
    if len(window.order) != 1 or window.order[0].expr not in relation.unit:
        return None
    within = frozenset(name_of(p) for p in window.partition if isinstance(p, Column) and p != value)
    kept, reached = relation.marks.get(name_of(value)), relation.closure(within)
    if type(kept) is Kept and kept.within <= reached:
        return First(kept.most, within)
    if (
        not relation.by_row
        and name_of(value) in reached
        and (not relation.strays or isinstance(kept, OfUnit))
    ):
        return First(1, within)
    return None


__all__ = ["Constant", "check_windows", "first_of_units", "follows_from", "mark_of", "unique_by_number"]
