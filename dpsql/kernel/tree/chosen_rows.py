"""`Bounded`, `Sampled`, `FirstRows`: rows of which each unit keeps few, chosen by a hash of the unit.

What a unit keeps is a function of its own rows: without it, the others keep what they kept. Without the unit
in the hash all units would keep the same values.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.kernel.tree.exact import whole
from dpsql.kernel.tree.expressions import Aggregate, Binary, Call, Cast, Column, IsNull, OrderTerm, Window
from dpsql.kernel.tree.node import Expr, Lowered, Query
from dpsql.kernel.tree.relations import Derived, Item, Join, Select, SetOperation, columns, conjunction
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT

_COUNT = Aggregate("COUNT")


@dataclass(frozen=True, slots=True, eq=False)
class Bounded(Lowered):
    """The rows, with the unit `u` and other `columns`, of which each unit keeps those of few values of `by`.

    *Lemma.* `pairs` has each unit with different values of `by`. Those of a unit are numbered 1, 2, .. in the
    order of a hash, and by themselves where hashes are equal. A row is kept with the pair that is equal in
    the unit and in `by`, where NULL is a value, if its number is at most `most`. So the rows of a unit that
    are kept have at most `most` values of `by`, none is there twice, and each has a unit.
    """

    rows: Query
    columns: tuple[str, ...]
    by: tuple[str, ...]
    most: int
    pairs: Query

    def _lower(self) -> Query:
        unit, values = Column("x", "u"), [Column("x", n) for n in self.by]
        order = (Call("hash", (unit, *values)), *values)
        rank = Window(Call("ROW_NUMBER", ()), (unit,), tuple(OrderTerm(e) for e in order))
        ranked = Select((*map(Item, (unit, *values)), Item(rank, "r")), Derived(self.pairs, "x"))
        same: list[Expr] = [Binary("=", Column("y", "u"), Column("z", "u"))]
        same += [Binary("IS NOT DISTINCT FROM", Column("y", n), Column("z", n)) for n in self.by]
        return Select(
            tuple(Item(Column("y", n), n) for n in ("u", *self.columns)),
            Join(Derived(self.rows, "y"), "", Derived(ranked, "z"), conjunction(same)),
            Binary("<=", Column("z", "r"), whole(self.most)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Sampled(Lowered):
    """The keys `k0`, .., the cells `n0` and the rows `n1` of each, of which `most` count for each unit.

    `rows` have the unit `u`, the keys and the cell `f0`; those without a unit or a cell do not count. With
    `one` a unit has one row in a cell at most, since it is its only one (`rows`), or that of the least or
    the greatest cell of the unit's rows in each group: then no row is left out.

    *Lemma.* Else what is counted is all rows, less those that a numbering of the rows of a unit puts beyond
    C = `most`, of the units with more than C rows. A unit with at most C rows loses none. Of another one all
    rows with a cell are numbered 1, 2, .., so C of them or fewer count. In each cell a unit counts with some
    of its rows: from 0 to C, in total C. The numbering follows from its rows: those that are equal in keys
    and cell are numbered, and then no two are equal in all that the order is of.
    """

    rows: Query
    keys: int
    most: int
    one: str | None = None

    @property
    def single(self) -> Select:
        """The query of the rows that count if a unit counts in one group (`one`)."""
        if self.one == "rows":
            return self.counted
        by = (Column("s", "u"), *columns("s", "k", self.keys))
        cell = Aggregate("MIN" if self.one == "least" else "MAX", (Column("s", "f0"),))
        return replace(self.counted, items=(*map(Item, by), Item(cell, "f0")), group=by)

    @property
    def counted(self) -> Select:
        """The relation whose rows are counted, below the bound."""
        return self._rows(IsNull(Column("s", "f0"), negated=True))

    def _rows(self, *more: Expr) -> Select:
        unit = Column("s", "u")
        listed = (unit, *columns("s", "k", self.keys), Column("s", "f0"))
        where = conjunction((IsNull(unit, negated=True), *more))
        return Select(tuple(map(Item, listed)), Derived(self.rows, "s"), where)

    def _lower(self) -> Query:
        if self.one:
            return _count_cells(self.single, self.keys)
        every, keys, unit = self._rows(), self.keys, Column("w", "u")
        numbered = Select((Item(unit), Item(_COUNT, "n")), Derived(every, "w"), group=(unit,))
        more = Binary(">", Column("v", "n"), whole(self.most))
        beyond = Select((Item(Column("v", "u")),), Derived(numbered, "v"), more)
        listed = tuple(Item(Column("a", n), n) for n in ("u", *(f"k{i}" for i in range(keys)), "f0"))
        same = Binary("=", Column("a", "u"), Column("b", "u"))
        few = Select(listed, Join(Derived(self.counted, "a"), "", Derived(beyond, "b"), same))
        dropped = _count_cells(self._beyond(few), keys, Binary("-", whole(0), _COUNT))
        counted = _count_cells(every, keys, Aggregate("COUNT", (Column("h", "f0"),)))
        both = Derived(SetOperation(counted, "UNION ALL", dropped), "l")
        by = (*columns("l", "k", keys), Column("l", "n0"))
        left = Cast(Aggregate("SUM", (Column("l", "n1"),)), BIGINT)
        totals = Derived(Select((*map(Item, by), Item(left, "n1")), both, group=by), "m")
        shown = (*columns("m", "k", keys), *columns("m", "n", 2))
        return Select(tuple(map(Item, shown)), totals, Binary(">", Column("m", "n1"), whole(0)))

    def _beyond(self, rows: Query) -> Query:
        """Return the rows beyond the first `most` of each unit, in all groups together."""
        own = [Column("x", "u"), *columns("x", "k", self.keys), Column("x", "f0")]
        number = Window(Call("ROW_NUMBER", ()), tuple(own), (OrderTerm(own[0]),))
        numbered = Select((*map(Item, own), Item(number, "j")), Derived(rows, "x"))
        unit, *terms = [Column("y", "u"), *columns("y", "k", self.keys), Column("y", "f0"), Column("y", "j")]
        order = (Call("hash", (unit, *terms)), *terms)
        place = Window(Call("ROW_NUMBER", ()), (unit,), tuple(OrderTerm(e) for e in order))
        placed = Select((*map(Item, (unit, *terms)), Item(place, "r")), Derived(numbered, "y"))
        listed = tuple(Item(Column("z", c.name)) for c in own)
        return Select(listed, Derived(placed, "z"), Binary(">", Column("z", "r"), whole(self.most)))


@dataclass(frozen=True, slots=True, eq=False)
class FirstRows(Lowered):
    """The first rows, `first` of them or all, of those that each unit keeps, `most` of it; without the unit.

    `order` has columns with whether they descend, and whether NULL is first. Rows that are equal in them are
    in the order of all others.

    *Lemma.* Rows that are equal in all columns and in the unit are numbered, so that no two rows are tied.
    What a unit keeps is a function of its own rows. Let F be the first n of the kept rows, k of them rows of
    the unit u: k <= c = `most`, and k <= n. Without u the others keep what they kept, in the same order, so
    the first n are the other rows of F, and the next k rows behind F, or all if there are fewer. So k rows
    leave F, and no more come: each that comes is taken for one that left. RANK would not do: of rows that are
    tied with the n-th, however many they are, all or none are there.
    """

    rows: Query
    columns: tuple[str, ...]
    order: tuple[tuple[str, bool, bool], ...]
    most: int
    first: int

    def _lower(self) -> Query:
        own = [Column("x", "u"), *(Column("x", name) for name in self.columns)]
        same = Window(Call("ROW_NUMBER", ()), tuple(own), (OrderTerm(own[0]),))
        numbered = Select((*map(Item, own), Item(same, "j")), Derived(self.rows, "x"))
        unit, *terms = [Column("y", "u"), *(Column("y", name) for name in (*self.columns, "j"))]
        order = (Call("hash", (unit, *terms)), *terms)
        place = Window(Call("ROW_NUMBER", ()), (unit,), tuple(OrderTerm(e) for e in order))
        placed = Select((*map(Item, (unit, *terms)), Item(place, "p")), Derived(numbered, "y"))
        unit, *terms = [Column("z", "u"), *(Column("z", name) for name in (*self.columns, "j"))]
        said = tuple(
            OrderTerm(Column("z", name), "DESC" if down else "ASC", "FIRST" if first else "LAST")
            for name, down, first in self.order
        )
        rank = Window(Call("ROW_NUMBER", ()), (), (*said, *map(OrderTerm, (*terms, unit))))
        few = Binary("<=", Column("z", "p"), whole(self.most))
        ranked = Select((*map(Item, terms[:-1]), Item(rank, "q")), Derived(placed, "z"), few)
        listed = tuple(Item(Column("w", name)) for name in self.columns)
        return Select(listed, Derived(ranked, "w"), Binary("<=", Column("w", "q"), whole(self.first)))


def _count_cells(rows: Query, keys: int, number: Expr = _COUNT) -> Select:
    """Return the keys, the cells `n0` and the numbers of their rows `n1`."""
    by = (*columns("h", "k", keys), Column("h", "f0"))
    listed = (*map(Item, by[:-1]), Item(by[-1], "n0"), Item(number, "n1"))
    return Select(listed, Derived(rows, "h"), group=by)
