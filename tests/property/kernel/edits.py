"""Random edits of a query tree: something is dropped, changed, swapped or repeated.

An edit knows nothing of what is certified: many make a query that does not bind or that says something else.
Each rule says which nodes it edits, and gives the nodes that may come in their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from dpsql.errors import InternalError
from dpsql.kernel.tree import (
    Expr,
    Query,
    duckdb_sql,
)
from kernel.expression_edits import RULES as OF_EXPRESSIONS
from kernel.node_edits import RULES as OF_NODES
from kernel.place import Place
from kernel.query_edits import RULES as OF_QUERIES
from kernel.sites import at_site, everywhere, sites

__all__ = ["RULES", "Edited", "edited"]

TWICE = 0.3
"""How often a tree is edited a second time."""
RULES = {**OF_QUERIES, **OF_EXPRESSIONS, **OF_NODES}
"""The rules, each with the types of the nodes that it edits."""


@dataclass(frozen=True)
class Edited:
    """A tree that was edited, and what was done to it."""

    query: Query
    edits: tuple[str, ...]


def edited(root: Query, rng: Random) -> Edited | None:
    """Edit a tree once or twice; None if that changes nothing."""
    made, names = root, list[str]()
    for _ in range(2 if rng.random() < TWICE else 1):
        made, name = _once(made, rng)
        names.append(name)
    return None if made == root or _text(made) in ("", duckdb_sql(root)) else Edited(made, tuple(names))


def _text(query: Query) -> str:
    """Return the SQL of a tree; nothing of one that has none: with a place out of its node."""
    try:
        return duckdb_sql(query)
    except (InternalError, LookupError, TypeError):
        return ""


def _once(root: Query, rng: Random) -> tuple[Query, str]:
    """Draw a rule first, then one of its places, so that rare nodes are edited as often as others."""
    found = sites(root)
    names = list(RULES)
    rng.shuffle(names)
    for name in names:
        kinds, rule = RULES[name]
        places = [site for site in found if isinstance(site.node, kinds)]
        rng.shuffle(places)
        for site in places[:20]:
            made = list(rule(Place(site, root, rng)))
            if not made:
                continue
            new = rng.choice(made)
            if isinstance(site.node, Expr) and rng.random() < 0.5:
                return everywhere(root, site.node, new), f"{name}, everywhere"
            return at_site(root, site, new), name
    return root, "nothing"
