"""Rungs."""

from __future__ import annotations

from dpsql.kernel.check.proof import Proof
from dpsql.kernel.check.relation import Relation
from dpsql.kernel.tree import Expr, Select


def relation_of_rungs(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation | None:
    """Return None."""
    return None
