"""Planning takes turns: long texts keep nobody else waiting, and what is planned can be given up at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpsql import language
from dpsql.database import Database
from dpsql.engines import Cancelled, running_statement
from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.serve.answers import Answer
from dpsql.serve.catalog import SessionFacts
from dpsql.serve.limits import TimedOut
from dpsql.serve.service import Service
from dpsql.serve.shared import SHORT
from dpsql.serve.statement_run import StatementRun
from tests.served import BOB, AnsweredCatalog, client_of, run, serving
from tests.support.world import write_world
from tests.unit.serve.test_service import states_of

POLICY = """
[budget]
epsilon = 100
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
"""
OPTION = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"
COUNT = f"SELECT {OPTION} COUNT(DISTINCT user_id) AS n FROM visits"
LONG = f"{COUNT} WHERE page <> {' ' * SHORT}0"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr("dpsql.release.reuse._SETTLED_SECONDS", -60.0)  # so that plans are kept
    rows = "SELECT i AS user_id, i % 3 AS page FROM range(200) t(i)"
    write_world(tmp_path, POLICY, visits=rows)
    with serving(tmp_path / "dpsql.toml") as made:
        yield made


class Planning:
    """The planning of statements with a word in their text: it begins, and goes on when it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
        self.begun, self.go, self.ended = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)
        true = StatementRun._plan

        def plan(asking: StatementRun, text: str, values: tuple[object, ...]) -> Any:
            if word not in text:
                return true(asking, text, values)
            self.begun.release()
            assert self.go.wait(60)
            try:
                return true(asking, text, values)
            finally:
                self.ended.release()

        monkeypatch.setattr(StatementRun, "_plan", plan)

    async def running(self) -> None:
        """Wait until one more plan has begun."""
        assert await asyncio.to_thread(self.begun.acquire, timeout=60)

    async def over(self) -> None:
        """Let all go on, and wait until one more has ended."""
        self.go.set()
        assert await asyncio.to_thread(self.ended.acquire, timeout=60)


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> Iterator[Planning]:
    made = Planning(monkeypatch, " " * SHORT)
    yield made
    made.go.set()


def test_short_texts_and_other_analysts_do_not_wait_for_long_texts(service: Service, long: Planning) -> None:
    async def main() -> None:
        first, second, bob = client_of(service), client_of(service), client_of(service, BOB)
        waiting = [asyncio.create_task(client_of(service).answer(f"{LONG}{n}")) for n in range(3)]
        await long.running()
        assert (await first.answer(COUNT)).release is not None
        assert (await second.answer(f"{COUNT} WHERE page = 1")).release is not None
        assert (await bob.answer(f"{COUNT} WHERE page = 2")).release is not None
        his = asyncio.create_task(bob.answer(f"{LONG}7"))
        await long.running()  # although three long ones of alice came before it
        long.go.set()
        for each in (*waiting, his):
            assert (await each).release is not None

    run(main())


def test_a_plan_that_runs_is_given_up_at_once(service: Service, long: Planning) -> None:
    async def main() -> None:
        client = client_of(service)
        asked = asyncio.create_task(client.answer(LONG))
        await long.running()
        client.cancel()
        with pytest.raises(Cancelled, match="nothing was charged"):
            await asked
        assert not client.is_running
        # The connection goes on, while the plan still runs in its thread.
        assert (await client.answer(COUNT)).release is not None
        await long.over()

    run(main())
    assert states_of(service) == {"alice": ["settled"]}


def test_a_plan_that_waits_is_given_up_and_never_begins(service: Service, long: Planning) -> None:
    async def main() -> None:
        one, other = client_of(service), client_of(service)
        first = asyncio.create_task(one.answer(LONG))
        await long.running()
        second = asyncio.create_task(other.answer(f"{LONG}1"))
        while not other.is_running:
            await asyncio.sleep(0)
        other.cancel()
        with pytest.raises(Cancelled, match="nothing was charged"):
            await second
        await long.over()
        assert (await first).release is not None
        assert not long.begun.acquire(blocking=False)

    run(main())
    assert states_of(service) == {"alice": ["settled"]}


@pytest.mark.parametrize("queued", [False, True])
def test_the_timeout_holds_while_a_statement_is_planned_or_waits_for_it(
    service: Service, long: Planning, queued: bool
) -> None:
    async def main() -> None:
        first = asyncio.create_task(client_of(service).answer(LONG)) if queued else None
        if first is not None:
            await long.running()
        with pytest.raises(TimedOut, match="it cost nothing"):
            await client_of(service, statement_timeout=30).answer(f"{LONG}1")
        with pytest.raises(TimedOut, match="it cost nothing"):
            await client_of(service, statement_timeout=30).describe(f"{LONG}2")
        await long.over()
        if first is not None:
            assert (await first).release is not None

    run(main())
    assert states_of(service) == ({"alice": ["settled"]} if queued else {})


def test_what_was_given_up_stops_by_itself(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner looks at the statement between its steps, so that a turn is not kept for long."""
    planning, stopped = Planning(monkeypatch, " " * SHORT), list[type]()
    true = StatementRun.begin

    def begin(asking: StatementRun, *given: Any) -> Any:
        try:
            return true(asking, *given)
        except BaseException as error:
            stopped.append(type(error))
            raise

    monkeypatch.setattr(StatementRun, "begin", begin)

    async def main() -> None:
        client = client_of(service)
        asked = asyncio.create_task(client.answer(LONG))
        await planning.running()
        client.cancel()
        with pytest.raises(Cancelled):
            await asked
        await planning.over()
        # Behind it in the same lane: when this one is planned, the other has ended.
        assert (await client.answer(f"{LONG}1")).release is not None

    run(main())
    assert stopped == [Cancelled]


def test_a_time_that_is_over_before_the_charge_costs_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = Database.vet

    def vet(database: Database, *given: Any) -> None:
        true(database, *given)
        with running_statement() as statement:
            statement.end_within(0)

    monkeypatch.setattr(Database, "vet", vet)
    with pytest.raises(TimedOut, match="it cost nothing"):
        run(client_of(service).answer(COUNT))
    assert states_of(service) == {}


def test_a_plan_that_is_given_up_keeps_its_policy_open(service: Service, long: Planning) -> None:
    async def main() -> None:
        before, client = service.generation, client_of(service)
        asked = asyncio.create_task(client.answer(LONG))
        await long.running()
        client.cancel()
        with pytest.raises(Cancelled):
            await asked
        await asyncio.to_thread(service.reload)
        before.database.check()  # it is not closed
        await long.over()

    run(main())


def test_a_catalogue_question_keeps_no_turn_of_planning(service: Service, tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    class Slow(AnsweredCatalog):
        def answer(self, text: str, facts: SessionFacts, *given: Any) -> Answer:
            begun.set()
            assert go.wait(60)
            return Answer((), pa.table({"x": [1]}))

    async def main(slow: Service) -> None:
        question = asyncio.create_task(client_of(slow).answer("SELECT 1 FROM pg_class"))
        assert await asyncio.to_thread(begun.wait, 60)
        assert (await client_of(slow).answer("SHOW TABLES")).table.num_rows == 1
        go.set()
        assert (await question).table.num_rows == 1

    with serving(tmp_path / "dpsql.toml", make=Slow) as slow:
        run(main(slow))


def test_a_single_release_that_names_its_price_is_not_planned_twice(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.composition.planner.Planner.accepts", None)
    assert run(client_of(service).answer(COUNT)).release is not None


def test_work_beside_the_loop_takes_turns_too(service: Service, long: Planning) -> None:
    async def main() -> None:
        client, bob = client_of(service), client_of(service, BOB)
        asked = asyncio.create_task(client_of(service).answer(LONG))
        await long.running()
        mine = asyncio.create_task(client.beside(2 * SHORT, lambda: 1))
        assert await bob.beside(2 * SHORT, threading.get_ident) != threading.get_ident()
        assert await client.beside(10, threading.get_ident) == threading.get_ident()
        assert not mine.done()
        long.go.set()
        assert await mine == 1
        assert isinstance(await asked, Answer)

    run(main())


def test_too_many_release_blocks_are_refused_before_they_are_analysed(service: Service) -> None:
    blocks = ", ".join(f"(SELECT COUNT(*) FROM visits WHERE page = {n}) AS c{n}" for n in range(129))
    with pytest.raises(QueryRefused, match="at most 128 blocks that release"):
        run(client_of(service).answer(f"SELECT {OPTION} {blocks}"))


def test_what_is_refused_when_it_is_parsed_is_parsed_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def parse(text: str, *given: Any) -> Any:
        parsed.append(text)
        return language.parse(text, *given)

    monkeypatch.setattr("dpsql.composition.planner.parse", parse)
    wrong = f"{COUNT} WHERE (page > 1"
    with pytest.raises(QuerySyntaxError):
        run(client_of(service).answer(wrong))
    assert parsed.count(wrong) == 1
