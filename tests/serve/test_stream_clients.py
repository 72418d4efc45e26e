"""Clients of PostgreSQL and dpsql's own, unmodified, ask one stream of checks on a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import dpsql
from tests.narrow import present
from tests.serve.conftest import Server
from tests.serve.process import DPSQL

psycopg = pytest.importorskip("psycopg")
asyncpg = pytest.importorskip("asyncpg")

pytestmark = pytest.mark.clients

COUNT = "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE visit_date >= DATE '2024-06-01'"


def open_stream(name: str) -> str:
    return f"OPEN CHECKS {name} OPTIONS (epsilon = 0.2, misses = 2, tolerance = 2000)"


def test_psycopg(server: Server) -> None:
    with psycopg.connect(server.address, password=server.password) as connection:
        cursor = connection.execute(open_stream("cop"))
        assert [each.name for each in cursor.description or ()][:2] == ["stream", "state"]
        text = "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE clinic = %s"
        (row,) = connection.execute(f"CHECK cop {text} EXPECT n AT MOST %s", ("Nordstadt", 1e6)).fetchall()
        assert row[1] == "as expected"
        (row,) = connection.execute("SHOW STREAMS").fetchall()
        assert row[:4] == ("cop", "open", 2, 2)
        (row,) = connection.execute("CLOSE STREAM cop").fetchall()
        assert row[1] == "closed"


@pytest.mark.anyio
async def test_asyncpg(server: Server) -> None:
    connection = await asyncpg.connect(
        host="localhost",
        port=server.port,
        user=server.user,
        password=server.password,
        database=server.database,
        ssl=server.tls,
    )
    try:
        await connection.execute(open_stream("pg"))
        (row,) = await connection.fetch(f"CHECK pg {COUNT} EXPECT n BETWEEN $1 AND $2", 0.0, 1e6)
        assert row["checked"] == "as expected"
        (row,) = await connection.fetch("CLOSE STREAM pg")
        assert row["state"] == "closed"
    finally:
        await connection.close()


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql(server: Server) -> None:
    script = f"{open_stream('ps')};\nCHECK ps {COUNT} EXPECT n AT MOST 1000000;\nCLOSE STREAM ps;\n"
    ran = subprocess.run(
        ["psql", server.address, "-v", "ON_ERROR_STOP=1", "-At", "-F", "|"],
        input=script,
        capture_output=True,
        text=True,
        env={"PGPASSWORD": server.password},
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    opened, checked, closed = ran.stdout.splitlines()
    assert opened.startswith("ps|open|2|2|")
    assert "|as expected|" in checked
    assert closed.startswith("ps|closed|")


def test_a_remote_session_and_the_command_line(server: Server, tmp_path: Path) -> None:
    url = f"dpsql://{server.user}@127.0.0.1:{server.port}/{server.database}?sslrootcert={server.certificate}"
    with dpsql.connect(url, password=server.password) as connection:
        assert connection.explain(open_stream("own")).charge.epsilon * 5 == 1
        cursor = connection.cursor()
        cursor.execute(open_stream("own"))
        cursor.execute(f"CHECK own {COUNT} EXPECT n AT MOST 1000000")
        assert present(cursor.fetchone())[1] == "as expected"
    script = tmp_path / "checks.sql"
    script.write_text(f"CHECK own {COUNT} EXPECT n AT MOST 1000001;\nSHOW STREAMS;\nCLOSE STREAM own;\n")
    ran = subprocess.run(
        [
            *(*DPSQL, "-h", "127.0.0.1", "-p", str(server.port), "-U", server.user, "-d", server.database),
            *("-f", str(script)),
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"DPSQL_PASSWORD": server.password, "PGSSLROOTCERT": str(server.certificate)},
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert "as expected" in ran.stdout
    assert "closed" in ran.stdout
