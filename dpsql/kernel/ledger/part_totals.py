"""What was charged to parts of units: a tree of nodes for each scope, with the largest totals below each.

A statement that depends on units of some parts alone is charged to these parts (`touch`); what is charged to
all parts stands in the totals of the scopes, as ever. A part's total is what was charged to it and to all.

A node (level, place) stands for the parts from place * 16^level on, 16^level of them. It has amounts of its
own, which count in each of these parts, and the largest sums of amounts on a way down from it: of each amount
by itself, since the sums of epsilons and of costs need not be largest in one part. Absent nodes are 0. A
range of parts is at most 15 nodes of each level and side.

Amounts are whole numbers, each charge rounded up: epsilons and costs in steps of 1e-9/720720, deltas of
1e-13/720720. So decimals and thirds are exact, three times 1/3 is 1, and a part's total is never below the
exact sum, and above it by less than one step for each statement.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from fractions import Fraction
from typing import Final, NamedTuple

from dpsql.errors import OperationalError
from dpsql.kernel.exact_bounds import exp_bounds
from dpsql.kernel.ledger.totals import BOUNDS, PERSON, STEP, Row, added_amounts, owner, read, read_loss, write
from dpsql.kernel.loss import PrivacyLoss, Totals
from dpsql.kernel.unit_parts import ALL_PARTS, PARTS, PartSet

_DELTA_STEP: Final = 10**4 * STEP
_TOP: Final = 5  # the level of the root
_MOST: Final = 1 << 62
_TOO_MUCH: Final = "more is charged to a part of units than the ledger adds up"

BY_PARTS: Final = "by parts "
"""What stands before the name of a scope, for its largest totals by parts."""


class Amounts(NamedTuple):
    """What is charged, in whole steps; `open` counts losses that have no epsilon."""

    epsilon: int = 0
    open: int = 0
    delta: int = 0
    cost: int = 0

    @classmethod
    def of(cls, reserved: PrivacyLoss, charged: PrivacyLoss, order: Fraction | None) -> Amounts:
        """Return what an entry adds to a scope whose costs are at an order, each amount rounded up."""
        added = added_amounts(reserved, charged, order)
        epsilon = 0 if added.epsilon is None else math.ceil(added.epsilon * STEP)
        made = cls(
            epsilon,
            int(added.epsilon is None),
            math.ceil(added.delta * _DELTA_STEP),
            math.ceil(added.cost * STEP),
        )
        if max(made) > _MOST:
            raise OperationalError("so large an epsilon or delta cannot be charged by parts")
        return made

    @classmethod
    def of_group(cls, reserved: PrivacyLoss, charged: PrivacyLoss, k: int) -> Amounts:
        """Return what an entry adds for k units of one person together (`person_totals`), without costs."""
        own = cls.of(reserved, charged, None)
        if k == 1:
            return own
        delta, epsilon = _DELTA_STEP if own.delta else 0, reserved.epsilon
        least = 0 if epsilon is None or not own.delta else exp_bounds((k - 1) * epsilon, 128)[0]
        if least:
            delta = min(delta, math.ceil(Fraction(k << 128, least) * reserved.delta * _DELTA_STEP))
        return cls(k * own.epsilon, own.open, delta, 0)

    @property
    def totals(self) -> Totals:
        """These amounts as the totals of a scope."""
        epsilon = None if self.open else Fraction(self.epsilon, STEP)
        return Totals(epsilon, Fraction(self.delta, _DELTA_STEP), Fraction(self.cost, STEP))

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum of two amounts, number by number."""
        a, b, c, d = self
        return Amounts(a + other[0], b + other[1], c + other[2], d + other[3])

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference of two amounts, number by number."""
        return Amounts(*(a - b for a, b in zip(self, other, strict=True)))

    def largest(self, other: Amounts) -> Amounts:
        """Return the larger of two amounts, number by number."""
        return Amounts(*map(max, zip(self, other, strict=True)))


Segment = tuple[int, int, Amounts]
"""Parts, from the first to the last, and what was charged to each of them."""

_NONE: Final = Amounts()
_OWN, _BELOW = "epsilon, open, delta, cost", "below_epsilon, below_open, below_delta, below_cost"


def add(connection: sqlite3.Connection, name: str, parts: PartSet, more: Amounts) -> None:
    """Add amounts to parts of a scope; less than nothing takes what was added before away."""
    if more == _NONE:
        return
    nodes = [several for low, high in parts.ranges for several in _cover(low, high)]
    if max(more) > _MOST:
        raise OperationalError(_TOO_MUCH)
    try:
        for level, first, last in nodes:
            there = connection.execute(_CHANGE, (*more, name, level, first, last)).rowcount
            if there <= last - first and min(more) >= 0:
                new = ((name, level, place, *more) for place in range(first, last + 1))
                connection.executemany(_BEGIN, new)
    except sqlite3.IntegrityError:
        raise OperationalError(_TOO_MUCH) from None
    above = {(level + 1, first >> 4) for level, first, _ in nodes if level < _TOP}
    while above:
        level, place = node = min(above)
        above.remove(node)
        if connection.execute(_SET_BELOW, (name, *node)).rowcount > 0 and level < _TOP:
            above.add((level + 1, place >> 4))


_CHANGE: Final = (
    "UPDATE node SET epsilon = epsilon + ?, open = open + ?, delta = delta + ?, cost = cost + ?"
    " WHERE scope = ? AND level = ? AND place BETWEEN ? AND ?"
)
_BEGIN: Final = (
    f"INSERT INTO node (scope, level, place, {_OWN}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
"""Begins nodes that are absent; those that were changed already stay as they are."""
_SET_BELOW: Final = (
    f"INSERT INTO node (scope, level, place, {_BELOW}) SELECT ?1, ?2, ?3, max(epsilon + below_epsilon),"
    " max(open + below_open), max(delta + below_delta), max(cost + below_cost) FROM node"
    " WHERE scope = ?1 AND level = ?2 - 1 AND place BETWEEN 16 * ?3 AND 16 * ?3 + 15"
    " ON CONFLICT DO UPDATE SET below_epsilon = excluded.below_epsilon, below_open = excluded.below_open,"
    " below_delta = excluded.below_delta, below_cost = excluded.below_cost"
    " WHERE below_epsilon <> excluded.below_epsilon OR below_open <> excluded.below_open"
    " OR below_delta <> excluded.below_delta OR below_cost <> excluded.below_cost"
)
"""Computes the largest sums below a node from its children; a node that has them already is not counted.

A child that is absent has 0, and no sum is less.
"""


def _cover(low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """Yield the largest nodes that stand for the parts from `low` to `high` together.

    Each time it is a level, and the first and the last place of children of one node.
    """
    for level in range(_TOP):
        if low <= high and low & 15:
            last = min(high, low | 15)
            yield level, low, last
            low = last + 1
        if low <= high and high & 15 != 15:
            first = max(low, high - (high & 15))
            yield level, first, high
            high = first - 1
        if low > high:
            return
        low, high = low >> 4, high >> 4
    yield _TOP, low, high


Scopes = Iterable[tuple[str, Fraction | None]]
"""Names of scopes, each with the order of its costs; None: the order that it has, or without costs."""


def largest(connection: sqlite3.Connection, scopes: Scopes, parts: PartSet = ALL_PARTS) -> Amounts:
    """Return the largest amount of each kind that was charged to a part of a set, added up over scopes."""
    found = _NONE
    for name, order in scopes:
        most = _NONE
        for _, _, amounts in _walk(connection, name, order, parts, whole=True):
            most = most.largest(amounts)
        found = found.plus(most)
    return found


def segments(connection: sqlite3.Connection, scopes: Scopes, parts: PartSet = ALL_PARTS) -> list[Segment]:
    """Return what was charged to each part of a set in several scopes; equal neighbours are one."""
    found: list[Segment] = [(low, high, _NONE) for low, high in parts.ranges]
    for name, order in scopes:
        found = list(_merge(found, list(_walk(connection, name, order, parts, whole=False))))
    return _join_equal(found)


def _join_equal(segments: Iterable[Segment]) -> list[Segment]:
    found: list[Segment] = []
    for low, high, amounts in segments:
        if found and found[-1][1] == low - 1 and found[-1][2] == amounts:
            found[-1] = (found[-1][0], high, amounts)
        else:
            found.append((low, high, amounts))
    return found


def _merge(left: list[Segment], right: list[Segment]) -> Iterator[Segment]:
    """Yield the sums of two lists of segments of the same parts."""
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            yield low, high, left[i][2].plus(right[j][2])
        if left[i][1] <= high:
            i += 1
        if right[j][1] <= high:
            j += 1


def _walk(
    connection: sqlite3.Connection, name: str, order: Fraction | None, parts: PartSet, *, whole: bool
) -> Iterator[Segment]:
    """Yield what was charged to parts of a set; if `whole`, at least that, where a node lies in the set.

    A scope without a tree at this order is added up from its entries.
    """
    there, found = order_of_tree(connection, name)
    if not there or order not in (None, found):
        yield from _add_up(list_charges(connection, name, order), parts)
        return
    row = connection.execute(
        f"SELECT {_OWN}, {_BELOW} FROM node WHERE scope = ? AND level = ? AND place = 0", (name, _TOP)
    ).fetchone()
    if row is None:
        yield from ((low, high, _NONE) for low, high in parts.ranges)
    else:
        yield from _walk_node(connection, name, parts, (_TOP, 0), row, _NONE, whole=whole)


def _add_up(charges: Iterable[tuple[PartSet, Amounts]], parts: PartSet) -> list[Segment]:
    found: list[Segment] = [(low, high, _NONE) for low, high in parts.ranges]
    for charged, amounts in charges:
        touched = [
            (low, high, before.plus(amounts) if within else before)
            for start, end, before in found
            for low, high, within in _divide(start, end, charged)
        ]
        found = _join_equal(touched)
    return found


def _divide(low: int, high: int, parts: PartSet) -> Iterator[tuple[int, int, bool]]:
    """Yield the ranges of which a range is made that lie in a set, and those that do not."""
    for start, end in (parts & PartSet(((low, high),))).ranges:
        if low < start:
            yield low, start - 1, False
        yield start, end, True
        low = end + 1
    if low <= high:
        yield low, high, False


def _walk_node(
    connection: sqlite3.Connection,
    name: str,
    parts: PartSet,
    node: tuple[int, int],
    row: tuple[int, ...],
    above: Amounts,
    *,
    whole: bool,
) -> Iterator[Segment]:
    level, place = node
    size = 16**level
    low, high = place * size, (place + 1) * size - 1
    here = PartSet(tuple((max(a, low), min(b, high)) for a, b in parts.ranges if a <= high and b >= low))
    if not here:
        return
    own, below = above.plus(Amounts(*row[:4])), Amounts(*row[4:])
    if below == _NONE or (whole and len(here) == size):
        yield from ((*ends, own.plus(below)) for ends in here.ranges)
        return
    children = {
        child: tuple(amounts)
        for child, *amounts in connection.execute(
            f"SELECT place, {_OWN}, {_BELOW} FROM node"
            " WHERE scope = ? AND level = ? AND place BETWEEN ? AND ?",
            (name, level - 1, 16 * place, 16 * place + 15),
        )
    }
    if level == 1:
        for child in (part for first, last in here.ranges for part in range(first, last + 1)):
            leaf = children.get(child)
            yield child, child, own if leaf is None else own.plus(Amounts(*leaf[:4]))
        return
    if whole:  # an absent node has no more than this, and no node has less
        yield low, low, own
    for child in children if whole else range(16 * place, 16 * place + 16):
        below_row = children.get(child, (0,) * 8)
        yield from _walk_node(connection, name, here, (level - 1, child), below_row, own, whole=whole)


def touches(connection: sqlite3.Connection, entry: int) -> PartSet | None:
    """Return the parts that an entry was charged to; None: all, or parts that are no more what they were."""
    if entry <= first_entry(connection):
        return None
    return written_touches(connection, entry)


def written_touches(connection: sqlite3.Connection, entry: int) -> PartSet | None:
    """Return the parts that an entry was charged to when it was written; None: all."""
    rows = connection.execute("SELECT low, high FROM touch WHERE entry = ? ORDER BY low", (entry,)).fetchall()
    return PartSet(tuple(rows)) if rows else None


def touch(connection: sqlite3.Connection, entry: int, parts: PartSet | None) -> None:
    """Write the parts that an entry is charged to."""
    if parts is not None:
        connection.executemany(
            "INSERT INTO touch VALUES (?, ?, ?)", ((entry, *ends) for ends in parts.ranges)
        )


def first_entry(connection: sqlite3.Connection) -> int:
    """Return the entry after which parts are what they are now: what was before counts in all of them."""
    row = connection.execute("SELECT value FROM setting WHERE name = 'parts from'").fetchone()
    return 0 if row is None else int(row[0])


def order_of_tree(connection: sqlite3.Connection, name: str) -> tuple[bool, Fraction | None]:
    """Return whether a scope has a tree, and the order of its costs."""
    row = connection.execute("SELECT alpha FROM tree WHERE scope = ?", (name,)).fetchone()
    return row is not None, None if row is None or row[0] is None else read(row[0])


def keep_tree(connection: sqlite3.Connection, name: str, order: Fraction | None) -> Fraction | None:
    """Give a scope its tree, with costs at an order, from all of its entries; return the order.

    None: at the order that it has, or without costs.
    """
    there, found = order_of_tree(connection, name)
    if there and order in (None, found):
        return found
    forget_tree(connection, name)
    connection.execute("INSERT INTO tree VALUES (?, ?)", (name, None if order is None else write(order)))
    for parts, amounts in list_charges(connection, name, order):
        add(connection, name, parts, amounts)
    return order


def forget_tree(connection: sqlite3.Connection, name: str) -> None:
    """Remove the tree of a scope: it is built again from the entries when it is needed."""
    connection.execute("DELETE FROM node WHERE scope = ?", (name,))
    connection.execute("DELETE FROM tree WHERE scope = ?", (name,))


def list_charges(
    connection: sqlite3.Connection, name: str, order: Fraction | None
) -> Iterator[tuple[PartSet, Amounts]]:
    """Yield the parts and the amounts of the entries of a scope that were charged to parts."""
    if name == BOUNDS:
        return
    if name == PERSON:
        yield from _list_charges_of_person(connection)
        return
    analyst = owner(name)
    chosen, given = ("e.shared = 0", ()) if analyst is None else ("e.analyst = ?", (analyst,))
    rows = connection.execute(
        "SELECT t.entry, t.low, t.high, e.reserved_loss, e.charged_loss FROM touch t JOIN entry e"
        f" ON e.entry = t.entry WHERE t.entry > ? AND {chosen} ORDER BY t.entry, t.low",
        (first_entry(connection), *given),
    ).fetchall()
    for _, low, high, reserved, charged in rows:
        yield PartSet(((low, high),)), Amounts.of(read_loss(reserved), read_loss(charged), order)


def _list_charges_of_person(connection: sqlite3.Connection) -> Iterator[tuple[PartSet, Amounts]]:
    """Yield the years and the amounts of all entries that a person bears, but for those of other parts."""
    rows = connection.execute(
        "SELECT p.low, p.high, p.times, e.reserved_loss, e.charged_loss FROM entry e"
        " LEFT JOIN periods p ON p.entry = e.entry WHERE e.shared = 0 AND (p.entry IS NULL OR e.entry > ?)",
        (first_entry(connection),),
    ).fetchall()
    for low, high, times, reserved, charged in rows:
        years = ALL_PARTS if low is None else PartSet(((low, high),))
        yield years, Amounts.of_group(read_loss(reserved), read_loss(charged), times or 1)


def settle(
    connection: sqlite3.Connection,
    names: Iterable[str],
    parts: PartSet,
    reserved: PrivacyLoss,
    charged: PrivacyLoss,
) -> None:
    """Lower the amounts of an entry from its reserved loss to the one that it is charged, in its parts."""
    for name in names:
        there, order = order_of_tree(connection, name)
        if there:
            less = Amounts.of(reserved, reserved, order)
            add(connection, name, parts, Amounts.of(reserved, charged, order).minus(less))


def row_of_tree(connection: sqlite3.Connection, name: str) -> Row | None:
    """Return the largest totals by parts of a scope as events have them; None if it has no tree."""
    row = connection.execute(
        f"SELECT alpha, {_OWN}, {_BELOW} FROM tree LEFT JOIN node ON node.scope = tree.scope"
        " AND level = ? AND place = 0 WHERE tree.scope = ?",
        (_TOP, name),
    ).fetchone()
    if row is None:
        return None
    order, *amounts = row
    most = _NONE if amounts[0] is None else Amounts(*amounts[:4]).plus(Amounts(*amounts[4:]))
    totals = most.totals
    return (
        None if totals.epsilon is None else write(totals.epsilon),
        write(totals.delta),
        None if order is None else write(totals.cost),
        order,
    )


def scopes_with_trees(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the scopes with a tree."""
    return [name for (name,) in connection.execute("SELECT scope FROM tree ORDER BY scope")]


def find_wrong_trees(connection: sqlite3.Connection, schema: str) -> Iterator[str]:
    """Yield the scopes whose nodes are not those of their entries; `schema` makes the tables of nodes."""
    for name in scopes_with_trees(connection):
        _, order = order_of_tree(connection, name)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as anew:
            anew.executescript(schema)
            for parts, amounts in list_charges(connection, name, order):
                add(anew, name, parts, amounts)
            if _nodes(anew, name) != _nodes(connection, name):
                yield name
    for (name,) in connection.execute("SELECT DISTINCT scope FROM node EXCEPT SELECT scope FROM tree"):
        yield name


def _nodes(connection: sqlite3.Connection, name: str) -> Mapping[tuple[int, int], tuple[int, ...]]:
    rows = connection.execute(f"SELECT level, place, {_OWN}, {_BELOW} FROM node WHERE scope = ?", (name,))
    return {(level, place): tuple(amounts) for level, place, *amounts in rows if any(amounts)}


assert 16**_TOP == PARTS  # noqa: S101  the root stands for all parts
