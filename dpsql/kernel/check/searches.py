"""The rules of `Scores`, `Above` and `Beyond`: numbers of units by what each has in all groups together.

The claims are proved in `tree.scores` and `tree.measured`. Here is what they assume: one row for each unit,
and of `Scores` the ends of what a unit has, and which bounds there are.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.kernel.check.certificate import Together
from dpsql.kernel.check.counts import relation_of_numbers
from dpsql.kernel.check.proof import Proof, some
from dpsql.kernel.check.relation import NONE, Groups, Kind, Number, Relation
from dpsql.kernel.check.types_of import exact
from dpsql.kernel.tree import FULL, Above, Beyond, Column, Query, Scores, Select, Sums, plain
from dpsql.kernel.tree.exact import BEYOND

_KEY = frozenset(("n0",))


def _units(proof: Proof, query: Query, part: str) -> Relation:
    """Return the relation of a query that has one row for each unit."""
    units = proof.query(query, part)
    if units.kind is not Kind.OWNED or units.strays or not units.single(NONE) or proof.outer:
        return proof.refuse("numbers of what is not one row for each unit", query)
    return units


def relation_of_scores(proof: Proof, node: Scores) -> Relation:
    """Return the units by how many bounds they exceed, with what one adds in each row."""
    made = plain(node)
    assert isinstance(made, Select)  # noqa: S101  as it is written
    _units(proof, node.units, "units")
    a = proof.value(Column("w", "a"), made)
    bounds, largest = node.bounds, BEYOND if node.wide else (1 << 63) - 1
    powers = bounds[bounds[:1] == (0,) :]
    if powers != tuple(1 << j for j in range(len(powers))) or not powers or powers[-1] > largest:
        proof.refuse("bounds that are not the powers of two", node)
    if a.nullable or not exact(a.type) or a.low < 0 or a.high > largest:
        proof.refuse("sizes of units that are not whole numbers from 0 on", node)
    if node.fine is not None and (node.fine < 1 or node.fine & (node.fine - 1)):
        proof.refuse("steps that are not parts of a bound", node)
    top = int(a.high)
    for item in made.items:
        proof.sums_fit(item.expr, made, -max(top, FULL), max(top, FULL))
    size, signed = max(top, bounds[-1]), node.signed and node.sums is Sums.SIGNED
    own, beyond = Number(-size if signed else 0, size), Number(0, size)
    every = (Number(0, 1), Number(0, FULL), own, beyond, Number(0, 1), own)[: node.sums.value - 1]
    numbers = {f"n{i}": number for i, number in enumerate(every, 1)}
    proof.note("scores of bounds", f"a unit is in one of {some(len(bounds) + 1, 'row')}")
    fine = node.fine if node.sums is Sums.SIGNED else None
    cells = {"n0": (0, len(bounds))}
    groups = Groups(("n0",), numbers, cells=cells, most=1, bounds=bounds, fine=fine)
    return Relation(Kind.GROUPS, ("n0", *numbers), unique=frozenset((_KEY,)), few=((_KEY, 1),), groups=groups)


def relation_of_above(proof: Proof, node: Above) -> Relation:
    """Return the numbers of units above ends."""
    made = plain(node)
    assert isinstance(made, Select)  # noqa: S101  as it is written
    numbers = {item.column: Number(0, 1) for item in made.items}
    return relation_of_numbers(proof, _units(proof, node.units, "units"), made, {}, numbers, declared=True)


def relation_of_beyond(proof: Proof, node: Beyond) -> Relation:
    """Return what values have beyond an interval, and what is left: a unit adds to all together so much."""
    made, most = plain(node), node.most * node.width
    assert isinstance(made, Select)  # noqa: S101  as it is written
    units = _units(proof, node.units, "units")
    if node.most < 1 or node.width < 1:
        proof.refuse("a bound below 1", node)
    for item in made.items:
        proof.sums_fit(item.expr, made, 0, most)
    numbers = {item.column: Number(0, most) for item in made.items}
    found = relation_of_numbers(proof, units, made, {}, numbers, declared=True)
    assert found.groups is not None  # noqa: S101  as it is made
    together = (Together(frozenset(numbers), most, most),)
    proof.note("together", f"a unit changes {len(numbers)} numbers by at most {most:,}")
    return found._replace(groups=replace(found.groups, together=together))
