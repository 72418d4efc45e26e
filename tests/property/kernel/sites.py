"""The places in a query tree, and the tree with another node at one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpsql.kernel.tree import Expr, Node, Query, Source, replace_nodes

__all__ = ["Site", "at_site", "everywhere", "kind_of", "remade", "sites"]

Step = tuple[str, tuple[int, ...]]
"""A field of a node, and the places within its tuples."""


@dataclass(frozen=True)
class Site:
    """A node of a tree, the steps that lead to it, and the innermost query that it is in."""

    node: Node
    steps: tuple[Step, ...]
    query: Query


def sites(query: Query) -> list[Site]:
    """Return every place in a query, the query itself first."""
    return list(_sites(query, (), query))


def _sites(node: Node, steps: tuple[Step, ...], query: Query) -> Iterator[Site]:
    here = node if isinstance(node, Query) else query
    yield Site(node, steps, here)
    for name in node.__match_args__:
        for places, part in _parts(getattr(node, name), ()):
            yield from _sites(part, (*steps, (name, places)), here)


def _parts(value: object, places: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Node]]:
    if isinstance(value, Node):
        yield places, value
    elif isinstance(value, tuple):
        for number, part in enumerate(value):
            yield from _parts(part, (*places, number))


def at_site(root: Query, site: Site, new: Node) -> Query:
    """Return the tree with another node at one place."""
    made = _put(root, site.steps, new)
    assert isinstance(made, Query)
    return made


def _put(node: Node, steps: tuple[Step, ...], new: Node) -> Node:
    if not steps:
        return new
    (name, places), *rest = steps
    return remade(node, **{name: _within(getattr(node, name), places, tuple(rest), new)})


def _within(value: Any, places: tuple[int, ...], steps: tuple[Step, ...], new: Node) -> Any:
    if not places:
        return _put(value, steps, new)
    first, *rest = places
    return tuple(_within(p, tuple(rest), steps, new) if i == first else p for i, p in enumerate(value))


def everywhere(root: Query, old: Node, new: Node) -> Query:
    """Return the tree with another node in the place of each that is equal to one."""
    if old == root:
        assert isinstance(new, Query)
        return new
    return replace_nodes(root, lambda node: new if node == old else node)


def remade(node: Any, **changes: object) -> Any:
    """Return a node with other parts."""
    return type(node)(*(changes.get(name, getattr(node, name)) for name in node.__match_args__))


def kind_of(node: Node) -> type[Node]:
    """Return what may stand in the place of a node: an expression, a query, a source, or its own type."""
    return next((kind for kind in (Expr, Query, Source) if isinstance(node, kind)), type(node))
