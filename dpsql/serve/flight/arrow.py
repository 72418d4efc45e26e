"""Arrow data in the messages of Flight: schemas, the batches of a result, the values of parameters."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence

import pyarrow as pa

from dpsql.errors import OperationalError
from dpsql.serve.flight.messages import DATA, DATA_BODY, DATA_HEADER
from dpsql.serve.flight.protobuf import chunks, read

MESSAGE = 1 << 20
"""Bytes of a result in one message, about: clients refuse messages of 4 MiB and more."""
LARGEST_PARAMETERS = 256 << 10
"""The most bytes of the parameters of a statement."""
MOST_PARAMETERS = 1000
_NUMBERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64()),
)


class ParametersRefused(OperationalError):  # noqa: N818  an event, as `QueueFull`
    """The parameters that were sent cannot be read."""

    sqlstate = "22023"
    hint = "send one row, with a number, text, date, time, timestamp, boolean or bytes for each parameter"


def schema_bytes(schema: pa.Schema) -> bytes:
    """Return a schema as a message of Arrow's format."""
    return bytes(schema.serialize())


def flight_data(table: pa.Table) -> Iterator[bytes]:
    """Yield the messages of a result: its schema, then its rows."""
    if any("dictionary" in str(field.type) for field in table.schema):
        yield from _with_dictionaries(table)
        return
    yield _data(pa.ipc.read_message(table.schema.serialize()))
    rows = max(1, MESSAGE * table.num_rows // max(table.nbytes, 1))
    for batch in table.to_batches(max_chunksize=rows):
        yield _data(pa.ipc.read_message(batch.serialize()))


def _with_dictionaries(table: pa.Table) -> Iterator[bytes]:
    """Yield the messages of a table whose dictionaries have messages of their own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())
    yield from map(_data, pa.ipc.MessageReader.open_stream(sink.getvalue()))


def _data(message: pa.Message) -> bytes:
    parts = [*chunks(DATA_HEADER, memoryview(message.metadata))]
    body = message.body
    if body is not None and body.size:
        parts += chunks(DATA_BODY, memoryview(body))
    return b"".join(parts)


def size_of(text: str) -> int:
    """Return the bytes of memory that a text takes, about."""
    return 200 + 4 * len(text)


class ParameterStream:
    """The messages by which a client sends the values of parameters: one row."""

    def __init__(self) -> None:
        self._written = io.BytesIO()

    def add(self, data: bytes) -> bytes:
        """Take one message; return the descriptor that it has."""
        found = read(DATA, data)
        header, body = found.get("data_header", b""), found.get("data_body", b"")
        if self._written.tell() + len(header) + len(body) > LARGEST_PARAMETERS:
            raise ParametersRefused(f"the parameters are larger than {LARGEST_PARAMETERS:,} bytes")
        if header:
            padded = header + bytes(-len(header) % 8)
            self._written.write(struct.pack("<Ii", 0xFFFFFFFF, len(padded)))
            self._written.write(padded)
            self._written.write(body + bytes(-len(body) % 8))
        return bytes(found.get("flight_descriptor", b""))

    @property
    def size(self) -> int:
        """The bytes of memory that the values take, at most about."""
        return 200 + 4 * self._written.tell()

    def values(self) -> tuple[tuple[object, ...], tuple[pa.DataType | None, ...]]:
        """Return the values and their types; None where the client leaves a type open.

        Without a row there are no values. Raises `ParametersRefused`.
        """
        try:
            found = self._row()
        except ParametersRefused:
            raise
        except Exception:  # noqa: BLE001  whatever pyarrow says of bytes that are no Arrow data
            raise ParametersRefused("the parameters are no Arrow data") from None
        values, types = tuple(value for value, _ in found), tuple(kind for _, kind in found)
        return values, types

    def _row(self) -> list[tuple[object, pa.DataType | None]]:
        reader = pa.ipc.open_stream(self._written.getvalue())
        if len(reader.schema) > MOST_PARAMETERS or not all(map(_readable, reader.schema.types)):
            raise ParametersRefused("the parameters have a type that is not known here")
        table = reader.read_all()
        table.validate(full=True)
        if table.num_rows > 1:
            raise ParametersRefused("the parameters have more than one row")
        return [(column[0].as_py(), _plain(column.type)) for column in table.columns if table.num_rows]


def _plain(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that is announced for a parameter; None where the statement tells it."""
    if pa.types.is_null(kind) or pa.types.is_union(kind):
        return None
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _readable(kind: pa.DataType) -> bool:
    """Return whether a value of a type can be one of a parameter."""
    if pa.types.is_union(kind):
        return all(_scalar(kind.field(place).type) for place in range(kind.num_fields))
    return _scalar(kind)


def _scalar(kind: pa.DataType) -> bool:
    tests = (
        *(pa.types.is_boolean, pa.types.is_string, pa.types.is_large_string, pa.types.is_binary),
        *(pa.types.is_large_binary, pa.types.is_date, pa.types.is_time, pa.types.is_timestamp),
        *(pa.types.is_decimal, pa.types.is_null),
    )
    return kind in _NUMBERS or any(test(kind) for test in tests)


def parameter_schema(types: Sequence[pa.DataType]) -> pa.Schema:
    """Return the schema of the parameters of a statement, which are named by their places."""
    return pa.schema([(str(place), kind) for place, kind in enumerate(types, 1)])
