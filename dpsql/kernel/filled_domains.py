"""Counts over ranges of whole numbers and days: an engine has groups with rows, the others are filled in.

What a release rests on is the certified query, `OnDomain`, which joins its groups to all candidates. Where
the candidates of each key are a range, perhaps with NULL, the place of a group follows from its keys.

*Claim:* the counts that `FilledDomain.seal_counts` makes are those of the certified query. *Proof:* its text
has the query `counts` of `OnDomain`, and nothing else that is private. The certificate says that these are
groups, each there once, and that no two candidates are equal. The candidates of a range are the whole numbers
i with start <= i < stop, or the days origin + i, and NULL behind them if it is one. Each i is a value of the
key's type, so no conversion has made it NULL. A group is joined to the candidates that its keys equal: each
key to i where it is i, and to NULL where it is NULL if that is a candidate. So it is joined to the
combination at one place, the number with these digits, or to none, and then it is no row of the answer; WHERE
leaves it out. With `outside` the last key is true of the group of all rows whose keys are no candidates,
which is joined to the last row alone, and false of all others. A combination to which no group is joined has
numbers of 0, and so has each place that no group of the text has. Where the text has anything else (NULL as a
number, a place beyond the last), no counts are made: then the query itself is counted.

*Claim:* so it is with the rows of the query `by_place`. *Proof:* where the counts are of single rows, those
of `Weighted` whose keys are equal make a group. `by_place` has the same rows with the place of their
combination as the only key: equal for equal keys, and for these alone. Rows whose keys are no candidates are
left out; with `outside` they are those that `Marked` marks of these domains, and have the last place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from functools import partial, reduce
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.kernel.check.certificate import Certificate, Keys
from dpsql.kernel.counts import Counts, Order
from dpsql.kernel.sealed import without_frames
from dpsql.kernel.tree import (
    Between,
    Binary,
    Candidates,
    Case,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    Item,
    Marked,
    Not,
    OnDomain,
    Paren,
    Query,
    Range,
    Select,
    SetOperation,
    Unary,
    Weighted,
    columns,
    conjunction,
    duckdb_sql,
    items,
)
from dpsql.kernel.tree.exact import whole
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, DATE, INTEGER, SqlType

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Rows = Mapping[str, Any]
    """The columns of a text, as arrays that are masked where there is NULL."""

MOST = 10_000_000
"""How many groups a domain has at most: the numbers of all are held in memory."""
_EPOCH = date(1970, 1, 1)


class FilledDomain:
    """A certified query of a domain's groups, and the text that counts only the groups with rows."""

    def __init__(self, certificate: Certificate, node: OnDomain, parts: tuple[_Part, ...]) -> None:
        self._certificate, self._node, self._parts = certificate, node, parts
        self._text = ""

    @classmethod
    def of(cls, certificate: Certificate, other: OnDomain | None = None) -> FilledDomain | None:
        """Write the text for a certified query; None if a key has other candidates than a range.

        It may be for another query over the same groups, which has as many numbers.
        """
        node = other or certificate.query
        if not isinstance(node, OnDomain) or certificate.keys is not Keys.DECLARED:
            return None
        read = [_Part.of(each) for each in node.domains]
        parts = tuple(part for part in read if part is not None)
        if len(parts) < len(read) or [part.number for part in parts] != [*range(len(parts))]:
            return None
        return cls(certificate, node, parts) if prod(part.size for part in parts) <= MOST else None

    @property
    def size(self) -> int:
        """How many groups there are."""
        return prod(part.size for part in self._parts) + self._node.outside

    @property
    def text(self) -> str:
        """The text, in the engine's SQL."""
        self._text = self._text or self._write_text()
        return self._text

    def _write_text(self) -> str:
        node, place = self._node, self._place("g")
        if node.outside:
            place = Case(((Column("g", f"k{node.keys}"), whole(self.size - 1)),), place)
        shown = (Item(place, "k0"), *items("n", columns("g", "n", node.numbers)))
        return duckdb_sql(Select(shown, Derived(node.counts, "g"), self._there("g")))

    def _there(self, table: str) -> Expr | None:
        """Return whether keys are candidates; None with `outside`, where groups of other keys are left."""
        parts = () if self._node.outside else self._parts
        return conjunction(part.there(Column(table, f"k{part.number}")) for part in parts)

    def _place(self, table: str) -> Expr:
        """Return the place of keys that are candidates."""
        first, *more = ((part.size, part.digit(Column(table, f"k{part.number}"))) for part in self._parts)
        place = first[1]
        for size, digit in more:
            place = Binary("+", Paren(Binary("*", Paren(place), whole(size))), Paren(digit))
        return place

    @property
    def by_place(self) -> Weighted | None:
        """The query `counts` with the place of a group as its key; None if it is none of single rows."""
        node, key, there = self._node.counts, self._place("x"), self._there("x")
        if not isinstance(node, Weighted) or not node.by_rows:
            return None
        rows = node.rows
        if self._node.outside:
            if not isinstance(rows, Marked) or rows.domains != self._node.domains:
                return None
            rows, inside = rows.rows, (part.there(Column("x", f"k{part.number}")) for part in self._parts)
            key = Case(((reduce(partial(Binary, "AND"), inside), key),), whole(self.size - 1))
        shown = (Item(Column("x", "u")), Item(key, "k0"), *map(Item, columns("x", "f", node.fields)))
        return replace(node, rows=Select(shown, Derived(rows, "x"), there), keys=1)

    def seal_counts(self, rows: Rows, order: Order | None) -> Counts | None:
        """Seal the counts of all groups, given the rows of the text, or of one that has those of `by_place`.

        None if they are not as they must be.
        """
        return without_frames(lambda: self._seal_counts(rows, order))

    def _seal_counts(self, rows: Rows, order: Order | None) -> Counts | None:
        place, *numbers = (_int64(rows[n]) for n in ("k0", *(f"n{i}" for i in range(self._node.numbers))))
        known = [number for number in numbers if number is not None]
        if place is None or len(known) < len(numbers):
            return None
        if len(place) and not 0 <= place.min() <= place.max() < self.size:
            return None
        made: list[Integers] = []
        for number in known:
            every = np.zeros(self.size, dtype=np.int64)
            every[place] = number
            made.append(every)
        keys, places = self._candidates([part.size for part in self._parts])
        return Counts.of(keys, made, self._certificate, order, places)

    def _candidates(self, sizes: list[int]) -> tuple[pa.Table, dict[str, Integers]]:
        """Return the keys of all groups, by their places, and the query's columns of places."""
        import pyarrow as pa  # noqa: PLC0415  loaded when rows are

        found: dict[str, pa.ChunkedArray] = {}
        places: dict[str, Integers] = {}
        if self._node.outside:
            last = np.zeros(prod(sizes) + 1, dtype=np.int64)
            last[-1] = 1
            places[f"o{self._node.keys}"] = last
        for i, part in enumerate(self._parts):
            below, above = prod(sizes[i + 1 :]), prod(sizes[:i])
            digit = np.arange(part.size)
            digit = digit if len(sizes) == 1 else np.tile(np.repeat(digit, below), above)
            found[f"k{i}"] = pa.chunked_array(part.keys(digit, outside=self._node.outside))
            if self._node.places and part.ordered:
                place = digit + part.start
                if part.null is not None:
                    place[digit == part.size - 1] = part.null
                places[f"o{i}"] = np.append(place, 0) if self._node.outside else place
        return pa.table(found), places


@dataclass(frozen=True, slots=True)
class _Part:
    """The candidates of one key: the numbers from `start` to below `stop`, or days, and perhaps NULL."""

    number: int
    """The place of the key."""
    kind: SqlType
    start: int
    stop: int
    origin: date | None
    """The day that has the number 0; None: they are whole numbers."""
    nullable: bool
    null: int | None
    """The place of NULL in the order, if it is a candidate and they are ordered."""
    ordered: bool

    @classmethod
    def of(cls, each: Candidates) -> _Part | None:
        """Read the candidates of a key; None if they are no such range."""
        query, null, nullable = each.query, None, False
        match query:
            case SetOperation(Select(cells, Derived(values, "d")), "UNION ALL", Select(last)):
                made = Select(cells, Derived(values, "d")), Select(last)
                names = ["v", "o"] if each.ordered else ["v"]
                if (query.left, query.right) != made or [i.name for i in last] != names:
                    return None
                if [i.expr for i in cells] != [Column("d", name) for name in names]:
                    return None
                constants = [i.expr.value for i in last if isinstance(i.expr, Constant)]
                if len(constants) < len(last) or constants[0] is not None:
                    return None
                query, nullable = values, True
                if each.ordered:
                    null = int(str(constants[1]))
        found = _read_range(query)
        if found is None or len(each.keys) != 1 or nullable != each.null:
            return None
        kind, numbers, origin = found
        return cls(each.keys[0], kind, numbers.start, numbers.stop, origin, nullable, null, each.ordered)

    @property
    def size(self) -> int:
        """How many candidates for groups the part of the domain has."""
        return self.stop - self.start + self.nullable

    def there(self, key: Expr) -> Expr:
        """Return whether a key is one of the candidates."""
        inside = Between(key, self._value(self.start), self._value(self.stop - 1))
        return Paren(Binary("OR", inside, IsNull(key))) if self.nullable else inside

    def digit(self, key: Expr) -> Expr:
        """Return the place of a key that is one of the candidates."""
        found = Binary("-", key, self._value(self.start))
        return Case(((IsNull(key), whole(self.size - 1)),), found) if self.nullable else found

    def _value(self, number: int) -> Expr:
        if self.origin is None:
            return Cast(whole(number), BIGINT, safe=False)
        return Constant(date.fromordinal(self.origin.toordinal() + number), DATE)

    def keys(self, digits: Integers, *, outside: bool) -> list[pa.Array]:
        """Return the candidates at some places, and NULL for the rows that have none."""
        import pyarrow as pa  # noqa: PLC0415  loaded when rows are

        if outside:
            digits = np.append(digits, -1)
        values = digits + self.start
        if self.origin is not None:
            values += (self.origin - _EPOCH).days
        known = None
        if outside or self.nullable:
            there = (digits < self.stop - self.start) & (digits >= 0)
            known = pa.py_buffer(np.packbits(there, bitorder="little"))
        kind = pa.date32() if self.origin is not None else getattr(pa, _ARROW[self.kind.name])()
        width = kind.bit_width // 8
        stored = f"{'u' if self.kind.name[0] == 'U' else 'i'}{width}"
        data = pa.py_buffer(values.astype(stored, copy=False))
        return [pa.Array.from_buffers(kind, len(values), [known, data])]


_ARROW = {
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "UTINYINT": "uint8",
    "USMALLINT": "uint16",
    "UINTEGER": "uint32",
}


def _read_range(query: Query) -> tuple[SqlType, range, date | None] | None:
    """Return the type, the numbers and the day 0 of a range, all of whose numbers are values of the type."""
    match query:
        case Select((Item(Column("d", "v")), Item(Column("d", "o"))), Derived(rows, "d"), Expr() as where):
            whole_range = _read_range(rows) if query == Select(query.items, query.source, where) else None
            if whole_range is None:
                return None
            kind, numbers, origin = whole_range
            left = _restrict(numbers, where, origin)
            return None if left is None else (kind, left, origin)
        case Select(
            (Item(Cast(operand, kind) as value, "v"), Item(Column("", "i"), "o")), Range() as every, where
        ):
            plain = Select(query.items, every, where)
        case _:
            return None
    if query != plain or every != Range(every.start, every.stop) or every.start >= every.stop:
        return None
    if where is not None and where != IsNull(value, negated=True):
        return None
    i, numbers = Column("", "i"), range(every.start, every.stop)
    if operand == i and kind.name in _ARROW:
        low = -(2 ** (kind.bits - 1)) if kind.signed else 0
        fits = low <= numbers[0] and numbers[-1] < 2 ** (kind.bits - kind.signed)
        return (kind, numbers, None) if fits else None
    match operand:
        case Binary("+", Constant(date() as origin, day), Cast(inner, number)):
            if (inner, day, number, kind) != (i, DATE, INTEGER, DATE):
                return None
            days = origin.toordinal()
            fits = days + numbers[0] >= 1 and days + numbers[-1] <= _LAST_DAY
            return (kind, numbers, origin) if fits else None
    return None


def _restrict(numbers: range, where: Expr, origin: date | None) -> range | None:
    """Return the numbers of a range whose values fulfil a condition; None if it is another than on ends."""
    value, first, last = Column("d", "v"), numbers[0], numbers[-1]
    waiting = [where]
    while waiting:
        each = waiting.pop()
        match each:
            case Paren(inner):
                waiting.append(inner)
            case Binary("AND", left, right):
                waiting += [left, right]
            case Not(Paren(IsNull(operand, False)) | IsNull(operand, False)) if operand == value:
                pass
            case IsNull(operand, True) if operand == value:
                pass
            case Binary(">=" | ">" | "<=" | "<" as word, left, right) if left == value:
                end = _number_of(right, origin)
                if end is None:
                    return None
                end += {">": 1, "<": -1}.get(word, 0)
                first, last = (max(first, end), last) if word[0] == ">" else (first, min(last, end))
            case _:
                return None
    return range(first, last + 1) if first <= last else None


def _number_of(value: Expr, origin: date | None) -> int | None:
    """Return the number of a constant, of a day its number from the origin; None for another expression."""
    while isinstance(value, Paren):
        value = value.inner
    negative = isinstance(value, Unary) and value.operator == "-"
    if isinstance(value, Unary) and negative:
        value = value.operand
    if origin is None:
        if isinstance(value, Cast) and value.type.name in _ARROW:
            below, kind = _number_of(value.operand, None), value.type
            fits = below is not None and -(2**31) < below < 2**31 and kind.bits >= 32 and kind.signed
            return (-below if negative else below) if fits and below is not None else None
        found = value.value if isinstance(value, Constant) and type(value.value) is int else None
        return -found if negative and found is not None else found
    if isinstance(value, Cast) and value.type == DATE:
        value = value.operand
    day = value.value if isinstance(value, Constant) and not negative else None
    if isinstance(day, str):
        try:
            day = date.fromisoformat(day) if len(day) == _ISO else None
        except ValueError:
            return None
    return (day - origin).days if type(day) is date else None


_ISO = len("2024-02-29")
_LAST_DAY = date.max.toordinal()


def _int64(column: Any) -> Integers | None:  # noqa: ANN401  an array of the engine's
    return column if type(column) is np.ndarray and column.dtype == np.int64 else None
