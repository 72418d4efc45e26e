"""`[parts.KIND]`: the date or value by which units of a kind are in parts, each with the whole budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta

from dpsql.errors import with_article
from dpsql.kernel.facts import fold
from dpsql.kernel.unit_parts import EARLIER, EVERY, NO_PARTS, Calendar, Every, PartSet
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy.budget import BudgetPolicy
from dpsql.policy.names import key_path, suggest, wrong
from dpsql.policy.policy_keys import KEYS
from dpsql.policy.table import Table
from dpsql.policy.table_parts import UnitColumn, UnitRow
from dpsql.policy.toml_values import Section
from dpsql.types import BOOLEAN, DATE, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

_DAYS = lazy_pattern(r"([0-9]{1,4}) days?", re.ASCII)


@dataclass(frozen=True, slots=True)
class UnitPeriod(UnitColumn):
    """A unit is what the one that `column` names did in one period of the date in `date`, such as a week."""

    date: str = ""
    """The column with the date: a DATE, or a TIMESTAMP of UTC."""
    every: str = "week"
    """The length of a period: `day`, `week`, `month`, `quarter` or `year`."""
    until: str | bool = "now"
    """As in `[parts.KIND]`."""
    closed_after: str | None = None
    """As in `[parts.KIND]`."""

    @property
    def period(self) -> Every:
        """The length of one period."""
        return next(each for each in EVERY if each == self.every)


@dataclass(frozen=True, slots=True)
class UnitParts:
    """How units of a kind are divided into parts: by the period of a date, or a value, that each unit has."""

    kind: str
    """The kind of the unit."""
    table: str
    column: str
    """The table and its column with the date or value: each unit has one there, or none."""
    every: str | None = None
    """The length of a part: `day`, `week`, `month`, `quarter` or `year`. None: each value is a part, of a
    column of listed values, truth values or whole numbers."""
    constant: bool = False
    """Whether a unit may have several rows in the table, all with one value in the column, or NULL in all."""
    until: str | bool = "now"
    """`now`: statements that may read later parts read the table up to the present one. False: all rows."""
    moves: str = "refuse"
    """`refuse`: versions of the data are compared, and units that moved to another part are refused.
    `trusted`: they are not compared, the owner says that the date of a unit never changes."""
    closed_after: str | None = None
    """`14 days`: so long after its end, a part counts as one whose rows change no more. None: it never does.
    No guarantee depends on it."""

    def place(self, name: str = "") -> str:
        """Return the key path of the section, or of a key in it."""
        return key_path("parts", self.kind, *([name] if name else []))

    @property
    def period(self) -> Every:
        """The length of a part of units: a day, week, month, quarter or year."""
        return next(each for each in EVERY if each == self.every)

    @property
    def noun(self) -> str:
        """What the part of a unit is called: `week`, or `value of land`."""
        return self.every or f"value of {self.column}"

    @property
    def nouns(self) -> str:
        """What parts of units are called: `weeks`, or `values of land`."""
        return f"{self.every}s" if self.every else f"values of {self.column}"

    @property
    def reads_until_now(self) -> bool:
        """Whether statements that may read later parts read the table up to the present one."""
        return self.until == "now" and self.every is not None

    @property
    def days_until_closed(self) -> int | None:
        """How many days after its end a part counts as closed; None: it never does."""
        found = None if self.closed_after is None else _DAYS.fullmatch(self.closed_after)
        return None if found is None else int(found[1])

    def closed_parts(self, now: date) -> PartSet:
        """Return the parts that count as closed on a day: those of dates alone."""
        days = self.days_until_closed
        if days is None:
            return NO_PARTS
        return PartSet.of((EARLIER, Calendar(self.period).number(now - timedelta(days=days)) - 1))

    def check(self, tables: Mapping[str, Table], engine: str) -> None:
        """Raise `PolicyError` for a declaration that does not fit the tables."""
        self.check_words()
        if self.moves not in ("trusted", "refuse"):
            raise wrong(self.place("moves"), 'expected "refuse" or "trusted"')
        table = tables.get(self.table)
        if table is None:
            raise wrong(
                self.place("table"),
                f"there is no table {self.table!r}",
                suggest(self.table, tables, "tables"),
            )
        self._check_unit(table)
        self.check_column(table)
        if self.moves == "refuse" and (engine != "duckdb" or isinstance(table.unit, UnitRow)):
            why = "each row is a unit" if engine == "duckdb" else "the rows are on another engine than DuckDB"
            raise wrong(
                self.place("moves"),
                f"{why}: versions of the data are not compared, so nobody notices a unit whose date changes",
                'write moves = "trusted" if the date of a unit never changes: what was asked of its old part'
                " would not count in the new one",
            )

    def check_words(self) -> None:
        """Raise `PolicyError` for words that are none of those that a key takes."""
        if self.every is not None and self.every not in EVERY:
            raise wrong(self.place("every"), f"{self.every[:40]!r} is no period", "write " + ", ".join(EVERY))
        if self.every is None and (self.closed_after is not None or self.until != "now"):
            name = "until" if self.closed_after is None else "closed_after"
            raise wrong(self.place(name), "is of parts by dates", 'leave it out, or write every = "week"')
        if self.until not in ("now", False):
            raise wrong(self.place("until"), 'expected "now" or false')
        if self.closed_after is not None and self.days_until_closed is None:
            raise wrong(self.place("closed_after"), "expected a number of days", 'write "14 days"')

    def _check_unit(self, table: Table) -> None:
        unit = table.unit
        if unit is None:
            raise wrong(self.place("table"), f"{table.name} is public: its rows belong to no {self.kind}")
        if not isinstance(unit, UnitColumn | UnitRow):
            raise wrong(
                self.place("table"),
                f"rows of {table.name} find their {self.kind} through another table",
                "name a table that has the unit in a column of its own",
            )
        if unit.kind != self.kind:
            raise wrong(
                self.place(),
                f"the unit of {table.name} is {unit.kind!r}",
                f'write [parts.{unit.kind}], or unit_kind = "{self.kind}" in [tables.{table.name}]',
            )
        one = isinstance(unit, UnitRow) or any(
            len(names) == 1 and fold(names[0]) == fold(unit.column) for names in table.unique
        )
        if not one and not self.constant:
            assert isinstance(unit, UnitColumn)  # noqa: S101  each row is a unit otherwise
            raise wrong(
                self.place("table"),
                f"{with_article(self.kind)} of {table.name} may have several {self.nouns}"
                if self.every is None
                else f"{with_article(self.kind)} of {table.name} may be in several {self.every}s",
                f'write unique = [["{unit.column}"]] in [{table.place()}] if each {self.kind} has one row,'
                f" constant = true in [{self.place()}] if all rows of {with_article(self.kind)} have one"
                f" {'date' if self.every else 'value'}, or"
                f" name a table with one row for each {self.kind}",
            )
        if table.trust_source:
            raise wrong(
                table.place("trust_source"),
                f"this table tells the {self.noun} of each {self.kind}, so its rows are verified",
                "leave it out",
            )

    def check_column(self, table: Table) -> None:
        """Raise `PolicyError` unless the column has what divides units, as far as is known."""
        if any(fold(name) == fold(self.column) for name in table.zone):
            raise wrong(
                self.place("column"),
                f"{self.column} has a time zone, and parts are periods of UTC",
                "name a column without one: a DATE, or a TIMESTAMP of UTC",
            )
        if table.columns is not None:
            kinds = {fold(name): kind for name, kind in table.columns.items()}
            self.check_type(kinds.get(fold(self.column)), table)

    def check_type(self, kind: SqlType | None, table: Table) -> None:
        """Raise `PolicyError` unless the column is there and has dates, or values that are known."""
        if kind is None:
            raise wrong(self.place("column"), f"{table.name} has no column {self.column!r}")
        dates = kind in (DATE, TIMESTAMP, TIMESTAMPTZ)
        if dates and self.every is None:
            raise wrong(self.place("every"), f"{self.column} is {kind}", 'write every = "week"')
        if dates or (self.every is None and (kind == BOOLEAN or kind.integer)):
            return
        if self.every is not None:
            raise wrong(
                self.place("column"),
                f"{self.column} is {kind}: parts are periods of a DATE or a TIMESTAMP",
                "leave every out if each value is a part"
                if kind in (VARCHAR, BOOLEAN) or kind.integer
                else "",
            )
        if kind != VARCHAR:
            raise wrong(
                self.place("column"),
                f"{self.column} is {kind}: parts are periods, or values of VARCHAR, BOOLEAN or integers",
                f'write {self.column} = "VARCHAR" in [{table.place("columns")}], which lists all columns that'
                " statements may name: its values are then compared as texts"
                if kind.name == "ENUM"
                else "",
            )
        if not any(fold(name) == fold(self.column) for name in table.domain):
            raise wrong(
                self.place("column"),
                f"the values of {self.column} are not listed",
                f'write {self.column} = ["..", ".."] in [{table.place("domain")}]: each value is a part',
            )


@dataclass(frozen=True, slots=True)
class UnitPeriods(UnitParts):
    """Parts that are the periods of units: `unit_period` of one table of the kind, or of several."""

    others: tuple[tuple[str, str], ...] = ()
    """The further tables with their columns."""

    def place(self, name: str = "") -> str:
        """Return the key path of the table's `unit_period`, or of a key in it."""
        return key_path("tables", self.table, "unit_period", *([name] if name else []))

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """All tables with periods, and the column of the date of each."""
        return ((self.table, self.column), *self.others)


def find_periods(tables: Mapping[str, Table]) -> UnitPeriods | None:
    """Return what the tables declare of the periods of units; None if no table has `unit_period`."""
    found = [(table, table.unit) for table in tables.values() if isinstance(table.unit, UnitPeriod)]
    if not found:
        return None
    (table, unit), *others = found
    return UnitPeriods(
        unit.kind,
        table.name,
        unit.date,
        unit.every,
        until=unit.until,
        moves="trusted",
        closed_after=unit.closed_after,
        others=tuple((other.name, of.date) for other, of in others),
    )


def check_periods(tables: Mapping[str, Table], parts: Mapping[str, UnitParts]) -> None:
    """Raise `PolicyError` unless the tables with periods are of one kind, and their periods of one length."""
    first = find_periods(tables)
    for table in tables.values():
        unit = table.unit
        if not isinstance(unit, UnitPeriod) or first is None:
            continue
        own = find_periods({table.name: table})
        assert own is not None  # noqa: S101  the table has periods
        own.check_words()
        own.check_column(table)
        if parts:
            raise wrong(
                own.place(),
                f"[parts.{next(iter(parts))}] divides units as well",
                "leave one of both: a kind of unit has parts or periods",
            )
        if unit.kind != first.kind:
            raise wrong(own.place(), f"{first.table} has periods of another kind", "leave one of both")
        for name in ("every", "until", "closed_after"):
            if getattr(own, name) != getattr(first, name):
                raise wrong(own.place(name), f"is another one in {first.table}", "write the same in both")
        if table.trust_source:
            raise wrong(
                table.place("trust_source"),
                f"{unit.date} tells the unit of each row, so the rows are verified",
                "leave it out",
            )


def read_parts(top: Section) -> dict[str, UnitParts]:
    """Read `[parts]`: of each kind of units the date that divides them."""
    found = {}
    for kind, raw in (top.optional("parts", dict) or {}).items():
        section = Section(raw, ("parts", kind), KEYS["[parts.KIND]"])
        for name, example in (("table", "signups"), ("column", "signed_up")):
            section.require(name, f'write {name} = "{example}"')
        found[kind] = UnitParts(kind, **section.values())
    return found


def check_parts(
    parts: Mapping[str, UnitParts], tables: Mapping[str, Table], budget: BudgetPolicy, engine: str
) -> None:
    """Raise `PolicyError` unless the declarations fit the tables and the budget."""
    for kind, each in parts.items():
        if kind != each.kind:
            raise wrong(key_path("parts", kind), f"holds the parts of {each.kind!r}")
        each.check(tables, engine)
    if len(parts) > 1:
        raise wrong(
            "parts", "one kind of unit has parts", "leave one section: the other kinds are charged whole"
        )
    check_periods(tables, parts)
    if budget.person is not None and find_periods(tables) is None:
        raise wrong(
            "budget.person", "no table has units of one period each", "write unit_period, or leave it out"
        )
    if budget.renewal is not None and (parts or find_periods(tables)):
        kind = "[parts]" if parts else "unit_period"
        raise wrong(
            "budget.renewal",
            f"does not go with {kind}: new parts of units have a budget of their own for ever",
            "leave one of both",
        )
    if (parts or find_periods(tables)) and budget.epsilon > MOST_EPSILON:
        raise wrong("budget.epsilon", f"is above {MOST_EPSILON:,}, more than is added up by parts")
    if budget.person is not None and budget.person.epsilon > MOST_EPSILON:
        raise wrong("budget.person.epsilon", f"is above {MOST_EPSILON:,}, more than is added up by years")


MOST_EPSILON = 1000
"""Amounts of parts are whole numbers of 64 bits in the ledger."""
