"""The scripts of this folder in small, and what analysts beside each other must never see."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.serve.users import User
from tests.serve import frontend as f
from tests.serve import kill
from tests.serve.swarm import COUNT, LONG, Served, ServerError, answer_of, ask, page, prepare, serving
from tests.served import ROOT

pytestmark = pytest.mark.clients
USERS = tuple(User(name, name) for name in ("alice", "bob"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(prepare(tmp_path_factory.mktemp("served"), USERS)) as found:
        yield found
        assert not [line for line in found.events() if line["event"] == "bug"]
        assert found.stop() == 0


def test_no_answer_is_sent_before_its_row_is_settled(tmp_path: Path) -> None:
    found = asyncio.run(kill.rounds(tmp_path, 2, seed=5))
    assert all(each.right for each in found), found
    assert found[-1].answers > 0


def test_analysts_beside_each_other_see_their_own_alone(served: Served) -> None:
    """Pipelines of both on many connections: rows, notices, settings, portals and numbers stay apart."""

    async def one(user: str, place: int) -> set[int]:
        draw = random.Random(f"{user} {place}")
        client = await served.connect(user, application_name=f"{user}-{place}")
        for turn in range(6):
            mark = f"{user}-{place}-{turn}"
            data = [
                f.parse(
                    "SELECT $1 AS mark, current_user AS u, current_setting('application_name') AS a",
                    "p",
                    [25],
                ),
                f.bind([mark.encode()], statement="p", portal="same name"),
                f.execute("same name"),
                f.close(b"S", "p"),
                f.SYNC,
                f.query("SELECT usename, application_name FROM pg_stat_activity"),
                f.query("SHOW RELEASES"),
            ]
            if draw.random() < 0.5:
                asked = COUNT.format(epsilon=f"0.0{1 if user == 'alice' else 2}{place}{turn}")
                data.append(f.query(f"{asked} WHERE sex = '{'F' if user == 'alice' else 'M'}'"))
            await client.send(*data)
            (row,) = answer_of(await client.until()).rows
            assert row == (mark.encode(), user.encode(), f"{user}-{place}".encode())
            for name, application in answer_of(await client.until()).rows:
                assert name == user.encode()
                assert application is not None
                assert application.startswith(user.encode())
            other = b"sex = 'M'" if user == "alice" else b"sex = 'F'"
            assert not any(
                other in (text or b"") for row in answer_of(await client.until()).rows for text in row
            )
            if len(data) > 7:
                answer = answer_of(await client.until())
                value = float(answer.rows[0][0] or b"0")
                assert (value > 24_800) == (user == "alice"), (user, value)
        return {client.number}

    async def all_of_them() -> None:
        found = await asyncio.gather(*(one(user.name, place) for user in USERS for place in range(4)))
        assert len(set().union(*found)) == 8

    served.run(all_of_them())


def test_keys_and_signals_stop_the_own_statements_alone(served: Served) -> None:
    async def main() -> None:
        alice, other, bob = [await served.connect(user) for user in ("alice", "alice", "bob")]
        running = asyncio.create_task(ask(alice, LONG.format(epsilon="0.031")))
        while b"active" not in (await ask(other, _state(alice))).rows[0]:
            pass
        await served.cancel(bob)
        await served.cancel(f.Frontend(bob.reader, bob.writer, alice.number, bob.secret))
        for word in ("cancel", "terminate"):
            assert (await ask(bob, f"SELECT pg_{word}_backend({alice.number})")).rows == [(b"f",)]
        assert (await ask(bob, _state(alice))).rows == []
        assert not running.done()
        assert (await ask(other, f"SELECT pg_cancel_backend({alice.number})")).rows == [(b"t",)]
        with pytest.raises(ServerError, match="57014"):
            await running
        assert (await ask(alice, "SELECT 1")).rows == [(b"1",)]

    served.run(main())


def _state(client: f.Frontend) -> str:
    return f"SELECT state FROM pg_stat_activity WHERE pid = {client.number}"


@pytest.mark.parametrize(
    "statement",
    [
        "WITH "
        + ", ".join(
            f"c{i} AS (SELECT a.* FROM {f'c{i - 1}' if i else 'visits'} a "
            f"JOIN {f'c{i - 1}' if i else 'visits'} b USING (patient_id))"
            for i in range(14)
        )
        + " SELECT COUNT(*) FROM c13",
        "SELECT COUNT(*) FROM visits v "
        + " ".join(f"JOIN visits v{i} USING (patient_id)" for i in range(1200)),
    ],
    ids=["doubling", "joins"],
)
def test_a_short_text_that_expands_without_end_is_refused(served: Served, statement: str) -> None:
    async def main() -> str:
        client = await served.connect()
        with pytest.raises(ServerError) as refused:
            await ask(client, statement)
        return refused.value.sqlstate

    assert served.run(main()) == "0A000"


def test_log_and_metrics_are_the_same_without_one_unit(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(ROOT / "data" / "diagnoses.parquet", data)
    for name in ("patients", "visits"):
        duckdb.sql(
            f"FROM '{ROOT}/data/{name}.parquet' WHERE patient_id <> (SELECT MIN(patient_id) FROM "
            f"'{ROOT}/data/patients.parquet')"
        ).write_parquet(str(data / f"{name}.parquet"))  # type: ignore[union-attr]  # a query has rows

    async def main(served: Served) -> tuple[list[dict[str, str]], str]:
        client = await served.connect()
        refusals: list[str] = []
        for sql in (
            COUNT.format(epsilon="0.5"),
            "SELECT COUNT(*) FROM patients",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(DISTINCT patient_id) "
            "FROM visits GROUP BY clinic",
            "SELECT * FROM patients WHERE patient_id = 4711",
            "SELECT CAST(note AS INTEGER) FROM visits",
        ):
            try:
                await ask(client, sql)
            except ServerError as error:
                refusals.append(error.fields["M"])
        assert len(refusals) == 3
        assert "4711" not in str(refusals)
        await served.wait_for("statement", 5)
        metrics = await page(served)
        dropped = ("time", "number", "waited", "address", "listen", "certificate", "fingerprint", "statement")
        folder = str(served.policy.parent)  # of which each server has one
        lines = [
            {key: str(value).replace(folder, "") for key, value in line.items() if key not in dropped}
            for line in served.events()
        ]
        text = served.log.read_text()
        assert not [word for word in ("4711", "clinic,", "birth", "SELECT") if word in text]
        kept = [line for line in metrics.splitlines() if "seconds" not in line and "bytes" not in line]
        return lines, "\n".join(kept)

    seen = []
    for number, folder in enumerate((ROOT / "data", data)):
        with serving(prepare(tmp_path / str(number), USERS, data=folder)) as served:
            seen.append(served.run(main(served)))
            assert served.stop() == 0
    assert seen[0] == seen[1]
