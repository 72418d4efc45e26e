"""dpsql's own clients of `dpsql serve` on the shipped clinic: Python, command line, SQLAlchemy, programs."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import pandas
import pytest
import sqlalchemy

import dpsql
from dpsql.kernel.loss import Charge
from dpsql.serve.users import User
from tests.serve.process import DPSQL, Running, free_port, running, token_of
from tests.served import ROOT, clinic, let_in

mcp = pytest.importorskip("mcp")
import httpx2  # noqa: E402  as the SDK, whose client takes it
from mcp.client.streamable_http import streamable_http_client  # noqa: E402
from mcp_types import ElicitResult  # noqa: E402

pytestmark = pytest.mark.clients

PASSWORD = "correct horse battery"
SERVE = """
[serve]
listen = ["127.0.0.1:{wire}"]
name = "shop"
[mcp]
listen = "127.0.0.1:{http}"
ask_person_above = 0.5
"""
ASK = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)
    clinic, COUNT(DISTINCT patient_id) AS n, 100 * n / (SELECT COUNT(*) FROM patients) AS percent
FROM visits GROUP BY clinic ORDER BY n DESC"""
LONG = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) AS n FROM visits v
    JOIN visits w USING (patient_id) JOIN visits x USING (patient_id) JOIN visits y USING (patient_id)"""


@dataclass
class Served:
    """A server on a copy of the clinic, whose users are alice, bob and the program agent7."""

    folder: Path
    process: Running
    wire: int
    http: int
    token: str

    def url(self, user: str = "alice", more: str = "") -> str:
        return f"dpsql://{user}@127.0.0.1:{self.wire}/shop?sslrootcert={self.folder}/dpsql-server.pem{more}"

    def connect(self, user: str = "alice") -> dpsql.Connection:
        return dpsql.connect(self.url(user), password=PASSWORD)

    def dpsql(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        server = ["-h", "127.0.0.1", "-p", str(self.wire), "-U", "alice", "-d", "shop"]
        return subprocess.run(
            [*DPSQL, *server, *arguments], capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    policy = clinic(folder, epsilon=10)
    ports = {"wire": free_port(), "http": free_port()}
    with policy.open("a") as file:
        file.write(SERVE.format(**ports))
    let_in(folder, PASSWORD, User("alice", "alice"), User("bob", "bob"))
    token = token_of(policy, "agent7")
    with running([*DPSQL, "-p", str(policy), "serve"]) as process:
        yield Served(folder, process, token=token, **ports)
        assert process.stop() == 0


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DPSQL_PASSWORD", PASSWORD)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def local(served: Served, analyst: str = "alice") -> dpsql.Connection:
    """Open the policy of the server in this process, with the same ledger."""
    return dpsql.connect(served.folder / "clinic.toml", analyst=analyst)


def test_answers_are_those_of_a_local_connection(served: Served) -> None:
    with served.connect() as there, local(served) as here:
        asked, stored = there.execute(ASK), here.execute(ASK)
        assert asked.fetch_arrow_table().equals(stored.fetch_arrow_table())
        assert asked.release is not None
        assert stored.release is not None
        assert asked.release.table.equals(stored.release.table)
        assert [part.number for part in asked.release.parts] == [part.number for part in stored.release.parts]
        number = asked.release.parts[0].number
        assert number is not None
        assert repr(there.release(number)) == repr(here.release(number))
        assert there.budget() == here.budget()
        for text in (
            "SHOW TABLES",
            "DESCRIBE visits",
            "SHOW RELEASES",
            "SELECT chapter, COUNT(*) AS n FROM diagnoses GROUP BY chapter ORDER BY n DESC, chapter",
        ):
            assert there.execute(text).fetchall() == here.execute(text).fetchall()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT patient_id, note FROM visits",
        "SELECT *\nFROM visitz",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1)\n x, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 9) COUNT(*) AS n FROM patients",
        "SELCT 1",
        "SELECT 1 +",
    ],
)
def test_errors_are_those_of_a_local_connection(served: Served, text: str) -> None:
    with served.connect() as there, local(served) as here:
        with pytest.raises(dpsql.Error) as expected:
            here.execute(text)
        with pytest.raises(dpsql.Error) as found:
            there.execute(text)
        assert type(found.value) is type(expected.value)
        assert str(found.value) == str(expected.value)
        assert there.execute("SELECT 1 AS one").fetchall() == [(1,)]


def test_a_statement_without_a_word_of_a_price_is_not_charged(served: Served) -> None:
    bare = "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex"
    with served.connect("bob") as connection:
        with pytest.raises(dpsql.QueryRefused, match="nobody has agreed"):
            connection.execute(bare)
        assert connection.budget().spent == Charge()
        connection.execute("SET dp_epsilon = 0.05")
        assert connection.execute(bare).release is not None
        assert connection.budget().spent == Charge(Fraction(1, 20))


def test_analysts_do_not_see_each_other(served: Served) -> None:
    with served.connect() as alice, served.connect("bob") as bob:
        release = alice.execute(ASK).release
        assert release is not None
        number = release.parts[0].number
        assert number is not None
        with pytest.raises(dpsql.Error):
            bob.release(number)
        assert number not in [row[0] for row in bob.execute("SHOW RELEASES")]


def test_a_statement_is_cancelled_and_its_charge_stays(served: Served) -> None:
    with served.connect("bob") as connection, served.connect() as other:
        before = connection.budget().spent.epsilon
        timer = threading.Timer(0.5, connection.cancel)
        timer.start()
        with pytest.raises(dpsql.OperationalError, match="cancelled") as caught:
            connection.execute(LONG)
        timer.join()
        assert caught.value.sqlstate == "57014"
        assert connection.budget().spent.epsilon == before + Fraction(1, 10)
        assert other.execute("SELECT 1 AS one").fetchall() == [(1,)]
        assert connection.execute("SELECT 2 AS two").fetchall() == [(2,)]


def test_a_wrong_password_and_an_unknown_user_look_alike(served: Served) -> None:
    texts = []
    for user, password in (("alice", "wrong horse battery"), ("nobody", PASSWORD)):
        with pytest.raises(dpsql.OperationalError) as caught:
            dpsql.connect(served.url(user), password=password)
        texts.append(str(caught.value).replace(user, "NAME"))
    assert texts[0] == texts[1]


def test_the_cookbook_has_the_same_prices(served: Served) -> None:
    cookbook, policy = str(ROOT / "examples" / "cookbook.sql"), str(served.folder / "clinic.toml")
    there = served.dpsql("--dry-run", "--format", "json", "-f", cookbook)
    here = subprocess.run(
        [*DPSQL, "-p", policy, "--analyst", "alice", "--dry-run", "--format", "json", "-f", cookbook],
        capture_output=True,
        text=True,
        check=False,
    )
    assert there.returncode == here.returncode
    assert json.loads(there.stdout) == json.loads(here.stdout)


def test_the_command_line(served: Served) -> None:
    done = served.dpsql("--format", "json", "-c", "SHOW PRIVACY BUDGET", "-c", "SELECT 1 AS one")
    assert done.returncode == 0, done.stderr
    done = served.dpsql("-c", "SELECT patient_id FROM visits")
    assert done.returncode == 4
    assert "counted, never shown" in done.stderr
    names = served.dpsql("--format", "csv", "-c", "SELECT relname FROM pg_class WHERE relname = 'visits'")
    assert names.stdout.split() == ["relname", "visits"]
    assert served.dpsql("-d", "other", "-c", "SELECT 1").returncode == 3


def test_sqlalchemy_and_pandas(served: Served) -> None:
    engine = sqlalchemy.create_engine(served.url(more="&dp_epsilon=0.2"))
    frame = pandas.read_sql("SELECT region, COUNT(*) AS n FROM patients GROUP BY region", engine)
    assert len(frame) == 13, "twelve regions and the group of NULL"
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_table_names() == ["patients", "visits", "diagnoses"]
    assert inspector.get_table_comment("visits")["text"] == "private, the privacy unit is patient_id"
    assert len(pandas.read_sql_table("diagnoses", engine)) == 300
    engine.dispose()


# -- programs


async def _spend(transport: Any, mode: str) -> list[str]:
    """Attack, then spend 0.6 with a person's consent; return what the person was asked."""
    asked: list[str] = []

    async def person(context: object, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"spend": True})

    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.6, fresh = TRUE) COUNT(*) AS n FROM patients"
    async with mcp.Client(transport, elicitation_callback=person, mode=mode) as client:

        async def call(name: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            assert not result.is_error
            found: dict[str, Any] = result.structured_content
            return found

        before = (await call("budget"))["spent"]["epsilon"]
        price = await call("explain", sql=sql)
        other = await call("explain", sql=sql.replace("0.6", "0.5"))
        for confirm in (None, "yes", other["confirm"]):
            assert "refused" in await call("ask", sql=sql, confirm=confirm)
        assert (await call("budget"))["spent"]["epsilon"] == before
        answer = await call("ask", sql=sql, confirm=price["confirm"])
        assert answer["epsilon"] == 0.6
        assert "was used" in (await call("ask", sql=sql, confirm=price["confirm"]))["refused"]
        assert (await call("budget"))["spent"]["epsilon"] == pytest.approx(before + 0.6)
        assert (await call("release", number=answer["release"]))["rows"] == answer["rows"]
        tables = {table["name"]: table for table in (await call("tables"))["tables"]}
        assert "F" in next(c for c in tables["patients"]["columns"] if c["name"] == "sex")["values"]
    return asked


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_program_by_http(served: Served, mode: str) -> None:
    async def run() -> None:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.token}"}) as http:
            url = f"http://127.0.0.1:{served.http}/mcp"
            assert len(await _spend(streamable_http_client(url, http_client=http), mode)) == 1

    anyio.run(run)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_what_a_program_gives_up_is_cancelled(served: Served, mode: str) -> None:
    sql = LONG.replace("0.1", "0.1, fresh = TRUE")

    def cancelled() -> list[dict[str, Any]]:
        lines = [line for line in served.process.log if line["event"] == "statement"]
        return [line for line in lines if line["outcome"] == "57014" and line["protocol"] == "mcp"]

    before = len(cancelled())

    async def run() -> None:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.token}"}) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{served.http}/mcp", http_client=http)
            async with mcp.Client(transport, mode=mode) as client:
                price = (await client.call_tool("explain", {"sql": sql})).structured_content
                with anyio.move_on_after(0.7) as scope:
                    await client.call_tool("ask", {"sql": sql, "confirm": price["confirm"]})
                assert scope.cancelled_caught

    anyio.run(run)
    with served.process.news:
        assert served.process.news.wait_for(lambda: len(cancelled()) > before, timeout=30)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_program_by_the_bridge(served: Served, mode: str) -> None:
    command = [*DPSQL[1:], "mcp", "--url", served.url("agent7"), "--ask-person-above", "0.5"]
    parameters = mcp.StdioServerParameters(
        command=sys.executable,
        args=command,
        env={"PYTHONPATH": str(ROOT), "DPSQL_PASSWORD": served.token, "HOME": str(served.folder)},
    )

    async def run() -> None:
        assert len(await _spend(mcp.stdio_client(parameters), mode)) == 1

    anyio.run(run)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer dpsql_wrong"}, 401),
        ({"Authorization": f"Bearer {PASSWORD}"}, 401),
        ({"Authorization": "TOKEN", "Host": "evil.example"}, 421),
        ({"Authorization": "TOKEN", "Origin": "https://evil.example"}, 403),
        ({"Authorization": "TOKEN"}, 200),
    ],
)
def test_requests_need_a_token_a_host_and_no_foreign_origin(
    served: Served, headers: dict[str, str], status: int
) -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    given = {name: value.replace("TOKEN", f"Bearer {served.token}") for name, value in headers.items()}
    accept = {"Accept": "application/json, text/event-stream"}
    with httpx2.Client(timeout=30) as client:
        url = f"http://127.0.0.1:{served.http}/mcp"
        assert client.post(url, json=initialize, headers={**accept, **given}).status_code == status


def test_uploads_are_sent_to_the_server(served: Served) -> None:
    """Types, NULL and texts come as they were; a board scores the rows by them."""
    import pyarrow as pa

    days = [datetime.date(2024, 3, each + 1) for each in range(3)]
    columns = {
        "visit_id": pa.array([1, 2, 3], pa.int32()),
        "longer": pa.array([True, None, False]),
        "text": pa.array(['a "b", c', "", None]),
        "day": pa.array(days),
        "score": pa.array([0.1, 1e-9, None]),
    }
    with served.connect() as there, local(served) as here:
        for con in (there, here):
            assert con.upload("p17", pa.table(columns)) == 3
        asked = [
            con.execute("SELECT * FROM p17 ORDER BY visit_id").fetch_arrow_table() for con in (there, here)
        ]
        assert asked[0].equals(asked[1])
        with pytest.raises(dpsql.ProgrammingError, match="has a value twice"):
            there.upload("p18", pa.table({"a": [1, 1]}))
        with pytest.raises(dpsql.ProgrammingError, match="is a table of the policy"):
            there.upload("visits", pa.table({"a": [1]}))
        board = there.board("uploads", epsilon=0.5, improvements=2, step=0.01, best="LOWEST", start=0.99)
        found = board.submit(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 8) "
            "AVG(CASE WHEN p.longer = (v.minutes > 20) THEN 0 ELSE 1 END) AS loss "
            "FROM visits v LEFT JOIN p17 p ON p.visit_id = v.visit_id"
        )
        assert found.score is None
        assert not found.new_best
        board.close()
