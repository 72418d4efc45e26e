"""Faster texts of certified queries: units are counted by bits, in the range of all units of the tables.

What a release rests on is the certified query. A faster text has the same numbers, or lacks some and says
so: then the query itself is counted. The range of the units is private. It is for speed alone, and so it is
sealed: no text that has it leaves this module, but to the engine that runs it.

*Claim:* a number that `FasterText.count` returns is that of the certified query. *Proof:* it replaces the
counts of different units among the items of one SELECT over the rows of `Weighted`, and nothing else. Let x
be the unit of the rows of a group, and y the same where it is in the range, else NULL. Where as many y as x
are not NULL, no unit is outside of the range, and y is x. Bits are set of the y that are not NULL, in the
range by their definition, and so many as there are different ones; where the count has a condition, of those
in rows where it holds; of no rows there are no bits, and COALESCE makes 0 of that. Where a unit is outside,
the number is `MISSING` instead, which no number of units is, and `OnDomain` has it in its group if that is
one of the domain's; other groups are in neither answer. It has no other use of the numbers. So an answer
without `MISSING` is the certified one, whatever the range is said to be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpsql.kernel.sealed import Sealed, seal, unseal, without_frames
from dpsql.kernel.tree import (
    Aggregate,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Expr,
    Item,
    Node,
    OnDomain,
    Paren,
    Query,
    Select,
    Weighted,
    conjunction,
    duckdb_sql,
    quote,
    replace_nodes,
    walk,
)
from dpsql.kernel.tree.exact import whole
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.types import SqlType

T = TypeVar("T", bound="pa.Table | dict[str, Any]")

MISSING = (1 << 63) - 1
"""The number of a group of which a unit is outside of the range."""
WIDEST = 999_999_999
"""How many units a range may have: the engine refuses bits of more."""
SPARSEST = 110
"""How many units of the range there may be for each row of a group: of 150, hashing is as fast."""
FEWEST = 100_000
"""How many rows a table has at least: below, an engine takes longer to plan the text than it saves."""

UNIT = Column("s", "u")
"""The unit of a row, as the SELECT of `Weighted` has it."""


class UnitFacts(Sealed):
    """How many rows a table has, and its least and its greatest unit; they are private, and may be wrong."""

    __slots__ = ()

    @classmethod
    def of(cls, rows: int, least: int | None, greatest: int | None) -> UnitFacts:
        """Seal what was found; None for both: there is no unit."""
        return seal(cls(), (rows, least, greatest))

    @classmethod
    def read(cls, table: str, unit: str | None, ask: Callable[[str], Sequence[tuple[Any, ...]]]) -> UnitFacts:
        """Ask for those of a table of the engine, by its name and that of its column of units.

        None: units are no integers, and only rows are counted.
        """
        column = "NULL" if unit is None else quote(unit)
        sql = f"SELECT COUNT(*), MIN({column}), MAX({column}) FROM main.{quote(table)}"
        return without_frames(lambda: cls.of(*ask(sql)[0]))

    def has_rows(self, fewest: int) -> bool:
        """Whether a table has at least a given number of rows: for the choice of a text alone."""
        return bool(unseal(self)[0] >= fewest)


@dataclass(frozen=True, slots=True)
class Room:
    """What the bits of all groups may take."""

    groups: int
    """How many groups the rows have at most, with those whose keys no domain has."""
    threads: int
    """How many threads the engine has: each has bits of its own."""
    memory: int
    """The bytes that they may take together."""

    def has(self, rows: int, wide: int, numbers: int) -> bool:
        """Whether there is memory to count some numbers over a range of units by bits, and it is faster."""
        taken = (self.threads + 3) * numbers * self.groups * wide // 8
        fits = 0 < wide <= WIDEST and taken <= self.memory
        return rows >= FEWEST and fits and wide * self.groups <= SPARSEST * rows


class FasterText(Sealed):
    """A text that counts units by bits, for the query of which it is made."""

    __slots__ = ()

    @classmethod
    def of(cls, query: Query, facts: Sequence[UnitFacts], room: Room, kind: SqlType) -> FasterText | None:
        """Write the text; None if no number counts units, or if it would not be faster.

        `facts` are those of all tables that have a column of units, and `kind` has all their values: BIGINT
        or HUGEINT.
        """

        def write() -> FasterText | None:
            ends = _ends_of(facts)
            if ends is None:
                return None
            least, greatest = in_whole_bytes(*ends)
            rows = max(unseal(each)[0] for each in facts)
            if not room.has(rows, greatest - least + 1, len(units_counted(query))):
                return None
            made = by_bits(query, least, greatest, kind)
            return None if made is None else seal(cls(), duckdb_sql(made))

        return without_frames(write)

    def count(self, fetch: Callable[[str], T], numbers: int) -> T | None:
        """Return what an engine fetches of the text; None if one of the numbers is missing or is NULL."""

        def work() -> T | None:
            found = fetch(unseal(self))
            return found if all(is_whole(found[f"n{i}"]) for i in range(numbers)) else None

        return without_frames(work)


def _ends_of(facts: Sequence[UnitFacts]) -> tuple[int, int] | None:
    """Return the least and the greatest unit of all tables; None if no unit is known."""
    found = [unseal(each)[1:] for each in facts]
    ends = [(least, greatest) for least, greatest in found if least is not None is not greatest]
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None


def in_whole_bytes(least: int, greatest: int) -> tuple[int, int]:
    """Widen a range of units to whole bytes of bits: in others the engine takes twice as long to set one.

    Positive ends have lower ones and others greater ones, so that a type of all units has both.
    """
    more = (least - greatest - 1) % 8
    return (least - more, greatest) if greatest > 0 else (least, greatest + more)


def units_at_most(facts: Sequence[UnitFacts]) -> int | None:
    """Return how many units tables have at most, for the choice of a way alone; None if nothing is known."""
    ends = _ends_of(facts)
    return None if ends is None else ends[1] - ends[0] + 1


def is_whole(column: Any) -> bool:  # noqa: ANN401  of Arrow, or an array
    """Whether a column has no NULL and no number that is missing."""
    made = isinstance(column, np.ndarray)
    chunks = [column] if made else [np.from_dlpack(chunk) for chunk in column.chunks if len(chunk)]
    return all(type(x) is np.ndarray and x.dtype == np.int64 and not (x >= MISSING).any() for x in chunks)


def units_counted(query: Query) -> frozenset[Expr]:
    """Return the counts of different units in a query that could be counted by bits."""
    rows = rows_of(query)
    return frozenset[Expr]() if rows is None else _counts_in(rows)


def bits_form(query: Query, kind: SqlType) -> str:
    """Return the text that counts units by bits, with the range 0 .. 1 in the place of that of the units."""
    made = by_bits(query, 0, 1, kind)
    return "" if made is None else duckdb_sql(made)


def by_bits(query: Query, least: int, greatest: int, kind: SqlType) -> Query | None:
    """Return a query that counts units by bits over a range with these ends; None: it counts no units.

    Units are cast to `kind`, which has all values of theirs.
    """
    rows = rows_of(query)
    if rows is None or not _counts_in(rows):
        return None
    unit, ends = Cast(UNIT, kind, safe=False), (whole(least), whole(greatest))
    inside = Case(((Between(unit, *ends), unit),))
    every = Binary("=", Aggregate("COUNT", (inside,)), Aggregate("COUNT", (UNIT,)))

    def change(node: Node) -> Node:
        there = condition_of(node)
        if there is None:
            return node
        bits = Aggregate("bitstring_agg", (inside, *ends), filter=conjunction(map(Paren, there)))
        return Call("COALESCE", (Call("bit_count", (bits,)), whole(0)))

    def changed(item: Item) -> Item:
        made = replace_nodes(Paren(item.expr), change).inner
        if made is item.expr:
            return item
        return replace(item, expr=Case(((every, made),), Constant(MISSING, BIGINT)))

    made = replace(rows, items=tuple(map(changed, rows.items)))
    return replace(query, counts=made) if isinstance(query, OnDomain) else made


def rows_of(query: Query) -> Select | None:
    """Return the SELECT that counts the rows of all groups, of a domain's groups, or of a few groups."""
    found = query.counts if isinstance(query, OnDomain) else query
    if isinstance(found, Select):
        return found
    if not isinstance(found, Weighted) or not found.by_rows:
        return None
    return found.lowered if isinstance(found.lowered, Select) else None


def _counts_in(rows: Select) -> frozenset[Expr]:
    every = (node for item in rows.items for node in walk(item.expr))
    return frozenset(n for n in every if isinstance(n, Expr) and condition_of(n) is not None)


def condition_of(node: Node) -> tuple[Expr, ...] | None:
    """Return the condition of a count of different units, if it has one; None for any other node."""
    match node:
        case Aggregate("COUNT", (counted,), True, (), None) if counted == UNIT:
            return ()
        case Aggregate("COUNT", (Case(((there, counted),), None),), True, (), None) if counted == UNIT:
            return (there,)
    return None
