"""The compliance suite of PEP 249 over a real session.

dpsql writes no data, so what the suite creates, inserts and drops is done by the owner, beside dpsql; the
tables are declared public.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import duckdb
import pytest

import dpsql
from dpsql.dbapi import Connection, Cursor
from dpsql.policy import load
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 1
[tables.dbapi20test_booze]
source = "booze.parquet"
public = true
[tables.dbapi20test_barflys]
source = "barflys.parquet"
public = true
"""
TABLES = {"booze": "name VARCHAR", "barflys": "name VARCHAR, drink VARCHAR"}
WRITES = re.compile(r"\s*(create|insert|drop)\b", re.IGNORECASE)


def suite() -> ModuleType:
    """Load the suite, which lies beside this file and is no test module itself."""
    spec = importlib.util.spec_from_file_location("dbapi20", Path(__file__).with_name("dbapi20.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Owner:
    """Keeps the tables and shows them to dpsql as the policy's sources."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = duckdb.connect()
        (folder / "dpsql.toml").write_text(POLICY)
        self.publish()

    def publish(self) -> None:
        made = {
            name for (name,) in self.database.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        }
        for name, columns in TABLES.items():
            if f"dbapi20test_{name}" not in made:
                self.database.execute(f"CREATE TABLE dbapi20test_{name} ({columns})")
            file = self.folder / f"{name}.parquet"
            self.database.execute(f"COPY dbapi20test_{name} TO '{file}' (FORMAT parquet)")

    def write(self, sql: str, parameters: Sequence[Any]) -> None:
        sql = re.sub(r"^\s*create table", "CREATE OR REPLACE TABLE", sql, flags=re.IGNORECASE)
        self.database.execute(sql, list(parameters))
        self.publish()

    def session(self) -> Session:
        return Session(load(self.folder / "dpsql.toml"))

    def close(self) -> None:
        self.database.close()


class OwnersCursor(Cursor):
    """Hands what writes to the owner, everything else to dpsql's own cursor."""

    def execute(self, operation: str, parameters: Any = None) -> Self:
        if WRITES.match(operation):
            self._begin()
            connection = self.connection
            assert isinstance(connection, OwnersConnection)
            connection.owner.write(operation, parameters or ())
            return self
        return super().execute(operation, parameters)

    def executemany(self, operation: str, seq_of_parameters: Iterable[Any]) -> Self:
        if WRITES.match(operation):
            for parameters in seq_of_parameters:
                self.execute(operation, parameters)
            return self
        return super().executemany(operation, seq_of_parameters)


class OwnersConnection(Connection):
    """dpsql's connection with the owner standing by."""

    def __init__(self, folder: Path) -> None:
        self.owner = Owner(folder)
        super().__init__(self.owner.session())

    def cursor(self) -> OwnersCursor:
        super().cursor()
        return OwnersCursor(self, self._session)

    def close(self) -> None:
        super().close()
        self.owner.close()


class Driver:
    """The module `dpsql`, with `connect` opening a policy of two public tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(dpsql, name)

    def connect(self) -> OwnersConnection:
        return OwnersConnection(Path(tempfile.mkdtemp(dir=self.folder)))


SUITE: Any = suite().DatabaseAPI20Test
SUITE.__test__ = False  # only the subclass below can run
TESTS = sorted(name for name in dir(SUITE) if name.startswith("test_"))


class Case(SUITE):  # type: ignore[misc]  # the suite has no types
    """The suite, with the two tests that every driver has to write itself."""

    __test__ = False

    def test_nextset(self) -> None:
        con = self._connect()
        assert not hasattr(con.cursor(), "nextset")
        con.close()

    def test_setoutputsize(self) -> None:
        con = self._connect()
        cursor = con.cursor()
        cursor.setoutputsize(1)
        assert cursor.execute("SELECT 'longer than 1'").fetchone() == ("longer than 1",)
        con.close()

    def tearDown(self) -> None:
        """Leave nothing to drop: every connection has tables of its own."""


def test_the_suite_is_whole() -> None:
    assert len(TESTS) == 36


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.sampled(5)
def test_compliance(name: str, tmp_path: Path) -> None:
    case = Case(name)
    case.driver = Driver(tmp_path)
    getattr(case, name)()


def test_the_suite_notices_a_driver_that_does_not_comply(tmp_path: Path) -> None:
    case = Case("test_apilevel")
    case.driver = type("Wrong", (), {"apilevel": "1.0"})
    with pytest.raises(AssertionError):
        case.test_apilevel()
    assert "dbapi20" not in sys.modules
