"""The columns of a prepared statement's answer. Nothing is run, and nothing is charged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dpsql.analysis import layout
from dpsql.certificates import COLUMNS as CERTIFICATE
from dpsql.composition.outer import layout_of
from dpsql.errors import InternalError
from dpsql.language import Describe, Show
from dpsql.prepared import (
    Explained,
    Prepared,
    PreparedCommand,
    PreparedComposed,
    PreparedPrivate,
    PreparedPublic,
)
from dpsql.release import places_of

if TYPE_CHECKING:
    from dpsql.analysis import Output
    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.places import Places
    from dpsql.release import Release

_EXPLAIN = ("property", "value")
_SHOW = {
    "budget": ("scope", "total", "spent", "remaining"),
    "tables": ("table", "unit", "protects"),
    "releases": ("number", "when", "selection", "epsilon", "part", "statement"),
    "release": ("release",),
}
_DESCRIBE = ("column", "type", "domain")
"""The columns of commands; all are texts but the number of a release."""


def schema_of(prepared: Prepared, *, intervals: bool = False) -> pa.Schema:
    """Return the schema of a statement's answer, with the ends of intervals if they are shown."""
    match prepared:
        case PreparedPrivate():
            plain = _of_release(prepared)
        case PreparedComposed():
            types = {relation.name: relation.columns for relation in prepared.relations}
            database = prepared.engines.schema_database
            plain = database.schema_over(types, prepared.outer)
        case PreparedPublic():
            return prepared.engines.schema_database.schema(prepared.sql, prepared.text)
        case PreparedCommand():
            return _of_command(prepared)
    for name in ends(prepared) if intervals else ():
        plain = plain.append(pa.field(name, pa.float64()))
    return plain


def ends(prepared: PreparedPrivate | PreparedComposed) -> tuple[str, ...]:
    """Return the names of the columns that the ends of intervals are added as."""
    if isinstance(prepared, PreparedComposed):
        shown, (names, places) = len(prepared.columns), layout_of(prepared)
    else:
        shown, (names, places) = len(prepared.plan.outputs), layout(prepared.plan.outputs)
    return tuple(names[place] for place in _added(places, shown))


def with_ends(release: Release, names: tuple[str, ...]) -> pa.Table:
    """Return the rows of a release with the ends of its intervals, under these names."""
    rows = release.rows
    for name, place in zip(names, _added(places_of(release), rows.num_columns), strict=True):
        rows = rows.append_column(name, release.table.column(place))
    return rows


def _added(places: Places, shown: int) -> list[int]:
    """Return the places of the ends of intervals that are not among the rows, which have so many columns."""
    ends = (end for number in places.numbers for end in (number.low, number.high))
    return [end for end in ends if end is not None and end >= shown]


def _of_release(prepared: PreparedPrivate) -> pa.Schema:
    database = prepared.engines.schema_database
    keys = prepared.plan.key_types
    return pa.schema(
        (
            output.name,
            database.arrow_type(str(keys[output.of]))
            if output.kind == "key"
            else _of_number(output, database),
        )
        for output in prepared.plan.outputs
    )


def _of_number(output: Output, database: SchemaDatabase) -> pa.DataType:
    """Return the type of a released number."""
    if output.quantile is not None:
        kind = output.quantile.type
        return pa.int64() if kind.integer else database.arrow_type(str(kind))
    return pa.int64() if output.kind == "rank" else pa.float64()


def _of_command(prepared: PreparedCommand) -> pa.Schema:
    match prepared.command:
        case Explained(form="JSON"):
            names: tuple[str, ...] = ("explain",)
        case Explained(form="CERTIFICATE"):
            names = CERTIFICATE
        case Explained():
            names = _EXPLAIN
        case Show() as show:
            names = _SHOW[show.what]
        case Describe():
            names = _DESCRIBE
        case _:
            raise InternalError("a setting has no columns")
    return pa.schema((name, pa.int64() if name == "number" else pa.string()) for name in names)
