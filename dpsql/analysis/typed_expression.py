"""Compiled expressions with their types, and public domains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import isfinite

from dpsql.kernel.tree import (
    Aggregate,
    Call,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    Item,
    Paren,
    Query,
    Range,
    Select,
    Window,
    duckdb_sql,
    facts,
    guarded,
    total,
)
from dpsql.kernel.unit_parts import EVERY
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Assumed
from dpsql.policy.zones import Steps
from dpsql.types import BOOLEAN, DATE, NULL, SqlType

UNSTORABLE = frozenset({"INTERVAL", "JSON", "HUGEINT", "LIST", "STRUCT"})
"""Types whose values are no group keys and not told apart: equal ones may differ, or are no column."""


class UnitRole(Enum):
    """Whether a visible column holds the privacy unit, by its provenance, not its name."""

    NONE = "none"
    """It does not."""
    EXACT = "exact"
    """It holds the unit of the row."""
    NULLABLE = "nullable"
    """It holds the unit of the row or NULL, after an outer join."""
    PARTIAL = "partial"
    """It holds the unit of some rows and other values of the others, after UNION."""
    PERSON = "person"
    """It holds whose row it is, where a unit is what one did in one period."""
    PERIOD = "the period"
    """It holds the period of the unit: the date cut to it."""
    LONGER = "a longer period"
    """It holds a longer period, in which that of the unit lies."""
    IN_DAY = "day"
    """It holds a date in the period of the unit, here a day."""
    IN_WEEK = "week"
    IN_MONTH = "month"
    IN_QUARTER = "quarter"
    IN_YEAR = "year"

    @property
    def held(self) -> bool:
        """Whether the expression holds the unit of the row, or NULL."""
        return self in (UnitRole.EXACT, UnitRole.NULLABLE)

    @property
    def names_units(self) -> bool:
        """Whether the values of the expression name units, or owners of units."""
        return self.held or self in (UnitRole.PARTIAL, UnitRole.PERSON)

    @property
    def every(self) -> str:
        """The length of the unit's period in which a date lies; empty: it holds no such date."""
        return self.value if self.value in EVERY else ""

    @property
    def fixed(self) -> bool:
        """Whether the expression's kind alone gives it one value for each unit."""
        return self in (UnitRole.EXACT, UnitRole.PERSON, UnitRole.PERIOD, UnitRole.LONGER)

    def beside_nulls(self) -> UnitRole:
        """Return the role of the column where an outer join may put NULL in its place."""
        if self is UnitRole.EXACT:
            return UnitRole.NULLABLE
        if self is UnitRole.PERSON:
            return UnitRole.PARTIAL
        return self if self.held or self is UnitRole.PARTIAL else UnitRole.NONE


@dataclass(frozen=True, slots=True)
class KeyDomain:
    """A public domain: a query for the values that a group key may take.

    `query` has the value in column `v` (distinct) and, when `ordered`, its place in the domain's own order in
    column `o`. It lists NULL only if `null` is set.
    """

    query: Query
    ordered: bool = False
    origin: str = ""
    """The origin of the values, in words, for EXPLAIN."""
    null: bool = False
    """Whether NULL may be among the values: rows are then matched with them so that NULL meets NULL."""
    complete: bool = False
    """Whether no row that counts has another value, beside NULL if it is not among them."""
    clear: bool = False
    """Whether groups are shown only if they have rows for sure: most values have none (`count_keys`)."""

    @property
    def sql(self) -> str:
        """DuckDB's text of the query."""
        return duckdb_sql(self.query)

    @property
    def cells(self) -> tuple[Item, ...]:
        """The columns of the query, named as columns of an item of FROM with the alias `d`."""
        return tuple(Item(Column("d", name)) for name in ("v", "o")[: 1 + self.ordered])

    def without_null(self) -> KeyDomain:
        """Return the values that are not NULL."""
        if not self.null:
            return self
        there = IsNull(Column("d", "v"), negated=True)
        return replace(self, query=Select(self.cells, Derived(self.query, "d"), there), null=False)


_MICROSECONDS = {"day": 86_400_000_000, "hour": 3_600_000_000, "15 minutes": 900_000_000}
_MICROSECONDS |= {"minute": 60_000_000, "second": 1_000_000}
GRAINS = tuple(_MICROSECONDS)
"""The grains of time from the coarsest to the finest; each is a multiple of the next."""

MAX_LISTED = 1_000_000
"""The largest number of values that a computed list has."""


@dataclass(frozen=True, slots=True)
class Span:
    """A public range of a column that is too long for a list of its values: of moments, or of integers.

    Of a TIMESTAMP or TIMESTAMPTZ it is from the first to the last one, in microseconds since 1970. `origin`
    is the text for EXPLAIN.
    """

    first: int
    last: int
    origin: str = ""
    complete: bool = False
    """Whether no row that counts lies outside."""

    @classmethod
    def of_days(cls, first: date, last: date, origin: str = "") -> Span:
        """Return the range from the start of one day to the last instant of another."""
        day, epoch = _MICROSECONDS["day"], date(1970, 1, 1)
        return cls((first - epoch).days * day, ((last - epoch).days + 1) * day - 1, origin)

    def within(self, first: int | None, last: int | None) -> Span:
        """Return the part of the range between two instants; None stands for no limit."""
        return replace(
            self,
            first=self.first if first is None else max(first, self.first),
            last=self.last if last is None else min(last, self.last),
            complete=self.complete
            or (first is not None and last is not None and first >= self.first and last <= self.last),
        )

    def integers(self, sql_type: SqlType) -> KeyDomain:
        """Return all integers of the range, as values of a type."""
        i = Column("", "i")
        every = Range(self.first, max(self.first, self.last + 1))
        query = Select((Item(Cast(i, sql_type), "v"), Item(i, "o")), every)
        return KeyDomain(query, ordered=True, origin=self.origin, complete=self.complete)

    def grid(self, grain: str) -> KeyDomain | None:
        """Return the starts of all days, hours, minutes or seconds; None for more than `MAX_LISTED`."""
        step = _MICROSECONDS[grain]
        start, stop = self.first // step, self.last // step + 1
        if stop - start > MAX_LISTED:
            return None
        i, step = Column("", "i"), step // 1000
        items = (Item(Call("epoch_ms", (i,)), "v"), Item(i, "o"))
        every = Range(start * step, max(start, stop) * step, step)
        return KeyDomain(Select(items, every), ordered=True, origin=self.origin, complete=self.complete)


def join_spans(spans: Collection[Span | None]) -> Span | None:
    """Return the range that has all of some ranges; None if one is not known, or if there is none."""
    known = [each for each in spans if each is not None]
    if not known or len(known) < len(spans):
        return None
    origin = " and ".join(dict.fromkeys(each.origin for each in known))
    ends = min(each.first for each in known), max(each.last for each in known)
    return Span(*ends, origin, all(each.complete for each in known))


@dataclass(frozen=True, slots=True)
class Bounds:
    """A public interval to which an aggregate cuts the values of an expression.

    It is a cut and no fact: values may lie outside, and NULL, NaN and infinity may occur. Wrong bounds cost
    accuracy, never privacy. Dates are days since 1970, timestamps microseconds.
    """

    low: Fraction
    high: Fraction
    """At least `low`."""
    origin: str = ""
    """The origin of the ends, in words, for EXPLAIN; "" if the statement alone says them."""
    step: Fraction | None = None
    """The distance of the values to which a DOUBLE is rounded, if the policy declares it for the column."""
    loose: bool = False
    """Whether they are those of a product or quotient of several columns, which values seldom come near."""

    @property
    def declared(self) -> bool:
        """Whether the policy declares the bounds, or one of them, so that values may lie outside."""
        return "the declared " in self.origin


TRUTH = Bounds(Fraction(0), Fraction(1))
"""The bounds of BOOLEAN values as numbers."""


TEXTS_OF_TIMES = "texts of times"
"""The origin of the texts that a time can have, whatever its year."""


def count_seconds(grain: str) -> int:
    """Return the seconds of a grain of time."""
    return _MICROSECONDS[grain] // 1_000_000


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A moment AT TIME ZONE: the moment, and what it is moved by.

    `grain` is that of the offsets and of their changes: of a column, what depends on the result at a grain
    depends on the column at the finer one of both.
    """

    of: Typed
    steps: Steps
    grain: str
    note: Assumed | None = None
    """The note that days of a change are longer or shorter."""


@dataclass(frozen=True, slots=True)
class Literal:
    """The Python value of a constant that the analyst typed."""

    value: object


@dataclass(frozen=True, slots=True)
class Typed:
    """A compiled expression: a node over generated names, with its type and what the rules know of it."""

    node: Expr
    type: SqlType
    literal: Literal | None = None
    unit: UnitRole = UnitRole.NONE
    link: str = ""
    """The unique column that this column is or refers to, or "". Equal values of it belong to one unit."""
    fact: bool = False
    """Whether it is a column of FROM with one value for each unit in the rows (see `row_conditions`)."""
    borrowed: bool = False
    """Whether it is a column with the name of the unit in a parent table: any other column goes before it."""
    domain: KeyDomain | None = None
    span: Span | None = None
    """The public range of a TIMESTAMP column, or of a column of integers whose range is too long for a list.

    It is of the column itself. `add_domain` also says it of what chooses one of several columns."""
    grains: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The grain for each TIMESTAMP column on which the value depends at that grain only."""
    bounds: Bounds | None = None
    """The public interval to which an aggregate cuts the values; None: nobody said one."""
    nulls: bool = True
    """Of a column: whether it can be NULL, beside a NULL that its domain lists.

    Of other expressions `facts_of_values.never_null` decides it."""
    not_negative: bool = False
    """Of a column: whether no row that has a unit has a value below 0 in it.

    Of other expressions `facts_of_values.never_negative` decides it. No guarantee depends on it."""
    zoned: LocalTime | None = None
    """What is known of a moment AT TIME ZONE; None for every other expression."""
    clock: bool = False
    """Whether it is the current time, or made of it: a time of UTC."""
    notes: tuple[Assumed, ...] = ()
    """What is to be shown with the answer because the expression was made."""
    digits: int | None = None
    """The most digits of a BIGINT that is computed of integers of other types; None: nothing tells."""
    decimal: bool = False
    """Whether it is a DOUBLE that SQL computes as a DECIMAL of more than 18 digits."""
    most: int | None = None
    """The greatest number of a unit's rows by the policy, if the value is a number of them; else None."""
    name: str = ""
    """The visible name of a column of a relation."""

    @property
    def sql(self) -> str:
        """DuckDB's text of the node, without the TRY around what could fail."""
        return duckdb_sql(self.node)

    @property
    def guarded_node(self) -> Expr:
        """The node for a query, in which every part that could fail on a row is inside TRY."""
        return guarded(self.node)

    @property
    def reads(self) -> frozenset[str]:
        """The generated columns that the expression depends on (`t1.c0`), and `OPAQUE`."""
        return facts(self.node).reads

    @property
    def size(self) -> int:
        """The number of nodes of the expression, which is limited since forms may repeat an argument."""
        return facts(self.node).size

    @property
    def text(self) -> str | None:
        """The value of a text constant; None for every other expression."""
        return (
            self.literal.value if self.literal is not None and isinstance(self.literal.value, str) else None
        )

    @property
    def is_column(self) -> bool:
        """Whether the expression is a column, so that its value is stored, not computed."""
        return isinstance(self.node, Column)

    @property
    def groups_units(self) -> bool:
        """Whether each group by the expression belongs to one unit: it is the unit, or a unique key.

        A key with public values is none: its groups may be released. The hidden unit is a key beside it.
        """
        return self.unit is UnitRole.EXACT or (bool(self.link) and self.domain is None)

    @property
    def owned_key(self) -> str:
        """The unique column of which the expression, over the rows of one unit, is one value; or "".

        The least or the next number of an order is that of an order, and of the same unit.
        """
        return self.link if _is_one_of(self.node) else ""

    @property
    def is_period(self) -> bool:
        """Whether the expression holds the period of the unit."""
        return self.unit is UnitRole.PERIOD or (self.unit is UnitRole.IN_DAY and self.type == DATE)

    @property
    def lists_null(self) -> bool:
        """Whether NULL may be among the public values of a column."""
        return self.domain is not None and self.domain.null

    def column_span(self) -> Span | None:
        """Return the public range of the values if the expression is a column; else None."""
        return self.span if self.is_column else None

    @property
    def is_total(self) -> bool:
        """Whether the expression fails on no row, apart from parts inside TRY."""
        return total(self.node)

    def guard(self) -> Typed:
        """Return the expression with its guarded node, for the argument of an aggregate or window."""
        return replace(self, node=self.guarded_node)

    def with_unit(self, role: UnitRole) -> Typed:
        """Return the expression with another unit role."""
        return replace(self, unit=role)


_CHOOSING = frozenset(
    {"MIN", "MAX", "FIRST", "LAST", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"}
)
"""Aggregates and window functions of which the result is a value of their first argument, or NULL."""


def _is_one_of(node: Expr) -> bool:
    """Return whether an expression is a column, or chooses one of the values that it has in several rows."""
    match node:
        case Paren(inner) | Window(inner):
            return _is_one_of(inner)
        case Aggregate() | Call():
            return node.name in _CHOOSING and bool(node.arguments) and _is_one_of(node.arguments[0])
    return isinstance(node, Column)


def tells_units(values: Iterable[Typed]) -> bool:
    """Return whether values tell which unit each row is of: they hold it, or its person and its period."""
    listed = list(values)
    exact = any(value.unit is UnitRole.EXACT for value in listed)
    return exact or (any(v.unit is UnitRole.PERSON for v in listed) and any(v.is_period for v in listed))


def join_notes(parts: Iterable[Typed]) -> tuple[Assumed, ...]:
    """Return the notes of several expressions, each once."""
    found = [note for part in parts if part.notes for note in part.notes]
    return tuple(dict.fromkeys(found)) if found else ()


def make_constant(value: object, sql_type: SqlType) -> Typed:
    """Return a constant that the analyst typed."""
    return Typed(
        Constant(value, sql_type), sql_type, literal=Literal(value), bounds=bounds_of_constant(value)
    )


def read_truth(value: Typed, other: SqlType) -> Typed:
    """Return a constant 1 or 0 that is compared with a BOOLEAN as TRUE or FALSE, other values as they are."""
    if (
        other != BOOLEAN
        or value.literal is None
        or not value.type.integer
        or value.literal.value not in (0, 1)
    ):
        return value
    return make_constant(value.literal.value == 1, BOOLEAN)


def bounds_of_constant(value: object) -> Bounds | None:
    """Return the bounds of a constant: the number itself, a DOUBLE as its shortest decimal.

    None if it is NaN, infinite or no number.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)) or not isfinite(value):
        return None
    number = Fraction(value if isinstance(value, int) else str(value))
    return Bounds(number, number)


UNKNOWN = Typed(Constant(None, NULL), NULL)
"""What stands for an expression until it is compiled; it fits everywhere."""


def make_column(table: str, name: str, sql_type: SqlType) -> Typed:
    """Return a column of an item of FROM, by its generated names."""
    return Typed(Column(table, name), sql_type)
