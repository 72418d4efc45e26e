"""The drivers of PostgreSQL, unmodified, against the wire protocol: what they send is what it answers."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serve.listening import Listening

asyncpg = pytest.importorskip("asyncpg")
pg8000 = pytest.importorskip("pg8000.dbapi")
psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.clients

VALUES = """
    SELECT true AS b, 7::SMALLINT AS i2, -7 AS i4, 9007199254740993 AS i8, 0.1::DOUBLE AS f8,
           1.50::DECIMAL(9, 2) AS n, 'Ménière' AS t, DATE '2026-11-23' AS d, TIME '03:04:05.000006' AS tm,
           TIMESTAMP '2026-11-23 03:04:05.6' AS ts,
           '\\x00\\xFF'::BLOB AS y, [1, NULL, 3] AS a, NULL::INT AS z
"""
EXPECTED = {
    "b": True,
    "i2": 7,
    "i4": -7,
    "i8": 9007199254740993,
    "f8": 0.1,
    "n": decimal.Decimal("1.50"),
    "t": "Ménière",
    "d": datetime.date(2026, 11, 23),
    "tm": datetime.time(3, 4, 5, 6),
    "ts": datetime.datetime(2026, 11, 23, 3, 4, 5, 600_000),
    "y": b"\x00\xff",
    "a": [1, None, 3],
    "z": None,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    with Listening(tmp_path_factory.mktemp("server")) as listening:
        yield listening


@pytest.fixture
def when_waiting(server: Listening) -> Iterator[Any]:
    """Give a function that does something in a thread once a statement waits."""
    threads: list[threading.Thread] = []

    def then(action: Any) -> None:
        def wait() -> None:
            server.call(server.bench.service.began.wait())
            action()

        threads.append(threading.Thread(target=wait))
        threads[-1].start()

    server.call(server.bench.service.begin_anew())
    yield then
    for thread in threads:
        thread.join(30)


def psql(server: Listening, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    program = shutil.which("psql")
    if program is None:
        pytest.skip("psql is not installed")
    address = f"host=localhost hostaddr=127.0.0.1 port={server.port} user=alice dbname=shop"
    secured = f"sslmode=verify-full sslrootcert={server.certificate} channel_binding=require"
    return subprocess.run(
        [program, "-X", f"{address} {secured}", *arguments],
        env=os.environ | {"PGPASSWORD": server.password},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_psql_asks_over_tls_bound_to_the_certificate(server: Listening) -> None:
    done = psql(server, "-At", "-c", "SELECT 1, 'é'", "-c", "SELECT 2; SELECT NULL, 3")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1|é\n2\n|3\n", "")


def test_psql_shows_the_place_of_an_error(server: Listening) -> None:
    done = psql(server, "-c", "SELECT 'é\n', oops")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "ERROR:  this shows single patients"
    assert lines[1].index("oops") == lines[2].index("^")
    assert lines[3] == "HINT:  count them"


def test_psql_runs_a_script_with_a_transaction_a_cursor_and_a_copy(server: Listening) -> None:
    script = """
        \\set FETCH_COUNT 2
        SELECT * FROM range(5);
        \\unset FETCH_COUNT
        BEGIN;
        SELECT oops;
        SELECT 1;
        ROLLBACK;
        \\copy (SELECT 1 AS a, 'x,y' AS b) TO STDOUT (FORMAT csv, HEADER)
        SELECT 'noticed';
        \\conninfo
    """
    done = psql(server, "-At", stdin=script)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:5] == [str(n) for n in range(5)]
    assert lines[5:10] == ["BEGIN", "ROLLBACK", "a,b", '1,"x,y"', "noticed"]
    assert "the transaction has failed" in done.stderr
    assert "NOTICE:  epsilon 0.5 charged" in done.stderr
    assert "SSL connection (protocol: TLSv1.3" in done.stdout


def test_psql_sees_a_wrong_password(server: Listening) -> None:
    right, server.password = server.password, "wrong"
    try:
        done = psql(server, "-c", "SELECT 1")
    finally:
        server.password = right
    assert done.returncode == 2
    assert 'password authentication failed for user "alice"' in done.stderr


def connect(server: Listening, **more: Any) -> Any:
    return psycopg.connect(
        host="localhost",
        hostaddr="127.0.0.1",
        port=server.port,
        user="alice",
        password=server.password,
        dbname="shop",
        sslmode="verify-full",
        sslrootcert=str(server.certificate),
        channel_binding="require",
        **more,
    )


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_every_type(server: Listening, binary: bool) -> None:
    with connect(server) as connection, connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        cursor.execute(VALUES, binary=binary)
        assert cursor.fetchone() == EXPECTED
        assert connection.info.server_version == 150_000


def test_psycopg_binds_prepares_and_pipelines(server: Listening) -> None:
    with connect(server) as connection:
        for number in range(8):
            found = connection.execute("SELECT %s::int + 1, %s::text", (number, "é"), prepare=True).fetchone()
            assert found == (number + 1, "é")
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int", (number,)) for number in range(5)]
            assert [cursor.fetchone() for cursor in cursors] == [(number,) for number in range(5)]
        with connection.transaction(), connection.transaction():
            assert connection.execute("SELECT 5").fetchone() == (5,)
        with connection.cursor("named") as cursor:
            cursor.execute("SELECT * FROM range(%s::int)", (10,))
            assert cursor.fetchmany(3) == [(0,), (1,), (2,)]
            assert len(cursor.fetchall()) == 7


def test_psycopg_sees_errors_and_goes_on(server: Listening) -> None:
    with connect(server) as connection:
        with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
            connection.execute("SELECT 'é', oops")
        assert caught.value.diag.statement_position == "13"
        assert caught.value.diag.message_hint == "count them"
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("form", ["text", "binary"])
def test_psycopg_copies_out(server: Listening, form: str) -> None:
    with (
        connect(server) as connection,
        connection.cursor() as cursor,
        cursor.copy(f"COPY (SELECT i::INT, 'x' || i FROM range(3) t(i)) TO STDOUT (FORMAT {form})") as copy,
    ):
        copy.set_types(["int4", "text"])
        assert list(copy.rows()) == [(0, "x0"), (1, "x1"), (2, "x2")]


def test_psycopg_cancels(server: Listening, when_waiting: Any) -> None:
    with connect(server) as connection:
        when_waiting(connection.cancel_safe)
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT 'wait'")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_asyncpg(server: Listening) -> None:
    async def ask() -> None:
        context = ssl.create_default_context(cafile=str(server.certificate))
        connection = await asyncpg.connect(
            host="localhost",
            port=server.port,
            user="alice",
            password=server.password,
            database="shop",
            ssl=context,
            timeout=20,
        )
        try:
            # It asks the catalogue about arrays, which nobody answers here.
            found = await connection.fetchrow(f"SELECT * EXCLUDE (a) FROM ({VALUES})")
            assert {**found, "a": EXPECTED["a"]} == EXPECTED
            assert await connection.fetchval("SELECT $1::int + 1", 41) == 42
            async with connection.transaction():
                rows = [row["range"] async for row in connection.cursor("SELECT * FROM range(7)", prefetch=3)]
            assert rows == list(range(7))
            with pytest.raises(asyncpg.FeatureNotSupportedError) as caught:
                await connection.fetch("SELECT oops")
            assert caught.value.position == "8"
            with pytest.raises(TimeoutError):
                await connection.fetch("SELECT 'wait'", timeout=0.2)
            assert await connection.fetchval("SELECT 3") == 3
            async with connection.transaction():
                with pytest.raises(asyncpg.FeatureNotSupportedError):
                    async with connection.transaction():
                        await connection.fetch("SELECT oops")
                assert await connection.fetchval("SELECT 4") == 4
        finally:
            await connection.close()

    asyncio.run(ask())


def test_pg8000(server: Listening) -> None:
    context = ssl.create_default_context(cafile=str(server.certificate))
    connection = pg8000.connect(
        "alice",
        host="localhost",
        port=server.port,
        password=server.password,
        database="shop",
        ssl_context=context,
        timeout=20,
    )
    cursor = connection.cursor()
    cursor.execute(VALUES)
    names = [column[0] for column in cursor.description]
    assert dict(zip(names, cursor.fetchone(), strict=True)) == EXPECTED
    cursor.execute("SELECT %s::int + 1, %s", (41, "é"))
    assert cursor.fetchall() == ([42, "é"],)
    with pytest.raises(pg8000.DatabaseError) as caught:
        cursor.execute("SELECT oops")
    assert caught.value.args[0]["C"] == "0A000"
    connection.rollback()
    cursor.execute("SELECT 1")
    assert cursor.fetchone() == [1]
    connection.close()


def test_no_connection_and_no_error_of_ours_is_left(server: Listening) -> None:
    async def left() -> int:
        async with asyncio.timeout(20):
            await server.bench.connections.wait_closed()
        return len(server.bench.connections)

    assert server.call(left()) == 0
    assert [fields for event, fields in server.bench.events if event == "bug"] == []
