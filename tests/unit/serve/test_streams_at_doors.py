"""One script of a stream of checks by every door: equal rows under equal noise, prices that are agreed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from dpsql.cli import main
from dpsql.noise import SeededEntropy
from dpsql.policy import Address, HttpConfig
from dpsql.remote import RemoteSession
from dpsql.remote.server_target import Target
from dpsql.serve.mcp.tools import Tools, make_server
from dpsql.serve.page import http_app
from dpsql.serve.service import Service
from dpsql.serve.statement_service import Confirmations, SpendingRule
from dpsql.session import Session
from tests.serve import frontend as f
from tests.serve.bench import Bench
from tests.serve.bench import run as on_bench
from tests.unit.remote.conftest import LocalWire
from tests.unit.serve.golden.doors import HERE, TOKEN, USERS, _returning, opened
from tests.unit.serve.page.conftest import Site

BY_PAGE = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
TOP = "SELECT page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1"
EXACT = "OPEN STABLE exact OPTIONS (epsilon = 10, delta = 1e-7, unstable = 2, questions = 9)"
FIRST = (
    "FIRST STABLE SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = 1e-7) page AS k "
    "FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 3 ELSE "
    + TOP.replace("page FROM", "page AS k FROM")
)
OPEN = "OPEN CHECKS daily OPTIONS (epsilon = 10, misses = 3, tolerance = 50)"
OPEN_BOARD = (
    "OPEN BOARD scores OPTIONS (epsilon = 10, improvements = 3, step = 0.02, best = LOWEST, start = 0.9)"
)
SCORE = (
    "CHECK scores SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 1) "
    "AVG(CASE WHEN page = '{}' THEN 1 ELSE 0 END) AS loss FROM visits"
)
SCRIPT = [
    f"EXPLAIN {OPEN}",
    OPEN,
    "CHECK daily SELECT COUNT(DISTINCT user_id) AS n FROM visits EXPECT n = 1000",
    f"CHECK daily {BY_PAGE} EXPECT n BETWEEN 500 AND 700",
    f"CHECK daily {BY_PAGE} EXPECT n BETWEEN 500 AND 700",
    "CHECK daily SELECT COUNT(DISTINCT user_id) AS n FROM visits EXPECT n = LAST WITHIN 20%",
    f"EXPLAIN CHECK daily {BY_PAGE} EXPECT n AT LEAST 1",
    "SHOW STREAMS",
    "REFILL STREAM daily OPTIONS (misses = 5)",
    "EXPLAIN CLOSE STREAM daily",
    "CLOSE STREAM daily",
    f"EXPLAIN {EXACT}",
    EXACT,
    f"ASK exact {TOP}",
    f"ASK exact {TOP}",
    f"EXPLAIN ASK exact {TOP}",
    "CLOSE STREAM exact",
    f"EXPLAIN {OPEN_BOARD}",
    OPEN_BOARD,
    SCORE.format("a"),
    SCORE.format("b"),
    "EXPLAIN " + SCORE.format("c"),
    "CLOSE STREAM scores",
    f"EXPLAIN {FIRST}",
    FIRST,
    FIRST,
    "OPEN HOLDOUT held OPTIONS (epsilon = 10, misses = 2, training = OTHER_UNITS, rows = 900)",
    SCORE.format("a").replace("scores", "held") + " EXPECT loss = 0.9 TOLERANCE 0.1",
]
PAID = {OPEN, SCRIPT[8], EXACT, OPEN_BOARD, FIRST, SCRIPT[-2]}
Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _one_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw thresholds from a seed: the key of each ledger is another one."""
    monkeypatch.setattr("dpsql.kernel.threshold_noise.KeyedEntropy", lambda secret: SeededEntropy(9))


@contextmanager
def served() -> Iterator[Service]:
    with opened() as (service, begin):
        begin(1)
        service.gate.users = USERS
        yield service


def by_session() -> list[Rows]:
    with served() as service:
        session = Session(service.generation.database, "agent")
        found = [session.run(text).table.to_pylist() for text in SCRIPT]
        session.close()
        return found


def by_remote_session() -> list[Rows]:
    """dpsql's own client, whose texts are answered by a session in this process."""
    with served() as service, pytest.MonkeyPatch.context() as patch:
        session = Session(service.generation.database, "agent")
        patch.setattr("dpsql.remote.ServerWire", lambda *given: LocalWire(session))
        there = RemoteSession(Target("localhost", user="agent"), "a password of the test")
        found = [there.run(text).table.to_pylist() for text in SCRIPT]
        session.close()
        return found


def by_http() -> list[Rows]:
    with served() as service, asyncio.Runner() as runner:
        application = http_app(service, Address("127.0.0.1", 8080), HttpConfig(), lambda *event: None)
        site = Site(application, service, service.gate.throttle, [], runner, TOKEN, HERE)
        site.headers["authorization"] = f"Bearer {TOKEN}"
        found = []
        for place, text in enumerate(SCRIPT):
            given = {"sql": text}
            if text in PAID and text not in SCRIPT[:place]:
                refused = json.loads(site("POST", "/v1/query", given, {}).body)
                assert "was not confirmed" in json.dumps(refused)
                given["confirm"] = json.loads(site("POST", "/v1/explain", given, {}).body)["confirm"]
            reply = site("POST", "/v1/query", given, {})
            facts = json.loads(reply.body)
            assert reply.status == 200, facts
            found.append(_rows(facts))
        return found


def by_mcp() -> list[Rows]:
    found: list[Rows] = []

    async def asked(service: Service) -> None:
        login = service.gate.by_token(TOKEN)
        assert login is not None
        rule = SpendingRule(Confirmations(b"c" * 32), Fraction(0))
        made = make_server(_returning(Tools(service.client_of(login, "mcp"), rule)))
        async with Client(made) as client:
            for place, text in enumerate(SCRIPT):
                given = {"sql": text}
                if text in PAID and text not in SCRIPT[:place]:
                    refused = (await client.call_tool("ask", given)).structured_content
                    assert "was not confirmed" in json.dumps(refused)
                    told = (await client.call_tool("explain", given)).structured_content
                    assert '"epsilon": 10' in json.dumps(told)
                    given["confirm"] = told["confirm"]
                result = await client.call_tool("ask", given)
                assert not result.is_error, result.structured_content
                found.append(_rows(result.structured_content))

    with served() as service:
        anyio.run(asked, service)
    return found


def _rows(facts: Mapping[str, Any]) -> Rows:
    names = [each["name"] if isinstance(each, dict) else each for each in facts["columns"]]
    return [dict(zip(names, row, strict=True)) if isinstance(row, list) else row for row in facts["rows"]]


def test_a_file_on_the_command_line_gets_equal_rows(
    expected: list[Rows], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served() as service:
        path = service.generation.database.policy.path
        (tmp_path / "script.sql").write_text(";\n".join(SCRIPT) + ";\n")
        given = [
            "-p",
            str(path),
            "--analyst",
            "agent",
            "--format",
            "json",
            "--partial",
            "-f",
            str(tmp_path / "script.sql"),
        ]
        assert main(given) == 0
    found = [each["rows"] for each in json.loads(capsys.readouterr().out)]
    for text, here, there in zip(SCRIPT, expected, found, strict=True):
        # A file is prepared whole, so what explains a score has no board yet.
        assert there == json.loads(json.dumps(here)) or text.startswith("EXPLAIN CHECK scores"), text


def by_wire(*, extended: bool) -> list[list[tuple[bytes | None, ...]]]:
    async def asked(bench: Bench) -> list[list[tuple[bytes | None, ...]]]:
        bench.context.service = service
        alice = await bench.log_in()
        found = []
        for text in SCRIPT:
            sent: tuple[bytes, ...] = (f.query(text),)
            if extended:
                sent = (f.parse(text), f.describe(b"S"), f.bind(), f.execute(), f.SYNC)
            messages = await alice.ask(*sent)
            assert not [body for tag, body in messages if tag == b"E"], (text, messages)
            described = [body for tag, body in messages if tag == b"T"]
            assert len(described) == 1
            found.append([tuple(f.row(body)) for tag, body in messages if tag == b"D"])
        return found

    with served() as service:
        return on_bench(asked)


@pytest.fixture(scope="module")
def expected() -> Iterator[list[Rows]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpsql.kernel.threshold_noise.KeyedEntropy", lambda secret: SeededEntropy(9))
        yield by_session()


def test_the_script_does_what_it_says(expected: list[Rows]) -> None:
    checked = [row["checked"] for rows in expected for row in rows if "checked" in row]
    assert checked[0] == "as expected"
    assert {"as expected", "off"} <= {*checked[1:]}
    assert expected[3] == expected[4]
    assert expected[8][0]["left"] == 5
    assert expected[10][0]["state"] == "closed"
    assert expected[13] == expected[14]
    assert expected[16][0]["stream"] == "exact"
    assert [row["checked"] for rows in expected[19:21] for row in rows] == ["new best", "no new best"]
    assert expected[24] == expected[25] != []
    assert expected[-1][0]["checked"] == "off"


@pytest.mark.parametrize("door", [by_http, by_mcp, by_remote_session])
@pytest.mark.sampled(3, rest="longer")
def test_programs_get_equal_rows(expected: list[Rows], door: Any) -> None:
    for text, here, there in zip(SCRIPT, expected, door(), strict=True):
        assert json.dumps(there) == json.dumps(here), text


@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
@pytest.mark.sampled(3, rest="longer")
def test_the_wire_sends_equal_rows(expected: list[Rows], *, extended: bool) -> None:
    for text, here, there in zip(SCRIPT, expected, by_wire(extended=extended), strict=True):
        shown = [tuple(None if cell is None else _text(cell) for cell in row.values()) for row in here]
        assert [tuple(None if c is None else _number(c.decode()) for c in row) for row in there] == shown, (
            text
        )


def _text(cell: object) -> object:
    return cell if isinstance(cell, (int, float)) else _number(str(cell))


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def test_a_cursor_may_be_called_stream() -> None:
    async def asked(bench: Bench) -> None:
        bench.context.service = service
        alice = await bench.log_in()
        text = "BEGIN; DECLARE stream CURSOR FOR SELECT i FROM kinds; CLOSE stream; COMMIT"
        assert not [body for tag, body in await alice.ask(f.query(text)) if tag == b"E"]

    with served() as service:
        on_bench(asked)
