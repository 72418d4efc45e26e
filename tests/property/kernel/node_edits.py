"""Edits of the nodes that are written as queries: their fields, what they count, the rows that they read."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.kernel.tree import (
    Above,
    Bounded,
    Candidates,
    CappedRows,
    CappedSum,
    Column,
    Constant,
    Counted,
    Decided,
    Derived,
    FewUnits,
    IsNull,
    Item,
    KeptValues,
    Lowered,
    Marked,
    Moment,
    Node,
    Numbered,
    OfDomain,
    OnDomain,
    RowSum,
    Sampled,
    Scores,
    Select,
    SetOperation,
    Sums,
    Units,
    Weighted,
    WeightedRows,
    duckdb_sql,
)
from dpsql.types import BIGINT, DOUBLE, INTEGER, NULL, SqlType
from kernel.place import Place, Rule, without
from kernel.sites import remade

__all__ = ["RULES"]


def _field(p: Place) -> Iterator[Node]:
    """Change a number, a truth value, a type or a list of names of a node."""
    for name in p.node.__match_args__:
        value = getattr(p.node, name)
        if isinstance(value, bool):
            yield remade(p.node, **{name: not value})
        elif isinstance(value, int):
            for other in (value + 1, value - 1, 2 * value, 1, 0):
                if other >= 0:
                    yield remade(p.node, **{name: other})
        elif isinstance(value, SqlType):
            for kind in (INTEGER, BIGINT, DOUBLE):
                yield remade(p.node, **{name: kind})
        elif name in ("by", "keys", "ends") and all(isinstance(each, int) for each in value):
            yield remade(p.node, **{name: value[::-1]})
            yield remade(p.node, **{name: tuple(each + p.rng.choice((-1, 0, 1)) for each in value)})
            yield remade(p.node, **{name: (*value[1:], p.rng.randrange(3))})
        elif isinstance(value, Sums):
            yield from (remade(p.node, **{name: other}) for other in Sums)
        elif name == "one":
            yield from (remade(p.node, **{name: other}) for other in (None, "rows", "least", "greatest"))
        elif name == "bounds":
            yield from (remade(p.node, **{name: other}) for other in (value[1:], value[:-1], value[::-1]))
        elif name in ("by", "columns"):
            yield remade(p.node, **{name: without(value, p.rng)})
            yield remade(p.node, **{name: value[::-1]})
            yield remade(p.node, **{name: (*value, p.rng.choice(("k0", "f0", "u")))})


def _row(p: Place) -> Iterator[Node]:
    """Have another column of the rows in what is counted, or one more."""
    row = p.node.row
    other = Column("s", p.rng.choice(("u", "k0", "f0", "f1", "f2")))
    if row:
        yield remade(p.node, row=(other, *row[1:]))
    if len(row) > 1 or isinstance(p.node, (Units, FewUnits, WeightedRows)):
        yield remade(p.node, row=row[:-1])
    yield remade(p.node, row=(*row, other))


def _kind(p: Place) -> Iterator[Node]:
    """Count the same rows otherwise."""
    row, most = p.node.row, getattr(p.node, "most", p.rng.choice((1, 2, 5)))
    made: list[Counted] = [Units(row, p.rng.random() < 0.5), FewUnits(row, False, most)]
    made += [CappedRows(row, most, False), WeightedRows(row, most)]
    if row:
        fine = p.rng.choice((1, 1, 8))
        made += [CappedRows(row, most, True), KeptValues(row[:1], most, p.rng.random() < 0.7)]
        made += [RowSum(row[:1], most, fine, p.rng.random() < 0.3)]
        made += [CappedSum(row[:1], most, p.rng.choice((0, 0, 2)), BIGINT, 1, p.rng.random() < 0.3)]
        nulls, single = p.rng.random() < 0.5, p.rng.random() < 0.3
        made += [Moment(row, most, fine, p.rng.choice((1, 3, 100)), p.rng.choice((1, 2)), 0, nulls, single)]
    yield from made


def _parts(p: Place) -> Iterator[Node]:
    """Take a number from another, or leave one out."""
    numbers = p.node.numbers
    one, other = p.rng.choice(numbers), p.rng.choice(numbers)
    yield remade(p.node, numbers=((*one, *other), *numbers[1:]))
    yield remade(p.node, numbers=(one[:1], *numbers[1:]))
    if len(numbers) > 1:
        yield remade(p.node, numbers=without(numbers, p.rng))


def _domains(p: Place) -> Iterator[Node]:
    """Leave a domain of keys out, have one twice, or have the candidates of one for another."""
    name = "parts" if isinstance(p.node, OfDomain) else "domains"
    listed = getattr(p.node, name)
    if len(listed) > 1:
        yield remade(p.node, **{name: without(listed, p.rng)})
        yield remade(p.node, **{name: listed[::-1]})
    if listed:
        one, other = p.rng.choice(listed), p.rng.choice(listed)
        yield remade(p.node, **{name: (*listed, one)})
        yield remade(p.node, **{name: (remade(one, query=other.query), *listed[1:])})


def _candidates(p: Place) -> Iterator[Node]:
    """Have other candidates: some, each twice, or with NULL again."""
    query = p.node.query
    if query is None:
        return
    names = [name for name in ("v", "v0", "v1", "o", "p") if f" {name}" in duckdb_sql(query)]
    items = tuple(Item(Column("y9", name), name) for name in names)
    every = Select(items, Derived(query, "y9"))
    yield remade(p.node, query=remade(every, where=IsNull(Column("y9", names[0]), True)))
    yield remade(p.node, query=remade(every, distinct=True))
    yield remade(p.node, query=SetOperation(every, "UNION ALL", every))
    null = Select(tuple(Item(Constant(None, NULL), name) for name in names))
    yield remade(p.node, query=SetOperation(every, "UNION ALL", null))


def _rows(p: Place) -> Iterator[Node]:
    """Measure units by other rows, or read others."""
    rows = p.node.rows
    listed = {*getattr(p.node, "columns", ()), *(f"k{i}" for i in range(getattr(p.node, "keys", 0)))}
    listed |= (
        {f"f{i}" for i in range(getattr(p.node, "fields", 1))} if not isinstance(p.node, Bounded) else set()
    )
    items = tuple(Item(Column("y8", name), name) for name in ("u", *sorted(listed)))
    some = Select(
        items, Derived(rows, "y8"), IsNull(Column("y8", p.rng.choice(sorted(listed) or ["u"])), True)
    )
    again = remade(some, distinct=True, where=None)
    fields = [name for name in ("rows", "alone", "pairs") if hasattr(p.node, name)]
    for name in fields:
        for other in (some, again, rows):
            yield remade(p.node, **{name: other})
    if hasattr(p.node, "alone"):
        yield remade(p.node, alone=None)


def _units(p: Place) -> Iterator[Node]:
    """Have several rows of a unit, or other units."""
    units = p.node.units
    yield remade(p.node, units=SetOperation(units, "UNION ALL", units))
    if isinstance(units, Select):
        yield remade(p.node, units=remade(units, where=None))
        yield remade(p.node, units=remade(units, group=units.group[:-1]))
        if isinstance(units.source, Derived):
            own = Column(units.source.alias, p.rng.choice(("f0", "k0", "u")))
            yield remade(p.node, units=remade(units, group=(*units.group, own)))


RULES: dict[str, tuple[tuple[type[Node], ...], Rule]] = {
    "change a field of a node": ((Lowered, Counted, Candidates, Numbered), _field),
    "change the row that is counted": ((Counted,), _row),
    "count otherwise": ((Counted,), _kind),
    "change the numbers of a node": ((Weighted,), _parts),
    "change the domains of a node": ((Marked, OnDomain, OfDomain, Decided), _domains),
    "change candidates": ((Candidates, Numbered), _candidates),
    "change the rows of a node": ((Weighted, Bounded, Sampled, Marked), _rows),
    "change the units of a node": ((Scores, Above), _units),
}
"""The rules, each with the types of the nodes that it edits."""
