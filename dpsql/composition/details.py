"""Details of the columns of an outer query that it asks for: DP_STDDEV(share) and the like, by alias.

Such a column is NULL in the query over released rows, and is filled in afterwards from the errors of the
column that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.analysis import function_name
from dpsql.analysis.parsed import whole_number
from dpsql.answers import doubles
from dpsql.composition.error_bars import HIDDEN
from dpsql.composition.names import DETAIL_FUNCTIONS
from dpsql.language import title
from dpsql.lazy_dataclass import dataclass
from dpsql.places import DETAILS, Places, distinct
from dpsql.policy import fold
from dpsql.prepared import AskedDetail, DerivedColumn, ErrorBar, PreparedComposed
from dpsql.release import Release

if TYPE_CHECKING:
    from dpsql.composition.derived import Errors
    from dpsql.language import Query

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_NUMERIC = frozenset({"DOUBLE", "FLOAT", "DECIMAL", *_WHOLE, *(f"U{name}" for name in _WHOLE)})


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A detail that a select list asks for, and where."""

    detail: AskedDetail
    node: exp.Expr


def take_details(outer: exp.Query) -> tuple[Asked, ...]:
    """Take the details of columns out of a query's select list, which is changed: they become NULL."""
    if not isinstance(outer, exp.Select):
        return ()
    names = [fold(item.alias_or_name) for item in outer.expressions]
    found = []
    for place, item in enumerate(list(outer.expressions)):
        node = item.this if isinstance(item, exp.Alias) else item
        kind = DETAIL_FUNCTIONS.get((function_name(node) or "").lower())
        if kind is None or len(node.expressions) != 1:
            continue
        of = _named(node.expressions[0], names, outer)
        if of is None or of == place:
            continue
        null = exp.Cast(this=exp.Null(), to=exp.DataType.build("DOUBLE"))
        name = item.alias or title(node)
        outer.expressions[place].replace(exp.alias_(null, name, quoted=True))
        found.append(Asked(AskedDetail(place, kind, of), node))
    return tuple(found)


def _named(node: exp.Expr, names: Sequence[str], outer: exp.Select) -> int | None:
    """Return the place of the column that is meant: by its alias, its place, or as it is written."""
    number = whole_number(node.unnest())
    if number is not None:
        return number - 1 if 1 <= number <= len(names) else None
    if isinstance(node, exp.Column) and (not node.table or fold(node.name) in names):
        return names.index(fold(node.name)) if names.count(fold(node.name)) == 1 else None
    same = (i for i, each in enumerate(outer.expressions) if each.unalias().unnest() == node.unnest())
    return next(same, None)


def with_details(
    query: Query, asked: Sequence[Asked], prepared: PreparedComposed, why: Mapping[int, str]
) -> PreparedComposed:
    """Return a statement with the details that it asks for; refuse those of columns that have none."""
    known = {each.place for each in numbers_of(prepared)}
    for each in asked:
        of = each.detail.of
        if of not in known:
            name, step = prepared.columns[of], why.get(of, "")
            because = {"": "what it is computed of is not followed"}.get(step, step)
            raise query.source.refuse(
                f"{name} has no error bar: {because}",
                each.node,
                "ask for it of a column that is computed from released numbers by arithmetic",
            )
    details = tuple(each.detail for each in asked)
    derived = tuple(_with_own(prepared, each, details) for each in prepared.derived)
    return replace(prepared, details=details, derived=derived)


def _with_own(
    prepared: PreparedComposed, column: DerivedColumn, details: Sequence[AskedDetail]
) -> DerivedColumn:
    base = distinct(prepared.columns)[column.place]

    def own(kind: str) -> int | None:
        titled = (each for each in details if each.of == column.place and each.kind == kind)
        return next((e.place for e in titled if prepared.columns[e.place] == f"{base}_{kind}"), None)

    stddev, low, high = map(own, DETAILS)
    return replace(column, own=(stddev, low, high))


def numbers_of(prepared: PreparedComposed) -> list[ErrorBar | DerivedColumn]:
    """Return the columns that have errors, in their order."""
    return sorted((*prepared.bars, *prepared.derived), key=lambda each: each.place)


def numeric(prepared: PreparedComposed, found: Sequence[tuple[str, str]]) -> PreparedComposed:
    """Return a statement without derived columns that are no numbers, given all its columns and types."""
    kinds = [kind for name, kind in found if not name.startswith(HIDDEN)]
    kept = tuple(each for each in prepared.derived if kinds[each.place].split("(")[0] in _NUMERIC)
    return replace(prepared, derived=kept)


def filled(
    prepared: PreparedComposed,
    releases: Sequence[Release],
    found: pa.Table,
    tables: tuple[pa.Table, pa.Table, Places],
    errors: Errors,
) -> tuple[pa.Table, pa.Table]:
    """Return the rows and the table of an answer with the details that the statement asks for.

    `found` are the rows of the query with its hidden columns.
    """
    rows, table, places = tables
    if not prepared.details:
        return rows, table
    numbers = dict(zip((each.place for each in numbers_of(prepared)), places.numbers, strict=True))
    for asked in prepared.details:
        if asked.kind in DETAILS:
            at = getattr(numbers[asked.of], asked.kind)
            column = None if at is None else table.column(at)
        else:
            column = doubles(_of_bounds(prepared, releases, found, asked, errors))
        column = pa.nulls(rows.num_rows, pa.float64()) if column is None else column
        rows = rows.set_column(asked.place, rows.column_names[asked.place], column)
        table = table.set_column(asked.place, table.column_names[asked.place], column)
    return rows, table


def _of_bounds(
    prepared: PreparedComposed,
    releases: Sequence[Release],
    found: pa.Table,
    asked: AskedDetail,
    errors: Errors,
) -> NDArray[np.float64]:
    """Return the bound of a column, or what it left out; NaN where that is not known."""
    none = np.full(found.num_rows, np.nan)
    bar = next((bar for bar in prepared.bars if bar.place == asked.of), None)
    if bar is None:
        return errors.bounds.get((asked.of, asked.kind), none)
    noises = releases[bar.release].noises
    known = None if noises is None else getattr(noises[bar.number], asked.kind)
    if known is None:
        return none
    numbers = found.column(bar.row).to_numpy().astype(np.float64)
    there = ~np.isnan(numbers)
    values = np.broadcast_to(np.asarray(known, dtype=np.float64), releases[bar.release].table.num_rows)
    none[there] = values[numbers[there].astype(np.int64)]
    return none
