"""`Weighted`: the numbers of groups of rows of units, and what each unit adds to them within bounds.

Each unit adds what the classes of `counted` and `row_shares` claim. It is written in one of four ways.

*By rows,* if every number can be an aggregate of the rows of a group.

*By shares,* if every number is of units or of shares of rows (`row_shares`): the same, where rows are joined
with the sizes of the units that have more than C. These are of the rows `alone`; other forms join them, too.

*By units:* one row for each unit and group, with windows over the groups of a unit where it is weighed: a is
the sum of c over all of them, at least 1, and b that over the groups up to this one.

*With merged units* (`alone`): the units that have more than C of one size have a row in each of their groups.
All others share one row in each group, which has no unit and a = 1. *Lemma:* which units share rows follows
from the rows of each alone. A unit that does has size <= C for each number, so it counts in full: what it
adds to a group is the sum of its rows there, and what all of them add is that of all their rows. As a stands
the size, which is at least the sum of c; where `own_whole` asks for it, that sum itself. `alone` has the same
rows as `rows`, perhaps without their groups, so that a row is not read twice with different sizes.

*With listed units* (`weigh_listed`): all rows of a group count in full, and for each listed unit is added
what it adds less what it would in full. *Lemma:* the numbers that are not `CUT` are the same if all parts are
`LINEAR` or `Units`, and each unit that is not listed has sizes <= C. In full, a group has the sum of what its
rows add, and nothing is rounded: so it is the sum over units of what each would add in full. A unit that is
not listed adds that; of a listed one it is replaced by what it adds. Of `Units` all are counted at once.
In full, a sum of shares is T times that of the rows; of listed units it is of the sizes that they have alone.
The size of a unit is a number of its rows, for `CappedRows` of those in one group, but for `CappedSum`, whose
steps must be the least. A sum that would be cut where all rows are added up is not counted: it is `CUT`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from dpsql.kernel.tree.counted import (
    CappedRows,
    CappedSum,
    Counted,
    Exprs,
    KeptValues,
    Units,
    UnitValue,
    WeightedRows,
    sum_of_rows,
)
from dpsql.kernel.tree.exact import BEYOND, FURTHEST, huge, saturate, whole
from dpsql.kernel.tree.expressions import (
    Aggregate,
    Binary,
    Bound,
    Call,
    Case,
    Column,
    Constant,
    Frame,
    IsNull,
    OrderTerm,
    Paren,
    Window,
)
from dpsql.kernel.tree.node import Expr, Lowered, Query, Source
from dpsql.kernel.tree.relations import Derived, Item, Join, Select, SetOperation, columns, items
from dpsql.kernel.tree.row_shares import Moment, RowSum, SharedRows
from dpsql.lazy_dataclass import dataclass
from dpsql.types import NULL

OF_FEW_ROWS = (CappedRows, WeightedRows, RowSum, Moment)
"""What is in full the sum of what rows add, and counts units with `most` rows or fewer in full."""
LINEAR = (*OF_FEW_ROWS, CappedSum)
"""The same, and sums in least steps, whose units count in full by what their rows have."""
CUT = (1 << 63) - 1
"""A number of which a sum was cut; no number is as large."""

Parts = tuple[Counted, ...]
_UPWARDS = Frame("ROWS", Bound("PRECEDING"))


def _unit() -> Column:
    """Return the unit of a row: a new node, since a column gets a type."""
    return Column("s", "u")


@dataclass(frozen=True, slots=True, eq=False)
class Weighted(Lowered):
    """The keys `k0`, .. of groups and their numbers `n0`, ..: each the first of some parts minus the others.

    `rows` have the unit `u`, the keys `k0`, .. and the columns `f0`, .. that the parts name as those of `s`.
    """

    rows: Query
    keys: int
    fields: int
    numbers: tuple[Parts, ...]
    alone: Query | None = None

    @property
    def parts(self) -> Parts:
        """The parts that the numbers of a query are computed from, each once."""
        return tuple(dict.fromkeys(part for number in self.numbers for part in number))

    @property
    def by_rows(self) -> bool:
        """Whether every part is a sum over rows, so that no query groups by unit."""
        return all(part.of_rows(_unit(), part.row) is not None for part in self.parts)

    @property
    def weighed(self) -> Parts:
        """The parts that the query weighs by units, if it is not written by rows."""
        shared = self.shared
        of_units = (p for p in self.parts if p.weighs and p not in shared)
        return tuple(p for p in of_units if self.keys or p.weighs_one_group)

    @property
    def shared(self) -> tuple[SharedRows, ...]:
        """The parts to which each row adds its share, if the query is not written by rows.

        There are none where rows may be read once only, or rows that tie decide which values a unit keeps:
        then the sums of units are weighed.
        """
        kept = any(isinstance(p, KeptValues) for p in self.parts)
        shares = bool(self.keys) and self.alone is not None and not kept
        return tuple(p for p in self.parts if isinstance(p, SharedRows)) if shares else ()

    @property
    def by_shares(self) -> bool:
        """Whether all parts can be aggregates of rows with the sizes of large units, if not of rows alone."""
        shared = self.shared
        return bool(shared) and all(type(p) is Units for p in self.parts if p not in shared)

    @property
    def merges(self) -> bool:
        """Whether units that count in full are written as one row of their group, not as a row each."""
        full = all(part.in_full is not None for part in self.parts)
        return self.alone is not None and self.keys > 0 and full and bool(self.weighed)

    def _lower(self) -> Query:
        parts, by_rows, own = self.parts, self.by_rows, _unit()
        source, rows = self._values(once=not by_rows)
        if by_rows:
            return self._select_numbers({p: p.of_rows(own, rows[p]) for p in parts}, source, "s")
        if self.by_shares:
            of_rows: dict[Counted, Expr | None] = {p: saturate(e) for p, e in self._shares(rows).items()}
            of_rows |= {p: _count_units(p, rows[p]) for p in parts if isinstance(p, Units)}
            there = IsNull(own, negated=True)
            return self._select_numbers(of_rows, self._join_large(source), "s", there)
        each, names = self._aggregates(rows)
        unit = Column("w", "u")
        values: dict[Counted, Exprs] = {p: tuple(Column("w", n) for n in names[p]) for p in parts}
        if self.merges and self.alone is not None:
            units, sums = self._merge_units(source, each, names, {p: p.size(own, rows[p]) for p in parts})
            shared = self.shared
            values |= {p: (p.weigh(unit, values[p], *sums[p]),) for p in parts if p not in shared}
            made = {p: p.of_merged(unit, values[p]) for p in parts}
            return self._select_numbers(made, Derived(units, "w"), "w")
        by = (own, *columns("s", "k", self.keys))
        listed = (*map(Item, by), *items("r", each))
        source = self._join_large(source) if self.shared else source
        units = Select(listed, source, IsNull(own, negated=True), group=by)
        if weighed := self.weighed:
            units, sums = self._with_totals(units, len(each), names, weighed)
            values |= {p: (p.weigh(unit, values[p], *sums[p]),) for p in weighed}
        made = {p: p.of_units(unit, values[p]) for p in parts}
        return self._select_numbers(made, Derived(units, "w"), "w")

    def weigh_listed(self, listed: Source | None) -> Query:
        """Return the query that weighs the rows of listed units alone: `listed` has them as `l.u`.

        None: no unit is listed.
        """
        own, unit, one = _unit(), Column("w", "u"), huge(whole(1))
        source, rows = self._values(once=True)
        by, there, each = columns("s", "k", self.keys), IsNull(own, negated=True), list[tuple[Expr, Expr]]()
        names: dict[Counted, list[str]] = {}
        shares = self._shares(rows)
        for p in self.parts:
            found = [(e, e) for e in p.of_unit(own, rows[p])]
            if isinstance(p, Units):  # one that is listed is among all different ones
                found = [(e, whole(0)) for e in (p.of_rows(own, rows[p]),) if e is not None]
            found += [(whole(0), shares[p])] if p in shares else []
            each += [pair for pair in found if pair not in each]
            names[p] = [f"r{each.index(pair)}" for pair in found]
        shown = (*items("r", (e for e, _ in each)), *map(Item, by), Item(Constant(None, NULL), "u"))
        all_rows = Select(shown, source, there, group=by)
        units: Query = all_rows
        weighed = [p for p in self.parts if p.weighs and p not in shares]
        sums: dict[Counted, tuple[Expr, Expr]] = {}
        if listed is not None:
            of_listed: Source = Join(source, "SEMI", listed, Binary("=", own, Column("l", "u")))
            single = (*map(Item, (own, *by)), *items("r", (e for _, e in each)))
            if shares:
                of_listed = self._join_large(of_listed, listed)
            made = Select(single, of_listed, there, group=(own, *by))
            few, sums = self._with_totals(made, len(each), names, weighed)
            more = tuple(Item(one, item.name) for item in few.items[len(shown) :])
            units = SetOperation(replace(all_rows, items=(*shown, *more)), "UNION ALL", few)
        numbers: dict[Counted, Expr | None] = {}
        for p in self.parts:
            values = tuple(Column("w", name) for name in names[p])
            full = p.weigh(unit, values, one, one)
            added = p.weigh(unit, values, *sums.get(p, (one, one)))
            if isinstance(p, SharedRows) and p in shares:
                full, added = p.in_fine_steps(values[:-1]), values[-1]
            if isinstance(p, CappedRows):
                added = Call("LEAST", (values[0], whole(p.most)))
            if isinstance(p, LINEAR) and listed is not None:
                full = Case(((IsNull(unit), full),), Paren(Binary("-", added, full)))
            number = p.of_merged(unit, (full,)) if p.weighs else sum_of_rows(full)
            if isinstance(p, (RowSum, CappedSum)) and p not in shares:
                most = Aggregate("MAX", (Call("abs", (values[-1],)),))
                limit = whole(FURTHEST if isinstance(p, RowSum) else BEYOND)
                number = Case(((Binary(">=", most, limit), whole(CUT)),), number)
            numbers[p] = number
        return self._select_numbers(numbers, Derived(units, "w"), "w")

    def large_units(self, sized: Sequence[Counted] | None = None, listed: Source | None = None) -> Select:
        """Return the units `u` that have more than C of one size of `sized`, with their sizes `a0`, ..

        None as `sized`: of all parts that have a size up to which a unit counts in full. With `listed`, units
        that are listed alone.
        """
        own = _unit()
        sizes = {p: p.size(own, p.row) for p in sized or self.parts if p.in_full is not None}
        named = {e: f"a{i}" for i, e in enumerate(dict.fromkeys(sizes.values()))}
        alone: Source = Derived(self.alone or self.rows, "s")
        if listed is not None:
            alone = Join(alone, "SEMI", listed, Binary("=", own, Column("l", "u")))
        shown = (Item(own), *(Item(e, n) for e, n in named.items()))
        counted = Select(shown, alone, IsNull(own, negated=True), group=(own,))
        limits = dict.fromkeys((named[size], part.in_full or 0) for part, size in sizes.items())
        more: list[Expr] = [Binary(">", Column("n", name), whole(most)) for name, most in limits]
        names = (Item(Column("n", "u")), *(Item(Column("n", name)) for name in named.values()))
        return Select(names, Derived(counted, "n"), reduce(partial(Binary, "OR"), more))

    def _aggregates(self, rows: Mapping[Counted, Exprs]) -> tuple[Exprs, dict[Counted, list[str]]]:
        """Return the aggregates `r0`, .. of the rows of a unit in a group, and their names for each part."""
        found = {p: p.of_unit(_unit(), rows[p]) for p in self.parts} | {
            p: (e,) for p, e in self._shares(rows).items()
        }
        each = dict.fromkeys(e for listed in found.values() for e in listed)
        places = {e: f"r{i}" for i, e in enumerate(each)}
        return tuple(each), {p: [places[e] for e in listed] for p, listed in found.items()}

    def _shares(self, rows: Mapping[Counted, Exprs]) -> dict[Counted, Expr]:
        """Return for each part the sum of what rows add by their shares; large units are joined as `h`."""
        sizes = {p: p.size(_unit(), p.row) for p in self._sized}
        places = {e: i for i, e in enumerate(dict.fromkeys(sizes.values()))}
        a = {p: Column("h", f"a{places[size]}") for p, size in sizes.items()}
        return {p: Aggregate("SUM", (p.share(rows[p], a[p]),)) for p in self.shared}

    @property
    def _sized(self) -> Sequence[Counted]:
        return [p for p in self.parts if p.in_full is not None] if self.merges else self.shared

    def _join_large(self, source: Source, listed: Source | None = None) -> Source:
        """Return rows with the sizes of large units, as `h`; these are NULL for other units."""
        same = Binary("=", Column("h", "u"), _unit())
        return Join(source, "LEFT", Derived(self.large_units(self._sized, listed), "h"), same)

    def value_of(self, part: UnitValue) -> Expr:
        """Return the value of a unit, of the columns of `w`."""
        _, names = self._aggregates(self._values(once=True)[1])
        return part.compute(tuple(Column("w", n) for n in names[part]))

    def _select_numbers(
        self, made: Mapping[Counted, Expr | None], source: Source, alias: str, where: Expr | None = None
    ) -> Query:
        keys = columns(alias, "k", self.keys)
        written = [[e for p in number if (e := made[p]) is not None] for number in self.numbers]
        numbers = items("n", (reduce(partial(Binary, "-"), each) for each in written))
        return Select((*map(Item, keys), *numbers), source, where, group=keys)

    def _values(self, *, once: bool) -> tuple[Source, dict[Counted, Exprs]]:
        """Return the rows, and each part's columns; for `KeptValues` the column of the kept values.

        `once` says that a value stays in one row of a group.
        """
        query, rows = self.rows, {part: part.row for part in self.parts}
        kept = [part for part in self.parts if isinstance(part, KeptValues)]
        own = ["u", *(f"k{i}" for i in range(self.keys)), *(f"f{i}" for i in range(self.fields))]
        for step in (keep_values, keep_once) if once else (keep_values,):
            if kept:
                made = [step(p, columns("s", "k", self.keys), rows[p][0]) for p in kept]
                query = Select(
                    (*(Item(Column("s", n), n) for n in own), *items("v", made)), Derived(query, "s")
                )
                rows |= {p: (Column("s", f"v{i}"),) for i, p in enumerate(kept)}
        return Derived(query, "s"), rows

    def _with_totals(
        self, units: Select, size: int, names: dict[Counted, list[str]], weighed: Sequence[Counted]
    ) -> tuple[Select, dict[Counted, tuple[Expr, Expr]]]:
        """Add b and a to the numbers of units and groups, for each part that is weighed."""
        unit, by = Column("v", "u"), columns("v", "k", self.keys)
        listed: dict[Expr, str] = {}
        found: dict[Counted, tuple[Expr, Expr]] = {}
        for part in weighed:
            c = part.measure(tuple(Column("v", n) for n in names[part]))
            one = Window(Aggregate("SUM", (c,)), (unit,)) if self.keys else c
            a = Column("w", listed.setdefault(Call("GREATEST", (one, whole(1))), f"a{len(listed)}"))
            b: Expr = a
            if part.in_turn:
                b = Column("w", listed.setdefault(_up_to(part, c, by), f"a{len(listed)}"))
            found[part] = b, a
        every = [*map(Item, (*columns("v", "r", size), *by, unit))]
        every += [Item(e, name) for e, name in listed.items()]
        return Select(tuple(every), Derived(units, "v")), found

    def _merge_units(
        self, source: Source, each: Exprs, names: dict[Counted, list[str]], sizes: dict[Counted, Expr]
    ) -> tuple[Select, dict[Counted, tuple[Expr, Expr]]]:
        """Return the numbers of large units, and of all others together, with b and a."""
        own = _unit()
        by, there = columns("s", "k", self.keys), IsNull(own, negated=True)
        listed = {e: f"a{i}" for i, e in enumerate(dict.fromkeys(sizes.values()))}
        a = {part: listed[size] for part, size in sizes.items()}
        many = self.large_units()
        other = Column("h", "u")
        of_large = [
            Item(huge(Call("GREATEST", (Aggregate("MAX", (Column("h", n),)), whole(1)))), n)
            for n in listed.values()
        ]
        made = Select(
            (Item(other), *map(Item, by), *items("r", each), *of_large),
            Join(source, "LEFT", Derived(many, "h"), Binary("=", other, own)),
            there,
            group=(other, *by),
        )
        below = columns("v", "k", self.keys)
        values = {p: tuple(Column("v", n) for n in names[p]) for p in self.parts}
        running = {p: _up_to(p, values[p][0], below) for p in self.parts if p.in_turn}
        wholes = {p: _whole(p.measure(values[p])) for p in self.parts if p.own_whole}
        sums = {e: f"b{i}" for i, e in enumerate(dict.fromkeys((*running.values(), *wholes.values())))}
        found: dict[Counted, tuple[Expr, Expr]] = {}
        for p in self.parts:
            size = Column("w", a[p])
            b = Column("w", sums[running[p]]) if p in running else size
            found[p] = b, Column("w", sums[wholes[p]]) if p in wholes else size
        if sums:
            kept = [Column("v", "u"), *below, *columns("v", "r", len(each))]
            kept += [Column("v", n) for n in listed.values()]
            made = Select((*map(Item, kept), *(Item(e, n) for e, n in sums.items())), Derived(made, "v"))
        return made, found


def _count_units(part: Units, row: Exprs) -> Expr | None:
    """Return the number of different units, also of those that have one row in a group."""
    return replace(part, single=False).of_rows(_unit(), row)


def _up_to(part: Counted, c: Expr, keys: Sequence[Expr]) -> Expr:
    """Return b: the sum of c over the groups of a unit up to this one."""
    unit = Column("v", "u")
    terms = tuple(OrderTerm(e) for e in part.rank(unit, tuple(keys)))
    return Window(Aggregate("SUM", (c,)), (unit,), terms, _UPWARDS)


def _whole(c: Expr) -> Expr:
    """Return a, the sum of c over the groups of a large unit; 1 for those that share rows."""
    unit = Column("v", "u")
    summed = Call("GREATEST", (Window(Aggregate("SUM", (c,)), (unit,)), whole(1)))
    return Case(((IsNull(unit), huge(whole(1))),), summed)


def keep_values(part: KeptValues, keys: Exprs, value: Expr) -> Expr:
    """Return the value of a row if its unit keeps it, else NULL.

    A unit keeps the first values by a hash of unit and value. Other units keep other values, so that a value
    that several units have is rarely lost.
    """
    unit = _unit()
    there: Expr = IsNull(unit, negated=True)
    if part.cut:
        order = (OrderTerm(Call("hash", (unit, value))), OrderTerm(value))
        rank = Window(Call("DENSE_RANK", ()), (unit, *keys, IsNull(value)), order)
        there = Binary("AND", there, Binary("<=", rank, whole(part.most)))
    return Case(((there, value),))


def keep_once(part: KeptValues, keys: Exprs, value: Expr) -> Expr:
    """Return the value in one row of a group that has it, else NULL."""
    number = Window(Call("ROW_NUMBER", ()), (*keys, value), (OrderTerm(_unit()),))
    return Case(((Binary("=", number, whole(1)), value),))
