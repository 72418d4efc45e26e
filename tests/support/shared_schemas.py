"""Schema databases that sessions of one test process share where they would be equal.

To open a database takes DuckDB as long as a statement takes dpsql, and most tests open a session of their
own. A schema database has no private row, is locked when it is opened, and is read on cursors of its own: nothing
that a session does to it is seen by another one. Each session still opens the database of its data.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import duckdb
import pyarrow as pa

_MOST = 12
"""How many stay open: neighbouring tests have equal ones."""
_kept = OrderedDict[bytes, duckdb.DuckDBPyConnection]()
"""Databases by what they are made from; the one that was used last is last."""


class _Recorder:
    """Notes what would be executed on a connection."""

    def __init__(self) -> None:
        self.found = hashlib.sha256()

    def execute(self, sql: str, parameters: object = None) -> None:
        self.found.update(f"{sql}\0{parameters!r}\0".encode())


def take_over() -> None:
    """Give each session a cursor of an equal schema database that this process has open."""
    from dpsql.engines import schema_database

    module: Any = schema_database
    open_tables = module._open_tables

    def share(readers: Any, public: Any, domains: Any, memory: int | None) -> duckdb.DuckDBPyConnection:
        key = _key_of(readers, public, domains, memory)
        found = _kept.pop(key, None)
        if found is None or not _is_usable(found):
            found = open_tables(readers, public, domains, memory)
        _kept[key] = found
        forget(_MOST)
        return found.cursor()

    module._open_tables = share


def forget(most: int = 0) -> None:
    """Keep so many of the databases: without any, the next session opens its own as it does elsewhere."""
    while len(_kept) > most:
        _kept.popitem(last=False)[1].close()


def _key_of(readers: Any, public: dict[str, pa.Table], domains: Any, memory: int | None) -> bytes:
    """A digest of all that the tables of a schema database are made from."""
    recorder = _Recorder()
    recorder.execute(
        "", [(each.table.name, each.table.public, each.columns, memory) for each in readers.values()]
    )
    for name, rows in public.items():
        recorder.execute(name, rows.schema)
        written = pa.BufferOutputStream()
        with pa.ipc.new_stream(written, rows.schema) as stream:
            stream.write_table(rows)
        recorder.found.update(written.getvalue())
    domains.create(recorder)
    return recorder.found.digest()


def _is_usable(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether no test closed the database, or broke it."""
    try:
        return connection.execute("SELECT 1").fetchall() == [(1,)]
    except duckdb.Error:
        return False
