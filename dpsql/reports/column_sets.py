"""The values of one column that the keys and conditions of a release tell apart, as sets.

Of a column whose values are all declared, every key and condition is evaluated on each of them, in the schema
database. Of any other one they are read as sets of values: conditions that compare it with constants, the
column itself, and CASE over such conditions. What is not declared is a set of its own there, with which a
total is told by its groups.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from dpsql.analysis import Catalog
from dpsql.analysis.cell_conditions import ColumnReader
from dpsql.analysis.part_conditions import evaluate_in
from dpsql.analysis.typed_expression import Typed
from dpsql.estimates.value_sets import ValueSet, unite
from dpsql.kernel.tree import (
    Binary,
    Case,
    Cast,
    Column,
    Expr,
    IsNull,
    Paren,
    duckdb_sql,
    facts,
    map_parts,
    quote,
)
from dpsql.kernel.unit_parts import PartSet
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Table, UnitColumn
from dpsql.reports.linear_releases import CellSums, StaysOutError, column_of
from dpsql.types import SqlType

MOST_VALUES = 2_000
"""The most values or parts of one column: the estimate takes no more of a key."""
MOST_OPEN = 256
"""The most sets of a column whose values are not all declared: each is a branch of a CASE."""
_NAMED = 3
"""How many values of a condition are named."""
_NULL = ValueSet((), null=True)
_SMALL = 100
"""Every type of whole numbers has those up to this one."""

KeyValues = tuple[Any, ...]
"""The values of all keys that read one column."""
OUTSIDE: Final = object()
"""In the place of the value of a key: the rows are in no group."""


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """A column: the values of its keys, with the sets of its values for each number."""

    name: str
    keys: tuple[int, ...]
    """The places of the keys that read it."""
    rows: tuple[KeyValues, ...]
    sets: tuple[tuple[ValueSet, ...], ...]
    """For each number, the values of each row."""
    whole: tuple[bool, ...]
    """For each number, whether its one row has every value that there is."""
    names: tuple[str, ...] = ()
    """For each number, what its one row is called, if no key reads the column."""
    parts: PartSet | None = None
    open: bool = False
    """Whether rows may have values that are not declared."""

    @property
    def has_outside(self) -> bool:
        """Whether the last row stands for the values that no released group has."""
        return bool(self.rows) and self.rows[-1] == (OUTSIDE,)

    def put_outside(self, shown: Sequence[Sequence[Any]]) -> Followed:
        """Return the column with the values that no released group has joined into one last row."""
        there = set(zip(*(shown[key] for key in self.keys), strict=True))
        if not there <= {*self.rows}:
            raise StaysOutError(f"has groups of which it is not known what values of {self.name} are in them")
        inside = [i for i, row in enumerate(self.rows) if row in there]
        if len(inside) == len(self.rows):
            return self
        others = [i for i in range(len(self.rows)) if i not in inside]
        rows = (*(self.rows[i] for i in inside), (OUTSIDE,))
        sets = tuple((*(own[i] for i in inside), unite(own[i] for i in others)) for own in self.sets)
        return replace(self, rows=rows, sets=sets)

    def label(self, row: int) -> str:
        """Return the words for a row: its key values, or "other values"."""
        return ", ".join("other values" if each is OUTSIDE else str(each) for each in self.rows[row])


def find_on(made: CellSums, column: str) -> tuple[list[int], list[Expr], list[list[Expr]]]:
    """Return the keys on a column, the WHERE conditions on it, and the conditions of each number."""
    keys = [place for place, key in enumerate(made.keys) if column_of(key) == column]
    where = [each for each in made.where if column_of(each) == column]
    own = [[each for each in conditions if column_of(each) == column] for conditions in made.own]
    return keys, where, own


def follow_column(column: str, made: CellSums, table: Table, catalog: Catalog) -> Followed:
    """Return which values of a column each key and number of a release covers."""
    if is_declared(table.name, column, catalog):
        return _follow_declared(column, made, table, catalog)
    return _OpenColumn.of(column, table, catalog).follow(made)


def is_declared(table: str, column: str, catalog: Catalog) -> bool:
    """Return whether all values of a column are declared, so that no row has another one, or NULL."""
    listed = catalog.domain(table, column) is not None
    return listed and catalog.complete(table, column) and catalog.not_null(table, column)


def list_open(table: str, column: str, catalog: Catalog) -> ValueSet:
    """Return the possible values of an undeclared column: all, without NULL if rows have none."""
    every = ValueSet.everything()
    return every.known if catalog.not_null(table, column) else every


def write_always(table: Table, catalog: Catalog) -> str | None:
    """Return a condition that each row meets, of a column without declared values; None: there is none."""
    if isinstance(table.unit, UnitColumn):
        return f"{quote(table.unit.column)} IS NOT NULL"
    for name, _ in catalog.columns(table.name):
        if all(find(table.name, name) is None for find in (catalog.domain, catalog.span, catalog.integers)):
            return f"({quote(name)} IS NULL OR {quote(name)} IS NOT NULL)"
    return None


def read_column(table: str, column: str, catalog: Catalog) -> ColumnReader:
    """Return what reads conditions on a column of a table, and the kind of its values."""
    kinds = {name.lower(): kind for name, kind in catalog.columns(table)}
    return ColumnReader({f".{column}": Typed(Column("", column), kinds[column])}, evaluate_in(catalog))


_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _unknown(column: str) -> StaysOutError:
    return StaysOutError(
        f"names {column}, whose values are not all declared: domain.{column} = {{ .., complete = true }}"
    )


def _list(column: str, values: Sequence[Any]) -> str:
    few = ", ".join(map(str, values[:_NAMED]))
    return few if len(values) <= _NAMED else f"{len(values)} values of {column}"


def _follow_declared(column: str, made: CellSums, table: Table, catalog: Catalog) -> Followed:
    keys, where, own = find_on(made, column)
    domain = catalog.domain(table.name, column)
    assert domain is not None  # noqa: S101  its values are declared
    conditions = list(dict.fromkeys([*where, *(each for number in own for each in number)]))
    wanted = [*(made.keys[key] for key in keys), *conditions]
    listed = ", ".join(f"{duckdb_sql(over_values(each))} AS e{i}" for i, each in enumerate(wanted))
    sql = f"SELECT d.v AS v{', ' + listed if listed else ''} FROM ({duckdb_sql(domain)}) AS d"
    found = catalog.run(f"{sql} LIMIT {MOST_VALUES + 1}")
    if found.num_rows > MOST_VALUES:
        raise StaysOutError(f"names {column}, which has more than {MOST_VALUES:,} values")
    values, *evaluated = (each.to_pylist() for each in found.columns)
    named = [*zip(*evaluated[: len(keys)], strict=True)] if keys else [()] * len(values)
    true = {each: evaluated[len(keys) + i] for i, each in enumerate(conditions)}
    rows, sets, whole, names = list[KeyValues](dict.fromkeys(named)), [], [], []
    for number in own:
        holds = [all(true[each][i] is True for each in (*where, *number)) for i in range(len(values))]
        of_row: dict[KeyValues, list[Any]] = {row: [] for row in rows}
        for value, row, there in zip(values, named, holds, strict=True):
            if there:
                of_row[row].append(value)
        sets.append(tuple(ValueSet.of_values(of_row[row]) for row in rows))
        whole.append(all(holds))
        names.append(_list(column, [value for value, there in zip(values, holds, strict=True) if there]))
    return Followed(
        f"{table.name}.{column}", tuple(keys), tuple(rows), tuple(sets), tuple(whole), names=tuple(names)
    )


def over_values(expr: Expr) -> Expr:
    """Return an expression over the values `v` of a domain `d` in the place of the column."""
    return Column("d", "v") if isinstance(expr, Column) else map_parts(expr, over_values)


@dataclass(frozen=True, slots=True, eq=False)
class _OpenColumn:
    """A column of which rows may have values that are not declared."""

    name: str
    table: str
    reader: ColumnReader
    listed: tuple[Any, ...]
    """The declared values, without NULL."""
    universe: ValueSet

    @classmethod
    def of(cls, column: str, table: Table, catalog: Catalog) -> _OpenColumn:
        domain, listed = catalog.domain(table.name, column), list[Any]()
        if domain is not None:
            sql = f"SELECT v FROM ({duckdb_sql(domain)}) AS d LIMIT {MOST_OPEN + 1}"
            listed = [each for each in catalog.run(sql).column(0).to_pylist() if each is not None]
        universe = list_open(table.name, column, catalog)
        if write_always(table, catalog) is None:
            raise _unknown(column)
        reader = read_column(table.name, column, catalog)
        return cls(column, table.name, reader, tuple(listed), universe)

    def follow(self, made: CellSums) -> Followed:
        keys, where, own = find_on(made, self.name)
        rows: dict[KeyValues, ValueSet] = {(): self.universe}
        for key in keys:
            told = self._list_values(made.keys[key], self.universe)
            met = [(row, value, s & more) for row, s in rows.items() for value, more in told]
            rows = {}
            for row, value, both in met:
                if both:
                    rows[*row, value] = rows.get((*row, value), ValueSet(())) | both
        if len(rows) > MOST_OPEN:
            raise StaysOutError(
                f"names {self.name}, which has more than {MOST_OPEN} values that are not all declared"
            )
        chosen = [reduce(ValueSet.__and__, map(self._hold, (*where, *more)), self.universe) for more in own]
        sets = tuple(tuple(values & each for values in rows.values()) for each in chosen)
        whole = tuple(each == self.universe for each in chosen)
        names = tuple(
            " and ".join(duckdb_sql(each) for each in (*where, *more)).replace('"', "") for more in own
        )
        return Followed(f"{self.table}.{self.name}", tuple(keys), tuple(rows), sets, whole, names, open=True)

    @property
    def _type(self) -> SqlType:
        return self.reader.columns[f".{self.name}"].type

    def _list_few(self, within: ValueSet) -> list[int | None]:
        """Return the numbers of a set, if there are few, and NULL; a conversion leaves them as they are."""
        if any(place for low, high in within.intervals for place, _, _ in (low, high)):
            raise _unknown(self.name)
        pairs = [(low[1], high[1]) for low, high in within.intervals]
        if sum(high - low for low, high in pairs) > MOST_OPEN or any(
            abs(end) > _SMALL for pair in pairs for end in pair
        ):
            raise _unknown(self.name)
        return [*(value for low, high in pairs for value in range(low, high)), *[None] * within.null]

    def _hold(self, condition: Expr) -> ValueSet:
        """Return the values for which a condition holds."""
        found = self.reader.read(condition)
        if found is not None:
            return found.true
        match condition:
            case IsNull(operand, negated):
                told = self._list_values(operand, self.universe)
                return unite(values for value, values in told if (value is None) is not negated)
            case Binary(word, left, right) if word in _COMPARED and not facts(right).reads:
                told, wanted = self._list_values(left, self.universe), self.reader.evaluate(right)
                if type(wanted) is int and all(each is None or type(each) is int for each, _ in told):
                    holds = _COMPARED[word]
                    return unite(s for each, s in told if each is not None and holds(each, wanted))
        raise _unknown(self.name)

    def _list_values(self, key: Expr, within: ValueSet) -> list[tuple[Any, ValueSet]]:
        """Return the values of a key with the values of the column that have them, among some values."""
        while isinstance(key, Paren):
            key = key.inner
        if isinstance(key, Column):
            if not self.reader.kind(self._type):
                raise _unknown(self.name)
            known = [(value, ValueSet.of_values([value]) & within) for value in self.listed]
            rest = within - unite(values for _, values in known)
            return [*known, (None, rest & _NULL), (OUTSIDE, rest.known)]
        if isinstance(key, Case):
            found = list[tuple[Any, ValueSet]]()
            for condition, result in key.branches:
                here = within & self._hold(condition)
                found += self._list_values(result, here)
                within -= here
            return [
                *found,
                *([(None, within)] if key.default is None else self._list_values(key.default, within)),
            ]
        if isinstance(key, Cast) and key.type.integer:
            if isinstance(key.operand, Column) and self.reader.kind(self._type) == "numbers":
                return [(value, ValueSet.of_values([value])) for value in self._list_few(within)]
            told = [] if isinstance(key.operand, Column) else self._list_values(key.operand, within)
            if told and all(each is None or (type(each) is int and abs(each) <= _SMALL) for each, _ in told):
                return told
        if facts(key).reads:
            raise _unknown(self.name)
        return [(self.reader.evaluate(key), within)]
