"""What kept ladders say, and of which measures one could be asked: all from releases, names and types.

All of it may be shown to anybody: of the data it is decided alone whether they are those of a ladder.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.analysis.bound_ladders import ROWS, columns_of, subject_of_measure, total_of
from dpsql.analysis.groups_of_units import MANY_GROUPS
from dpsql.analysis.table_measures import compile_group_measure
from dpsql.errors import ProgrammingError, with_article
from dpsql.estimates import KeptLadder, count_offset, decimal, figure, plural
from dpsql.estimates.noise_quantiles import NoiseTerm, quantiles
from dpsql.kernel.mechanisms.ladder import thresholds
from dpsql.lazy_dataclass import dataclass
from dpsql.owner.ladder_releases import LADDER_SHARE, has_one_row
from dpsql.owner.units import is_key_name
from dpsql.policy import UnitColumn, UnitRow, UnitVia, fold
from dpsql.release.kept_ladders import kept_at, known_versions, read_ladders, shows_changes, version_of

if TYPE_CHECKING:
    from datetime import datetime

    from dpsql.database import Database
    from dpsql.policy import Policy, Table

CURRENT, OLDER, UNKNOWN, OTHER = "these data", "older data", "any data", "other units"
"""Of what a ladder is: of the data as they are, of other data, of data whose changes do not show, or of units
that the policy no longer declares so."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A noisy number of units whose measure lies in a range."""

    text: str
    """The range in words."""
    above: Fraction
    to: Fraction | None
    """The measure is more than the one and at most the other; None: there is no upper end."""
    units: int
    half_width: float
    """Their noisy number, and how far the noise may have moved it, at 95%."""


@dataclass(frozen=True, slots=True)
class KeptBound:
    """A kept ladder in the unit of its measure, and the bound that a statement over the whole table uses."""

    ladder: KeptLadder
    unit: str
    """What a unit is."""
    of: str
    """One of `CURRENT`, `OLDER`, `UNKNOWN`, `OTHER`."""
    epsilon: Fraction
    """That of the statement."""
    groups: int = 1
    """Into how many groups the statement divides the rows, for a bound on groups; 1: none."""
    declared: bool = True
    """Whether the values of these groups are declared; of others it is not known what is left out."""

    @property
    def name(self) -> str:
        """The name by which the owner asks for the ladder: `TABLE`, `TABLE.COLUMN`, or `TABLE by COLUMN`."""
        return name_of(self.ladder.table, self.ladder.measure)

    @property
    def counts_rows(self) -> bool:
        """Whether rows or groups are measured, not the total of a column."""
        return not self.ladder.measure.startswith(total_of(""))

    @property
    def measured(self) -> str:
        """What the ladder measures of each unit: `rows`, `groups`, or the column whose total it is."""
        return subject_of_measure(self.ladder.measure)

    @property
    def one_unit(self) -> str:
        """The word for a unit, with its article."""
        return with_article(self.unit)

    @property
    def units(self) -> str:
        """The word for several units."""
        return plural(self.unit)

    @property
    def made(self) -> datetime:
        """When the ladder was measured."""
        return self.ladder.made

    @property
    def bound(self) -> Fraction:
        """How much of a unit the statement counts at most."""
        return self._bound * self.ladder.step

    @property
    def left_out(self) -> tuple[float, float] | None:
        """The total of units beyond the bound: an estimate and an upper limit; None if no answer knows it."""
        if self.of != CURRENT or not self.declared:
            return None
        return self.ladder.cut(self._bound), self.ladder.most_cut(self._bound)

    @property
    def largest(self) -> Fraction:
        """The amount that no unit exceeds, as intervals take for granted."""
        return 2 * self.ladder.most * self.ladder.step

    @property
    def number_of_units(self) -> int:
        """About how many units have anything."""
        return max(0, sum(self.ladder.bins))

    @property
    def total(self) -> float:
        """About how much all units have together."""
        return self.ladder.total

    @property
    def _bound(self) -> int:
        return self.ladder.choose_bound(self.epsilon, groups=self.groups, even=self.groups > 1)

    def bins(self, *, joined: bool = False) -> list[Bin]:
        """Return the bins; `joined` makes one of the first ones, as far as they cannot be told from empty."""
        ladder = self.ladder
        ends = (0, *thresholds(ladder.most))
        width = count_offset(float(2 / ladder.epsilon), resolution=0)
        first = 0
        while joined and first < len(ladder.bins) - 2 and abs(ladder.bins[first]) <= width:
            first += 1
        found = [
            self._bin(ends[i], ends[i + 1] if i + 1 < len(ends) else None, number, width)
            for i, number in enumerate(ladder.bins)
            if i >= first or first < 2
        ]
        if first < 2:
            return found
        term = NoiseTerm(True, float(2 / ladder.epsilon), first)
        several = self._bin(0, ends[first], sum(ladder.bins[:first]), quantiles((term,), 0.025)[1])
        return [several, *found]

    def _bin(self, above: int, to: int | None, units: int, width: float) -> Bin:
        step = self.ladder.step
        if to is None:
            text = f"above {amount(above * step)}"
        elif above == 0 and to > 1:
            text = f"up to {amount(to * step)}"
        else:
            first, last = amount((above + 1) * step), amount(to * step)
            text = last if first == last else f"{first} to {last}"
        return Bin(text, above * step, None if to is None else to * step, units, width)


def name_of(table: str, measure: str) -> str:
    """Return the name by which a ladder of a measure is asked."""
    if columns_of(measure):
        return f"{table} {measure.removeprefix('groups ')}"
    return table if measure == ROWS else f"{table}.{measure.removeprefix(total_of(''))}"


def amount(value: Fraction | float) -> str:
    """Write an amount of a measure: a bound as it is, an estimate by its first digits.

    >>> amount(Fraction(524288, 100)), amount(11903.9)
    ('5,242.88', '11,904')
    """
    return decimal(value) if isinstance(value, Fraction) else figure(value)


def list_kept(database: Database) -> list[KeptBound]:
    """Return the newest kept ladder of each measure, by table and measure."""
    ladders = read_ladders(database.ledger.ladders())
    newest = {(each.table, each.measure): each for each in ladders}
    return [describe_ladder(database, newest[name]) for name in sorted(newest, key=_sort_key)]


def describe_ladder(database: Database, ladder: KeptLadder) -> KeptBound:
    """Return what a ladder says of a statement with the policy's default epsilon, or with the ladder's."""
    table = database.policy.table(ladder.table)
    unit = "unit" if table is None else _kind_of_measure(table)
    epsilon = database.policy.budget.default_epsilon or ladder.epsilon
    of, measure = _find_state(database, ladder, table), None
    if columns_of(ladder.measure) and of != OTHER and table is not None:
        catalog = database.engines().schema_database
        with suppress(ProgrammingError):  # a column is none of the table any more
            measure = compile_group_measure(database.policy, catalog, table, columns_of(ladder.measure))
    if measure is None:
        return KeptBound(ladder, unit, of, epsilon)
    return KeptBound(ladder, unit, of, epsilon, measure.groups, measure.declared)


def _sort_key(name: tuple[str, str]) -> tuple[str, bool, str]:
    return name[0], name[1] != ROWS, name[1]


def _find_state(database: Database, ladder: KeptLadder, table: Table | None) -> str:
    if table is None or table.public:
        return OTHER
    found = kept_at(ladder, known_versions(database.policy, table, database.versions, ladder.measure))
    if found is None:
        return OTHER
    return UNKNOWN if not found.told else CURRENT if found.current else OLDER


def default_price(policy: Policy) -> Fraction:
    """Return what a ladder costs by default."""
    return LADDER_SHARE * policy.budget.epsilon


def tells_changes(database: Database, table: str) -> bool:
    """Whether a change of a table's data is noticed; without that no ladder is known to be current."""
    declared = database.policy.tables[table]
    return shows_changes(version_of(database.policy, declared, database.versions))


def find_objection(policy: Policy, table: str, measure: str) -> str | None:
    """Return why no statement would use a ladder of a measure; None: statements do."""
    declared = policy.tables[table]
    if isinstance(declared.unit, UnitRow):
        return f"each row of {table} is a unit: statements need no bound on what several rows have"
    if has_one_row(policy, declared):
        one = f"{with_article(_kind_of_measure(declared))} has one row in {table} (`unique`)"
        if measure == ROWS:
            return f"{one}: counts of rows need no bound"
        if columns_of(measure):
            return f"{one}: it is in one group"
    return None


def list_askable(database: Database) -> list[str]:
    """Return the names of measures that help statements and have no kept ladder of the present data.

    Columns that look like keys have no total that anybody asks for, so they are not among them.
    """
    policy, catalog = database.policy, database.engines().schema_database
    kept = {each.name for each in list_kept(database) if each.of == CURRENT}
    found = []
    for table in policy.tables.values():
        if table.public or isinstance(table.unit, UnitRow):
            continue
        if find_objection(policy, table.name, ROWS) is None:
            found.append(table.name)
        keys = _find_key_columns(table)
        declared = {fold(column) for column in (*table.bounds, *table.domain)}
        single = has_one_row(policy, table)
        found += [
            f"{table.name}.{name}"
            for name, kind in catalog.columns(table.name)
            if kind.numeric and fold(name) not in keys and not is_key_name(name)
            if not (single and fold(name) in declared)
        ]
        if not single:
            found += _list_many_groups(database, table)
    return [name for name in found if name not in kept]


def _list_many_groups(database: Database, table: Table) -> list[str]:
    """Return the names of the groups of columns with so many declared values that a bound on them helps."""
    catalog, found = database.engines().schema_database, []
    for name, _ in catalog.columns(table.name):
        if name not in table.domain or "," in name:
            continue
        try:
            measure = compile_group_measure(database.policy, catalog, table, [name])
        except ProgrammingError:  # it is no key, or a unit is in one group
            continue
        if measure.groups >= MANY_GROUPS:
            found.append(name_of(table.name, measure.text))
    return found


def _kind_of_measure(table: Table) -> str:
    return "unit" if table.unit is None else table.unit.kind


def _find_key_columns(table: Table) -> set[str]:
    found = set(map(fold, table.key_columns))
    if isinstance(table.unit, UnitColumn):
        found.add(fold(table.unit.column))
    return found | ({fold(table.unit.via)} if isinstance(table.unit, UnitVia) else set())
