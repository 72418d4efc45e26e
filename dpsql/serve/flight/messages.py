"""The messages of Arrow Flight and Flight SQL that the server reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.serve.flight.protobuf import Fields, MalformedMessageError, read, write

# Of Flight.

HANDSHAKE: Fields = {1: ("protocol_version", "int"), 2: ("payload", "bytes")}
DESCRIPTOR: Fields = {1: ("type", "int"), 2: ("cmd", "bytes"), 3: ("path", "list")}
COMMAND_DESCRIPTOR = 2
"""The type of a descriptor that holds a command."""
TICKET: Fields = {1: ("ticket", "bytes")}
TIMESTAMP: Fields = {1: ("seconds", "int"), 2: ("nanos", "int")}
ENDPOINT: Fields = {1: ("ticket", "bytes"), 2: ("location", "list"), 3: ("expiration_time", "bytes")}
INFO: Fields = {
    1: ("schema", "bytes"),
    2: ("flight_descriptor", "bytes"),
    3: ("endpoint", "list"),
    4: ("total_records", "int"),
    5: ("total_bytes", "int"),
    6: ("ordered", "bool"),
    7: ("app_metadata", "bytes"),
}
SCHEMA_RESULT: Fields = {1: ("schema", "bytes")}
ACTION: Fields = {1: ("type", "text"), 2: ("body", "bytes")}
ACTION_TYPE: Fields = {1: ("type", "text"), 2: ("description", "text")}
RESULT: Fields = {1: ("body", "bytes")}
DATA: Fields = {
    1: ("flight_descriptor", "bytes"),
    2: ("data_header", "bytes"),
    3: ("app_metadata", "bytes"),
    1000: ("data_body", "bytes"),
}
DATA_HEADER, DATA_BODY = 2, 1000
PUT_RESULT: Fields = {1: ("app_metadata", "bytes")}
CANCEL_REQUEST: Fields = {1: ("info", "bytes")}
CANCEL_RESULT: Fields = {1: ("status", "int")}
CANCELLED, CANCELLING, NOT_CANCELLABLE = 1, 2, 3
SET_OPTIONS: Fields = {1: ("session_options", "list")}
OPTION_ENTRY: Fields = {1: ("key", "text"), 2: ("value", "bytes")}
OPTION_VALUE: Fields = {1: ("text", "text"), 2: ("flag", "bool"), 3: ("whole", "bytes")}
SET_RESULT: Fields = {1: ("errors", "list")}
OPTION_ERROR: Fields = {1: ("value", "int")}
OPTION_ERROR_ENTRY: Fields = {1: ("key", "text"), 2: ("value", "bytes")}
INVALID_NAME, INVALID_VALUE = 1, 2
GET_RESULT: Fields = {1: ("session_options", "list")}
CLOSE_RESULT: Fields = {1: ("status", "int")}
CLOSED = 1

# Of Flight SQL, each in an `Any`.

ANY: Fields = {1: ("type_url", "text"), 2: ("value", "bytes")}
_PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."

_NAMED_TABLE: Fields = {1: ("catalog", "text"), 2: ("db_schema", "text"), 3: ("table", "text")}
SQL: Mapping[str, Fields] = {
    "CommandStatementQuery": {1: ("query", "text"), 2: ("transaction_id", "bytes")},
    "CommandStatementUpdate": {1: ("query", "text"), 2: ("transaction_id", "bytes")},
    "CommandPreparedStatementQuery": {1: ("prepared_statement_handle", "bytes")},
    "CommandPreparedStatementUpdate": {1: ("prepared_statement_handle", "bytes")},
    "CommandGetCatalogs": {},
    "CommandGetDbSchemas": {1: ("catalog", "text"), 2: ("db_schema_filter_pattern", "text")},
    "CommandGetTables": {
        1: ("catalog", "text"),
        2: ("db_schema_filter_pattern", "text"),
        3: ("table_name_filter_pattern", "text"),
        4: ("table_types", "list"),
        5: ("include_schema", "bool"),
    },
    "CommandGetTableTypes": {},
    "CommandGetSqlInfo": {1: ("info", "ints")},
    "CommandGetXdbcTypeInfo": {1: ("data_type", "int")},
    "CommandGetPrimaryKeys": _NAMED_TABLE,
    "CommandGetExportedKeys": _NAMED_TABLE,
    "CommandGetImportedKeys": _NAMED_TABLE,
    "CommandGetCrossReference": {},
    "ActionCreatePreparedStatementRequest": {1: ("query", "text"), 2: ("transaction_id", "bytes")},
    "ActionCreatePreparedStatementResult": {
        1: ("prepared_statement_handle", "bytes"),
        2: ("dataset_schema", "bytes"),
        3: ("parameter_schema", "bytes"),
    },
    "ActionClosePreparedStatementRequest": {1: ("prepared_statement_handle", "bytes")},
    "ActionCancelQueryRequest": {1: ("info", "bytes")},
    "ActionCancelQueryResult": {1: ("result", "int")},
}
"""The messages of Flight SQL, by name."""
UPDATE_RESULT: Fields = {1: ("record_count", "int")}
PREPARED_RESULT: Fields = {1: ("prepared_statement_handle", "bytes")}


def read_any(data: bytes) -> tuple[str, dict[str, Any]]:
    """Read a message of Flight SQL: its name and fields."""
    wrapped = read(ANY, data)
    url = wrapped.get("type_url", "")
    name = url.removeprefix(_PREFIX)
    if name == url or name not in SQL:
        raise MalformedMessageError("this is no message of Flight SQL that is known here")
    return name, read(SQL[name], wrapped.get("value", b""))


def write_any(name: str, values: Mapping[str, Any]) -> bytes:
    """Write a message of Flight SQL."""
    return write(ANY, {"type_url": _PREFIX + name, "value": write(SQL[name], values)})
