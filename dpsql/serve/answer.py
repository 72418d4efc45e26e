"""What a client is given for a statement, over any protocol."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.release import Release


@dataclass(frozen=True, slots=True)
class Column:
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

    columns: tuple[Column, ...]
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
    columns: tuple[Column, ...]
    parameter_oids: tuple[int | None, ...] = ()
    """The catalogue's numbers of the parameters' types, where it has any."""


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns of a result with this schema."""
    return tuple(Column(field.name, field.type) for field in schema)
