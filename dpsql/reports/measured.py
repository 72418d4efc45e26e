"""What is measured for a report: the statement of a marginal, and the marginal that its release shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from functools import reduce
from typing import Any

import numpy as np

from dpsql.analysis import Catalog
from dpsql.composition.untold_cells import write_terms
from dpsql.errors import InternalError, OperationalError
from dpsql.estimates.noise_laws import Linear
from dpsql.estimates.reports.marginals import Axis, Marginal, ReleasedMarginal
from dpsql.estimates.value_sets import ValueSet, unite
from dpsql.kernel.tree import Query, duckdb_sql, literal_sql, quote
from dpsql.kernel.unit_parts import Calendar, PartSet
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table
from dpsql.release import Release, places_of
from dpsql.reports.axes import dates_of, moment_of
from dpsql.reports.column_sets import is_declared, list_open, read_column, write_always
from dpsql.reports.linear_releases import home_of
from dpsql.types import DATE, SqlType


@dataclass(frozen=True, slots=True)
class _Key:
    """An axis of several sets: the expression that it is grouped by, and the value of each set."""

    sql: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """A statement that measures a marginal: its text, and what the values of its keys are."""

    marginal: Marginal
    """With an axis for the parts that it reads, if units are in parts."""
    text: str
    keys: tuple[_Key, ...]
    """Of the axes with several sets, in their order."""

    def read(self, release: Release, report: str) -> ReleasedMarginal:
        """Return the noisy values of a release as the marginal that the statement measures."""
        if release.noises is None or not isinstance(release.noises[0].made, Linear):
            raise InternalError("a measured marginal has no noise that is known")
        terms = release.noises[0].made.terms
        (weight, number), *more = terms
        if more or weight != 1 or len(number.sources) != 1:
            raise InternalError("a measured marginal is not one draw")
        shape = [len(axis.rows) for axis in self.marginal.axes]
        columns = [release.table.column(place).to_pylist() for place in places_of(release).keys]
        index = [{value: i for i, value in enumerate(key.values)} for key in self.keys]
        found = np.full(int(np.prod(shape, dtype=np.int64)), np.nan)
        strides = [len(key.values) for key in self.keys]
        for row, value in enumerate(number.value):
            place = 0
            for known, size, column in zip(index, strides, columns, strict=True):
                own = known.get(column[row])
                if own is None:
                    break
                place = place * size + own
            else:
                found[place] = value
        if np.isnan(found).any():
            raise InternalError("a measured marginal misses a group")
        if release.number is None:
            raise InternalError("a measured marginal has no number")
        return ReleasedMarginal(release.number, self.marginal, found, number.sources[0], report)


def measured_query(
    marginal: Marginal, table: Table, policy: Policy, catalog: Catalog, sets: Sequence[PartSet] | None
) -> MeasuredQuery:
    """Return the statement that measures a marginal of the rows of a table, in some parts of units.

    Where the marginal has no axis for the parts, each of the sets of parts has numbers of its own: no unit is
    in two, so that costs the same.
    """
    home, kinds = home_of(table, policy), {name.lower(): kind for name, kind in catalog.columns(table.name)}
    where, keys, axes = list[str](), list[_Key](), list[Axis]()
    own = None if home is None else marginal.axis(f"{table.name}.{home}")
    if sets is not None and home is not None:
        days = _Days(quote(home), Calendar(policy.unit_parts.period), kinds[home])  # type: ignore[union-attr]
        if own is None:
            own = days.axis(f"{table.name}.{home}", sets)
        axes.append(own)
        days.add(own, reduce(PartSet.__or__, sets), where, keys)
    for axis in marginal.axes:
        if axis is own:
            continue
        column = axis.column.removeprefix(f"{table.name}.")
        domain = catalog.domain(table.name, column)
        if domain is None or not is_declared(table.name, column, catalog):
            _add_open_axis(axis, table, column, catalog, where, keys)
        else:
            _add_axis(axis, column, kinds[column], _list_values(domain, catalog), where, keys)
        axes.append(axis)
    selected = [f"{key.sql} AS k{i}" for i, key in enumerate(keys)]
    text = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY {', '.join([*selected, 'COUNT(*) AS n'])} FROM {quote(table.name)}"
    )
    text += f" WHERE {' AND '.join(where)}" if where else ""
    text += f" GROUP BY {', '.join(key.sql for key in keys)}" if keys else ""
    return MeasuredQuery(Marginal(tuple(axes)), text, tuple(keys))


def universe_of(
    marginals: Iterable[Marginal], name: str, policy: Policy, catalog: Catalog
) -> dict[str, ValueSet]:
    """Return the values that rows can have in the columns of marginals of a table.

    Of the date that divides units into parts it is the parts that marginals name: each of them names some.
    """
    table = policy.table(name)
    home = None if table is None else home_of(table, policy)
    found: dict[str, ValueSet] = {}
    named = dict.fromkeys(axis for marginal in marginals for axis in marginal.axes)
    for axis in named:
        column = axis.column.removeprefix(f"{name}.")
        domain = catalog.domain(name, column) if catalog.complete(name, column) else None
        if column != home and not is_declared(name, column, catalog):
            found[axis.column] = list_open(name, column, catalog)
        elif domain is None:
            found[axis.column] = unite((found.get(axis.column, ValueSet.of_values(())), *axis.rows))
        elif axis.column not in found:
            found[axis.column] = ValueSet.of_values(_list_values(domain, catalog))
    return found


def _add_axis(
    axis: Axis, column: str, kind: SqlType, values: Sequence[Any], where: list[str], keys: list[_Key]
) -> None:
    """Add the key or the condition of an axis over a column with these values."""
    if not axis.is_apart():
        raise InternalError("a measured marginal has a unit in two numbers")
    declared = ValueSet.of_values(values)
    if not all(row <= declared for row in axis.rows):
        raise OperationalError(
            f"{column} had other declared values when this report was planned, and what was measured of them"
            " is not of those of now; nothing was charged"
        )
    sets = [[value for value in values if value in row] for row in axis.rows]
    if sum(map(len, sets)) < len(values):
        where.append(f"{quote(column)} IN ({_write_list([v for each in sets for v in each], kind)})")
    if len(sets) == 1:
        return
    if all(len(each) == 1 for each in sets):
        keys.append(_Key(quote(column), tuple(each[0] for each in sets)))
        return
    cases = " ".join(
        f"WHEN {quote(column)} IN ({_write_list(each, kind)}) THEN {i}" for i, each in enumerate(sets)
    )
    keys.append(_Key(f"CASE {cases} END", tuple(range(len(sets)))))


def _add_open_axis(
    axis: Axis, table: Table, column: str, catalog: Catalog, where: list[str], keys: list[_Key]
) -> None:
    """Add the key or the condition of an axis over a column whose values are not all declared.

    A key that reads declared columns alone would have their values as groups. So it also reads another one,
    in a condition that always holds, and its groups are all branches of a CASE.
    """
    if not axis.is_apart():
        raise InternalError("a measured marginal has a unit in two numbers")
    reader, always = read_column(table.name, column, catalog), write_always(table, catalog)
    if always is None:
        raise InternalError("a table has no column without declared values")
    kind, every = reader.kind(reader.columns[f".{column}"].type), list_open(table.name, column, catalog)
    terms = [" OR ".join(write_terms(row & every, quote(column), kind)) for row in axis.rows]
    if not every <= unite(axis.rows):
        where.append(f"({' OR '.join(terms)})")
    if len(terms) > 1:
        cases = " ".join(f"WHEN ({term}) AND {always} THEN {i}" for i, term in enumerate(terms[:-1]))
        keys.append(_Key(f"CASE {cases} ELSE {len(terms) - 1} END", tuple(range(len(terms)))))


def _list_values(domain: Query, catalog: Catalog) -> list[Any]:
    found: list[Any] = catalog.run(f"SELECT v FROM ({duckdb_sql(domain)}) AS d").column(0).to_pylist()
    return found


@dataclass(frozen=True, slots=True)
class _Days:
    """The date that divides units into parts, as conditions and keys."""

    column: str
    calendar: Calendar
    kind: SqlType

    def axis(self, name: str, sets: Sequence[PartSet]) -> Axis:
        """Return the axis whose sets of days are some sets of parts."""
        dates = self.kind == DATE
        days = tuple(dates_of(each, self.calendar, dates=dates) for each in sets)
        return Axis(name, days, tuple(map(self.calendar.words, sets)))

    def add(self, axis: Axis, parts: PartSet, where: list[str], keys: list[_Key]) -> None:
        """Append the WHERE condition of an axis of dates to a list, and its key if it has several sets."""
        sets = [[part for part in _each(parts) if self._first(part) in row] for row in axis.rows]
        if not axis.is_apart() or not all(sets):
            raise InternalError("a measured marginal has a unit in two numbers, or none in one")
        ranges = [PartSet.of(*((part, part) for part in each)) for each in sets]
        where.append(self._condition(reduce(PartSet.__or__, ranges)))
        if len(sets) == 1:
            return
        if all(len(each) == 1 for each in sets):
            first = tuple(self._first(part) for (part,) in sets)
            keys.append(_Key(f"date_trunc('{self.calendar.every}', {self.column})", first))
            return
        cases = " ".join(f"WHEN {self._condition(each)} THEN {i}" for i, each in enumerate(ranges))
        keys.append(_Key(f"CASE {cases} END", tuple(range(len(sets)))))

    def _first(self, part: int) -> date | datetime:
        day = self.calendar.first_day(part)
        return day if self.kind == DATE else moment_of(day)

    def _condition(self, parts: PartSet) -> str:
        """Return the condition that a date is in some parts: of several ranges also in the one around them.

        From that one the values of a key are found.
        """
        terms = [self._range(low, high) for low, high in parts.ranges]
        if len(terms) == 1:
            return terms[0]
        around = self._range(parts.ranges[0][0], parts.ranges[-1][1])
        return f"{around} AND ({' OR '.join(f'({term})' for term in terms)})"

    def _range(self, low: int, high: int) -> str:
        kind, column, day = self.kind.name, self.column, self.calendar.first_day
        return f"{column} >= {kind} '{day(low)}' AND {column} < {kind} '{day(high + 1)}'"


def list_parts(parts: PartSet) -> list[PartSet]:
    """Return some parts one by one."""
    return [PartSet.of((part, part)) for part in _each(parts)]


def _each(parts: PartSet) -> list[int]:
    return [part for low, high in parts.ranges for part in range(low, high + 1)]


def _write_list(values: Sequence[Any], kind: SqlType) -> str:
    return ", ".join(_literal(value, kind) for value in values)


def _literal(value: Any, kind: SqlType) -> str:  # noqa: ANN401  a value of a column
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    return literal_sql(value) if isinstance(value, str) else f"CAST({literal_sql(str(value))} AS {kind})"
