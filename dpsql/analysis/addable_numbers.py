"""What the numbers of a statement are sums over: which released ones may be added up to another number.

A number is a sum over the rows of a FROM clause for which conditions hold. Where these compare single columns
with constants, the rows are a cell (`estimates.value_sets`), and numbers of disjoint cells add up. That
is so along every column if the number is one of rows, whose shares do not depend on others. A unit that has
several rows may have one share for all of them: it is counted once, or its rows are weighted down. Such
numbers add up along facts of units alone, since then each unit is in one of the cells with all its rows; and
weighted ones only where all else is equal, since the weights depend on it.

All other conditions, and the FROM clause itself, have to be equal, word by word as they are compiled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import date, datetime, timedelta
from typing import Any

from dpsql.analysis.cell_conditions import CellKey, ColumnReader
from dpsql.analysis.compiled_relation import From
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.part_conditions import evaluate_in
from dpsql.analysis.released.quantiles import QuantileCall
from dpsql.analysis.released.released_numbers import ReleasedAggregate
from dpsql.analysis.released.unit_counts import DistinctValues, OwnedValues, SingleRows, Units
from dpsql.analysis.released.unit_values import ValueCall
from dpsql.analysis.row_conditions import find_fact_names, split_conjuncts
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import Typed
from dpsql.estimates.value_sets import EVERY, Cell, ValueSet
from dpsql.kernel.facts import Home, fold
from dpsql.kernel.tree import (
    Aggregate,
    Column,
    Derived,
    Exists,
    Expr,
    InQuery,
    Join,
    Node,
    ScalarQuery,
    Scan,
    Select,
    SetOperation,
    Window,
    duckdb_sql,
    walk,
)
from dpsql.lazy_dataclass import dataclass

EACH_ROW, EACH_UNIT, ALIKE = "row", "unit", "alike"
"""Along what a number adds up: any column, facts of units, or these where all else is equal."""
_MOST_NAMES = 2_000
"""Of a column with more declared names, cells are not told apart."""
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class AddableNumbers:
    """The rows of a statement's numbers, as far as they are told apart by values of single columns."""

    rows: str
    """A digest of the FROM clause and of all other conditions."""
    where: Cell
    """The values of columns that the conditions leave."""
    keys: tuple[CellKey, ...]
    """The keys of the groups, in the order of the columns that show them."""
    measures: tuple[tuple[str, str] | None, ...]
    """For each number that is shown, along what it adds up and what is equal of numbers that add up; None:
    nothing does."""
    facts: frozenset[str]
    """The columns that have one value for each unit."""
    complete: Cell = field(default_factory=dict)
    """Columns whose values the policy lists, with these; like the next ones only of a statement that is
    itself to be added up."""
    titles: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    """The names of columns in the statement, and what their values are."""

    def kind(self, column: str) -> str:
        """Return how the values of a column are told apart: as `CellKey.kind`; "" if they are not."""
        return self.kinds.get(column, "")

    @property
    def written(self) -> dict[str, Any]:
        """What a stored release keeps of the addable numbers, as values of JSON."""
        return {
            "rows": self.rows,
            "where": {column: values.to_data() for column, values in self.where.items()},
            "keys": [[key.column, key.kind, key.period, key.year] for key in self.keys],
            "measures": self.measures,
        }

    def alike(self, *more: object) -> AddableNumbers:
        """Return the addable numbers, marked by a hash of what the weights of their rows depend on."""
        where = {name: values.to_data() for name, values in self.where.items() if name not in self.facts}
        told = _digest(repr((sorted(where.items()), self.keys, *more)))
        made = tuple(
            None if each is None else _with_more(each, told, all_=bool(more)) for each in self.measures
        )
        return replace(self, measures=made)


def _with_more(measure: tuple[str, str], told: str, *, all_: bool) -> tuple[str, str]:
    along, what = measure
    return (ALIKE, f"{what} {told}") if all_ or along == ALIKE else measure


def read_written(facts: Mapping[str, Any]) -> AddableNumbers:
    """Read addable numbers from the JSON values that `AddableNumbers.written` made."""
    return AddableNumbers(
        facts["rows"],
        {column: ValueSet.of_data(values) for column, values in facts["where"].items()},
        tuple(CellKey(*each) for each in facts["keys"]),
        tuple(None if each is None else (each[0], each[1]) for each in facts["measures"]),
        frozenset(),
    )


def find_addable(
    compiler: StatementCompiler,
    made: From,
    condition: Expr | None,
    keys: Sequence[Typed],
    calls: Iterable[ReleasedAggregate | ValueCall | QuantileCall],
    kept: int | None,
    *,
    whole: bool = False,
) -> AddableNumbers | None:
    """Return over which cells of rows the calls' numbers are sums; None if the rows form no cells.

    Weights bound the groups of each unit to `kept`. With `whole` it also has what is needed to add them up;
    without, what is stored with their release.
    """
    catalog = compiler.catalog
    conditions = split_conjuncts(condition)
    if made.unit is None or not all(_is_plain(node) for node in (made.source, *conditions)):
        return None

    reader = ColumnReader(
        {name: column for column in made.scope.columns for name in column.reads}, evaluate_in(catalog)
    )
    where, others = dict[str, ValueSet](), list[str]()
    found = [reader.read(each) for each in conditions]
    if compiler.read_before is not None:
        home = catalog.facts(compiler.policy, tuple(sorted(compiler.used))).home
        column = None if home is None else _home_column(made, home)
        found.append(None if column is None else reader.read_until(column, compiler.read_before))
        if found[-1] is None:
            return None
    for each, text in zip(found, [*map(duckdb_sql, conditions), ""], strict=False):
        if each is None:
            others.append(text)
        else:
            where[each.column] = where.get(each.column, EVERY) & each.true
    told = [reader.read_key(key) for key in keys]
    if any(each is None for each in told):
        return None
    measures = tuple(map(_measure, calls))
    owner = made.owner
    rows = _digest(duckdb_sql(made.source), duckdb_sql(made.unit), repr(owner), *sorted(others))
    own = tuple(each for each in told if each is not None)
    summed = AddableNumbers(rows, where, own, measures, find_fact_names(made)).alike()
    summed = summed if kept is None else summed.alike(kept)
    if not whole:
        return summed
    titles = {
        name: title
        for origin in made.scope.origins
        for title, column in zip(origin.names, origin.columns, strict=True)
        for name in column.reads
    }
    kinds = {name: reader.kind(column.type) for name, column in reader.columns.items()}
    return replace(summed, complete=_complete(catalog, made, reader), titles=titles, kinds=kinds)


def _digest(*texts: str) -> str:
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:32]


_NOT_PLAIN = (Window, Aggregate, SetOperation, InQuery, Exists, ScalarQuery)


def _is_plain(node: Node) -> bool:
    """Return whether rows and conditions are those of stored rows one by one, in joins or not."""
    return not any(
        isinstance(each, _NOT_PLAIN)
        or (isinstance(each, Select) and (each.distinct or bool(each.group) or each.limit is not None))
        for each in walk(node)
    )


def _home_column(made: From, home: Home) -> str | None:
    """Return the column with the date of each unit, if the home table is read once, and its rows as such."""
    scans = [each for each in walk(made.source) if isinstance(each, Scan) and fold(each.table) == home.table]
    if len(scans) != 1:
        return None
    for each in walk(made.source):
        if isinstance(each, Derived) and isinstance(each.query, Select) and each.query.source == scans[0]:
            for item in each.query.items:
                stored = isinstance(item.expr, Column) and item.expr.stored
                if stored and fold(getattr(item.expr, "name", "")) == home.column:
                    return f"{each.alias}.{item.column}"
    return None


def _measure(call: ReleasedAggregate | ValueCall | QuantileCall) -> tuple[str, str] | None:
    """Return along what the number of a call adds up, and what it is of; None: it is no sum."""
    if isinstance(call, ValueCall):
        if call.statistic != "sum":
            return None
        value = duckdb_sql(call.keep_value(call.value.guarded_node))
        what = f"sum {value} {call.low} {call.high} {call.per_group} {call.capped}"
        if call.single and call.capped is None:
            return EACH_ROW, what
        return ALIKE, f"{what} {call.most} {call.finest}"
    if isinstance(call, QuantileCall) or len(call.parts) != 1:
        return None
    part = call.parts[0]
    if not isinstance(part, Units) or isinstance(part, DistinctValues | OwnedValues):
        return None
    what = " ".join(map(duckdb_sql, part.row))
    if isinstance(part, SingleRows):
        return EACH_ROW, f"rows {what}"
    if type(part) is Units:
        return EACH_UNIT, f"units {what}"
    return ALIKE, f"{type(part).__name__} {what} {getattr(part, 'most', None)}"


def _complete(catalog: Catalog, made: From, reader: ColumnReader) -> dict[str, ValueSet]:
    """Return the columns whose values are listed, and these values; NULL among them if it can be there."""
    if any(isinstance(each, Join) and each.kind in _OUTER for each in walk(made.source)):
        return {}  # a column may be NULL where there is no partner
    found = {}
    for name, column in reader.columns.items():
        kind, values = reader.kind(column.type), None
        span = column.span
        if span is not None and span.complete and kind in ("moments", "numbers"):
            ends = (span.first, span.last + 1)
            values = ValueSet.of_range(*(map(_moment, ends) if kind == "moments" else ends))
        elif column.domain is not None and column.domain.complete and kind:
            values = _list_values(catalog, column.domain.without_null().sql, kind)
        if values is not None:
            null = column.nulls or column.lists_null
            found[name] = replace(values, null=null)
    return found


_OUTER = ("LEFT", "RIGHT", "FULL")


def _list_values(catalog: Catalog, sql: str, kind: str) -> ValueSet | None:
    if kind == "moments":
        return None
    as_text = "v" if kind == "names" else "CAST(v AS VARCHAR)"
    some = f"SELECT {as_text} AS v FROM ({sql}) AS d LIMIT {_MOST_NAMES + 1}"
    listed = catalog.evaluate(f"(SELECT list(v) FROM ({some}) AS e)")
    if not isinstance(listed, list) or len(listed) > _MOST_NAMES or None in listed:
        return None
    if kind == "names":
        return ValueSet.of_values(listed)
    return ValueSet.of_values([date.fromisoformat(each) if kind == "days" else int(each) for each in listed])


def _moment(microseconds: int) -> datetime | None:
    """Return a moment, given in microseconds since 1970; None after the last one that Python has."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
