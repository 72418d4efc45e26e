"""The base classes of the query tree, walking through it, and the facts computed once for each expression."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field
from operator import attrgetter
from typing import ClassVar, TypeVar, cast

from dpsql.lazy_dataclass import dataclass

OPAQUE = "?"
"""A member of `Facts.reads` if the expression contains a subquery or a window."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The columns that an expression reads (`t1.c0`), and the number of its nodes."""

    reads: frozenset[str]
    size: int


class KeptHash:
    """An immutable object that keeps its hash, and is equal to others of its type with equal parts.

    It is for keys of many dictionaries that are deep. Two objects whose hashes are known and differ are told
    apart by these alone. Their dataclasses have `eq=False`.
    """

    __slots__: ClassVar[tuple[str, ...]] = ("_hash",)
    __match_args__: ClassVar[tuple[str, ...]] = ()
    _hash: int

    def __hash__(self) -> int:
        found: int | None = getattr(self, "_hash", None)  # an exception for each new one takes longer
        if found is None:
            found = hash((type(self), *_fields(self)))
            object.__setattr__(self, "_hash", found)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or not isinstance(other, KeptHash):
            return NotImplemented
        one, two = getattr(self, "_hash", None), getattr(other, "_hash", None)
        apart = one is not None and two is not None and one != two
        return not apart and _alike(_fields(self), _fields(other))


class Node(KeptHash):
    """A node of the query tree. Nodes are immutable, and equal if their parts are equal."""

    __slots__: ClassVar[tuple[str, ...]] = ("_facts", "_guarded", "_text", "_traits")
    _facts: Facts
    _text: str
    """Its SQL for DuckDB, if it is kept (`writer.with_text`)."""
    _guarded: Expr
    _traits: object
    """What the checker found of an expression (`check.proof`)."""


class Expr(Node):
    """An expression of one row, or of a group of rows."""

    __slots__ = ()
    copies: ClassVar[int] = 0
    """How often its parts are written for it, with no node of its own; 0: it is one node more than they."""

    def _own_facts(self) -> Facts:
        reads: frozenset[str] = _NOTHING
        size = 0
        waiting = [*_fields(self)]
        for part in waiting:
            if isinstance(part, Expr):
                below = facts(part)
                size += below.size
                if below.reads:
                    reads = reads | below.reads if reads else below.reads
            elif isinstance(part, tuple):
                waiting += part
            elif isinstance(part, Query):
                reads, size = reads | {OPAQUE}, size + 1
            elif isinstance(part, Node) and not isinstance(part, Source):
                waiting += _fields(part)
        return Facts(reads, self.copies * size or 1 + size)


class Query(Node):
    """A query: rows with named columns."""

    __slots__: ClassVar[tuple[str, ...]] = ("_tables",)
    _tables: frozenset[str]
    """The tables that it reads (`relations.list_tables`)."""


class Lowered(Query):
    """A query that is written as others: what is proved of it is proved of these (`lowered`)."""

    __slots__: ClassVar[tuple[str, ...]] = ("_lowered",)
    _lowered: Query

    @property
    def lowered(self) -> Query:
        """The plain query that an engine gets in place of the node, made once."""
        found: Query | None = getattr(self, "_lowered", None)
        if found is None:
            found = self._lower()
            object.__setattr__(self, "_lowered", found)
        return found

    def _lower(self) -> Query:
        raise NotImplementedError


def plain(query: Query) -> Query:
    """Return the query that an engine gets for one."""
    while isinstance(query, Lowered):
        query = query.lowered
    return query


class Source(Node):
    """An item of FROM: rows under an alias, or a join of two items."""

    __slots__ = ()


T = TypeVar("T", bound=Node)
_NOTHING: frozenset[str] = frozenset()


def facts(node: Expr) -> Facts:
    """Return the columns and the size of an expression, computed once for each node."""
    found: Facts | None = getattr(node, "_facts", None)
    if found is None:
        found = node._own_facts()  # noqa: SLF001
        object.__setattr__(node, "_facts", found)
    return found


def parts(node: Node) -> list[Node]:
    """Return the nodes that a node is made of."""
    found: list[Node] = []
    _add_nodes(_READERS_OF_NODES[type(node)](node), found)
    return found


def _add_nodes(values: tuple[object, ...], found: list[Node]) -> None:
    for value in values:
        if isinstance(value, Node):
            found.append(value)
        elif value and type(value) is tuple:
            _add_nodes(value, found)


def _fields(node: KeptHash) -> tuple[object, ...]:
    return _READERS[type(node)](node)


def _alike(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Return whether parts are equal, and of equal types: 1, 1.0 and TRUE are three constants.

    What is the same object is not looked at, and no hash is made of what is below.
    """
    waiting = [(one, other)]
    while waiting:
        left, right = waiting.pop()
        if len(left) != len(right):
            return False
        for a, b in zip(left, right, strict=True):
            if a is b:
                continue
            kind = type(a)
            if kind is not type(b):
                return False
            if kind is tuple:
                waiting.append((cast("tuple[object, ...]", a), cast("tuple[object, ...]", b)))
            elif isinstance(a, KeptHash):
                waiting.append((_fields(a), _fields(cast("KeptHash", b))))
            elif a != b or (kind is float and repr(a) != repr(b)):  # 0.0 and -0.0
                return False
    return True


class _Readers(dict[type[KeptHash], Callable[[KeptHash], tuple[object, ...]]]):
    """Functions that read the fields of an object of a type, made at the first use of the type."""

    def __init__(self, *without: str) -> None:
        self.without = without

    def __missing__(self, kind: type[KeptHash]) -> Callable[[KeptHash], tuple[object, ...]]:
        types: dict[str, Field[object]] = getattr(kind, "__dataclass_fields__", {})
        names = [n for n in kind.__match_args__ if n not in types or types[n].type not in self.without]
        read = attrgetter(*names) if names else lambda _: ()
        made = self[kind] = read if len(names) != 1 else lambda node: (read(node),)
        return made


_READERS = _Readers()
_READERS_OF_NODES = _Readers("str", "bool", "int", "SqlType")
"""Fields of these types have no nodes in them."""


def walk(node: Node) -> Iterator[Node]:
    """Return a node and all nodes below it, each before those below it, also those in queries."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += parts(node)[::-1]


def map_parts(node: T, change: Callable[[Expr], Expr]) -> T:
    """Return a node with another expression in the place of each that it is made of; queries stay."""
    return type(node)(*(_map_value(value, change) for value in _fields(node)))


def _map_value(value: object, change: Callable[[Expr], Expr]) -> object:
    if isinstance(value, Expr):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_map_value(part, change) for part in value)
    if isinstance(value, Node) and not isinstance(value, (Query, Source)):
        return map_parts(value, change)
    return value


def replace_nodes(
    node: T, change: Callable[[Node], Node], known: dict[int, tuple[Node, Node]] | None = None
) -> T:
    """Return a node with others in the place of some below it, also in queries; other parts are shared.

    `known` gets what each query became, by its identity, and has that of others.
    """
    found = None if known is None else known.get(id(node))
    if found is not None:
        return cast("T", found[1])
    values = _fields(node)
    made = tuple(_replace_in(value, change, known) for value in values)
    new = node if all(a is b for a, b in zip(values, made, strict=True)) else type(node)(*made)
    if known is not None and isinstance(node, Query):
        known[id(node)] = node, new
    return new


def _replace_in(
    value: object, change: Callable[[Node], Node], known: dict[int, tuple[Node, Node]] | None
) -> object:
    if isinstance(value, Node):
        made = change(value)
        return replace_nodes(value, change, known) if made is value else made
    if isinstance(value, tuple):
        parts = tuple(_replace_in(part, change, known) for part in value)
        return value if all(a is b for a, b in zip(value, parts, strict=True)) else parts
    return value
