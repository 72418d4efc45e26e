"""Numbers of groups that hold rows of many units, and the units of the values of a key.

Rows of a unit are in groups by their keys. A number of a group adds up what its rows add, or counts units;
without the rows of the unit u it changes by what the rows of u in the group add, since all other rows are
the same.

*Units.* COUNT(DISTINCT u): u adds one, or nothing.
*Single rows.* If a unit has at most one row in a group, COUNT changes by at most 1, and SUM(x) of values
from L to H by something between min(L, 0) and max(H, 0).
All other numbers are those of `Weighted`.

A function of a number that does not decrease, is 0 at 0 and does not grow distances, such as LEAST and
GREATEST with constants, keeps all bounds.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.kernel.check.certificate import Together
from dpsql.kernel.check.moments import most_of_rests, summed
from dpsql.kernel.check.proof import (
    NONE,
    Proof,
    has_aggregate,
    has_window,
    is_whole,
    reads_of,
    whole_number,
)
from dpsql.kernel.check.relation import Groups, Kind, Names, Number, Relation, name_of
from dpsql.kernel.check.rungs import relation_of_rungs
from dpsql.kernel.check.subqueries import check_row
from dpsql.kernel.check.types_of import INFINITY, exact, fits
from dpsql.kernel.tree import (
    Aggregate,
    Call,
    Cast,
    Column,
    Expr,
    Paren,
    Select,
)


def relation_of_parents(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation | None:
    """Return the unit of each value of a column of a declared table: the least one; None for other queries.

    All rows of the table that have a unit are read, so it is the unit to which a row of a child table
    belongs.
    """
    if source.table is None or len(group) != 1 or source.strays or len(names) != 2:
        return None
    table, alias = source.table
    (key,) = group
    if not (isinstance(key, Column) and key.stored and key.table == alias):
        return None
    least = [i for i, item in enumerate(query.items) if isinstance(item.expr, Aggregate)]
    keys = [i for i, item in enumerate(query.items) if item.expr == key]
    if len(least) != 1 or len(keys) != 1:
        return None
    unit = query.items[least[0]].expr
    if not isinstance(unit, Aggregate) or unit.name.upper() != "MIN" or len(unit.arguments) != 1:
        return None
    if unit.arguments[0] not in source.unit or unit.filter is not None:
        return None
    proof.note("units of keys", f"a value of {key.name} of {table} belongs to the least unit of its rows")
    return Relation(
        Kind.PARENTS,
        names,
        frozenset((Column("", names[least[0]]),)),
        unique=frozenset((frozenset((names[keys[0]],)),)),
        table=(table, key.name),
    )


def relation_of_groups(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation:
    """Return the groups of rows of many units, with their numbers."""
    rungs = relation_of_rungs(proof, query, source, names, group)
    if rungs is not None:
        return rungs
    for expr in group:
        check_row(proof, expr, source)
        if has_window(expr):
            proof.refuse("a window among keys", expr)
    plain = frozenset(name_of(expr) for expr in group if isinstance(expr, Column))
    single = source.single(plain)
    keys: dict[str, Expr] = {}
    numbers: dict[str, Number] = {}
    for place, (name, item) in enumerate(zip(names, query.items, strict=True)):
        proof.path.append(f"items[{place}]")
        if item.expr in group:
            keys[name] = item.expr
        elif has_aggregate(item.expr):
            numbers[name] = _number(proof, query, source, item.expr, single=single)
        else:
            proof.refuse("a column of a group that is neither key nor number", item.expr)
        proof.path.pop()
    if set(group) - set(keys.values()):
        proof.refuse("groups without one of their keys", query)
    made = relation_of_numbers(proof, source, query, keys, numbers, declared=not group)
    if made.groups is None or not single or len(numbers) < _SEVERAL:
        return made
    return replace(made, groups=replace(made.groups, together=_together(proof, query, numbers)))


_SEVERAL = 2


def _together(proof: Proof, query: Select, numbers: dict[str, Number]) -> tuple[Together, ...]:
    """Return what a unit changes all numbers by in a group, if each is a sum of what the others leave."""
    sums = [x for item in query.items if has_aggregate(item.expr) and (x := summed(item.expr)) is not None]
    values = [proof.value(x, query) for x in sums]
    if len(sums) < len(numbers) or any(x.nullable or x.low < 0 for x in values):
        return ()
    most = most_of_rests(sums, lambda x: proof.value(x, query))
    if most is None or most == INFINITY:
        return ()
    proof.note("rests", f"a unit changes {len(numbers)} numbers by at most {most} in each group")
    return (Together(frozenset(numbers), int(most)),)


def relation_of_numbers(
    proof: Proof,
    source: Relation,
    query: Select,
    keys: dict[str, Expr],
    numbers: dict[str, Number],
    *,
    declared: bool,
) -> Relation:
    """Return groups by keys, which `query` reads of rows of units, with their numbers."""
    few = _few(source, keys)
    proof.note("numbers of groups", f"{len(numbers)} numbers of groups by {len(keys)} keys")
    cells = {}
    for name, expr in keys.items():
        value = proof.value(expr, query)
        if (
            not value.nullable
            and exact(value.type)
            and isinstance(value.low, int)
            and isinstance(value.high, int)
        ):
            cells[name] = (value.low, value.high)
    others = {name_of(e) for name, e in keys.items() if isinstance(e, Column) and name not in cells}
    follows = source.closure(others)
    one = bool(cells) and all(reads_of(keys[name]) <= follows for name in cells)
    most = min((m for by, m in few if by >= keys.keys()), default=None)
    return Relation(
        Kind.GROUPS,
        (*keys, *numbers),
        unique=frozenset((frozenset(keys),)),
        few=few,
        groups=Groups(tuple(keys), numbers, declared=declared, cells=cells, most=most, one_cell=one),
    )


def _few(source: Relation, keys: dict[str, Expr]) -> tuple[tuple[Names, int], ...]:
    """Return in how many different values of keys the rows of one unit are."""
    reads = {name: reads_of(expr) for name, expr in keys.items()}
    found: list[tuple[Names, int]] = []
    for by, most in ((NONE, 1), *source.few):
        closed = source.closure(by)
        reached = frozenset(name for name, of in reads.items() if of <= closed)
        if reached or not keys:
            found.append((reached, most))
    return tuple(found)


def _number(proof: Proof, query: Select, source: Relation, expr: Expr, *, single: bool) -> Number:
    """Return what a unit changes of a number of a group, which counts its only row there."""
    match expr:
        case Paren(x):
            return _number(proof, query, source, x, single=single)
        case Call(name, (x, y)) if name.upper() == "COALESCE" and whole_number(y) == 0:
            return replace(_number(proof, query, source, x, single=single), null=False)
        case Call(name, (x, y)) if name.upper() in ("LEAST", "GREATEST"):
            found, end = _number(proof, query, source, x, single=single), whole_number(y)
            if end is None or found.null or (end > 0) != (name.upper() == "LEAST"):
                proof.refuse("a number that is cut to an interval without 0", expr)
            return found
        case Cast(x) if is_whole(expr):
            value = proof.value(x, query)
            if not exact(value.type) or not fits(value, expr.type):
                proof.refuse("a number that may not fit its type", expr)
            return _number(proof, query, source, x, single=single)
        case Aggregate("COUNT", (x,), True, (), None) if x in source.unit and not source.by_row:
            proof.note("units", "a unit is counted once in each group")
            return Number(0, 1)
        case Aggregate(name, arguments, False, (), None) if single and not source.strays:
            check_row(proof, expr, source)
            if name.upper() == "COUNT" and len(arguments) <= 1:
                proof.note("single rows", "a unit has at most one row in each group")
                return Number(0, 1)
            if name.upper() == "SUM" and len(arguments) == 1 and exact(proof.value(arguments[0], query).type):
                added = proof.value(arguments[0], query)
                low, high = added.low, added.high
                if INFINITY in (-low, high):
                    proof.refuse("a sum of values without bounds", expr)
                ends = int(min(low, 0) // 1), -int(-max(high, 0) // 1)
                proof.sum_fits(expr, query, *ends)
                proof.note("sum of single rows", f"a unit adds from {ends[0]} to {ends[1]} in each group")
                return Number(*ends, null=True)
    return proof.refuse("a number of rows of which a unit may have any number", expr)
