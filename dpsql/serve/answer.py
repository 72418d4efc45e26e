"""What a client is given for a statement, over any protocol: rows, columns and messages.

The messages of a release tell charge, budget left, precision and numbers of releases. Nothing in them is
absent from the release or the budget, so they tell no more of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from dpsql.estimates import figure
from dpsql.language import plain
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import shown
from dpsql.release import places_of
from dpsql.render.figures import Estimate
from dpsql.render.lines import sentences

if TYPE_CHECKING:
    from dpsql.ledger import Budget
    from dpsql.release import Release


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """A column of an answer."""

    name: str
    type: pa.DataType
    oid: int | None = None
    """The type's number in PostgreSQL's catalogue, where the Arrow type does not tell it."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice or a warning that is sent beside the rows of an answer."""

    severity: Literal["NOTICE", "WARNING"]
    text: str
    hint: str | None = None


class Encoded:
    """The rows of an answer as a protocol sends them, kept with the answer up to a number of bytes.

    Only the thread of the event loop uses it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._kept: dict[tuple[object, ...], bytes] = {}

    def get(self, form: tuple[object, ...]) -> bytes | None:
        """Return the rows in a form that was sent before; None if they were not kept."""
        return self._kept.get(form)

    def put(self, form: tuple[object, ...], rows: bytes) -> None:
        """Keep the rows in a form, if there is room."""
        if form not in self._kept and len(rows) <= self._left:
            self._kept[form] = rows
            self._left -= len(rows)


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a statement, and what is said beside them."""

    columns: tuple[AnswerColumn, ...]
    table: pa.Table
    notices: tuple[Notice, ...] = ()
    release: Release | None = None
    tag: str = "SELECT"
    """The word for what was done; the wire adds the number of rows to SELECT."""
    changes: tuple[tuple[str, str, bool], ...] = ()
    """Settings that the statement changes by `set_config`: name, value, whether for the transaction only."""
    encoded: Encoded | None = field(default=None, compare=False, repr=False)
    """Where its rows are kept as they were sent, if the answer is given again."""


@dataclass(frozen=True, slots=True)
class Described:
    """The parameters and the columns of a statement that was not run."""

    parameters: tuple[pa.DataType, ...]
    columns: tuple[AnswerColumn, ...]
    parameter_oids: tuple[int | None, ...] = ()
    """The catalogue's numbers of the parameters' types, where it has any."""


def columns_of(schema: pa.Schema) -> tuple[AnswerColumn, ...]:
    """Return the columns of a result with this schema."""
    return tuple(AnswerColumn(field.name, field.type) for field in schema)


def empty_answer(schema: pa.Schema, *notices: Notice) -> Answer:
    """Return an answer with these columns and no rows."""
    return Answer(columns_of(schema), schema.empty_table(), notices)


# -- parameters and types that were announced


def put_arrays_back(parameters: Sequence[object] | None, values: tuple[object, ...]) -> tuple[object, ...]:
    """Put the arrays among the parameters back, item by item: the catalogue alone takes arrays."""
    return tuple(
        list(plain(given) or ()) if isinstance(given, list) else value
        for given, value in zip(parameters or (), values, strict=True)
    )


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with announced types: a literal's type depends on its value, and that was a dummy's.

    How many digits a DECIMAL has is not announced.
    """
    if table.schema.types == schema.types or len(table.schema) != len(schema):
        return table
    fields = []
    for own, announced in zip(table.schema, schema, strict=True):
        wanted = announced.type
        if pa.types.is_decimal(wanted):
            wanted = own.type if pa.types.is_decimal(own.type) else pa.decimal128(38, wanted.scale)
        fields.append(own.with_type(wanted))
    try:
        return table.cast(pa.schema(fields, table.schema.metadata))
    except pa.ArrowInvalid:
        return table


# -- messages


RELOADED = Notice("NOTICE", "the policy was read again: what it says now holds from this statement on")


def messages_of(release: Release, budget: Budget | None = None) -> tuple[Notice, ...]:
    """Return the notice of a release, and its warnings; `budget` is what is left if something was charged."""
    parts = release.parts or (release,)
    new = [part for part in parts if part.reused is None]
    said = []
    if new and budget is not None:
        charged = sum((part.charge.epsilon for part in new), Fraction(0))
        left, total = (shown(part.epsilon, up=False) for part in (budget.remaining, budget.total))
        said.append(f"epsilon {shown(charged, up=True)} charged, {left} of {total} left")
    said += _describe_precision(release)
    said += sentences(release)
    said += _list_numbers(new)
    said += [
        f"reused release {old.number} of {old.reused.day} {old.reused:%b}" for old in parts if old.reused
    ]
    if not new:
        said.append("epsilon 0")
    if release.charged_again:
        said.append(release.charged_again)
    warnings = (Notice("WARNING", text) for text in release.warnings)
    return (Notice("NOTICE", "; ".join(said)), *warnings)


def _list_numbers(parts: list[Release]) -> list[str]:
    """Return the numbers of releases in words."""
    numbers = [str(part.number) for part in parts if part.number is not None]
    return [f"release{'s' * (len(numbers) > 1)} {', '.join(numbers)}"] if numbers else []


def _describe_precision(release: Release) -> list[str]:
    """Return how wide the intervals of the first count are, or the ends of a single one."""
    level = f"{float(100 * release.confidence):g}%"
    for number in places_of(release).numbers:
        if number.low is None or number.high is None:
            continue
        name = release.table.column_names[number.place]
        shown = (number.place, number.low, number.high)
        ends = [release.table.column(each).to_pylist() for each in shown]
        found = [Estimate(*row) for row in zip(*ends, strict=True) if row[0] is not None]
        whole = [each for each in found if each.low is not None and each.high is not None]
        if not whole:
            continue
        even = all(each.half is not None for each in whole)
        if len(found) == 1 and not even:
            return [f"{name} {found[0].text()[1].strip('()')} ({level})"]
        reaches = [each.farther for each in whole]
        least, most = figure(min(reaches)), figure(max(reaches))
        span = least if least == most else f"{least} to {most}"
        others = f", {len(found) - len(whole)} of {len(found)} without one" if len(whole) < len(found) else ""
        return [f"{name} {'±' if even else 'off by at most'} {span} ({level}{others})"]
    return []
