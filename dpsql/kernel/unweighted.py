"""Faster texts of certified queries that weigh rows, where it is known how many rows units have.

A query that weighs rows groups those of each unit first: a unit that has more than C of them counts with C.
Where no unit of a table has more, nothing is weighed; where few have, only their rows have to be grouped.
How many rows units have, and which have many, is private. It is for speed alone, and so it is sealed: no text
that has it leaves this module, but to the engine that runs it.

*Claim:* a number that `UnweightedText.count` returns is that of the certified query. *Proof.* The text
differs from the query in one node, `Weighted`, whose parts are those of the lemma of `tree.bounding` on
listed units: a size of a unit is a number of its rows there. By the certificate, it has at most as many as in
the table `rows_of`. So a unit with a size beyond some C has more rows in the table than the least C: all
of these are listed, or there are none. A number that is `CUT` is not returned.

*The facts hold* for the rows of which they were counted, and a text could not notice others. So they have the
version of all files that the rows of the table, and their units, are read from: it was told before the rows
were counted, and again when the text was run. If both are equal, the rows were the same all the while; else
there is no number. An engine tells no version (None) where equal ones would not say that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpsql.kernel.facts import ByColumn, ByParent, Facts
from dpsql.kernel.faster import FEWEST, is_whole
from dpsql.kernel.sealed import Sealed, seal, unseal, without_frames
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    CappedRows,
    Column,
    Decided,
    Derived,
    IsNull,
    Item,
    Join,
    OfDomain,
    OnDomain,
    Query,
    Scan,
    Select,
    Source,
    Units,
    Weighted,
    duckdb_sql,
)
from dpsql.kernel.tree.bounding import OF_FEW_ROWS
from dpsql.kernel.tree.exact import whole
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

T = TypeVar("T", bound="pa.Table | dict[str, Any]")
Ask = Callable[[str], "pa.Table"]
Version = Callable[[], object]
"""Tells the version of a table, or None."""

LISTED = "§units"
"""The table of the units with many rows, for the text that reads it: names of declared tables are ASCII."""
MOST_LISTED = 1 << 20
"""How many units are listed at most."""
MOST_BYTES = 1 << 26
"""How many bytes they take at most."""
PART = 8
"""The units that are listed have at most this part of all rows: with more, the text is not faster."""


@dataclass(slots=True)
class _Known:
    """What is known of a table: of `numbers` units each has so many rows (`sizes`); and those with many."""

    version: object
    sizes: NDArray[np.int64]
    numbers: NDArray[np.int64]
    listed: tuple[int, pa.Table] | None = None
    """The units that have more than so many rows, with their number of rows."""

    @property
    def largest(self) -> int:
        """The most rows of a unit; 0 if there is none."""
        return int(self.sizes.max(initial=0))


class RowFacts(Sealed):
    """How many rows each unit of a table has; private, and of one version of the table."""

    __slots__ = ()

    @classmethod
    def count(cls, units: Query, ask: Ask, version: Version) -> RowFacts | None:
        """Count the rows of each unit (`units_of`); None if they may have changed meanwhile."""

        def work() -> RowFacts | None:
            before = version()
            if before is None:
                return None
            number, rows = Column("g", "n"), Derived(_rows_of_units(units), "g")
            listed = (Item(number, "n"), Item(Aggregate("COUNT"), "m"))
            found = ask(duckdb_sql(Select(listed, rows, group=(number,))))
            if version() != before:
                return None
            sizes, numbers = (column.to_numpy().astype(np.int64) for column in found.columns)
            return seal(cls(), _Known(before, sizes, numbers))

        return without_frames(work)

    @property
    def serves(self) -> bool:
        """Whether a table has so many rows that a faster text is worth while."""
        known: _Known = unseal(self)
        return int(known.sizes @ known.numbers) >= FEWEST


def units_of(facts: Facts, table: str) -> Query | None:
    """Return the unit of each row of a table that has one, as `u`; None if none is known."""
    return _units_of(facts, table, ())


def _units_of(facts: Facts, table: str, more: tuple[Item, ...]) -> Query | None:
    """Return the same, with more columns of the table `b`."""
    found = facts.table(table)
    match None if found is None else found.unit:
        case ByColumn(name):
            unit = Column("b", name, stored=True)
            return Select((Item(unit, "u"), *more), Scan(table, "b"), IsNull(unit, negated=True))
        case ByParent(name, parent, key):
            above = _units_of(facts, parent, (Item(Column("b", key, stored=True), "k"),))
            if above is None:
                return None
            least, value = Aggregate("MIN", (Column("a", "u"),)), Column("a", "k")
            owners = Select((Item(value, "k"), Item(least, "u")), Derived(above, "a"), group=(value,))
            same = Binary("=", Column("b", name, stored=True), Column("p", "k"))
            source = Join(Scan(table, "b"), "INNER", Derived(owners, "p"), same)
            return Select((Item(Column("p", "u"), "u"), *more), source)
    return None


def _rows_of_units(units: Query) -> Select:
    unit = Column("s", "u")
    return Select((Item(unit), Item(Aggregate("COUNT"), "n")), Derived(units, "s"), group=(unit,))


def rows_in_full(query: Query) -> int | None:
    """Return the number of rows up to which all numbers count a unit in full.

    None: some number depends on more than the number of a unit's rows, or rows may be others when they are
    read again.
    """
    node = _find_weighted(query)
    if node is None or node.by_rows or node.alone is None:
        return None
    if not all(isinstance(part, (*OF_FEW_ROWS, Units)) for part in node.parts):
        return None
    if any(isinstance(part, Units) and part.weighs for part in node.parts):  # it depends on a unit's groups
        return None
    if any(isinstance(part, CappedRows) and part.different for part in node.parts):
        return None
    return min((part.most for part in node.parts if isinstance(part, OF_FEW_ROWS)), default=None)


def _find_weighted(query: Query) -> Weighted | None:
    """Return the node that weighs the rows of all groups, or of those of a domain."""
    found = query.counts if isinstance(query, (OnDomain, OfDomain, Decided)) else query
    return found if isinstance(found, Weighted) else None


def unweighted(query: Query, listed: Source | None) -> Query | None:
    """Return the query that groups rows of listed units alone: `listed` has them as `u`, under the alias `l`.

    None as `listed`: no unit has more rows than `rows_in_full`. None: there is no such query.
    """
    node = _find_weighted(query)
    if node is None or rows_in_full(query) is None:
        return None
    made = node.weigh_listed(listed)
    return replace(query, counts=made) if isinstance(query, (OnDomain, OfDomain, Decided)) else made


class UnweightedText(Sealed):
    """A text that weighs the rows of few units, or of none, for the query of which it is made."""

    __slots__ = ()

    @classmethod
    def of(cls, query: Query, facts: RowFacts, units: Query, ask: Ask) -> UnweightedText | None:
        """Write the text; None if it would not be faster. The facts are those of `units`."""

        def write() -> UnweightedText | None:
            known: _Known = unseal(facts)
            most = rows_in_full(query)
            if most is None or not facts.serves:
                return None
            tables: dict[str, pa.Table] = {}
            if known.largest > most:
                listed = _list_units(known, most, units, ask)
                if listed is None:
                    return None
                tables[LISTED] = listed
            made = unweighted(query, Scan(LISTED, "l") if tables else None)
            return None if made is None else seal(cls(), (duckdb_sql(made), tables, known.version))

        return without_frames(write)

    def count(
        self, fetch: Callable[[str, Mapping[str, pa.Table]], T], numbers: int, version: Version
    ) -> T | None:
        """Return what an engine fetches of the text, with the tables that it reads beside the declared ones.

        None: the tables may have changed, or a number is NULL or `CUT`.
        """

        def work() -> T | None:
            sql, tables, before = unseal(self)
            found = fetch(sql, tables)
            same = version() == before
            return found if same and all(is_whole(found[f"n{i}"]) for i in range(numbers)) else None

        return without_frames(work)


def _list_units(known: _Known, most: int, units: Query, ask: Ask) -> pa.Table | None:
    """Return the units that have more rows than most, with their numbers; None if they are too many."""
    large = known.sizes > most
    above = int(known.numbers[large].sum())
    if (
        above > MOST_LISTED
        or PART * int(known.sizes[large] @ known.numbers[large]) > known.sizes @ known.numbers
    ):
        return None
    limit, listed = known.listed or (most + 1, None)
    if listed is None or most < limit:
        unit, number = Column("g", "u"), Column("g", "n")
        source, more = Derived(_rows_of_units(units), "g"), Binary(">", number, whole(most))
        listed = ask(duckdb_sql(Select((Item(unit), Item(number)), source, more)))
        if listed.nbytes > MOST_BYTES:
            return None
        known.listed = most, listed
    made = listed.take(np.flatnonzero(listed["n"].to_numpy() > most))
    return made if made.num_rows == above else None
