"""Counts of few groups: rows of all groups are counted first, and units only where they may matter.

A group has at least as many rows as units, and rows are counted much faster. Most selections need the exact
counts of few groups, given the noise (`mechanisms.noisy_order`), so that these alone are counted, by a query
over the rows of the certified one. `RowsFirst` writes both queries, and `FewCounts` is what is sealed.

*Claim 1:* what `RowsFirst.upper` counts is at least what the certified query does. *Proof:* it is that query
with COUNT(*) in the place of each COUNT(DISTINCT x), over the same rows and groups, and with the condition of
x where it has one. Each different value is in a row that meets it.

*Claim 2:* the numbers that `RowsFirst.few` counts of a candidate are those of its group. *Proof:* it has the
aggregates of the certified query, over the rows that it has, joined with the candidates by IS NOT DISTINCT
FROM. Candidates are keys of different groups, so a row is joined with one at most. `FewCounts` takes the
numbers only if the rows of each candidate are as many as were counted first, and its units no more than they.

Whatever is missing, wrong or fails on this way is no failure: the certified query is counted. Which groups
are candidates is private. Their keys are handed to the engine as a table beside a text that does not depend
on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.errors import Error, InternalError
from dpsql.kernel.check.certificate import Certificate
from dpsql.kernel.counts import Counts, Exact, Order, Wanted, exact
from dpsql.kernel.faster import UnitFacts, condition_of, rows_of, units_at_most
from dpsql.kernel.kept import KeptCopy, open_numbers
from dpsql.kernel.public_order import BoundedCounts, ranks
from dpsql.kernel.sealed import Sealed, seal, unseal, without_frames
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Cast,
    Column,
    Constant,
    Decided,
    Derived,
    Expr,
    Item,
    Join,
    OnDomain,
    Query,
    Scan,
    Select,
    Source,
    Weighted,
    columns,
    conjunction,
    duckdb_sql,
    items,
)
from dpsql.kernel.tree.exact import whole
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, NULL

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dpsql.types import SqlType

    Integers = NDArray[np.int64]

    Fetch = Callable[[pa.Table], Mapping[str, Any] | None]
    """Returns the columns of `RowsFirst.few` for a table of candidates; None if there are none."""

CANDIDATES = "§candidates"
"""The name of the table of candidates: names of declared tables are ASCII."""
_OTHERS = "the groups of a domain are not those that were there before"
_PLACE = "j"
"""The column of the places of candidates."""


@dataclass(frozen=True, slots=True)
class RowsFirst:
    """The queries that count few groups in the place of a certified one of all, or of the largest."""

    upper: OnDomain | Decided
    """The groups as the certified query has them, with rows in the place of each number; of the largest
    groups half as many more, and one."""
    rows: Select
    """What counts the groups that have rows in the certified query."""
    most: int | None = None
    """How many of the largest groups the certified query has; None: it has all of a domain."""

    @classmethod
    def of(cls, query: Query) -> RowsFirst | None:
        """Write the queries; None if a number of the groups is not that of different units."""
        largest = query.most if isinstance(query, Decided) and not query.by else None
        whole_domain = isinstance(query, OnDomain) and not query.outside
        if not isinstance(query, (OnDomain, Decided)) or not (whole_domain or largest):
            return None
        rows = rows_of(query.counts) if isinstance(query.counts, Weighted) else None
        bounds = None if rows is None else _bounds(rows.items[query.keys :])
        if rows is None or bounds is None:
            return None
        counted = replace(rows, items=(*rows.items[: query.keys], *bounds))
        if isinstance(query, Decided) and largest:
            return cls(replace(query, counts=counted, most=3 * largest // 2 + 1), rows, largest)
        return cls(replace(query, counts=counted), rows)

    @property
    def upper_sql(self) -> str:
        """The text that counts the rows of all groups."""
        return duckdb_sql(self.upper)

    def few(self, types: Sequence[SqlType] | None = None) -> Select:
        """Return the query of the numbers of candidates; with types of keys, of no candidates of these types.

        Its columns are the place `j` of a candidate, its rows `r0`, .. and its numbers `n0`, ..
        """
        own = self.rows
        many = self.upper.keys
        source: Source = Scan(CANDIDATES, "c")
        if types is not None:
            none = items("k", (Cast(Constant(None, NULL), kind, safe=False) for kind in types))
            source = Derived(Select((*none, Item(Cast(whole(0), BIGINT, safe=False), _PLACE))), "c")
        same = map(_same, columns("s", "k", many), columns("c", "k", many))
        assert own.source is not None  # noqa: S101  `rows_of` has the rows of `Weighted`
        joined = Join(own.source, "", source, conjunction(same))
        place, numbers = Column("c", _PLACE), own.items[many:]
        bounds = _bounds(numbers, "r") or ()
        return replace(own, items=(Item(place), *bounds, *numbers), source=joined, group=(place,))


def _same(one: Expr, other: Expr) -> Expr:
    return Binary("IS NOT DISTINCT FROM", one, other)


def _bounds(numbers: Sequence[Item], prefix: str = "n") -> tuple[Item, ...] | None:
    """Return the rows of which each number has different units; None if there is any other number."""
    conditions = [condition_of(number.expr) for number in numbers]
    known = [there for there in conditions if there is not None]
    if len(known) < len(conditions):
        return None
    return items(prefix, (Aggregate("COUNT", (), filter=conjunction(there)) for there in known))


class CountedSoFar:
    """The numbers of all groups, as far as they are counted; several statements may count further."""

    __slots__ = ("_all", "_asked", "_fetch", "_whole", "keys", "n", "units", "upper")

    def __init__(
        self,
        keys: pa.Table,
        upper: tuple[Integers, ...],
        n: Sequence[Integers],
        units: int | None,
        ask: tuple[Fetch, Callable[[], Counts]],
    ) -> None:
        """Take the rows that bound each number, and the numbers: -1 in groups that are not counted."""
        self.keys, self.upper, self.n, self.units = keys, upper, [*n], units
        self._fetch, self._all = ask
        self._asked = 0
        self._whole: tuple[Integers, ...] | None = None

    def count(self, keys_at: Callable[[Integers], list[pa.Array]], positions: Integers) -> None:
        """Count groups that are not known; all, if those asked for have more than half of the rows."""
        # With counts numpy does not look for masked arrays, which it would import for that.
        lacking = np.unique(positions[self.n[0][positions] < 0], return_counts=True)[0]
        if not len(lacking):
            return
        rows = self.upper[0]
        self._asked += int(rows[lacking].sum())
        few = 2 * self._asked <= int(rows.sum())
        try:
            known = few and self.count_few(keys_at, lacking)
        except Error:  # the statement was cancelled, or the data have changed
            raise
        except Exception:  # noqa: BLE001  whatever it is, the certified query is counted
            known = False
        if not known:
            self.complete()

    def count_few(self, keys_at: Callable[[Integers], list[pa.Array]], positions: Integers) -> bool:
        """Count the groups at some positions; return whether their numbers are all there and are possible."""
        import pyarrow as pa  # noqa: PLC0415  loaded when rows are

        size, width = len(positions), len(self.n)
        # `pa.array` would import pandas where it is installed, which takes longer than the counts.
        places = pa.Array.from_buffers(pa.int64(), size, [None, pa.py_buffer(np.arange(size))])
        keys = [*keys_at(positions), places]
        found = self._fetch(pa.table(keys, names=[*self.keys.column_names, _PLACE]))
        named = [_PLACE, *(f"r{i}" for i in range(width)), *(f"n{i}" for i in range(width))]
        if found is None or [*found] != named or not all(map(_is_plain, found.values())):
            return False
        at = found[_PLACE]
        if len(at) and (not 0 <= at.min() <= at.max() < size or np.bincount(at).max() > 1):
            return False
        numbers, counted = np.zeros((2, width, size), dtype=np.int64)
        for i, rows in enumerate(self.upper):
            numbers[i, at], counted[i, at] = found[f"n{i}"], found[f"r{i}"]
            there = (counted[i] == rows[positions]) & (numbers[i] >= 0) & (numbers[i] <= counted[i])
            if not there.all():
                return False
        for n, its in reversed([*zip(self.n, numbers, strict=True)]):  # who sees the first one has all
            n[positions] = its
        return True

    def complete(self) -> tuple[Integers, ...]:
        """Return the certified numbers of all groups, at the positions that they have here."""
        if self._whole is None:
            every = exact(self._all())
            rows = _match_groups(self.keys, every.keys)
            numbers = tuple(n[rows] for n in every.n)
            if any((n > upper).any() for n, upper in zip(numbers, self.upper, strict=True)):
                raise InternalError("a group has more units than rows: they were replaced meanwhile")
            self._whole, self.n = numbers, [*numbers]
        return self._whole


class FewCounts:
    """What is sealed in counts of groups of which rows were counted first; it is filled as one asks for more.

    Attributes
    ----------
    groups
        The groups, without numbers.
    """

    __slots__ = ("_counting", "_numbers", "groups")

    def __init__(self, groups: Exact, counting: CountedSoFar, numbers: tuple[int, ...]) -> None:
        """Take the groups, and which of the numbers that are counted belong to this query."""
        self.groups, self._counting, self._numbers = groups, counting, numbers

    def __repr__(self) -> str:
        return "FewCounts(...)"  # they are exact: no message shows them

    @property
    def upper(self) -> tuple[Integers, ...]:
        """For each number, how many rows its groups have: upper bounds of the exact numbers."""
        return tuple(self._counting.upper[i] for i in self._numbers)

    def bound(self, place: int) -> BoundedCounts:
        """Return one of the numbers of all groups, with what bounds it."""
        upper, units = self.upper[place], self._counting.units
        likely = upper if units is None else _expect_units(upper, units)
        return BoundedCounts(upper, lambda some: self.at(place, some), likely)

    def at(self, place: int, positions: Integers) -> Integers:
        """Return one of the exact numbers of the groups at some positions."""
        self._counting.count(self.groups.keys_at, positions)
        return self._counting.n[self._numbers[place]][positions]

    def complete(self) -> Exact:
        """Return the certified counts of all groups."""
        numbers = self._counting.complete()
        return replace(self.groups, n=tuple(numbers[i] for i in self._numbers))

    def take(self, wanted: Wanted) -> FewCounts:
        """Return those of the counts that another query would count, without counting again."""
        numbers = tuple(self._numbers[place] for place in wanted.numbers)
        return FewCounts(self.groups.take_groups(wanted), self._counting, numbers)

    def keep(self, limit: int) -> KeptCopy | None:
        """Copy what is counted, and will be, into memory that is overwritten; None if it takes more bytes."""
        own = self._counting
        numbers = (*own.upper, *own.n)
        copy = KeptCopy.of_numbers(self.groups.keys, numbers, self.groups.places, limit)
        if copy is not None and own._whole is None:  # noqa: SLF001  its own module
            own.n = open_numbers(copy)[len(own.upper) :]
        return copy


def _expect_units(rows: Integers, units: int) -> Integers:
    """Return how many units are expected to have so many rows of a group if each row is of any unit."""
    expected: Integers = np.floor(-units * np.expm1(-rows / max(units, 1))).astype(np.int64)
    return np.minimum(expected, rows)


class KeptFew(Sealed):
    """Kept counts of which few groups are exact, while a statement uses them."""

    __slots__ = ()

    @classmethod
    def of(cls, copy: KeptCopy, wanted: Wanted) -> KeptFew:
        """Open the copy of a query of which all is `wanted`."""
        own = exact(copy.take(wanted)), open_numbers(copy)[len(wanted.numbers) :]
        return seal(cls(), own)


def seal_few(
    rows: pa.Table | Counts | KeptFew,
    queries: RowsFirst,
    places: Sequence[str],
    certificate: Certificate,
    order: Order | None,
    facts: Sequence[UnitFacts],
    ask: tuple[Fetch, Callable[[], Counts]],
) -> Counts | None:
    """Seal what `queries.upper` has returned, or what is kept of it; None if a column is missing, or NULL.

    `places`, `certificate` and `order` are those of the certified query. `facts` are those of its tables, as
    far as they are known. `ask` counts some groups, and all of them by the certified query.
    """

    def work() -> Counts | None:
        keys, width, own = queries.upper.keys, queries.upper.numbers, (certificate, order)
        if isinstance(rows, KeptFew):
            upper, n = unseal(rows)
        else:
            found: Counts | None
            found = rows if isinstance(rows, Counts) else Counts.of_table(rows, keys, width, places, *own)
            if found is None:
                return None
            upper = exact(found)
            n = [np.full(upper.size, -1, dtype=np.int64) for _ in range(width)]
        counting = CountedSoFar(upper.keys, upper.n, n, units_at_most(facts), ask)
        return seal(Counts(), FewCounts(replace(upper, n=()), counting, (*range(width),)))

    return without_frames(work)


def is_few(counts: Counts) -> bool:
    """Return whether only some groups of these counts are counted exactly."""
    return counted_later(counts) is not None


def keep_few(counts: Counts, limit: int) -> KeptCopy | None:
    """Keep a copy of counts of few groups; None if they are none, or take more than so many bytes."""
    few = counted_later(counts)
    return None if few is None else few.keep(limit)


def seal_largest(
    table: pa.Table,
    queries: RowsFirst,
    certificate: Certificate,
    facts: Sequence[UnitFacts],
    ask: tuple[Fetch, Callable[[], Counts]],
) -> Counts | None:
    """Seal the largest groups; None if rows do not tell which they are, or most rows are theirs.

    *Claim:* they are those of the certified query, in its order. *Proof:* a group that the table has not has
    no more rows of the number that decides than each that is, so fewer units than the last of the largest
    ones. If the table is not full, each group that has rows is in it. They are sorted by that number, then by
    their keys, as in `Decided`.
    """

    def work() -> Counts | None:
        upper = queries.upper
        found = Counts.of_table(table, upper.keys, upper.numbers, (), certificate, None)
        if found is None or not isinstance(upper, Decided) or queries.most is None:
            return None
        own, positions = exact(found), np.arange(table.num_rows)
        rows, n = own.n[upper.place], [np.full(own.size, -1, dtype=np.int64) for _ in own.n]
        if 4 * int(rows.sum()) > 3 * max((int(unseal(each)[0]) for each in facts), default=0):
            return None
        if own.size and not CountedSoFar(own.keys, own.n, n, None, ask).count_few(own.keys_at, positions):
            return None
        decides, by = n[upper.place], [ranks(column) for column in own.keys.columns]
        order = np.lexsort([*by[::-1], -decides])
        order = order[decides[order] > 0][: queries.most]
        least = int(decides[order[-1]]) if len(order) == queries.most else 1
        if own.size == upper.most and int(rows.min()) >= least:
            return None
        largest = replace(own, n=tuple(n)).part(order)
        return seal(Counts(), replace(largest, query=own.query))

    return without_frames(work)


def counted_later(counts: Counts) -> FewCounts | None:
    """Return what is sealed in counts of groups that are not all counted; None if they are."""
    found = unseal(counts)
    return found if isinstance(found, FewCounts) else None


def _is_plain(column: object) -> bool:
    """Whether a column has whole numbers, and no NULL."""
    return type(column) is np.ndarray and column.dtype == np.int64


def _match_groups(keys: pa.Table, others: pa.Table) -> Integers:
    """Return where the groups of some keys are among others, which have the same groups."""
    import pyarrow as pa  # noqa: PLC0415  loaded when rows are

    size, both = keys.num_rows, [*zip(keys.columns, others.columns, strict=True)]
    if keys.schema.types != others.schema.types or size != others.num_rows:
        raise InternalError(_OTHERS)
    by = [ranks(pa.chunked_array([*one.chunks, *two.chunks], one.type)) for one, two in both]
    one, two = (np.lexsort([each[part] for each in by[::-1]]) for part in (slice(size), slice(size, None)))
    if any((each[:size][one] != each[size:][two]).any() for each in by):
        raise InternalError(_OTHERS)
    found = np.empty_like(two)
    found[one] = two
    return found
