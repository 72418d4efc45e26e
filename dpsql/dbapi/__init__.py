"""The Python connector, as PEP 249 specifies it.

`connect` opens a `Connection`, whose `explain` returns the price of a statement before it runs
(``connection``). Its `Cursor` (``cursor``) runs statements and returns rows, Arrow data and the `Release`.
``rows`` has PEP 249's types, and the rows of a result.
"""

from dpsql.dbapi.connection import Connection, Explanation, connect
from dpsql.dbapi.cursor import Cursor
from dpsql.dbapi.rows import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    TypeObject,
)
from dpsql.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004  PEP 249 fixes the name
)

apilevel = "2.0"
"""The version of PEP 249."""
threadsafety = 2
"""Threads may share the module and connections (a lock keeps statements apart), but not cursors."""
paramstyle = "qmark"
"""Markers are `?`; `$name` with a mapping is understood too."""

__all__ = [  # noqa: RUF022  grouped: what connects, PEP 249's constants, types, constructors, exceptions
    "connect",
    "Connection",
    "Cursor",
    "Explanation",
    "apilevel",
    "threadsafety",
    "paramstyle",
    "TypeObject",
    "STRING",
    "BINARY",
    "NUMBER",
    "DATETIME",
    "ROWID",
    "Date",
    "Time",
    "Timestamp",
    "DateFromTicks",
    "TimeFromTicks",
    "TimestampFromTicks",
    "Binary",
    "Warning",
    "Error",
    "InterfaceError",
    "DatabaseError",
    "DataError",
    "OperationalError",
    "IntegrityError",
    "InternalError",
    "ProgrammingError",
    "NotSupportedError",
]
