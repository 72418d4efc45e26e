"""Unmodified clients answer the cookbook with the numbers of local dpsql, from the same stored releases."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pandas
import pytest
import sqlalchemy

import dpsql
from dpsql.kernel.loss import Charge
from dpsql.language import split_script
from tests.serve.conftest import Server
from tests.serve.process import PASSWORDS
from tests.served import ROOT

adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
asyncpg = pytest.importorskip("asyncpg")
pg8000 = pytest.importorskip("pg8000.dbapi")
psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.clients

STATEMENTS = split_script((ROOT / "examples" / "cookbook.sql").read_text())
Rows = list[tuple[object, ...]]
Answers = list[tuple[list[str], Rows]]
"""Names of columns and rows of each statement."""


@pytest.fixture(scope="module")
def local(server: Server) -> tuple[Answers, Any]:
    """Answer the cookbook over the wire once, which pays for it; then locally, from the stored releases."""
    psql = shutil.which("psql")
    assert psql is not None
    script = ROOT / "examples" / "cookbook.sql"
    done = subprocess.run(
        [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(script), server.address],
        env={**os.environ, "PGPASSWORD": server.password},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with dpsql.connect(server.policy, analyst="alice") as connection:
        spent = connection.budget().spent
        answers: Answers = []
        for text in STATEMENTS:
            cursor = connection.execute(text)
            names = [column[0] for column in cursor.description or ()]
            answers.append((names, plain(cursor.fetchall())))
        assert connection.budget().spent == spent, "a stored release was not found again"
        assert spent.epsilon > 9
    return answers, spent


def plain(rows: Sequence[Sequence[object]]) -> Rows:
    """Return rows with one kind of number for all clients."""
    return [tuple(_plain(value) for value in row) for row in rows]


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def with_psycopg(server: Server, *, binary: bool) -> Answers:
    with psycopg.connect(server.address, password=server.password) as connection:
        answers: Answers = []
        for text in STATEMENTS:
            cursor = connection.execute(text, binary=binary)
            answers.append(([column.name for column in cursor.description], plain(cursor.fetchall())))
        return answers


def with_server_cursors(server: Server) -> Answers:
    with psycopg.connect(server.address, password=server.password) as connection:
        answers: Answers = []
        for number, text in enumerate(STATEMENTS):
            if not text.lstrip().upper().startswith(("SELECT", "WITH", "--")):
                continue
            with connection.cursor(f"c{number}") as cursor:
                cursor.itersize = 3
                cursor.execute(text)
                answers.append(([column.name for column in cursor.description], plain(list(cursor))))
        return answers


async def asyncpg_connection(server: Server) -> Any:
    return await asyncpg.connect(
        host="localhost",
        port=server.port,
        user=server.user,
        password=server.password,
        database=server.database,
        ssl=server.tls,
        timeout=60,
    )


def with_asyncpg(server: Server) -> Answers:
    async def ask() -> Answers:
        connection = await asyncpg_connection(server)
        answers: Answers = []
        for text in STATEMENTS:
            prepared = await connection.prepare(text)
            rows = await prepared.fetch()
            answers.append(([one.name for one in prepared.get_attributes()], plain([*map(tuple, rows)])))
        await connection.close()
        return answers

    return asyncio.run(ask())


def with_pg8000(server: Server) -> Answers:
    connection = pg8000.connect(
        server.user,
        host="localhost",
        port=server.port,
        password=server.password,
        database=server.database,
        ssl_context=server.tls,
        timeout=120,
    )
    cursor = connection.cursor()
    answers: Answers = []
    for text in STATEMENTS:
        cursor.execute(text)
        answers.append(([column[0] for column in cursor.description], plain(cursor.fetchall())))
    connection.close()
    return answers


def with_pandas(server: Server) -> Answers:
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(server.address, password=server.password)
    )
    with engine.connect() as connection:
        answers: Answers = []
        for text in STATEMENTS:
            frame = pandas.read_sql_query(sqlalchemy.text(text.replace(":", "\\:")), connection)
            values = frame.astype(object).where(frame.notna(), None)
            answers.append((list(frame.columns), plain([*values.itertuples(index=False, name=None)])))
    engine.dispose()
    return answers


def with_adbc(server: Server) -> Answers:
    with adbc.connect(f"{server.address} password='{server.password}'") as connection:
        answers: Answers = []
        for text in STATEMENTS:
            with connection.cursor() as cursor:
                cursor.execute(text)
                names = [column[0] for column in cursor.description]
                answers.append((names, plain(cursor.fetchall())))
        return answers


CLIENTS: dict[str, Callable[[Server], Answers]] = {
    "psycopg, text": lambda server: with_psycopg(server, binary=False),
    "psycopg, binary": lambda server: with_psycopg(server, binary=True),
    "psycopg, cursors of the server": with_server_cursors,
    "asyncpg": with_asyncpg,
    "pg8000": with_pg8000,
    "SQLAlchemy and pandas": with_pandas,
    "ADBC": with_adbc,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_answers_the_cookbook_from_the_stored_releases(
    server: Server, local: tuple[Answers, Any], client: str
) -> None:
    expected, spent = local
    assert CLIENTS[client](server) == expected
    with dpsql.connect(server.policy, analyst="alice") as connection:
        assert connection.budget().spent == spent


@pytest.fixture
def as_bob(server: Server) -> Server:
    """The server as bob sees it, who is charged only for what he agreed to."""
    return replace(server, user="bob", password=PASSWORDS["bob"])


def spent_by_bob(server: Server) -> Charge:
    with dpsql.connect(server.policy, analyst="bob") as connection:
        return connection.budget().spent


def test_statements_are_prepared_and_described_without_a_charge(as_bob: Server) -> None:
    before = spent_by_bob(as_bob)

    async def describe() -> None:
        connection = await asyncpg_connection(as_bob)
        for text in STATEMENTS:
            assert (await connection.prepare(text)).get_attributes()
        with pytest.raises(asyncpg.PostgresError) as caught:
            await connection.fetch("SELECT COUNT(*) AS n FROM patients")
        assert caught.value.sqlstate == "ZP001"
        assert "epsilon" in caught.value.hint
        await connection.close()

    asyncio.run(describe())
    assert spent_by_bob(as_bob) == before


def test_a_parameter_is_bound_by_its_announced_type(as_bob: Server) -> None:
    async def ask() -> object:
        connection = await asyncpg_connection(as_bob)
        try:
            return await connection.fetchval(
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2) COUNT(*) AS n FROM visits "
                "WHERE minutes > $1 AND clinic = $2",
                30,
                "Old Mill",
            )
        finally:
            await connection.close()

    found = asyncio.run(ask())
    assert isinstance(found, float)
    assert found > 100


def test_a_key_cancels_a_private_statement_and_the_next_one_is_answered(as_bob: Server) -> None:
    def cancel() -> None:
        question = "SELECT state FROM pg_stat_activity WHERE pid = %s"
        with psycopg.connect(as_bob.address, password=as_bob.password, autocommit=True) as other:
            while other.execute(question, (connection.info.backend_pid,)).fetchone() != ("active",):
                pass
        connection.cancel_safe()

    with psycopg.connect(as_bob.address, password=as_bob.password, autocommit=True) as connection:
        stopping = threading.Thread(target=cancel)
        stopping.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) AS n FROM visits v "
                "JOIN visits w USING (patient_id) JOIN visits x USING (patient_id) "
                "JOIN visits y USING (patient_id) JOIN visits z USING (patient_id)"
            )
        stopping.join()
        assert connection.execute("SELECT COUNT(*) FROM diagnoses").fetchone() == (300,)


def test_the_catalogue_knows_the_connection(as_bob: Server) -> None:
    with psycopg.connect(as_bob.address, password=as_bob.password) as connection:
        assert connection.execute("SELECT current_user, current_database()").fetchone() == ("bob", "clinic")
        with connection.cursor("mine") as cursor:
            cursor.execute("SELECT code FROM diagnoses ORDER BY code")
            names = connection.execute("SELECT name FROM pg_cursors").fetchall()
            assert names == [("mine",)]
            assert len(cursor.fetchmany(7)) == 7
        found = connection.execute("SELECT pid, usename FROM pg_stat_activity").fetchall()
        assert found == [(connection.info.backend_pid, "bob")]


@pytest.mark.parametrize(
    ("mode", "expected"), [("verify-full", (True, "TLSv1.3")), ("disable", (False, None))]
)
def test_the_catalogue_says_whether_the_connection_is_encrypted(
    as_bob: Server, mode: str, expected: tuple[bool, str | None]
) -> None:
    address = as_bob.address.replace("sslmode=verify-full", f"sslmode={mode}")
    if mode == "disable":
        address = address.replace("channel_binding=require", "channel_binding=disable")
    with psycopg.connect(address, password=as_bob.password) as connection:
        found = connection.execute("SELECT pid, ssl, version FROM pg_stat_ssl").fetchall()
        assert found == [(connection.info.backend_pid, *expected)]
        if mode != "disable":
            ((cipher, bits),) = connection.execute("SELECT cipher, bits FROM pg_stat_ssl").fetchall()
            assert bits in (128, 256)
            assert str(bits) in cipher or "CHACHA20" in cipher
