"""COPY name FROM STDIN: uploads of a connection over PostgreSQL's protocol, their limits and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dpsql.serve.service import Service
from dpsql.serve.wire import copy_in
from tests.serve import frontend as f
from tests.serve.bench import Bench
from tests.serve.bench import run as on_bench
from tests.unit.serve.golden.doors import USERS, opened

SIX = b'row_id,kind\n1,a\n2,b\n3,\n4,a\n5,""\n6,a\n'
COPY = "COPY p17 (row_id BIGINT PRIMARY KEY, kind VARCHAR) FROM STDIN WITH (FORMAT csv, HEADER)"
COUNT = "SELECT COUNT(*) AS n, COUNT(kind) AS kinds FROM p17"


@contextmanager
def served() -> Iterator[Service]:
    with opened() as (service, begin):
        begin(1)
        service.gate.users = USERS
        yield service


def rows(*parts: bytes) -> bytes:
    return b"".join(f.message(b"d", part) for part in parts)


async def copy(client: f.Frontend, text: str, *data: bytes) -> list[f.Message]:
    """Send a copy as clients do: the rows when the server asks for them."""
    await client.send(f.query(text))
    messages = []
    while True:
        messages.append(await client.receive())
        if messages[-1][0] == b"G":
            await client.send(*data)
        if messages[-1][0] == b"Z":
            return messages


def error(messages: list[f.Message]) -> str:
    return next((f.fields(body)["M"] for tag, body in messages if tag == b"E"), "")


async def ask(client: f.Frontend, text: str) -> object:
    messages = await client.ask(f.query(text))
    return error(messages) or [f.row(body) for tag, body in messages if tag == b"D"]


DONE = f.message(b"c")


def test_an_upload_is_of_its_connection_alone() -> None:
    async def asked(bench: Bench) -> None:
        bench.context.service = service
        alice, other = await bench.log_in(), await bench.log_in()
        messages = await copy(alice, COPY, rows(SIX[:20], SIX[20:]), DONE)
        assert [tag for tag, _ in messages] == [b"G", b"C", b"Z"]
        assert messages[1][1] == b"COPY 6\0"
        assert await ask(alice, COUNT) == [(b"6", b"5")]  # an empty text in quotes is none
        assert "p17" in str(await ask(other, COUNT))
        await copy(alice, COPY, rows(SIX[:20]), DONE)
        assert await ask(alice, COUNT) == [(b"2", b"2")]
        await copy(other, COPY.replace("p17", "p18"), rows(SIX), DONE)
        assert "p18" in str(await ask(alice, COUNT.replace("p17", "p18")))
        joined = (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_rows_contributed = 1) COUNT(*) AS n "
            "FROM visits v JOIN p17 p ON p.row_id = v.user_id"
        )
        found = await ask(alice, joined)
        assert isinstance(found, list), found
        assert len(found) == 1
        again = await ask(alice, joined)
        assert again == found

    with served() as service:
        on_bench(asked)


@pytest.fixture(scope="module")
def refusing() -> Iterator[Service]:
    """A service for clients that upload nothing."""
    with served() as made:
        yield made


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        (COPY, SIX.replace(b"6,a", b"6,a,b"), "as they were announced"),
        (COPY, SIX.replace(b"6,a", b"x,a"), "as they were announced"),
        (COPY, SIX.replace(b"6,a", b"5,a"), "has a value twice"),
        (COPY, SIX + b"7,\xff\n", "as they were announced"),
        (COPY, b"", "1 to 100 columns|as they were announced|COPY 0"),
        (COPY.replace("p17", "visits"), SIX, "is a table of the policy"),
        (COPY.replace("BIGINT", "BLOB"), SIX, "an upload has no column of type"),
        (COPY.replace("STDIN", "'/etc/passwd'"), SIX, "reads what the client sends"),
        (COPY.replace("STDIN", "PROGRAM 'ls'"), SIX, "reads what the client sends"),
        ("COPY p17 FROM STDIN", SIX, "columns of the rows are not named"),
        ("COPY p17 FROM STDIN WITH (FORMAT binary)", SIX, "rows come as csv or text"),
        ("COPY p17 (row_id, kind) FROM STDIN", b"1\ta\\tb\n", "with a backslash"),
        ("COPY visits TO STDOUT", SIX, "takes a query, not a table"),
        (COPY, b"row_id,kind\n" + b"\n" * 1_000_010, "at most 1,000,000 rows"),
        (COPY, b"row_id,kind\n" + b"," * 9_000_000, "values"),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_what_is_no_upload_keeps_the_connection(
    refusing: Service, text: str, data: bytes, message: str
) -> None:
    async def asked(bench: Bench) -> None:
        bench.context.service = refusing
        alice = await bench.log_in()
        pieces = [data[i : i + 1_000_000] for i in range(0, len(data), 1_000_000)]
        found = await copy(alice, text, rows(*pieces), DONE)
        told = error(found) or next(body.decode() for tag, body in found if tag == b"C")
        assert any(each in told for each in message.split("|")), told
        assert await ask(alice, "SELECT 1 AS one") == [(b"1",)]

    on_bench(asked)


def test_too_many_bytes_and_a_client_that_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.serve.wire.MOST_BYTES", 100)

    async def asked(bench: Bench) -> None:
        bench.context.service = service
        alice = await bench.log_in()
        found = await copy(alice, COPY, rows(SIX, b"x" * 100, b"y" * 100), DONE)
        assert "bytes" in error(found), error(found)
        found = await copy(alice, COPY, rows(SIX), f.message(b"f", b"no\0"))
        assert "the client ended its copy" in error(found)
        assert "p17" in str(await ask(alice, COUNT))
        await copy(alice, COPY, rows(SIX), DONE)
        assert await ask(alice, COUNT) == [(b"6", b"5")]

    with served() as service:
        on_bench(asked)


def test_text_as_psql_sends_it_and_headers_alone() -> None:
    async def asked(bench: Bench) -> None:
        bench.context.service = service
        alice = await bench.log_in()
        text = "COPY p17 (row_id, kind) FROM STDIN"
        await copy(alice, text, rows(b"1\ta\n2\t\\N\n\\.\n"), DONE)
        assert await ask(alice, COUNT) == [(b"2", b"1")]
        await copy(alice, "COPY p18 FROM STDIN CSV HEADER", rows(SIX), DONE)
        assert await ask(alice, COUNT.replace("p17", "p18")) == [(b"6", b"5")]
        await alice.send(f.parse(COPY), f.bind(), f.execute(), f.SYNC)
        assert "simple query" in error(await alice.until())

    with served() as service:
        on_bench(asked)


def test_few_connections_have_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.serve.client.MOST_CLIENTS", 1)

    async def asked(bench: Bench) -> None:
        bench.context.service = service
        alice, other = await bench.log_in(), await bench.log_in()
        assert not error(await copy(alice, COPY, rows(SIX), DONE))
        assert not error(await copy(alice, COPY, rows(SIX), DONE))
        assert "connections have uploads" in error(await copy(other, COPY, rows(SIX), DONE))
        await alice.send(f.message(b"X"))
        for _ in range(200):
            await asyncio.sleep(0.02)
            if not error(await copy(other, COPY, rows(SIX), DONE)):
                break
        assert await ask(other, COUNT) == [(b"6", b"5")]

    with served() as service:
        on_bench(asked)


def test_types_that_can_be_named_can_be_decoded() -> None:
    assert {"BIGINT", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN"} <= copy_in._ARROW.keys()
