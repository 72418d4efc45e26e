"""How an upload is sent to a server: COPY .. FROM STDIN, with its columns' types, and its rows as CSV."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from dpsql.errors import ProgrammingError
from dpsql.language import write_name
from dpsql.uploads import check_columns

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES: Final = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "SMALLINT",
    "uint16": "INTEGER",
    "uint32": "BIGINT",
    "uint64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "date32[day]": "DATE",
}
"""What columns of Arrow are called in SQL, where they can be sent as text and read again."""


def write_upload(name: str, rows: pa.Table, key: str | None) -> tuple[str, bytes]:
    """Return the statement that announces rows, and the rows."""
    import pyarrow as pa  # noqa: PLC0415  few sessions upload
    import pyarrow.csv as arrow_csv  # noqa: PLC0415

    rows = check_columns(name, rows)
    wanted = rows.column_names[0] if key is None else key
    if wanted not in rows.column_names:
        raise ProgrammingError(f"{name[:60]} has no column {wanted[:60]}, by which it would be joined")
    columns = []
    for field in rows.schema:
        kind = "TIMESTAMP" if pa.types.is_timestamp(field.type) else _TYPES.get(str(field.type))
        if pa.types.is_decimal(field.type):
            kind = f"DECIMAL({field.type.precision}, {field.type.scale})"
        if kind is None:
            raise ProgrammingError(f"column {field.name[:60]} of {name[:60]} cannot be sent: cast it")
        columns.append(f"{write_name(field.name)} {kind}{' PRIMARY KEY' if field.name == wanted else ''}")
    sink = io.BytesIO()
    arrow_csv.write_csv(rows, sink)
    listed = ", ".join(columns)
    return f"COPY {write_name(name)} ({listed}) FROM STDIN WITH (FORMAT csv, HEADER)", sink.getvalue()
