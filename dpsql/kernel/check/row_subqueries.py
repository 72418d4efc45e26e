"""What an expression of a row may ask by subqueries: nothing of other units.

A condition on a row of the unit x keeps the row or not as a function of the row itself, of
public rows, and of rows of x. So what is owned stays owned. A subquery is such a function if its rows are
public, or tied to x: if it reads rows owned by y and one of its conditions is y = x. Then y is the unit x of
each of its own rows, to which subqueries in it may be tied. `x IN (SELECT y ..)`, of units y that are never
NULL, asks whether the rows have one of the unit x, so it needs no such condition.

Where units are of one period each, rows may ask for standing rows of their person (`periods`).

A condition that is such a subquery, `x IN (..)` or EXISTS, is true only if what is asked has a row, which is
a row of x: owned by x, or tied to x alone, if no other query is around. So x has one of the parts of what is
asked (`part_sets`). Of what is aggregated without groups, which always has a row, no parts are known.
"""

from __future__ import annotations

from dpsql.kernel.check.certificate import Kind, Relation
from dpsql.kernel.check.derive import exact
from dpsql.kernel.check.orders import conjuncts
from dpsql.kernel.check.proof import Proof, operand_in, reads_of, subqueries, traits
from dpsql.kernel.tree import Column, Expr, Query, Select
from dpsql.kernel.unit_parts import PartSet


def check_row(
    proof: Proof, expr: Expr, relation: Relation, asked: list[PartSet | None] | None = None
) -> bool:
    """Refuse an expression of a row that depends on other units; return whether it is tied to one.

    Of a condition, `asked` gets the parts of which units are for whose rows it can be true.
    """
    read = traits(expr)
    if read.bare and relation.kind is Kind.OWNED and not read.bare <= set(relation.columns):
        proof.refuse("a column without the name of its item of FROM", expr)
    tied = False
    needed = {id(each) for each in conjuncts(expr)} if asked is not None and read.subqueries else ()
    for node, query in subqueries(expr) if read.subqueries else ():
        proof.outer.append(relation)
        proof.path.append("subquery")
        found = proof.prove(proof, query)
        proof.path.pop()
        proof.outer.pop()
        tied |= found.kind is Kind.TIED
        if not found.outside and not _looks_up_unit(proof, node, query, found, relation):
            proof.refuse("a subquery that is not tied to the unit of the row", node)
        own = found.kind is Kind.OWNED or (found.kind is Kind.TIED and not proof.outer)
        if asked is not None and id(node) in needed and own and isinstance(query, Select):
            asked.append(found.parts)
    return tied


def _looks_up_unit(proof: Proof, node: Expr, query: Query, found: Relation, relation: Relation) -> bool:
    """Return whether an expression looks up the unit of the row among units."""
    operand = operand_in(node)
    own = relation.person if relation.periods and not found.periods else relation.unit
    return (
        operand is not None
        and relation.kind in (Kind.OWNED, Kind.TIED)
        and operand in own
        and (relation.periods or not found.periods)
        and (not relation.strays or not proof.value(operand, proof.selects[-1]).nullable)
        and not relation.by_row
        and found.kind is Kind.OWNED
        and not found.by_row
        and not found.strays
        and isinstance(query, Select)
        and len(found.columns) == 1
        and any(isinstance(unit, Column) and unit.name == found.columns[0] for unit in found.unit)
        and _same_type(proof, operand, query)
    )


def _same_type(proof: Proof, operand: Expr, query: Select) -> bool:
    """Return whether a unit has the type of the units among which it is looked up."""
    one, other = proof.value(operand, proof.selects[-1]), proof.value(query.items[0].expr, query)
    return one.type == other.type or (exact(one.type) and exact(other.type))


def tied_to_outer(proof: Proof, relation: Relation, pairs: list[tuple[Expr, Expr, bool]]) -> bool:
    """Return whether conditions equate the unit of rows with the unit of a row of a query around."""
    if relation.by_row:
        return False
    mine = frozenset(relation.columns)
    return any(
        not null
        and x in relation.unit
        and y in (outer.unit if outer.periods is relation.periods else outer.person)
        and mine.isdisjoint(reads_of(y))
        and proof.keeps(x, y)
        and proof.keeps(y, x)
        for x, y, null in pairs
        for outer in proof.outer
        if outer.kind in (Kind.OWNED, Kind.TIED) and not outer.by_row
    )
