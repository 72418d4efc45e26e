"""The answers kept in `sql/catalogue.json` are those of a real PostgreSQL 15."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.servers import MissingError, binaries, postgres

from tests.serve.catalog_cases import OIDS, TABLES, statements

pytestmark = pytest.mark.postgres
SQL = Path(__file__).parents[1] / "sql"


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    """A PostgreSQL 15 with the tables, whose first superuser is `dpsql`."""
    psycopg = pytest.importorskip("psycopg")
    try:
        version = subprocess.run(
            [binaries() / "initdb", "--version"], capture_output=True, check=True, text=True
        )
        if " 15." not in version.stdout:
            pytest.skip("the answers are those of PostgreSQL 15")
    except MissingError as missing:
        pytest.skip(str(missing))
    with postgres() as address:
        clinic = address.rpartition("/")[0] + "/clinic"
        with psycopg.connect(address, autocommit=True) as first:
            first.execute("CREATE DATABASE clinic")
            first.execute("CREATE ROLE alice LOGIN")
        with psycopg.connect(clinic, autocommit=True) as owner:
            for name, columns in TABLES.items():
                kinds = {column: kind.replace("VARCHAR", "text") for column, kind in columns.items()}
                if name == "diagnoses":
                    kinds["code"] += " PRIMARY KEY"
                listed = ", ".join(f"{column} {kind}" for column, kind in kinds.items())
                owner.execute(f"CREATE TABLE {name} ({listed})")
            owner.execute("CREATE ROLE renaming SUPERUSER LOGIN")
        with psycopg.connect(clinic, user="renaming", autocommit=True) as other:
            other.execute("ALTER ROLE owner RENAME TO dpsql")
        yield clinic.replace("owner@", "dpsql@")


def test_the_kept_answers_are_those_of_postgresql(dsn: str) -> None:
    from tests.serve.catalog_oracle import COMMENTS, Oracle, expectations

    oracle = Oracle(dsn)
    try:
        oracle.comment(COMMENTS)
        assert oracle.oids() == OIDS
        found = json.loads(expectations(oracle, statements(SQL / "catalogue.sql")))
    finally:
        oracle.close()
    kept = json.loads((SQL / "catalogue.json").read_text(encoding="utf-8"))
    assert found == kept
