"""The place of an edit: a node of a tree, and what else there is around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from dpsql.kernel.tree import (
    Constant,
    Node,
    Query,
    walk,
)
from dpsql.types import BIGINT, BOOLEAN
from kernel.sites import Site

__all__ = ["NULL", "TRUE", "Place", "Rule", "without"]

TRUE = Constant(True, BOOLEAN)
NULL = Constant(None, BIGINT)


@dataclass(frozen=True)
class Place:
    """A node that is edited, where it stands, and the whole tree."""

    site: Site
    root: Query
    rng: Random

    @property
    def node(self) -> Any:
        """The node."""
        return self.site.node

    def others(self, kind: type[Node], *, whole: bool = False) -> list[Any]:
        """Return the other nodes of a kind, of the innermost query or of the whole tree."""
        return [
            n for n in walk(self.root if whole else self.site.query) if isinstance(n, kind) and n != self.node
        ]

    def one(self, found: list[Any]) -> Iterator[Any]:
        """Choose one, if there is any."""
        if found:
            yield self.rng.choice(found)


Rule = Callable[[Place], Iterator[Node]]


def without(values: tuple[Any, ...], rng: Random) -> tuple[Any, ...]:
    place = rng.randrange(len(values))
    return values[:place] + values[place + 1 :]
