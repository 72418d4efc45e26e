"""Relations of rows that are grouped by their unit, and of units of which several share one row.

GROUP BY of the unit and keys: each group has rows of one unit, so its row is a function of these. The keys
are unique within a unit.
"""

from __future__ import annotations

from dpsql.kernel.check.bounding import steps_of_few, sums_of
from dpsql.kernel.check.marks import First, FirstCount, Mark, Whole
from dpsql.kernel.check.proof import (
    Proof,
    absolute_of,
    conjuncts,
    equalities,
    has_aggregate,
    has_window,
    nodes_of_row,
    reads_of,
    strip_casts,
    strip_parens,
    whole_number,
)
from dpsql.kernel.check.relation import NONE, Kind, Names, Relation, name_of
from dpsql.kernel.check.subqueries import check_row
from dpsql.kernel.check.types_of import ends
from dpsql.kernel.tree import (
    Aggregate,
    Between,
    Binary,
    Call,
    Case,
    Column,
    Derived,
    Expr,
    Join,
    Select,
    Unscaled,
)
from dpsql.types import HUGEINT


def relation_of_units(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation:
    """Return the rows of a GROUP BY of the unit."""
    unit, keys, marks = set[str](), set[str](), dict[str, Mark]()
    if source.merged:
        proof.refuse("units that share a row, grouped again", query)
    places = {
        name_of(i.expr): n for n, i in zip(names, query.items, strict=True) if isinstance(i.expr, Column)
    }
    for expr in group:
        check_row(proof, expr, source)
        if has_window(expr):
            proof.refuse("a window among keys", expr)
    for name, item in zip(names, query.items, strict=True):
        first = _first_count(item.expr, source)
        if first is not None:
            marks[name] = first.renamed(places)
            continue
        check_row(proof, item.expr, source)
        if has_window(item.expr):
            proof.refuse("a window among aggregates", item.expr)
        if item.expr in source.unit:
            unit.add(name)
        elif item.expr in group:
            keys.add(name)
        elif has_aggregate(item.expr):
            found = sums_of(proof, item.expr, query, source)
            if found is not None:
                marks[name] = found[0]
        elif not _of_keys(item.expr, group, source):
            proof.refuse("a column that is no key of its group", item.expr)
    if not unit and (source.strays or any(isinstance(m, FirstCount) for m in marks.values())):
        return proof.refuse("groups of a unit without the unit", query)
    proof.note("group by unit", "each group has rows of one unit")
    return _grouped(query, source, names, group, unit, keys, marks)


def _of_keys(expr: Expr, group: tuple[Expr, ...], source: Relation) -> bool:
    """Return whether an expression reads only keys of the group, or the unit."""
    keys = frozenset(name_of(e) for e in group if isinstance(e, Column))
    return reads_of(expr) <= keys


def _grouped(
    query: Select,
    source: Relation,
    names: tuple[str, ...],
    group: tuple[Expr, ...],
    unit: set[str],
    keys: set[str],
    marks: dict[str, Mark],
) -> Relation:
    """Return the rows of groups of units: their keys are unique within a unit."""
    there = {item.expr for item in query.items}
    unique: frozenset[Names] = frozenset()
    if all(expr in there or expr in source.unit for expr in group):
        unique = frozenset((frozenset(keys),))
    depends: list[tuple[Names, Names]] = [(NONE, frozenset(unit))]
    of_keys = [(n, reads_of(i.expr)) for n, i in zip(names, query.items, strict=True) if n in keys]
    places = {
        name_of(i.expr): n for n, i in zip(names, query.items, strict=True) if isinstance(i.expr, Column)
    }
    sets = [NONE, *(a for a, _ in source.depends if a), *source.unique, *(a for a, _ in source.few)]
    few: list[tuple[Names, int]] = []
    for names_ in dict.fromkeys(sets):
        closed = source.closure(names_)
        reached = frozenset(n for n, reads in of_keys if reads <= closed)
        if not names_ or names_ <= places.keys():
            depends.append((frozenset(places[n] for n in names_), reached))
        few += [(reached, most) for a, most in source.few if a == names_ and reached]
    return Relation(
        Kind.OWNED,
        names,
        frozenset(Column("", name) for name in unit),
        by_row=not unit,
        strays=source.strays,
        unique=unique,
        depends=tuple((a, b) for a, b in depends if not b <= a),
        few=tuple(few),
        marks={n: m for n, m in marks.items() if m.reads <= set(names)},
    )


def _first_count(expr: Expr, source: Relation) -> Mark | None:
    """Return the mark of COUNT(v), of a column that is not NULL in the first of all rows with its value."""
    if not (isinstance(expr, Aggregate) and expr.name.upper() == "COUNT" and len(expr.arguments) == 1):
        return None
    x = expr.arguments[0]
    if expr.distinct or expr.filter is not None or not isinstance(x, Column):
        return None
    first = source.marks.get(name_of(x))
    if not isinstance(first, First):
        return None
    return FirstCount(first.most, first.within)


def relation_of_merged_units(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation | None:
    """Return the rows of groups of units, of which those with few rows share one row without a unit.

    The query is ``SELECT h.u, k.., aggregates FROM s LEFT JOIN h ON h.u = s.u GROUP BY h.u, k..`` where h has
    the units of the same rows s for which one of the numbers a, b, .. of the unit's rows is more than A, B,
    ..

    *Lemma.* Rows with a unit are those of a GROUP BY of the unit. A row without a unit adds up the rows, with
    its keys, of all units that are not in h, each of which has a <= A, b <= B, ..: whether a unit is in h
    is a function of its own rows. So a COUNT or SUM there is the sum of those of these units, and the
    counts that a is the sum of add up to at most A in all groups of one of these units.
    """
    join = query.source
    if not isinstance(join, Join) or join.kind != "LEFT" or not isinstance(join.right, Derived):
        return None
    alias = join.right.alias
    unit = next((e for e in group if isinstance(e, Column) and e.table == alias), None)
    if unit is None or source.by_row or source.shared or source.strays:
        return None
    found = _few(proof, query, join, unit)
    if found is None:
        return proof.refuse("groups of units that share a row, without a number that tells them", query)
    most, totals, sizes = found
    marks: dict[str, Mark] = {}
    merged: dict[str, int] = {}
    keys, whole = set[str](), set[str]()
    aggregates: dict[Expr, str] = {}
    for name, item in zip(names, query.items, strict=True):
        aggregates.setdefault(item.expr, name)
    named = ""
    for name, item in zip(names, query.items, strict=True):
        check_row(proof, item.expr, source)
        if item.expr == unit:
            named = name
            continue
        if item.expr in group:
            keys.add(name)
            continue
        total = _total(item.expr, alias)
        if total is not None:
            whole.add(name)
            if total in totals and totals[total] in aggregates:
                counted = aggregates[totals[total]]
                marks[name] = Whole(counted)
                merged[counted] = most[total]
            continue
        sums = sums_of(proof, item.expr, query, source)
        if sums is None:
            return proof.refuse("units that share a row, with an aggregate that does not add up", item.expr)
        marks[name] = sums[0]
        same = (bound for x, factor, bound in sizes if sums[0].terms == ((("sum", x), factor),))
        absolute = next(same, None)
        if absolute is not None:
            merged[name] = absolute
    for expr in group:
        check_row(proof, expr, source)
    if not named or len(keys) + 1 != len(set(group)) or len(set(group)) != len(group) or not merged:
        return proof.refuse("units that share a row, without all keys", query)
    proof.note(
        "units that share a row", "units with few rows share one row in each group, which adds up theirs"
    )
    return Relation(
        Kind.OWNED,
        names,
        frozenset((Column("", named),)),
        strays=True,
        unique=frozenset((frozenset(keys),)),
        depends=((NONE, frozenset((named, *whole))),),
        few=_few_groups(query, source, names, keys),
        marks=marks,
        merged=merged,
    )


def _few_groups(
    query: Select, source: Relation, names: tuple[str, ...], keys: set[str]
) -> tuple[tuple[Names, int], ...]:
    """Return in how many different values of keys a unit has rows, also one that shares its rows."""
    of = [(n, reads_of(item.expr)) for n, item in zip(names, query.items, strict=True) if n in keys]
    found: list[tuple[Names, int]] = []
    for by, most in ((NONE, 1), *source.few):
        closed = source.closure(by)
        reached = frozenset(name for name, reads in of if reads <= closed)
        if reached or not keys:
            found.append((reached, most))
    return tuple(found)


def _total(expr: Expr, alias: str) -> str | None:
    """Return the column x of h in GREATEST(MAX(h.x), 1)."""
    call = strip_casts(expr)
    if not (isinstance(call, Call) and call.name.upper() == "GREATEST" and len(call.arguments) == 2):
        return None
    highest = call.arguments[0]
    if whole_number(call.arguments[1]) != 1 or not isinstance(highest, Aggregate):
        return None
    if highest.name.upper() != "MAX" or len(highest.arguments) != 1 or highest.filter is not None:
        return None
    column = highest.arguments[0]
    return column.name if isinstance(column, Column) and column.table == alias else None


def _few(
    proof: Proof, query: Select, join: Join, unit: Column
) -> tuple[dict[str, int], dict[str, Expr], list[tuple[Expr, int, int]]] | None:
    """Return the most that a number is of a unit that is not in h, and the aggregate that it is, by column.

    Last are values with a factor: the sum of their absolute values, times it, is at most so much in such a
    unit.
    """
    right, left = join.right, join.left
    if not isinstance(right, Derived) or not isinstance(left, Derived):
        return None
    outer = right.query
    if (
        not isinstance(outer, Select)
        or not isinstance(outer.source, Derived)
        or outer.group
        or outer.distinct
    ):
        return None
    inner = outer.source.query
    if not isinstance(inner, Select) or inner.where != query.where:
        return None
    if inner.source != left and not _has_same_rows(proof, left, inner):
        return None
    numbers = proof.query(inner, "source.right")
    own = [u for u in numbers.unit if isinstance(u, Column)]
    if numbers.kind is not Kind.OWNED or not numbers.single(()) or not own or inner.distinct:
        return None
    alias = outer.source.alias
    passed = {
        item.name or item.expr.name: item.expr.name
        for item in outer.items
        if isinstance(item.expr, Column) and item.expr.table == alias
    }
    if len(passed) != len(outer.items) or passed.get(unit.name) not in {u.name for u in own}:
        return None
    if not _only_of_units(proof, query, join, unit):
        return None
    most: dict[str, int] = {}
    for condition in _alternatives(outer.where):
        if not (isinstance(condition, Binary) and condition.operator == ">"):
            return None
        column, bound = condition.left, whole_number(condition.right)
        if not isinstance(column, Column) or column.table != alias or bound is None or bound < 0:
            return None
        most[column.name] = min(bound, most.get(column.name, bound))
    names = tuple(item.name for item in inner.items)
    of = dict(zip(names, (item.expr for item in inner.items), strict=True))
    counted = {
        new: of[old]
        for new, old in passed.items()
        if old in most and isinstance(of.get(old), Aggregate) and _is_count(of[old])
    }
    sizes = [
        (size[0], size[1], most[old])
        for old in most
        if (size := _absolute(proof, of.get(old), inner)) is not None and most[old] < size[2]
    ]
    return {new: most[passed[new]] for new in counted}, counted, sizes


def _has_same_rows(proof: Proof, left: Derived, inner: Select) -> bool:
    """Return whether a query reads, under the same names, the rows that `left` has beside public ones.

    `left` is ``SELECT x.u AS u, .. FROM x LEFT JOIN d ON x.k = d.v ..``, where v is unique in the public rows
    d: each row of x is there exactly once.
    """
    source, outer = inner.source, left.query
    if not isinstance(source, Derived) or not isinstance(outer, Select) or source.alias != left.alias:
        return False
    if outer.where is not None or outer.group or outer.distinct or outer.limit is not None:
        return False
    at = outer.source
    while isinstance(at, Join):
        if at.kind != "LEFT" or not isinstance(at.right, Derived) or not _unique_partner(proof, at, at.right):
            return False
        at = at.left
    if not isinstance(at, Derived) or at.query != source.query:
        return False
    of: dict[str, list[Expr]] = {}
    for item in outer.items:
        name = item.name or (item.expr.name if isinstance(item.expr, Column) else "")
        of.setdefault(name.lower(), []).append(strip_parens(item.expr))
    names = {name.partition(".")[2] for item in inner.items for name in reads_of(item.expr)}
    if inner.where is not None:
        names |= {name.partition(".")[2] for name in reads_of(inner.where)}
    for name in names:
        found = of.get(name.lower(), [])
        if len(found) != 1 or not isinstance(found[0], Column):
            return False
        if (found[0].table, found[0].name) != (at.alias, name):
            return False
    return True


def _unique_partner(proof: Proof, join: Join, right: Derived) -> bool:
    """Return whether each row has at most one partner in public rows."""
    rows = proof.query(right.query, "right")
    fixed = {
        y.name
        for x, y, _ in equalities(conjuncts(join.on))
        if isinstance(y, Column)
        and y.table == right.alias
        and isinstance(x, Column)
        and x.table != right.alias
        if None not in (x.type, y.type) and proof.keeps(y, x)
    }
    return rows.kind is Kind.PUBLIC and rows.single(fixed)


def _absolute(proof: Proof, expr: Expr | None, query: Select) -> tuple[Expr, int, int] | None:
    """Return x, f and B of LEAST(GREATEST(COALESCE(SUM(abs(x)) * f, 0), -B), B); f is 1, or undoes a scale.

    A DECIMAL may be computed in two ways, of which one is for sums of few digits. Its steps fit a HUGEINT, so
    that the conversion never makes NULL, and 0, of a large one.
    """
    inner = expr if expr is None else strip_casts(expr)
    if not (isinstance(inner, Call) and inner.name.upper() == "LEAST" and len(inner.arguments) == 2):
        return None
    end = whole_number(inner.arguments[1])
    inner = strip_casts(inner.arguments[0])
    if not (isinstance(inner, Call) and inner.name.upper() == "GREATEST" and len(inner.arguments) == 2):
        return None
    inner = strip_casts(inner.arguments[0])
    if isinstance(inner, Call) and inner.name.upper() == "COALESCE" and whole_number(inner.arguments[1]) == 0:
        inner = strip_casts(inner.arguments[0])
    factor = 1
    if isinstance(inner, Case):
        match inner:
            case Case(((Between(of, low, high), then),), Expr() as rest):
                few, inner = steps_of_few(proof, then, Between(of, low, high), query), strip_casts(rest)
            case _:
                return None
        if not isinstance(inner, Unscaled) or few != inner.type.scale or inner.operand != of:
            return None
    if isinstance(inner, Unscaled):
        steps, least_most = proof.value(inner, query), ends(HUGEINT)
        scale = proof.value(inner.operand, query).type.scale
        if inner.type.scale != scale or steps.low < least_most[0] or steps.high > least_most[1]:
            return None
        factor, inner = 10**scale, strip_parens(inner.operand)
    if end is None or not isinstance(inner, Aggregate) or inner.name.upper() != "SUM" or inner.distinct:
        return None
    x = absolute_of(inner.arguments[0])
    return None if inner.filter is not None or x is None else (x, factor, end)


def _is_count(expr: Expr) -> bool:
    return (
        isinstance(expr, Aggregate)
        and expr.name.upper() == "COUNT"
        and not expr.distinct
        and expr.filter is None
    )


def _only_of_units(proof: Proof, query: Select, join: Join, unit: Column) -> bool:
    """Return whether rows are joined with h by the unit alone, and have one."""
    conditions = conjuncts(join.on)
    if len(conditions) != 1:
        return False
    return any(x == unit and isinstance(y, Column) and not null for x, y, null in equalities(conditions))


def _alternatives(expr: Expr | None) -> list[Expr]:
    """Return the conditions that a condition joins by OR: it is true if one of them is."""
    if expr is None:
        return []
    expr = strip_parens(expr)
    if isinstance(expr, Binary) and expr.operator == "OR":
        return _alternatives(expr.left) + _alternatives(expr.right)
    return [expr]


__all__ = ["nodes_of_row", "relation_of_merged_units", "relation_of_units"]
