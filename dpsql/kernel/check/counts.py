"""Groups that hold rows of many units, and the units of the values of a key.

Rows of a unit are in groups by their keys. What a unit changes of the numbers of a group is what the rules
of nodes say (`weighted`, `bounded`, `searches`): without its rows all others are the same.
"""

from __future__ import annotations

from dpsql.kernel.check.proof import Proof, reads_of, some
from dpsql.kernel.check.relation import NONE, Groups, Kind, Names, Number, Relation, name_of
from dpsql.kernel.check.types_of import exact
from dpsql.kernel.tree import (
    Aggregate,
    Column,
    Expr,
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
    of = f"groups by {some(len(keys), 'key')}" if keys else "one group"
    proof.note("numbers of groups", f"{some(len(numbers), 'number')} of {of}")
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
