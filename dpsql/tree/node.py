"""The base classes of the query tree, walking through it, and the facts computed once for each expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

OPAQUE = "?"
"""A member of `Facts.reads` if the expression contains a subquery or a window."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The columns that an expression reads (`t1.c0`), and the number of its nodes."""

    reads: frozenset[str]
    size: int


class Node:
    """A node of the query tree. Nodes are immutable, and equal if their parts are equal."""

    __slots__: ClassVar[tuple[str, ...]] = ("_facts",)
    _facts: Facts


class Expr(Node):
    """An expression of one row, or of a group of rows."""

    __slots__ = ()

    def _own_facts(self) -> Facts:
        reads: frozenset[str] = _NOTHING
        size = 1
        for part in _expressions(self):
            below = facts(part)
            size += below.size
            if below.reads:
                reads = reads | below.reads if reads else below.reads
        return Facts(reads, size)


class Query(Node):
    """A query: rows with named columns."""

    __slots__ = ()


class Source(Node):
    """An item of FROM: rows under an alias, or a join of two items."""

    __slots__ = ()


T = TypeVar("T", bound=Node)
_NOTHING: frozenset[str] = frozenset()


def facts(node: Expr) -> Facts:
    """Return the columns and the size of an expression, computed once for each node."""
    try:
        return node._facts  # noqa: SLF001  the cache of this module
    except AttributeError:
        found = node._own_facts()  # noqa: SLF001
        object.__setattr__(node, "_facts", found)
        return found


def parts(node: Node) -> Iterator[Node]:
    """Return the nodes that a node is made of."""
    return _nodes(getattr(node, name) for name in node.__slots__)


def _nodes(values: Iterable[object]) -> Iterator[Node]:
    for value in values:
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from _nodes(value)


def _expressions(node: Node) -> Iterator[Expr]:
    """Return the expressions that an expression is made of; those in its queries are not among them."""
    for part in parts(node):
        if isinstance(part, Expr):
            yield part
        elif not isinstance(part, (Query, Source)):
            yield from _expressions(part)


def walk(node: Node) -> Iterator[Node]:
    """Return a node and all nodes below it, each before those below it, also those in queries."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [*parts(node)][::-1]


def mapped(node: T, change: Callable[[Expr], Expr]) -> T:
    """Return a node with another expression in the place of each that it is made of; queries stay."""
    return type(node)(*(_mapped(getattr(node, name), change) for name in node.__slots__))


def _mapped(value: object, change: Callable[[Expr], Expr]) -> object:
    if isinstance(value, Expr):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_mapped(part, change) for part in value)
    if isinstance(value, Node) and not isinstance(value, (Query, Source)):
        return mapped(value, change)
    return value
