"""Groups of rows, joined with public rows and selected.

*Declared groups.* Public rows c LEFT JOIN groups g, where the conditions equate every key of g with a
column of c: each row of c meets at most one group. If the equated columns are unique in c, each group is
met at most once. So there is one row for each row of c, whatever the data are, and its numbers are those of
its group, or NULL, that is 0.

*Groups that have rows.* Without such a join there is a row for each group of the data. A condition `n > 0`
leaves those that the number n decides. ORDER BY n DESC with LIMIT leaves the largest; so does a rank by n
within partitions. Conditions on keys leave groups out whatever their rows are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from dpsql.kernel.check.distinct import places_of, unique_after
from dpsql.kernel.check.implied import equal_columns
from dpsql.kernel.check.proof import (
    Proof,
    conjuncts,
    equalities,
    has_aggregate,
    has_window,
    reads_of,
    strip_parens,
    subqueries,
    whole_number,
)
from dpsql.kernel.check.relation import NONE, Groups, Kind, Largest, Names, Number, Relation, name_of
from dpsql.kernel.check.types_of import INFINITY
from dpsql.kernel.check.types_of import Number as Real
from dpsql.kernel.tree import Binary, Call, Column, Expr, Join, Select, Window


def join_groups(
    proof: Proof, a: Relation, kind: str, b: Relation, conditions: list[Expr], join: Join
) -> Relation:
    """Return the join of groups with public rows."""
    if a.kind is Kind.PUBLIC and b.groups is not None and kind == "LEFT":
        return _declared(proof, a, b, b.groups, conditions, join)
    if a.groups is not None and b.groups is not None and kind == "LEFT":
        return _with_cells(proof, a, a.groups, b, b.groups, conditions, join)
    if a.groups is not None and b.kind is Kind.PUBLIC and kind == "INNER":
        return _restricted(proof, a, b, conditions, join)
    return proof.refuse("a join of groups", join)


def _declared(
    proof: Proof, a: Relation, b: Relation, groups: Groups, conditions: list[Expr], join: Join
) -> Relation:
    of: dict[str, str] = {}
    for x, y, _ in equalities(conditions):
        if not (isinstance(x, Column) and isinstance(y, Column) and name_of(y) in groups.keys):
            continue
        if name_of(x) in a.columns and proof.keeps(x, y) and proof.keeps(y, x):
            of.setdefault(name_of(y), name_of(x))
    rest = tuple(key for key in groups.keys if key not in of)
    if len(conditions) != len(of) or not all(key in groups.cells for key in rest):
        return proof.refuse("a domain that is not joined on all keys", join)
    if not a.single(of.values()):
        return proof.refuse("a domain that may have a group twice", join)
    if groups.largest is not None or (groups.decides is not None and len(groups.numbers) > 1):
        return proof.refuse("a domain joined with some of the groups", join)
    proof.note("declared groups", "every group of the domain is there, and each once")
    numbers = {n: Number(m.low, m.high, m.total, null=True, rungs=m.rungs) for n, m in groups.numbers.items()}
    few = tuple((frozenset(of.get(n, n) for n in by), most) for by, most in b.few)
    unique = a.unique | {frozenset(of.values())}
    return Relation(
        Kind.GROUPS,
        a.columns + rest + tuple(numbers),
        unique=frozenset(names.union(rest) for names in unique),
        depends=a.depends,
        few=few,
        groups=Groups(
            (*dict.fromkeys(of.values()), *rest),
            numbers,
            declared=not rest,
            cells={key: groups.cells[key] for key in rest},
            most=groups.most,
            one_cell=groups.one_cell,
            listed=frozenset(of.values()),
            together=groups.together,
        ),
    )


def _with_cells(
    proof: Proof, a: Relation, groups: Groups, b: Relation, cells: Groups, conditions: list[Expr], join: Join
) -> Relation:
    """Return groups that a number decides, each with its cells: one row without a number if it has none.

    Adding a unit changes the numbers of a group as before, and those of a cell as in `cells`. A number of a
    group is repeated in each of its cells, and is one number all the same: its total takes it once.
    """
    of: dict[str, str] = {}
    for x, y, null in equalities(conditions):
        if not (null and isinstance(x, Column) and isinstance(y, Column) and name_of(y) in cells.keys):
            continue
        if name_of(x) in groups.keys and proof.keeps(x, y) and proof.keeps(y, x):
            of.setdefault(name_of(y), name_of(x))
    rest = tuple(key for key in cells.keys if key not in of)
    exact_keys = set(of.values()) == set(groups.keys) and len(of) == len(groups.keys) == len(conditions)
    if not exact_keys or not all(key in cells.cells for key in rest) or groups.decides is None:
        return proof.refuse("a join of groups", join)
    if cells.decides is not None or cells.largest is not None or groups.largest is not None:
        return proof.refuse("a join of groups", join)
    numbers = {
        n: Number(m.low, m.high, _in_all(m, cells.most), null=True, rungs=m.rungs)
        for n, m in cells.numbers.items()
    }
    repeated = {n: Number(m.low, m.high, _in_all(m, groups.most), m.null) for n, m in groups.numbers.items()}
    proof.note("cells of groups", "each group that a number decides has its cells")
    return Relation(
        Kind.GROUPS,
        a.columns + b.columns,
        unique=frozenset((frozenset((*groups.keys, *rest)),)),
        groups=Groups(
            (*groups.keys, *rest),
            {**numbers, **repeated},
            decides=groups.decides,
            cells={key: cells.cells[key] for key in rest},
            one_cell=cells.one_cell,
        ),
    )


def _in_all(number: Number, most: int | None) -> int | None:
    """Return what a unit changes a number by in all groups, if it changes so many."""
    by_groups = None if most is None else most * max(-number.low, number.high)
    return min((t for t in (number.total, by_groups) if t is not None), default=None)


def _restricted(proof: Proof, a: Relation, b: Relation, conditions: list[Expr], join: Join) -> Relation:
    """Return the groups that have a partner among public rows: at most one, by their keys."""
    groups = a.groups
    if groups is None:
        return proof.refuse("a join of groups", join)
    fixed = set[str]()
    for condition in conditions:
        if not reads_of(condition) <= set(groups.keys) | set(b.columns) or subqueries(condition):
            return proof.refuse("groups joined by something else than their keys", join)
    for x, y, _ in equalities(conditions):
        if isinstance(y, Column) and reads_of(x) <= set(groups.keys) and proof.keeps(y, x):
            fixed.add(name_of(y))
    if not b.single(fixed & set(b.columns)):
        return proof.refuse("groups that a join may repeat", join)
    depends = [
        *a.depends,
        *((names, frozenset(b.columns)) for names in b.unique),
        *equal_columns(proof, conditions),
    ]
    listed = groups.listed | {name for name in groups.keys if _is_listed(proof, name, b, conditions)}
    return a._replace(
        columns=a.columns + b.columns,
        depends=tuple(depends),
        groups=replace(groups, listed=listed, places=groups.places | b.unique),
    )


def _is_listed(proof: Proof, key: str, b: Relation, conditions: list[Expr]) -> bool:
    """Return whether a key is equal to a column of public rows."""
    return any(
        isinstance(x, Column)
        and isinstance(y, Column)
        and name_of(x) == key
        and name_of(y) in b.columns
        and proof.keeps(x, y)
        and proof.keeps(y, x)
        for x, y, _ in equalities(conditions)
    )


def relation_of_group_rows(proof: Proof, query: Select, source: Relation, names: tuple[str, ...]) -> Relation:
    """Return the result of a query of groups."""
    groups = source.groups
    if groups is None or query.group or query.distinct:
        return proof.refuse("groups of groups", query)
    groups = _filtered(proof, query, groups, source)
    numbers: dict[str, Number] = {}
    ranks: dict[str, tuple[str, Names]] = {}
    new: dict[str, str] = {}
    or_0: set[str] = set()
    plain = set(source.columns) - groups.numbers.keys() - groups.ranks.keys()
    for name, item in zip(names, query.items, strict=True):
        found = _number(item.expr, groups)
        if found is not None:
            numbers[name] = found[1]
            new.setdefault(found[0], name)
        elif (cell := _cell(item.expr, groups)) is not None:
            new.setdefault(cell, name)
            or_0 |= set() if isinstance(item.expr, Column) else {name}
        elif isinstance(item.expr, Window):
            ranks[name] = _rank(proof, item.expr, groups)
        elif not _of_keys(item.expr, plain):
            return proof.refuse("a column of a group that is neither key nor number", item.expr)
        elif isinstance(item.expr, Column):
            new.setdefault(name_of(item.expr), name)
    made = groups.renamed(new)
    made = replace(
        made,
        numbers=numbers,
        ranks={
            name: (new.get(number, ""), frozenset(new.get(n, "") for n in by))
            for name, (number, by) in ranks.items()
        },
        declared=groups.declared,
        # A group without cells has the cell 0, wherever the others are.
        cells=made.cells | {n: _with_0(made.cells[n]) for n in or_0 & made.cells.keys()},
        whole=made.whole | {n: _with_0(made.whole[n]) for n in or_0 & made.whole.keys()},
    )
    made = _limited(proof, query, groups, made, new)
    spelled = places_of(proof, query, names, public=groups.declared)
    for column, name in new.items():
        spelled.setdefault(column, [name])
    unique = unique_after(source.unique, spelled, NONE)
    few = [(frozenset(new[n] for n in by if n in new), most) for by, most in source.few]
    if not unique and groups.listed:
        unique = _by_places(source, groups, new)
    return Relation(
        Kind.GROUPS,
        names,
        unique=unique,
        few=tuple(few),
        groups=made,
    )


def _by_places(source: Relation, groups: Groups, new: dict[str, str]) -> frozenset[Names]:
    """Return the public columns of groups by which they are told apart, if they are.

    Each key is equal to a column of public rows, of which one column that is passed on is unique.
    """
    places = {name for names in groups.places if len(names) == 1 for name in names if name in new}
    places |= {name for name in groups.keys if name in new}
    return frozenset((frozenset(new[name] for name in places),)) if source.single(places) else frozenset()


def _number(expr: Expr, groups: Groups) -> tuple[str, Number] | None:
    """Return the number that an expression is, if it is one: itself, or 0 where there is none."""
    expr = strip_parens(expr)
    if isinstance(expr, Call) and expr.name.upper() == "COALESCE" and len(expr.arguments) == 2:
        found = _number(expr.arguments[0], groups)
        if found is None or whole_number(expr.arguments[1]) != 0:
            return None
        n = found[1]
        return found[0], Number(n.low, n.high, n.total, null=False, rungs=n.rungs)
    if isinstance(expr, Column) and name_of(expr) in groups.numbers:
        return name_of(expr), groups.numbers[name_of(expr)]
    return None


_End = TypeVar("_End", int, Real)


def _with_0(ends: tuple[_End, _End]) -> tuple[_End, _End]:
    return min(ends[0], 0), max(ends[1], 0)


def _cell(expr: Expr, groups: Groups) -> str | None:
    """Return the key of a cell that an expression is: itself, or 0 in a group without cells."""
    expr = strip_parens(expr)
    if isinstance(expr, Call) and expr.name.upper() == "COALESCE" and len(expr.arguments) == 2:
        return _cell(expr.arguments[0], groups) if whole_number(expr.arguments[1]) == 0 else None
    return name_of(expr) if isinstance(expr, Column) and name_of(expr) in groups.cells else None


def _of_keys(expr: Expr, plain: set[str]) -> bool:
    """Return whether an expression of groups is a function of their keys."""
    other = subqueries(expr) or has_window(expr) or has_aggregate(expr)
    return not other and reads_of(expr) <= plain


def _filtered(proof: Proof, query: Select, groups: Groups, source: Relation) -> Groups:
    """Return the groups that WHERE leaves."""
    plain = set(source.columns) - groups.numbers.keys() - groups.ranks.keys()
    for condition in conjuncts(query.where):
        if subqueries(condition) or has_window(condition) or has_aggregate(condition):
            proof.refuse("a subquery that decides which groups there are", condition)
        if reads_of(condition) <= plain and (groups.declared or not groups.cells or groups.decides is None):
            groups = _within(groups, condition)
            continue
        if groups.declared or not isinstance(condition, Binary) or not isinstance(condition.left, Column):
            proof.refuse("a number that decides which groups there are", condition)
        name, most = name_of(condition.left), whole_number(condition.right)
        if (
            condition.operator == ">"
            and most == 0
            and name in groups.numbers
            and groups.decides in (None, name)
        ):
            if groups.numbers[name].low < 0 or groups.largest is not None:
                proof.refuse("a number that can be negative decides which groups there are", condition)
            groups = replace(groups, decides=name)
        elif condition.operator == "<=" and most is not None and name in groups.ranks:
            number, within = groups.ranks[name]
            if groups.largest is not None:
                proof.refuse("the largest groups of the largest groups", condition)
            groups = replace(groups, largest=Largest(number, most, within))
        else:
            proof.refuse("a number that decides which groups there are", condition)
    return groups


def _within(groups: Groups, condition: Expr) -> Groups:
    """Return groups with the ends that a condition sets to a key, which is then a whole number, not NULL."""
    if not (isinstance(condition, Binary) and isinstance(condition.left, Column)):
        return groups
    name, end = name_of(condition.left), whole_number(condition.right)
    if end is None or name not in groups.keys or name not in groups.whole:
        return groups
    low, high = groups.whole[name]
    if condition.operator == ">=":
        low = max(low, end)
    elif condition.operator == "<=":
        high = min(high, end)
    else:
        return groups
    whole = {**groups.whole, name: (low, high)}
    cells = {**groups.cells, name: (int(low), int(high))} if INFINITY not in (-low, high) else groups.cells
    return replace(groups, whole=whole, cells=cells)


def _rank(proof: Proof, window: Window, groups: Groups) -> tuple[str, Names]:
    """Return the number by which groups are numbered, and the keys of equal values among which they are."""
    function = window.function
    first = window.order[0] if window.order else None
    keys = set(groups.keys)
    if (
        first is None
        or first.direction != "DESC"
        or window.frame is not None
        or not (isinstance(function, Call) and function.name.upper() == "ROW_NUMBER")
        or not isinstance(first.expr, Column)
        or name_of(first.expr) != groups.decides
        or not all(isinstance(term.expr, Column) and name_of(term.expr) in keys for term in window.order[1:])
        or not keys <= {name_of(t.expr) for t in window.order[1:] if isinstance(t.expr, Column)}
        or not all(isinstance(part, Column) and name_of(part) in keys for part in window.partition)
    ):
        return proof.refuse("an unknown rank of groups", window)
    return name_of(first.expr), frozenset(name_of(p) for p in window.partition if isinstance(p, Column))


def _limited(proof: Proof, query: Select, groups: Groups, made: Groups, new: dict[str, str]) -> Groups:
    """Return the largest groups, if ORDER BY and LIMIT leave these alone."""
    if query.limit is None:
        return made
    terms = query.order
    keys = set(groups.keys)
    first = terms[0] if terms else None
    if (
        groups.declared
        or groups.largest is not None
        or first is None
        or first.direction != "DESC"
        or not isinstance(first.expr, Column)
        or name_of(first.expr) != groups.decides
        or not all(isinstance(t.expr, Column) for t in terms)
        or {name_of(t.expr) for t in terms[1:] if isinstance(t.expr, Column)} != keys
    ):
        return proof.refuse("LIMIT of groups in an order that is not total", query)
    proof.note("largest groups", f"the {query.limit} largest groups by one number are left")
    return replace(made, largest=Largest(new.get(groups.decides or "", ""), query.limit, frozenset()))


__all__ = ["join_groups", "relation_of_group_rows"]
