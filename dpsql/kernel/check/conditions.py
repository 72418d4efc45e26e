"""What follows from conditions that equate columns."""

from __future__ import annotations

from dpsql.kernel.check.proof import Proof, equalities, reads_of, subqueries
from dpsql.kernel.check.relation import Names, name_of
from dpsql.kernel.tree import Column, Expr


def equal_columns(proof: Proof, conditions: list[Expr]) -> list[tuple[Names, Names]]:
    """Return which columns follow from others, or from nothing, because conditions equate them."""
    found = []
    for x, y, _ in equalities(conditions):
        if not isinstance(y, Column):
            continue
        if (isinstance(x, Column) or not reads_of(x)) and not subqueries(x) and proof.keeps(y, x):
            found.append((reads_of(x), frozenset((name_of(y),))))
    return found
