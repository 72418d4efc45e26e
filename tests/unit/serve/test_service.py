"""The service: statements that wait, run long, are cancelled or meet another policy; what is told of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dpsql.engines import Cancelled, running_statement
from dpsql.engines.process_storage import available_memory
from dpsql.errors import (
    InterfaceError,
    NotSupportedError,
    PolicyError,
    QueryRefused,
    ResultTooLarge,
    StatementFailed,
    TooManyFailures,
)
from dpsql.serve.answers import RELOADED, Answer
from dpsql.serve.client import Client
from dpsql.serve.gate import Login
from dpsql.serve.limits import LoginEnded, PolicyReloaded, QueueFull, ShuttingDown, StatementTooLong, TimedOut
from dpsql.serve.monitoring import BOUNDS, StatementRecord
from dpsql.serve.service import Service
from dpsql.serve.statement_pool import Hold
from dpsql.serve.users import User
from tests.served import ALICE, BOB, Accounts, AnsweredCatalog, client_of, run, serving
from tests.support.world import write_world
from tests.unit.test_database import ENDLESS, states

POLICY = """
[budget]
epsilon = 100
max_failures = 3
ledger = "ledger.sqlite"
[analysts.alice]
epsilon = 10
[analysts.bob]
epsilon = 20
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "VARCHAR" }
"""
OPTION = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"
COUNT = f"SELECT {OPTION} COUNT(DISTINCT user_id) AS n FROM visits"
UNITS = 500


def written(folder: Path) -> Path:
    """Write the tables and the policy; return the policy's path."""
    (folder / "pages.csv").write_text("page\na\nb\n")
    return write_world(folder, POLICY, visits=f"SELECT i AS user_id, i % 3 AS page FROM range({UNITS}) t(i)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path).parent


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    with serving(folder / "dpsql.toml", max_rows=1000, max_statement=4096) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that those tests share that are refused."""
    folder = tmp_path_factory.mktemp("shared")
    with serving(written(folder), max_rows=1000, max_statement=4096) as made:
        yield made


class Held:
    """Counts of the private engine that begin when they are let go."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Semaphore(0), threading.Event()
        engine: Any = service.generation.database.engines().engine
        true = engine.count

        def count(compiled: Any) -> Any:
            self.begun.release()
            assert self.go.wait(60)
            return true(compiled)

        monkeypatch.setattr(engine, "count", count)

    async def running(self) -> None:
        """Wait until one more count has begun."""
        assert await asyncio.to_thread(self.begun.acquire, timeout=60)


@pytest.fixture
def held(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    made = Held(service, monkeypatch)
    yield made
    made.go.set()


def endless(service: Service, monkeypatch: pytest.MonkeyPatch, seconds: float | None = None) -> None:
    """Let every private count run without end, or until the statement's time ends so long after it began."""
    engine: Any = service.generation.database.engines().engine

    def count(_: object) -> Any:
        if seconds is not None:
            with running_statement() as statement:
                statement.end_within(seconds)
        return engine._run(lambda c: c.sql(ENDLESS).to_arrow_table(), "stopped", counts_only=True) or fail()

    def fail() -> Any:
        raise StatementFailed("the engine could not finish the statement; its charge is kept")

    monkeypatch.setattr(engine, "count", count)


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop's other work a turn until a condition holds."""
    while not condition():
        await asyncio.sleep(0.005)


def states_of(service: Service) -> dict[str, list[str]]:
    return states(service.generation.database)


def where(page: int) -> str:
    return f"{COUNT} WHERE page = {page}"


# -- waiting and cancelling


def test_one_private_statement_of_an_analyst_runs_at_a_time_and_stored_answers_do_not_wait(
    service: Service, held: Held
) -> None:
    async def main() -> None:
        alice, other, bob = client_of(service), client_of(service), client_of(service, BOB)
        first = asyncio.create_task(alice.answer(where(0)))
        await held.running()
        second = asyncio.create_task(other.answer(where(1)))
        his = asyncio.create_task(bob.answer(where(0)))
        await held.running()
        await until(lambda: service.figures().waiting == 1)
        assert service.figures().running == 2
        assert states_of(service) == {"alice": ["reserved"], "bob": ["reserved"]}  # who waits is not charged
        # Public statements, commands and refusals go on beside them.
        assert (await client_of(service).answer("SELECT page FROM pages")).table.num_rows == 2
        assert (await client_of(service).answer("SHOW TABLES")).table.num_rows == 2
        held.go.set()
        for task in (first, second, his):
            assert (await task).release is not None
        stored = await other.answer(where(0))
        assert stored.release is not None
        assert stored.release.reused is not None

    run(main())
    assert states_of(service) == {"alice": ["settled"] * 2, "bob": ["settled"]}


def test_more_than_may_wait_is_refused_and_costs_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(folder / "dpsql.toml", queue_per_analyst=1) as service:
        held = Held(service, monkeypatch)

        async def main() -> None:
            clients = [client_of(service) for _ in range(3)]
            first = asyncio.create_task(clients[0].answer(where(0)))
            await held.running()
            second = asyncio.create_task(clients[1].answer(where(1)))
            await until(lambda: service.figures().waiting == 1)
            with pytest.raises(QueueFull) as caught:
                await clients[2].answer(where(2))
            assert caught.value.sqlstate == "53300"
            held.go.set()
            await first
            await second

        run(main())
        assert states_of(service) == {"alice": ["settled"] * 2}


def test_what_waits_is_cancelled_for_nothing(service: Service, held: Held) -> None:
    async def main() -> None:
        one, two = client_of(service), client_of(service)
        first = asyncio.create_task(one.answer(where(0)))
        await held.running()
        second = asyncio.create_task(two.answer(where(1)))
        await until(lambda: service.figures().waiting == 1)
        await asyncio.to_thread(two.cancel)
        with pytest.raises(Cancelled, match="nothing was charged"):
            await second
        assert service.figures().waiting == 0
        held.go.set()
        await first

    run(main())
    assert states_of(service) == {"alice": ["settled"]}


def test_a_task_that_is_given_up_while_it_waits_is_never_run(service: Service, held: Held) -> None:
    async def main() -> None:
        one, two = client_of(service), client_of(service)
        first = asyncio.create_task(one.answer(where(0)))
        await held.running()
        second = asyncio.create_task(two.answer(where(1)))
        await until(lambda: service.figures().waiting == 1)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert service.figures().statements == {("private", "57014"): 1}
        held.go.set()
        await first
        assert not two.is_running

    run(main())
    assert states_of(service) == {"alice": ["settled"]}


def test_what_runs_is_cancelled_without_stopping_another_analyst(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless(service, monkeypatch)

    async def main() -> None:
        alice, bob = client_of(service), client_of(service, BOB)
        tasks = [asyncio.create_task(one.answer(COUNT)) for one in (alice, bob)]
        await until(lambda: states_of(service).keys() == {"alice", "bob"})
        while not tasks[0].done():
            alice.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(Cancelled):
            await tasks[0]
        assert not tasks[1].done()
        assert (await alice.answer("SELECT 1 AS x")).table.num_rows == 1
        while not tasks[1].done():
            bob.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(Cancelled):
            await tasks[1]

    run(main())
    assert states_of(service) == {"alice": ["cancelled"], "bob": ["cancelled"]}


def test_cancelling_a_client_that_asks_nothing_has_no_effect(service: Service) -> None:
    client = client_of(service)
    client.cancel()
    assert run(client.answer("SELECT 1 AS x")).table.num_rows == 1


# -- limits


def test_a_private_statement_that_takes_too_long_is_a_failure(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(service, statement_timeout=60_000)
    endless(service, monkeypatch, 0.1)
    with pytest.raises(TimedOut, match="its charge is kept, and it counts as a failure") as caught:
        run(client.answer(COUNT))
    assert caught.value.sqlstate == "57014"
    assert states_of(service) == {"alice": ["failed"]}


def test_a_public_statement_that_takes_too_long_is_stopped(service: Service) -> None:
    with pytest.raises(TimedOut, match="it cost nothing"):
        run(client_of(service, statement_timeout=200).answer(ENDLESS))


def test_the_servers_timeout_holds_for_all(folder: Path) -> None:
    with serving(folder / "dpsql.toml", statement_timeout=1) as service, pytest.raises(TimedOut):
        run(client_of(service).answer(ENDLESS))


def test_a_failure_after_the_charge_has_a_state_of_its_own(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(service)
    engine: Any = service.generation.database.engines().engine

    def count(_: object) -> Any:
        raise RuntimeError("user 4711")

    monkeypatch.setattr(engine, "count", count)
    for page in range(3):
        with pytest.raises(StatementFailed) as caught:
            run(client.answer(where(page)))
        assert caught.value.sqlstate == "ZP004"
        assert "4711" not in str(caught.value)
    with pytest.raises(TooManyFailures) as refused:
        run(client.answer(where(3)))
    assert refused.value.sqlstate == "ZP003"


def test_results_and_texts_have_a_largest_size(service: Service) -> None:
    client = client_of(service)
    assert run(client.answer("SELECT range AS n FROM range(1000)")).table.num_rows == 1000
    with pytest.raises(ResultTooLarge) as caught:
        run(client.answer("SELECT range AS n FROM range(1000000000000)"))
    assert caught.value.sqlstate == "54000"
    for text in ("SELECT '" + 4096 * "x" + "'", "SELECT '" + 1400 * "\u20ac" + "'"):
        for ask in (client.answer, client.describe, client.price):
            with pytest.raises(StatementTooLong, match="longer than 4,096 bytes") as long:
                run(_any(ask(text)))
            assert long.value.sqlstate == "54000"


async def _any(work: Awaitable[object]) -> object:
    return await work


def test_the_engines_take_a_share_of_the_memory(folder: Path) -> None:
    with serving(folder / "dpsql.toml", memory_share=Fraction(1, 100)) as service:
        schema: Any = service.generation.database.engines().schema_database
        found = schema._database.connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
    mebibytes = available_memory() / 600 / 2**20
    assert float(found.split()[0]) == pytest.approx(mebibytes, abs=0.11)  # it is cut to a tenth


def test_the_least_limit_of_the_control_groups_is_known(tmp_path: Path) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text("0::/system.slice/dpsql.service\n")
    group = tmp_path / "fs" / "system.slice" / "dpsql.service"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    machine = available_memory(tmp_path / "none", membership)
    assert available_memory(tmp_path / "fs", membership) == machine
    (group.parent / "memory.max").write_text("5000000\n")
    assert available_memory(tmp_path / "fs", membership) == 5_000_000
    membership.write_text("12:memory:/a\n3:cpu:/b\n")
    (tmp_path / "fs" / "memory" / "a").mkdir(parents=True)
    (tmp_path / "fs" / "memory" / "a" / "memory.limit_in_bytes").write_text("7000000\n")
    assert available_memory(tmp_path / "fs", membership) == 7_000_000


# -- errors


@pytest.mark.parametrize(
    ("text", "kind", "state", "position"),
    [
        ("SELCT 1", QueryRefused, None, None),
        ("SELECT COUNT(*) FROM nosuch", QueryRefused, "42P01", 21),
        ("SELECT COUNT(*)\nFROM public.nosuch", QueryRefused, "42P01", 21),
        (f"SELECT {OPTION} COUNT(DISTINCT nosuch) FROM visits", QueryRefused, "42703", None),
        (f"SELECT {OPTION} COUNT(*) FROM visits WHERE nosuch(page) = 1", QueryRefused, "42883", None),
        ("SELECT nosuch FROM pages", QueryRefused, "42703", 7),
        ("SELECT 'é' AS nosuch,\n  p.nosuch FROM pages AS p", QueryRefused, "42703", 26),
        ("SELECT nosuch(page) FROM pages", QueryRefused, "42883", 7),
        (f"SELECT {OPTION} COUNT(*) AS n, q.nosuch FROM (SELECT 1 AS x) AS q", QueryRefused, "0A000", None),
        (f"SELECT q.nosuch FROM ({COUNT}) AS q", QueryRefused, "42703", 9),
        ("DELETE FROM visits", QueryRefused, "0A000", 0),
        ("DESCRIBE nosuch", QueryRefused, "42P01", 9),
    ],
)
def test_errors_have_states_and_places(
    shared: Service, text: str, kind: type[Exception], state: str | None, position: int | None
) -> None:
    expected = kind if state is not None else Exception
    with pytest.raises(expected) as caught:
        run(client_of(shared).answer(text))
    error: Any = caught.value
    assert error.sqlstate == (state or "42601")
    if position is not None:
        assert error.position == position


# -- the catalogue, and other connections


def test_the_catalogue_knows_the_own_connections_alone(service: Service) -> None:
    mine, other, his = client_of(service), client_of(service), client_of(service, BOB)
    rows = run(mine.answer("SELECT pg_backend_pid()")).table.column(0).to_pylist()
    assert rows[0] == str(mine.number)
    assert rows[1:] == [f"{mine.number} alice active", f"{other.number} alice idle"]
    assert str(his.number) not in " ".join(rows)


def test_a_statement_reads_the_catalogue_or_data(service: Service) -> None:
    for ask in (client_of(service).answer, client_of(service).describe):
        with pytest.raises(NotSupportedError, match="not both") as caught:
            run(_any(ask("SELECT * FROM pg_class, visits")))
        assert caught.value.sqlstate == "0A000"


def test_a_connection_of_the_own_analyst_is_cancelled_or_ended_by_a_statement(service: Service) -> None:
    mine, other, his = client_of(service), client_of(service), client_of(service, BOB)
    ended: list[int] = []
    stopped: list[int] = []
    for each in (mine, other, his):
        each.on_terminate = lambda number=each.number: ended.append(number)
        each.on_cancel = lambda number=each.number: stopped.append(number)

    def sent(kind: str, to: Client) -> list[bool]:
        answer = run(mine.answer(f"SELECT pg_{kind}_backend({to.number})"))
        described = run(mine.describe(f"SELECT pg_{kind}_backend({to.number})"))
        assert answer.table.column_names == [f"pg_{kind}_backend"]
        assert answer.columns == described.columns
        found: list[bool] = answer.table.column(0).to_pylist()
        return found

    assert sent("terminate", his) == sent("cancel", his) == [False]
    assert sent("cancel", other) == sent("terminate", other) == [True]
    assert ended == stopped == [other.number]


def test_a_statement_that_runs_is_cancelled_from_another_connection(service: Service, held: Held) -> None:
    async def main() -> None:
        one, two, three = (client_of(service) for _ in range(3))
        first = asyncio.create_task(one.answer(where(0)))
        await held.running()
        waiting = asyncio.create_task(two.answer(where(1)))
        await until(lambda: service.figures().waiting == 1)
        assert (await three.answer(f"SELECT pg_cancel_backend({two.number})")).table.num_rows == 1
        with pytest.raises(Cancelled):
            await waiting
        held.go.set()
        await first

    run(main())


# -- another policy


def test_a_reload_holds_from_the_next_statement_on(service: Service, folder: Path) -> None:
    client, before = client_of(service), service.generation
    run(client.answer(where(0)))
    (folder / "dpsql.toml").write_text(POLICY.replace("epsilon = 10\n", "epsilon = 1\n"))
    assert service.reload() == ()
    answer = run(client.answer("SHOW PRIVACY BUDGET"))
    assert answer.notices == (RELOADED,)
    assert answer.table.column("total")[0].as_py() == "1"
    assert run(client.answer("SHOW PRIVACY BUDGET")).notices == ()
    assert run(client.answer(where(0))).release is not None  # stored, in the same ledger
    run(_any(_closed(before)))
    assert service.policy.analysts["alice"].epsilon == 1


async def _closed(generation: Any) -> None:
    await until(lambda: generation.catalog.closed)


def test_what_runs_ends_on_the_policy_on_which_it_began(service: Service, folder: Path, held: Held) -> None:
    async def main() -> None:
        alice, bob, third = client_of(service), client_of(service, BOB), client_of(service)
        before = service.generation
        running = asyncio.create_task(alice.answer(where(0)))
        await held.running()
        waiting = asyncio.create_task(third.answer(where(1)))
        await until(lambda: service.figures().waiting == 1)
        await asyncio.to_thread(service.reload)
        assert not before.catalog.closed  # type: ignore[attr-defined]  # the fake's
        assert (await bob.answer("SELECT page FROM pages")).table.num_rows == 2
        held.go.set()
        assert (await running).release is not None
        assert (await waiting).notices[0] == RELOADED  # it was prepared again
        await _closed(before)

    records: list[StatementRecord] = []
    service.on_statement = records.append
    run(main())
    assert states_of(service) == {"alice": ["settled"] * 2}
    assert sorted(record.kind for record in records) == ["private", "private", "public"]  # each once


def test_a_statement_that_meets_reload_after_reload_is_given_up(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(service)
    true = Client._run_pending

    async def pending(self: Client, active: Any, generation: Any, found: Any) -> Answer:
        await asyncio.to_thread(service.reload)
        return await true(self, active, generation, found)

    monkeypatch.setattr(Client, "_run_pending", pending)
    with pytest.raises(PolicyReloaded) as caught:
        run(client.answer(COUNT))
    assert caught.value.sqlstate == "55000"
    assert states_of(service) == {}


def test_a_statement_that_waited_is_not_run_for_a_login_that_ended(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, gone = client_of(service, BOB), Accounts(ALICE)
    true = Client._run_pending

    async def pending(self: Client, active: Any, generation: Any, found: Any) -> Answer:
        await asyncio.to_thread(service.reload, None, None, gone)  # type: ignore[arg-type]  # the fake's
        return await true(self, active, generation, found)

    monkeypatch.setattr(Client, "_run_pending", pending)
    with pytest.raises(LoginEnded):
        run(client.answer(COUNT))
    assert states_of(service) == {}


@pytest.mark.parametrize("protocol", ["http", "mcp"])
def test_what_runs_without_a_connection_is_cancelled_when_its_login_ends(
    service: Service, held: Held, protocol: str
) -> None:
    async def main() -> None:
        running = asyncio.create_task(service.client_of(Login(BOB), protocol).answer(where(0)))
        await held.running()
        gone: Any = Accounts(ALICE)
        await asyncio.to_thread(service.reload, None, None, gone)
        held.go.set()
        with pytest.raises(Cancelled):
            await running

    run(main())


def test_a_statement_that_was_prepared_before_a_reload_is_not_run_after_it(service: Service) -> None:
    client = client_of(service)
    for text in (COUNT, "SELECT page FROM pages"):
        prepared = run(client.price(text))
        service.reload()
        with pytest.raises(PolicyReloaded):
            run(client.run(prepared))
    assert states_of(service) == {}


def test_statements_that_one_client_sends_at_once_keep_no_thread_of_others(
    service: Service, held: Held
) -> None:
    async def main() -> None:
        alice, bob = client_of(service), client_of(service, BOB)
        hers = [asyncio.create_task(alice.answer(where(page))) for page in (0, 1)]
        his = [asyncio.create_task(bob.answer(where(page))) for page in (0, 1)]
        for _ in range(2):
            await held.running()
        for client in (alice, bob):  # beside two of its own, of which one runs
            assert (await client.answer("SHOW TABLES")).table.num_rows == 2
        held.go.set()
        for task in (*hers, *his):
            await task

    run(main())


def test_a_policy_that_is_wrong_changes_nothing(service: Service, folder: Path) -> None:
    before = service.generation
    (folder / "dpsql.toml").write_text(POLICY.replace('unit = "user_id"', 'unit = "nosuch"'))
    with pytest.raises(PolicyError):
        service.reload()
    assert service.generation is before
    assert run(client_of(service).answer("SHOW TABLES")).notices == ()


def test_a_user_who_is_gone_is_told_apart_and_a_changed_one_is_heard(service: Service, folder: Path) -> None:
    mine, his = client_of(service), client_of(service, BOB)
    ended = threading.Event()
    his.on_terminate = ended.set
    now: Any = Accounts(User("alice", "alice", auto_charge=True))
    assert service.reload(None, None, now) == (his.number,)
    assert ended.is_set()
    (folder / "dpsql.toml").write_text(POLICY.replace("[budget]\n", "[budget]\ndefault_epsilon = 1\n"))
    service.reload()
    assert run(mine.answer("SELECT COUNT(DISTINCT user_id) AS n FROM visits")).release is not None


def test_a_connection_is_of_one_analyst_to_its_end(service: Service) -> None:
    mine, his = client_of(service), client_of(service, BOB)
    ended = threading.Event()
    his.on_terminate = ended.set
    now: Any = Accounts(User("alice", "alice"), User("bob", "alice"))
    assert service.reload(None, None, now) == (his.number,)
    assert ended.is_set()
    with pytest.raises(LoginEnded):  # what it had sent before it was told
        run(his.answer(where(0)))
    assert len(run(mine.answer("SHOW RELEASES")).table) == 0


def test_an_analyst_whom_the_policy_does_not_list_is_refused(service: Service) -> None:
    with pytest.raises(PolicyError, match="lists its analysts") as caught:
        client_of(service, User("eve", "eve"))
    assert caught.value.sqlstate == "28000"
    assert not any(client.user.name == "eve" for client in service.clients)


# -- the end


def test_a_server_that_ends_answers_nothing_more(service: Service, held: Held) -> None:
    async def main() -> None:
        client, other = client_of(service), client_of(service)
        running = asyncio.create_task(client.answer(COUNT))
        await held.running()
        service.shut_down()
        with pytest.raises(ShuttingDown) as caught:
            await other.answer("SELECT 1 AS x")
        assert caught.value.sqlstate == "57P01"
        assert not service.is_ready()
        held.go.set()
        assert (await running).release is not None

    run(main())


def test_closing_stops_what_runs_and_does_not_count_it_as_a_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with serving(folder / "dpsql.toml") as service:
            endless(service, monkeypatch)
            task = asyncio.create_task(client_of(service).answer(COUNT))
            await until(lambda: bool(states_of(service)))
            service.shut_down()
            while not task.done():
                service.cancel_all()
                await asyncio.sleep(0.01)
            with pytest.raises(Cancelled):
                await task
            assert states_of(service) == {"alice": ["cancelled"]}

    run(main())


def test_a_statement_that_nobody_awaits_runs_on_and_is_stopped_at_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with serving(folder / "dpsql.toml") as service:
            endless(service, monkeypatch)
            client = client_of(service)
            task = asyncio.create_task(client.answer(COUNT))
            await until(lambda: bool(states_of(service)))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            client.close()
            assert states_of(service) == {"alice": ["reserved"]}
            ledger = service.generation.database.ledger
            service.generation.database.ledger = Kept(ledger)  # type: ignore[assignment]  # it is read below
        assert ended == ["cancelled"]

    ended: list[str] = []

    class Kept:
        """The ledger, whose entries are looked at before it is closed."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def close(self) -> None:
            ended.extend(entry.state for entry in self.inner.entries())
            self.inner.close()

    run(main())


def test_a_closed_client_asks_nothing_and_is_not_listed(service: Service) -> None:
    client = client_of(service)
    assert client in service.clients
    client.close()
    client.close()
    assert client not in service.clients
    with pytest.raises(InterfaceError):
        run(client.answer("SELECT 1"))
    assert service.is_ready()


# -- what is told


def test_notices_say_what_was_charged_and_what_is_left(service: Service) -> None:
    client = client_of(service)
    first = run(client.answer(COUNT))
    (notice,) = first.notices
    assert notice.severity == "NOTICE"
    assert notice.text.startswith("epsilon 1 charged, 9 of 10 left; n ± ")
    assert notice.text.endswith("(95%); release 1")
    (again,) = run(client.answer(COUNT)).notices
    assert "reused release 1 of " in again.text
    assert again.text.endswith("epsilon 0")
    both = run(client.answer(f"SELECT a.n, b.n AS m FROM ({where(0)}) a, ({where(1)}) b"))
    assert "epsilon 2 charged, 7 of 10 left" in both.notices[0].text
    assert "releases 2, 3" in both.notices[0].text


def test_the_figures_and_records_tell_kinds_and_outcomes_and_no_private_time(service: Service) -> None:
    records: list[StatementRecord] = []
    service.on_statement = records.append
    client = client_of(service)
    for text in (COUNT, COUNT, "SELECT page FROM pages", "SHOW TABLES", "SELECT * FROM visits LIMIT 0"):
        run(client.answer(text))
    with pytest.raises(QueryRefused):
        run(client.answer("SELECT * FROM nosuch"))
    kinds = ["private", "stored", "public", "command", "probe", "data"]
    assert [record.kind for record in records] == kinds
    assert [record.outcome for record in records] == [*["00000"] * 5, "42P01"]
    assert [record.price and record.price.epsilon for record in records] == [1, 0, None, None, None, None]
    assert {(r.analyst, r.user, r.number, r.protocol) for r in records} == {
        ("alice", "alice", client.number, "wire")
    }
    figures = service.figures()
    assert figures.statements == {
        (kind, record.outcome): 1 for kind, record in zip(kinds, records, strict=True)
    }
    assert figures.stored_hits == 1
    assert sum(figures.free_counts) == len(records) - 1  # but the private one
    assert len(figures.free_counts) == len(BOUNDS) + 1
    run(client.describe(COUNT))
    with pytest.raises(QueryRefused):  # a statement that is refused when it is described is never asked
        run(client.describe("SELECT * FROM nosuch"))
    assert [(record.kind, record.outcome) for record in records[6:]] == [("data", "42P01")]


def test_two_analysts_at_once_see_their_own_answers(service: Service) -> None:
    async def main() -> None:
        clients = [client_of(service, user) for user in (ALICE, BOB) for _ in range(3)]

        async def asks(client: Client) -> list[tuple[pa.Table, str]]:
            found = []
            for i in range(6):
                answer = await client.answer(where(i % 3))
                assert answer.release is not None
                found.append((answer.table, answer.notices[0].text))
            return found

        answers = await asyncio.gather(*map(asks, clients))
        hers, his = answers[:3], answers[3:]
        for own in (hers, his):
            tables = {i: {str(each[i][0].to_pylist()) for each in own} for i in range(6)}
            assert all(len(found) == 1 for found in tables.values())
        texts = [text for each in his for _, text in each]
        assert not any("of 10 left" in text for text in texts)

    run(main())
    assert states_of(service) == {"alice": ["settled"] * 3, "bob": ["settled"] * 3}


def test_the_name_of_the_database_may_stand_before_a_table(service: Service) -> None:
    client = client_of(service)
    assert run(client.answer("SELECT dpsql.public.pages.page FROM dpsql.public.pages")).table.num_rows == 2


def test_the_catalogue_is_closed_with_the_service(folder: Path) -> None:
    made: list[AnsweredCatalog] = []

    def make() -> AnsweredCatalog:
        made.append(AnsweredCatalog())
        return made[-1]

    with serving(folder / "dpsql.toml", make=make):
        pass
    assert [each.closed for each in made] == [True]


def test_replies_that_depend_on_private_rows_are_held_and_so_is_their_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(folder / "dpsql.toml", time_steps=True) as service:
        Held(service, monkeypatch).go.set()
        ledger = service.generation.database.ledger
        waits: list[float] = []
        places: list[int] = []
        seen: list[tuple[int, int]] = []

        class Ended(threading.Event):
            """The end of the service, on which replies wait."""

            def wait(self, timeout: float | None = None) -> bool:
                waits.append(timeout or 0.0)
                places.append(service.figures().running)
                # What other connections of the analyst can see while the reply is held.
                seen.append((len(ledger.releases("alice")), ledger.count_failures("alice")))
                return False

        monkeypatch.setattr(service, "ended", Ended())
        client = client_of(service)
        for page in (0, 1, 0):  # the last one is stored
            run(client.answer(where(page)))
        run(client.answer("SELECT page FROM pages"))
        engine: Any = service.generation.database.engines().engine
        monkeypatch.setattr(engine, "count", None)  # an error is held as well
        with pytest.raises(StatementFailed):
            run(client.answer(where(2)))
        assert seen == [(0, 0), (1, 0), (2, 0)]
        assert (len(ledger.releases("alice")), ledger.count_failures("alice")) == (2, 1)
        assert all(wait > 0 for wait in waits)
        assert places == [1, 1, 1]


@pytest.mark.parametrize(
    ("passed", "waited"), [(0.01, 0.24), (0.9, 0.1), (4.5, 11.5), (17, 3), (21, 43), (257, 0)]
)
def test_a_reply_is_held_until_the_next_step_and_once(
    monkeypatch: pytest.MonkeyPatch, passed: float, waited: float
) -> None:
    now = [100.0]
    monkeypatch.setattr("dpsql.serve.statement_pool.time", SimpleNamespace(monotonic=lambda: now[0]))
    waits: list[float | None] = []
    ended: Any = SimpleNamespace(wait=waits.append)
    hold = Hold(20, ended)
    now[0] += passed
    hold()
    hold()
    assert waits == [pytest.approx(waited)]
