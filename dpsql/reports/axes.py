"""The numbers of a linear release as sets along axes, one axis for each column that the release names.

A column is followed by its values (`column_sets`). The date that divides units into parts is followed by the
parts for which conditions can be true and false (`analysis.part_conditions`): a release whose conditions cut
a part in two stays out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.analysis import Catalog, Plan
from dpsql.analysis.part_conditions import PartConditions, Truths, evaluate_in
from dpsql.estimates.reports.marginals import Axis, Marginal
from dpsql.estimates.value_sets import ValueSet, unite
from dpsql.kernel.tree import Column, Expr, duckdb_sql
from dpsql.kernel.unit_parts import ALL_PARTS, NO_HOME, NULL_PART, Calendar, PartSet
from dpsql.lazy_dataclass import dataclass
from dpsql.planning.result_table import order_by_terms
from dpsql.policy import Policy, Table
from dpsql.reports.column_sets import MOST_VALUES, Followed, KeyValues, find_on, follow_column, over_values
from dpsql.reports.linear_releases import CellSums, StaysOutError, ZerosAndOnes, home_of
from dpsql.types import DATE


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """One number of each row of a release: which of a set of numbers it is."""

    wanted: Marginal
    places: NDArray[np.int64]
    """For each row its place among the set; -1: no unit is in it, so it is 0."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicRows:
    """The rows of a release that are known without any private row: all groups of declared keys."""

    columns: tuple[pa.Array, ...]
    size: int

    def __len__(self) -> int:
        return self.size

    def keys(self, rows: object, shown: Sequence[int] | None = None) -> Sequence[pa.Array]:
        """Return the keys of the rows, or some of them, by their places."""
        return [self.columns[i] for i in (range(len(self.columns)) if shown is None else shown)]


@dataclass(frozen=True, slots=True, eq=False)
class LinearRelease:
    """A release that an estimate answers: its rows, which are public, and what its numbers are."""

    plan: Plan
    table: Table
    keys: tuple[pa.Array, ...]
    """The keys of its rows, in the order of the release."""
    size: int
    numbers: tuple[Numbers, ...]
    """For each count of the plan, then for what formulas are of."""
    formulas: tuple[ZerosAndOnes, ...]
    parts: PartSet | None
    """The parts of units whose rows it adds up; None: the table has no date that divides them."""
    outside: tuple[tuple[Marginal, ...], ...] | None = None
    """For each number, what makes up its rows in no group; None: it shows none."""

    @property
    def rows(self) -> PublicRows:
        """Its rows, as steps that show a release know them."""
        return PublicRows(self.keys, self.size)


def linear_release(plan: Plan, made: CellSums, policy: Policy, catalog: Catalog) -> LinearRelease:
    """Follow the keys and conditions of a release; raise `StaysOutError` where that cannot be done."""
    table = policy.table(made.table)
    assert table is not None  # noqa: S101  it was found before
    home = home_of(table, policy)
    columns = [
        _home_column(column, made, policy, table, catalog)
        if column == home
        else follow_column(column, made, table, catalog)
        for column in made.columns
    ]
    keys, size = _rows(plan, catalog)
    shown = [key.to_pylist() for key in keys]
    columns = [each.put_outside(shown) if each.open and each.keys else each for each in columns]
    numbers = tuple(_numbers(made, columns, shown, size, number) for number in range(len(made.own)))
    parts = next((each.parts for each in columns if each.parts is not None), None)
    if home is not None and parts is None:
        raise StaysOutError(f"reads every {_every(policy)}, also those before the first one of the report")
    outside = tuple(tuple(_list_outside(columns, number)) for number in range(len(made.own)))
    if not plan.outside and any(outside):
        raise StaysOutError("has rows in no group that it does not tell")
    told = outside if plan.outside else None
    return LinearRelease(plan, table, keys, size, numbers, made.formulas, parts, told)


def _list_outside(columns: Sequence[Followed], number: int) -> Iterator[Marginal]:
    """Yield disjoint sets of rows that are in no group: with another value of one key, of the next, .."""
    keyed = [each for each in columns if each.keys]
    for place, other in enumerate(keyed):
        if not other.has_outside:
            continue
        axes = list[Axis]()
        for each in columns:
            sets = each.sets[number]
            before = each.keys and keyed.index(each) < place and each.has_outside
            own = sets[-1] if each is other else unite(sets[:-1] if before else sets)
            if not own:
                break
            if each.keys or not each.whole[number]:
                label = other.label(len(other.rows) - 1) if each is other else each.name.rpartition(".")[2]
                axes.append(Axis.of_condition(each.name, own, label))
        else:
            yield Marginal(tuple(axes))


def _numbers(
    made: CellSums, columns: Sequence[Followed], shown: Sequence[Sequence[Any]], size: int, number: int
) -> Numbers:
    axes: list[Axis] = []
    places = np.zeros(size, dtype=np.int64)
    empty = np.zeros(size, dtype=np.bool_)
    for each in columns:
        sets = each.sets[number]
        if not each.keys:
            if not sets or not sets[0]:
                empty[:] = True
                continue
            if not each.whole[number]:
                axes.append(Axis.of_condition(each.name, sets[0], each.names[number]))
            continue
        there = [i for i, values in enumerate(sets) if values]
        index = {each.rows[i]: place for place, i in enumerate(there)}
        rows = zip(*(shown[key] for key in each.keys), strict=True)
        own = np.array([index.get(values, -1) for values in rows], dtype=np.int64)
        empty |= own < 0
        if not there:
            continue
        axes.append(Axis(each.name, tuple(sets[i] for i in there), tuple(map(each.label, there))))
        places = places * len(there) + np.maximum(own, 0)
    return Numbers(Marginal(tuple(axes)), np.where(empty, -1, places))


def _home_column(column: str, made: CellSums, policy: Policy, table: Table, catalog: Catalog) -> Followed:
    keys, where, own = find_on(made, column)
    calendar, every = Calendar(_every(policy)), _every(policy)
    kind = {name.lower(): kind for name, kind in catalog.columns(table.name)}[column]
    rule = PartConditions(calendar, {Column("", column): False}, kind == DATE, evaluate_in(catalog))
    for key in keys:
        if not rule.keeps_parts(made.keys[key]):
            raise StaysOutError(f"groups {column} by periods that are no unions of {every}s")
    possible = _parts_with_rows(column, table, calendar, catalog)
    chosen = [_exact(rule, [*where, *number], possible, every) for number in own]
    every_part = reduce(PartSet.__or__, chosen)
    least, most = calendar.ends
    if not every_part <= PartSet.of((least, most)):
        raise StaysOutError(
            f"reads every {every} before some date, or behind one: write {column} >= DATE '2026-01-05',"
            f" or a domain of {column}"
        )
    if len(every_part) > MOST_VALUES:
        raise StaysOutError(f"reads more than {MOST_VALUES:,} {every}s")
    listed = [part for low, high in every_part.ranges for part in range(low, high + 1)]
    named = _keys_of_parts(listed, [made.keys[key] for key in keys], calendar, catalog, dates=kind == DATE)
    rows = list(dict.fromkeys(named))
    of_row = {
        row: PartSet.of(*((p, p) for p, own in zip(listed, named, strict=True) if own == row)) for row in rows
    }
    sets = tuple(
        tuple(dates_of(of_row[row] & parts, calendar, dates=kind == DATE) for row in rows) for parts in chosen
    )
    names = tuple(map(calendar.words, chosen))
    name = f"{table.name}.{column}"
    return Followed(name, tuple(keys), tuple(rows), sets, (False,) * len(own), names, every_part)


def dates_of(parts: PartSet, calendar: Calendar, *, dates: bool) -> ValueSet:
    """Return the days, or the moments, that lie in a set of periods."""
    found = []
    for low, high in parts.ranges:
        first, after = calendar.first_day(low), calendar.first_day(high + 1)
        found.append(ValueSet.of_range(*(each if dates else moment_of(each) for each in (first, after))))
    return unite(found)


def moment_of(day: date) -> datetime:
    """Return the moment at which a day begins."""
    return datetime(day.year, day.month, day.day)


def _exact(rule: PartConditions, conditions: Sequence[Expr], possible: PartSet, every: str) -> PartSet:
    """Return the parts whose rows all meet conditions; the others have none that does."""
    truths = [rule.follow(each) for each in conditions]
    found = reduce(Truths.both, truths, Truths(ALL_PARTS, PartSet(()), PartSet(())))
    other = (found.false | found.null) & possible
    if found.true & other:
        raise StaysOutError(
            f"has a condition that cuts a {every} in two, or that is no comparison with a date"
        )
    return found.true & possible


def _parts_with_rows(column: str, table: Table, calendar: Calendar, catalog: Catalog) -> PartSet:
    """Return the parts that rows with a unit can be in, as the owner declares."""
    parts = PartSet.of((0, NO_HOME - 1))
    if catalog.not_null(table.name, column):
        parts &= PartSet.of((0, NULL_PART - 1))
    if catalog.complete(table.name, column):
        ends = catalog.span(table.name, column)
        domain = catalog.domain(table.name, column)
        if domain is not None:
            found = catalog.run(
                f"SELECT MIN(v) AS a, MAX(v) AS b FROM ({duckdb_sql(domain)}) AS d"
            ).to_pylist()
            ends = (_day(found[0]["a"]), _day(found[0]["b"])) if found[0]["a"] is not None else None
        if ends is not None:
            parts &= PartSet.of((calendar.number(ends[0]), calendar.number(ends[1])))
    return parts


def _day(value: date | datetime) -> date:
    return value.date() if isinstance(value, datetime) else value


def _keys_of_parts(
    parts: Sequence[int], keys: Sequence[Expr], calendar: Calendar, catalog: Catalog, *, dates: bool
) -> list[KeyValues]:
    if not keys or not parts:
        return [()] * len(parts)
    kind = "DATE" if dates else "TIMESTAMP"
    days = ", ".join(f"({i}, {kind} '{calendar.first_day(part)}')" for i, part in enumerate(parts))
    listed = ", ".join(f"{duckdb_sql(over_values(key))} AS e{i}" for i, key in enumerate(keys))
    found = catalog.run(f"SELECT {listed} FROM (VALUES {days}) AS d(i, v) ORDER BY d.i")
    return [*zip(*(each.to_pylist() for each in found.columns), strict=True)]


def _every(policy: Policy) -> Any:  # noqa: ANN401  a word of `kernel.unit_parts`
    assert policy.unit_parts is not None  # noqa: S101  else there is no such column
    return policy.unit_parts.period


def _rows(plan: Plan, catalog: Catalog) -> tuple[tuple[pa.Array, ...], int]:
    """Return the keys of all groups and their number: as the query has them on tables without rows."""
    found = catalog.run(plan.compiled.sql)
    size = len(plan.key_types)
    if plan.outside:
        mark = found.column(f"o{size}").to_pylist()
        found = found.take(pa.array([i for i, outside in enumerate(mark) if not outside], pa.int64()))
    keys = [found.column(f"k{i}").combine_chunks() for i in range(size)]
    keys = [key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key for key in keys]
    order = order_by_terms(keys, getattr(plan.selection, "order", ()))
    return tuple(key.take(pa.array(order)) for key in keys) if size else (), found.num_rows if size else 1
