"""Exact counts, sealed: engines hand them over, and the kernel alone reads them.

No attribute or method of `Counts` returns exact numbers, how many groups there are, their keys, or the order
in which an engine returned them. What is released of them is what `dpsql.kernel.release.Run` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from dpsql.errors import InternalError
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.check.certificate import Certificate, Keys
from dpsql.kernel.key_columns import as_one_array, pick_rows
from dpsql.kernel.public_order import OrderedCounts, SparseCounts, ranks, sort_cells, sort_rows
from dpsql.kernel.sealed import Sealed, seal, unseal
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dpsql.kernel.public_order import Term
    from dpsql.kernel.tree import Query

    Integers = NDArray[np.int64]
    Values = Callable[[Any, Integers], pa.Table]
    """Returns the keys of a part's candidates at some places, in columns `k0`, .. by the keys' places."""

Order = tuple[tuple[str, bool], ...]
"""The public columns that groups are sorted by, `k0` a key, `o0` the place of one; and whether descending."""


class DomainPart(Protocol):
    """A part of a large domain: its candidates are numbered from `first` on."""

    @property
    def size(self) -> int:
        """How many candidates for groups the part of the domain has."""

    @property
    def first(self) -> int:
        """The number of the first candidate of this part of the domain."""

    @property
    def descending(self) -> bool:
        """Whether candidates with higher numbers have lower positions."""


class Domain(Protocol):
    """A public domain of which only the groups with rows are counted: all combinations of its parts."""

    @property
    def parts(self) -> tuple[DomainPart, ...]:
        """The parts of the domain; in a group's position the last one is least significant."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that have the numbers of the parts' candidates."""

    @property
    def size(self) -> int:
        """How many groups the domain has."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What another query, with its own certificate and order, counts of the first `limit` groups of counts.

    `numbers` and `places` are those that it has of theirs, in its order.
    """

    numbers: tuple[int, ...]
    places: tuple[str, ...]
    limit: int | None
    certificate: Certificate
    order: Order | None


class Counts(Sealed):
    """The exact counts of the candidate groups before noise; they are never shown and never stored."""

    __slots__ = ()

    @classmethod
    def of(
        cls,
        keys: pa.Table,
        n: Sequence[Integers],
        certificate: Certificate,
        order: Order | None,
        places: Mapping[str, Integers] | None = None,
    ) -> Counts:
        """Seal counts: keys in the columns `k0`, ..., one int64 array for each count, and the places of keys.

        All have the same length. Rows come as the engine returned them; `order` names the public columns that
        they are sorted by in the kernel. None: there is no order but that of the keys. The certificate is
        that of the query, and says how far one unit changes them.
        """
        found = changes_of(certificate, len(n))
        places = dict(places or {})
        own = Exact(keys, tuple(n), found, _public(order, certificate), places, query=certificate.query)
        return seal(cls(), own)

    @classmethod
    def of_table(
        cls,
        table: pa.Table,
        keys: int,
        numbers: int,
        places: Sequence[str],
        certificate: Certificate,
        order: Order | None,
    ) -> Counts | None:
        """Seal the columns `k0`, ..., `n0`, ... and places of a table; None if it has others, or a NULL."""
        found = table.select([f"k{i}" for i in range(keys)])
        arrays = [_integers(table.column(f"n{i}"), "no") for i in range(numbers)]
        placed = {name: _integers(table.column(name), "safe") for name in places}
        width = keys + numbers + len(placed)
        if any(len(a) != table.num_rows for a in (*arrays, *placed.values())) or table.num_columns != width:
            return None
        return cls.of(found, arrays, certificate, order, placed)

    @classmethod
    def of_numbers(
        cls, columns: Mapping[str, Integers], numbers: int, certificate: Certificate, order: Order | None
    ) -> Counts | None:
        """Seal numbers without keys, named as in `of_table`; None if they are not these, or one is NULL."""
        arrays = [columns.get(f"n{i}") for i in range(numbers)]
        made = [each for each in arrays if type(each) is np.ndarray and each.dtype == np.int64]
        if not len(made) == len(columns) == numbers or len({len(each) for each in made}) > 1:
            return None
        return cls.of(no_keys(len(made[0]) if made else 0), made, certificate, order)

    def take(self, wanted: Wanted) -> Counts:
        """Return those of the counts that another query would count, without counting again."""
        found: Exact | CountedLater = unseal(self)
        return seal(Counts(), found.take(wanted))

    def place_in_domain(self, domain: Domain, values: Values) -> Counts | None:
        """Return these counts as those of a large domain, of which only the groups with rows are listed.

        All other groups have counts of 0. The places of these counts are the numbers of each key's candidate
        in the domain; `values` returns candidates by their numbers. None: two are equal, or one is
        not in the domain.
        """
        found = exact(self)
        positions = _positions(domain, [found.places[name] for name in domain.columns])
        if positions is None:
            return None
        order = np.argsort(positions)
        positions = positions[order]
        if (np.diff(positions) == 0).any():
            return None
        n = tuple(each[order] for each in found.n)
        return seal(Counts(), Exact(found.keys, n, found.changes, None, {}, domain, positions, values))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Exact:
    """The keys and exact counts of groups, as they are sealed in `Counts`.

    Attributes
    ----------
    keys, n, order, places
        As in `Counts.of`. A position serves to find a key again, and for nothing else.
    changes
        How far one unit changes them.
    query
        The query that counts them all; None of a part of them.
    domain, positions, values
        Of counts of a large domain: the domain, the positions of the listed groups in it, ascending, and what
        returns keys. Keys are then those of any position.
    """

    keys: pa.Table
    n: tuple[Integers, ...]
    changes: UnitChanges
    order: Order | None
    places: dict[str, Integers] = field(default_factory=dict)
    domain: Domain | None = None
    positions: Integers | None = None
    values: Values | None = None
    query: Query | None = None

    @property
    def size(self) -> int:
        """How many groups are counted: private unless all of a public domain are."""
        return len(self.n[0]) if self.n else self.keys.num_rows

    def take(self, wanted: Wanted) -> Exact:
        """Return those of the counts that another query would count: numbers, groups, order and changes."""
        n = tuple(self.n[place][: wanted.limit] for place in wanted.numbers)
        return replace(self.take_groups(wanted), n=n)

    def take_groups(self, wanted: Wanted) -> Exact:
        """Return the groups that another query would count, without numbers."""
        return Exact(
            self.keys.slice(0, wanted.limit),
            (),
            changes_of(wanted.certificate, len(wanted.numbers)),
            _public(wanted.order, wanted.certificate),
            {name: self.places[name] for name in wanted.places},
            query=wanted.certificate.query,
        )

    def part(self, rows: Integers) -> Exact:
        """Return the keys and exact counts of the groups at some positions."""
        import pyarrow as pa  # noqa: PLC0415  loaded when rows are

        keys = pa.table([pick_rows(c, rows) for c in self.keys.columns], names=self.keys.column_names)
        places = {name: place[rows] for name, place in self.places.items()}
        return Exact(keys, tuple(n[rows] for n in self.n), self.changes, self.order, places)

    def slice(self, start: int, end: int) -> Exact:
        """Return the keys and exact counts of consecutive groups."""
        places = {name: place[start:end] for name, place in self.places.items()}
        n = tuple(each[start:end] for each in self.n)
        return Exact(self.keys.slice(start, end - start), n, self.changes, self.order, places)

    def _terms(self) -> list[Term]:
        if self.order is None:
            raise InternalError("these counts have no public order")
        return [
            (self.places[name] if name in self.places else self.keys.column(name), descending)
            for name, descending in self.order
        ]

    def in_order(self) -> Integers:
        """Return the positions of all groups in the public order; groups that are equal in it are refused.

        Without one, they are in the order of their keys, which are public where all groups are.
        """
        keys: list[Term] = [(column, False) for column in self.keys.columns]
        rows = sort_rows(self.size, keys if self.order is None else self._terms())
        if rows is None:
            raise InternalError("two groups have the same place")
        return rows

    def counts_in_order(self, place: int) -> tuple[Integers | None, OrderedCounts]:
        """Return one of the counts in the public order, and the positions of its groups.

        Of a large domain the positions are those of the domain: they are public, whatever is listed.
        """
        if self.positions is not None:
            return None, OrderedCounts(self.sparse(place))
        rows = self.in_public_order()
        return rows, OrderedCounts(self.n[place][rows])

    def in_public_order(self) -> Integers:
        """Return the positions of all groups in the public order; without one it is refused."""
        if self.order is None:
            raise InternalError("these counts have no public order")
        return self.in_order()

    def cells_in_order(self, *, public: bool) -> tuple[Integers, Integers]:
        """Return the positions of all rows by group, in the public order, and by cell, the first number.

        Return also where in that order each group begins. The cells of a group are private. If the groups are
        not `public`, they come by their keys, and that order says nothing.
        """
        terms = self._terms() if public else [(column, False) for column in self.keys.columns]
        return sort_cells(self.size, terms, self.n[0])

    def key_order(self, rows: Integers) -> Integers:
        """Return the order of the groups at some positions by their keys."""
        import pyarrow as pa  # noqa: PLC0415  loaded only where keys are sorted

        keys = self.keys_at(rows) if len(rows) > 1 else []
        found = [ranks(pa.chunked_array([column])) for column in keys]
        return np.asarray(np.lexsort(found[::-1]), dtype=np.int64) if found else np.arange(len(rows))

    def sparse(self, place: int) -> SparseCounts:
        """Return one of the counts of a large domain, whose groups have their positions as names."""
        if self.domain is None or self.positions is None:
            raise InternalError("these are no counts of a large domain")
        return SparseCounts(self.n[place], self.positions, self.domain.size)

    def at(self, place: int, rows: Integers) -> Integers:
        """Return one of the counts of the groups at some positions."""
        return self.n[place][rows] if self.domain is None else self.sparse(place).at(rows)

    def keys_at(self, rows: Integers, places: Sequence[int] | None = None) -> list[pa.Array]:
        """Return keys of the groups at some positions, or those at some `places` among all keys."""
        if self.domain is None:
            wanted = range(self.keys.num_columns) if places is None else places
            return [pick_rows(self.keys.column(f"k{i}"), rows) for i in wanted]
        if self.values is None:
            raise InternalError("a large domain has its keys")
        columns: dict[str, pa.ChunkedArray] = {}
        left = rows
        for part in reversed(self.domain.parts):
            left, place = np.divmod(left, part.size)
            place = part.size - 1 - place if part.descending else place
            keys = self.values(part, place)
            columns |= zip(keys.column_names, keys.columns, strict=True)
        return [as_one_array(columns[f"k{i}"]) for i in (range(len(columns)) if places is None else places)]


def changes_of(certificate: Certificate, numbers: int) -> UnitChanges:
    """Return what a certificate says of the first numbers of its query."""
    names = [f"n{i}" for i in range(numbers)]
    made = [
        None if change is None else NumberChange(change.low, change.high, change.total)
        for change in map(certificate.number, names)
    ]
    unknown, largest = certificate.keys is Keys.UNKNOWN, certificate.largest
    decides = certificate.decides if unknown else None
    if unknown and (decides not in names or (largest is not None and largest.column != decides)):
        raise InternalError("these groups are not decided by one of their numbers")
    return UnitChanges(
        tuple(made),
        public=not unknown,
        declared=certificate.keys in (Keys.ONE, Keys.DECLARED),
        decides=None if decides is None else names.index(decides),
        listed=None if largest is None else largest.most,
        groups=certificate.most_groups,
        grouped=certificate.grouped_by,
        one_row=certificate.most_groups == 1,
        one_cell=certificate.one_cell,
        every_group=certificate.every_group,
        cells=dict(certificate.cells).get("n0"),
        together=tuple(
            (frozenset(names.index(n) for n in found.columns if n in names), found.each, found.total)
            for found in certificate.together
        ),
        bounds=certificate.bounds,
        fine=certificate.fine,
        parts=certificate.parts,
    )


def _public(order: Order | None, certificate: Certificate) -> Order | None:
    """Return an order if no two groups are equal in it, whatever the rows are; the order of cells is none."""
    if order:
        cells = {name for name, _ in certificate.cells}
        if not certificate.ordered_by(frozenset({name for name, _ in order} | cells)):
            raise InternalError("two groups may have the same place")
    return order


class CountedLater(Protocol):
    """Groups of which some are not counted yet, as they are sealed in `Counts`."""

    groups: Exact
    """The groups, without numbers."""

    def complete(self) -> Exact:
        """Count what is not counted yet, and return the exact counts of all groups."""

    def at(self, place: int, rows: Integers) -> Integers:
        """Return the exact counts of one number for the groups at some positions, counted if need be."""

    def take(self, wanted: Wanted) -> CountedLater:
        """Return those of the counts that another query would count, without counting again."""


def exact(counts: Counts) -> Exact:
    """Open sealed counts, and return the exact counts of all groups: for the kernel alone."""
    found: Exact | CountedLater = unseal(counts)
    return found if isinstance(found, Exact) else found.complete()


def groups_of(counts: Counts) -> Exact:
    """Return the groups of counts, which have no numbers if they are not all counted."""
    found: Exact | CountedLater = unseal(counts)
    return found if isinstance(found, Exact) else found.groups


def numbers_at(counts: Counts, place: int, rows: Integers) -> Integers:
    """Return one of the counts of the groups at some positions, counted if need be."""
    found: Exact | CountedLater = unseal(counts)
    return found.at(place, rows)


@lru_cache(maxsize=4)
def no_keys(rows: int) -> pa.Table:
    """Return a table of a given number of rows without columns."""
    import pyarrow as pa  # noqa: PLC0415  loaded when rows are

    return pa.Table.from_arrays([pa.nulls(rows)], names=["n"]).select([])


def _integers(column: pa.ChunkedArray, casting: Literal["no", "safe"]) -> Integers:
    """Convert a BIGINT column without NULLs; `to_numpy` would import pandas where it is installed."""
    # DLPack shares the memory of each chunk, and raises if the chunk has a NULL.
    chunks = [np.from_dlpack(chunk) for chunk in column.chunks if len(chunk)]
    return np.concatenate(chunks, dtype=np.int64, casting=casting) if chunks else np.zeros(0, dtype=np.int64)


def _positions(domain: Domain, numbers: Sequence[Integers]) -> Integers | None:
    """Return the positions of groups by the numbers of their keys' candidates, the last least significant."""
    found = np.zeros(len(numbers[0]), dtype=np.int64)
    for part, number in zip(domain.parts, numbers, strict=True):
        place = number - part.first
        if len(place) and not 0 <= place.min() <= place.max() < part.size:
            return None
        found *= part.size
        found += part.size - 1 - place if part.descending else place
    return found
