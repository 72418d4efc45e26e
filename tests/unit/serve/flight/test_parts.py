"""The parts of the Flight server alone: messages, tickets, sessions, turns, Arrow data, TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("grpc")
from dpsql.errors import OperationalError
from dpsql.policy import Address, ServeConfig
from dpsql.serve import account_file, changes, self_signed, tls
from dpsql.serve.accounts import Users
from dpsql.serve.flight import messages as m
from dpsql.serve.flight.arrow import ParametersRefused, ParameterStream, flight_data
from dpsql.serve.flight.calls import Calls
from dpsql.serve.flight.errors import FlightError, told
from dpsql.serve.flight.front import FlightFront
from dpsql.serve.flight.protobuf import MalformedMessageError, read, write
from dpsql.serve.flight.sessions import IDLE, LONGEST, MOST_BYTES, MOST_PREPARED, Session, Sessions
from dpsql.serve.flight.tickets import LIFETIME, MOST, Ticket, Tickets
from dpsql.serve.flight.tickets import MOST_BYTES as MOST_TICKET_BYTES
from dpsql.serve.flight.turn import Turn
from dpsql.serve.throttle import FREE, Throttle
from dpsql.serve.user import User
from tests.unit.serve.flight.conftest import PASSWORDS, users_of

# -- messages

VALUES = {
    "schema": st.binary(),
    "flight_descriptor": st.binary(),
    "endpoint": st.lists(st.binary(), min_size=1),
    "total_records": st.integers(-(1 << 63), (1 << 63) - 1),
    "total_bytes": st.integers(-(1 << 63), (1 << 63) - 1),
    "ordered": st.booleans(),
    "app_metadata": st.binary(),
}


@given(st.fixed_dictionaries({}, optional=VALUES), st.data())
def test_a_message_is_read_as_it_was_written_and_others_are_malformed(
    values: dict[str, Any], data: st.DataObject
) -> None:
    written = write(m.INFO, values)
    assert read(m.INFO, written) == values
    cut = data.draw(st.integers(0, len(written)))
    other = written[:cut] + data.draw(st.binary(max_size=8)) + written[cut:]
    for wrong in (written[:cut], other):
        try:
            read(m.INFO, wrong)
        except MalformedMessageError:
            continue


@given(st.binary(max_size=64))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    for fields in (m.DATA, m.DESCRIPTOR, m.SQL["CommandGetSqlInfo"], m.SQL["CommandGetTables"]):
        try:
            found = read(fields, data)
        except MalformedMessageError:
            continue
        assert set(found) <= {name for name, _ in fields.values()}


@pytest.mark.parametrize(
    "data", [b"\x80" * 11, b"\x0a\x05hi", b"\x0a\x01\xff", b"\x08\x01", b"\x00\x00", b"\x0b"]
)
def test_a_malformed_message_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read(m.SQL["CommandStatementQuery"], data)


def test_messages_of_others_are_not_taken_for_ours() -> None:
    for url in ("type.googleapis.com/other.CommandStatementQuery", "CommandStatementQuery", ""):
        with pytest.raises(MalformedMessageError):
            m.read_any(write(m.ANY, {"type_url": url, "value": b""}))


# -- Arrow data


def test_a_result_is_sent_in_small_messages_and_read_back() -> None:
    table = pa.table({"k": range(300_000), "t": pa.array(["a", "b", "c"] * 100_000).dictionary_encode()})
    for shown in (table.select(["k"]), table):
        found = [read(m.DATA, message) for message in flight_data(shown)]
        stream = ParameterStream()
        stream._written.write(b"")
        parts = b"".join(
            b"\xff\xff\xff\xff" + len(each["data_header"]).to_bytes(4, "little") + each["data_header"]
            + each.get("data_body", b"")
            for each in found
        )  # fmt: skip
        assert pa.ipc.open_stream(parts).read_all().equals(shown)
    assert max(map(len, flight_data(table.select(["k"])))) < 2 << 20


def test_parameters_that_are_no_arrow_data_are_refused() -> None:
    for data in (b"", b"\xff\xff\xff\xff\x08\0\0\0garbage!", bytes(64)):
        stream = ParameterStream()
        stream.add(write(m.DATA, {"data_header": data}))
        with pytest.raises(ParametersRefused):
            stream.values()
    with pytest.raises(ParametersRefused, match="larger than"):
        ParameterStream().add(write(m.DATA, {"data_header": b"x", "data_body": bytes(256 << 10)}))


def test_values_come_with_their_types_and_those_of_a_union_without() -> None:
    children = [pa.array([], pa.int64()), pa.array(["a"])]
    union = pa.UnionArray.from_dense(pa.array([1], pa.int8()), pa.array([0], pa.int32()), children)
    batch = pa.record_batch([union, pa.array([1.5])], ["a", "b"])
    stream = ParameterStream()
    for part in (batch.schema.serialize(), batch.serialize()):
        message = pa.ipc.read_message(part)
        body = b"" if message.body is None else message.body.to_pybytes()
        stream.add(write(m.DATA, {"data_header": message.metadata.to_pybytes(), "data_body": body}))
    assert stream.values() == (("a", 1.5), (None, pa.float64()))


# -- tickets


async def nothing() -> pa.Table:
    return pa.table({})


def test_a_ticket_expires() -> None:
    now = [0.0]
    tickets = Tickets(lambda: now[0])
    secrets = [tickets.issue(Ticket("alice", nothing)) for _ in range(2)]
    now[0] = LIFETIME - 1
    tickets.redeem(secrets[0], "alice")
    now[0] = LIFETIME
    with pytest.raises(FlightError, match="has expired"):
        tickets.redeem(secrets[1], "alice")


def test_many_tickets_of_one_user_displace_nobody_elses() -> None:
    tickets = Tickets()
    of_bob, first, *rest = (
        tickets.issue(Ticket(name, nothing)) for name in ("bob", *(MOST + 1) * ("alice",))
    )
    assert len(tickets) == MOST + 1
    assert tickets.revoke(first, "alice") is None
    for secret, name in ((rest[0], "alice"), (of_bob, "bob")):
        assert tickets.revoke(secret, name) is not None


def test_what_tickets_keep_of_one_user_has_a_limit_in_bytes() -> None:
    tickets = Tickets()
    of_bob = tickets.issue(Ticket("bob", nothing, 1000))
    sizes = (MOST_TICKET_BYTES // 2, MOST_TICKET_BYTES // 2, 1)
    first, second, third = (tickets.issue(Ticket("alice", nothing, size)) for size in sizes)
    assert tickets.revoke(first, "alice") is None
    for secret, name in ((second, "alice"), (third, "alice"), (of_bob, "bob")):
        assert tickets.revoke(secret, name) is not None


# -- sessions


class Made:
    """Sessions on users of a file, with clients that do nothing, and a clock that is set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users = users_of(folder, User("alice", "alice"), User("bob", "bob", max_connections=1))
        self.now = 0.0
        self.log: list[tuple[str, Mapping[str, object]]] = []
        self.waits: list[float] = []
        service = cast("Any", SimpleNamespace(client=self.client))
        self.throttle = Throttle(lambda: self.now)
        self.sessions = Sessions(
            lambda: service,
            lambda: self.users,
            ServeConfig(),
            self.throttle,
            lambda name, fields: self.log.append((name, fields)),
            lambda: self.now,
        )

    def client(self, user: User, number: int, settings: object) -> Any:
        return SimpleNamespace(
            user=user, number=number, running=False, cancel=lambda: None, close=lambda: None
        )

    async def log_in(self, name: str, password: str | None = None) -> str:
        return await self.sessions.log_in(name, password or PASSWORDS[name], "192.0.2.7", None)

    async def of(self, token: str, certified: str | None = None) -> Session:
        return await self.sessions.of_call(f"Bearer {token}", "192.0.2.7", certified)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_a_session_ends_when_it_is_idle_or_old(made: Made) -> None:
    async def main() -> None:
        made.now = 0.0
        token = await made.log_in("alice")
        made.now = IDLE
        assert (await made.of(token)).name == "alice"
        made.now = 2 * IDLE + 1
        with pytest.raises(FlightError, match="the login has ended"):
            await made.of(token)
        token, began = await made.log_in("alice"), made.now
        while made.now - began + IDLE <= LONGEST:
            made.now += IDLE
            await made.of(token)
        made.now += IDLE
        with pytest.raises(FlightError, match="the login has ended"):
            await made.of(token)

    asyncio.run(main())


def test_a_session_ends_with_its_password_or_its_user(made: Made) -> None:
    async def main() -> None:
        path, before = made.folder / "dpsql-users.toml", made.users
        for change in (
            lambda account: changes.with_password(account, "quite another password"),
            lambda account: replace(account, disabled=True),
            lambda account: replace(account, user=replace(account.user, expires=date(2020, 1, 1))),
            lambda account: replace(account, user=replace(account.user, analyst="carol")),
        ):
            made.users = before
            token = await made.log_in("alice")
            with account_file.changed(path) as accounts:
                kept, accounts["alice"] = accounts["alice"], change(accounts["alice"])
            made.users = Users.load(path)
            with pytest.raises(FlightError, match="the login has ended"):
                await made.of(token)
            with account_file.changed(path) as accounts:
                accounts["alice"] = kept
        made.users = before

    asyncio.run(main())


def test_a_users_own_token_needs_no_login(made: Made) -> None:
    async def main() -> None:
        path = made.folder / "dpsql-users.toml"
        with account_file.changed(path) as accounts:
            accounts["alice"], _, text = changes.with_token(accounts["alice"], None, None)
        made.users = Users.load(path)
        session = await made.of(text)
        assert (session.name, session.keys) == ("alice", None)
        assert await made.of(text) is session
        with account_file.changed(path) as accounts:
            accounts["alice"] = replace(accounts["alice"], tokens=())
        made.users = Users.load(path)
        with pytest.raises(FlightError, match="the token is not known"):
            await made.of(text)

    asyncio.run(main())


def test_failed_logins_are_delayed_from_there_alone(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("dpsql.serve.flight.sessions.asyncio.sleep", sleep)

    async def main() -> None:
        for _ in range(FREE + 2):
            with pytest.raises(FlightError, match="name or password is wrong"):
                await made.log_in("bob", "wrong")
        await made.sessions.log_in("bob", PASSWORDS["bob"], "198.51.100.1", None)

    asyncio.run(main())
    assert waits == [*(FREE * [0.0]), 1.0, 2.0, 0.0]
    failed = [fields for name, fields in made.log if name == "handshake failed"]
    assert {"address": "192.0.2.7", "user": "bob"}.items() <= failed[-1].items()
    assert "wrong'" not in repr(failed).replace("wrong password", "")


def test_few_logins_are_tried_at_the_same_time(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        asleep = asyncio.Event()
        sleeping = asyncio.sleep

        async def sleep(_: float) -> None:
            await asleep.wait()

        monkeypatch.setattr("dpsql.serve.flight.sessions.asyncio.sleep", sleep)
        tries = [asyncio.create_task(made.log_in("nobody", f"{number}")) for number in range(6)]
        await sleeping(0.01)
        ended = [each.exception() for each in tries if each.done()]
        assert [str(error) for error in ended] == ["too many clients are logging in"]
        asleep.set()
        await asyncio.wait(tries)

    asyncio.run(main())


def test_the_name_in_a_certificate_must_be_the_users(made: Made) -> None:
    async def main() -> None:
        token = await made.log_in("alice")
        assert (await made.of(token, "alice")).name == "alice"
        with pytest.raises(FlightError, match="another user's"):
            await made.of(token, "bob")
        with pytest.raises(FlightError, match="name or password is wrong"):
            await made.sessions.log_in("alice", PASSWORDS["alice"], "192.0.2.7", "bob")

    asyncio.run(main())


def test_a_user_with_all_sessions_busy_is_refused(made: Made) -> None:
    async def main() -> None:
        session = await made.of(await made.log_in("bob"))
        cast("Any", session.client).running = True
        with pytest.raises(FlightError, match="you have 1 sessions, as many as you may have"):
            await made.log_in("bob")
        made.sessions.end(session)
        await made.log_in("bob")

    asyncio.run(main())


def test_the_oldest_of_many_prepared_statements_is_forgotten(made: Made) -> None:
    async def main() -> None:
        session = await made.of(await made.log_in("alice"))
        first, *others = [session.prepare("SELECT 1") for _ in range(MOST_PREPARED + 1)]
        assert session.statement(others[0]).text == "SELECT 1"
        with pytest.raises(FlightError, match="there is no such prepared statement"):
            session.statement(first)
        bound = []
        for _ in range(5):
            bound.append(session.prepare("SELECT $1"))
            session.bind(bound[-1], ("a",), (pa.string(),), MOST_BYTES // 5)
        assert bound[0] not in session.prepared
        assert session.statement(bound[4]).values == ("a",)

    asyncio.run(main())


# -- cancelling


def test_a_call_that_is_given_up_cancels_its_statement_and_the_next_one_waits_for_its_end() -> None:
    async def main() -> None:
        events: list[str] = []
        end = asyncio.Event()
        turn = Turn(cast("Any", SimpleNamespace(cancel=lambda: events.append("cancel"))))

        async def work(name: str) -> str:
            events.append(name)
            await end.wait()
            events.append(f"{name} ended")
            return name

        one, two, three = (asyncio.create_task(turn.take(work(name))) for name in ("1", "2", "3"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in (one, three):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert events == ["1", "cancel"]
        end.set()
        assert await two == "2"
        assert events == ["1", "cancel", "1 ended", "2", "2 ended"]

    asyncio.run(main())


def test_cancelling_stops_the_statement_of_a_ticket_that_is_answered(made: Made) -> None:
    async def main() -> None:
        calls = Calls(made.sessions, ServeConfig(), tickets := Tickets())
        session, other = [await made.of(await made.log_in(name)) for name in ("alice", "bob")]
        stopped, began, end = list[bool](), asyncio.Event(), asyncio.Event()

        def stop() -> None:
            stopped.append(True)
            end.set()

        cast("Any", session.client).cancel = stop

        async def work() -> pa.Table:
            began.set()
            await end.wait()
            raise OperationalError("the statement was cancelled")

        secret = tickets.issue(Ticket("alice", work))
        ticket = write(m.TICKET, {"ticket": secret})
        info = write(m.INFO, {"endpoint": [write(m.ENDPOINT, {"ticket": ticket})]})
        action = write(
            m.ACTION, {"type": "CancelFlightInfo", "body": write(m.CANCEL_REQUEST, {"info": info})}
        )

        async def fetched() -> list[bytes]:
            return [each async for each in calls.get(session, ticket)]

        fetching = asyncio.create_task(fetched())
        await began.wait()
        for asking, status in ((other, m.NOT_CANCELLABLE), (session, m.CANCELLING)):
            (answer,) = await calls.act(asking, action)
            assert read(m.CANCEL_RESULT, answer)["status"] == status
        with pytest.raises(OperationalError, match="was cancelled"):
            await fetching
        assert stopped == [True]

    asyncio.run(main())


def test_errors_have_codes_by_their_sqlstate() -> None:
    codes = {
        state: told(FlightError(state, "x"))[0].name
        for state in ("28P01", "42601", "ZP002", "57014", "99999")
    }
    assert codes == {
        "28P01": "UNAUTHENTICATED",
        "42601": "INVALID_ARGUMENT",
        "ZP002": "RESOURCE_EXHAUSTED",
        "57014": "CANCELLED",
        "99999": "UNKNOWN",
    }
    assert told(ValueError("unit 4711"))[1] == "this is a bug of dpsql: please report it"
    assert len(told(FlightError("54000", "é" * 9000))[1].encode()) <= 4000


# -- TLS


def test_other_machines_reach_it_by_tls_alone(made: Made, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    certificate, key = self_signed.make(tmp_path)
    secured = tls.load(certificate, key)

    async def main() -> None:
        front = FlightFront(
            Calls(made.sessions, ServeConfig()), made.sessions, Address("0.0.0.0", 0), secured
        )
        (url,) = await front.start()
        assert url.startswith("grpc+tls://0.0.0.0:")
        port = url.rpartition(":")[2]

        def log_in(scheme: str, **options: Any) -> Any:
            client = fl.FlightClient(f"{scheme}://localhost:{port}", **options)
            name, password = "alice", PASSWORDS["alice"]
            return client.authenticate_basic_token(name, password, fl.FlightCallOptions(timeout=10))

        name, token = await asyncio.to_thread(log_in, "grpc+tls", tls_root_certs=certificate.read_bytes())
        assert (name, token[:7]) == (b"authorization", b"Bearer ")
        try:
            with pytest.raises((fl.FlightUnavailableError, fl.FlightInternalError)):
                await asyncio.to_thread(log_in, "grpc")
        finally:
            await front.stop()

    asyncio.run(main())


def test_where_clients_need_certificates_nobody_logs_in_by_another_name(made: Made, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from tests.unit.serve.wire.test_startup import certified

    certificate, key = self_signed.make(tmp_path)
    file = certified(tmp_path, "alice")
    pem = file.read_text()
    begin = pem.index("-----BEGIN PRIVATE KEY-----")
    secured = tls.load(certificate, key, clientcert=file)

    async def main() -> None:
        calls = Calls(made.sessions, ServeConfig())
        front = FlightFront(calls, made.sessions, Address("127.0.0.1", 0), secured)
        (url,) = await front.start()
        assert url.startswith("grpc+tls://127.0.0.1:")

        def log_in(name: str, **options: Any) -> Any:
            location = f"grpc+tls://localhost:{url.rpartition(':')[2]}"
            client = fl.FlightClient(location, tls_root_certs=certificate.read_bytes(), **options)
            return client.authenticate_basic_token(name, PASSWORDS[name], fl.FlightCallOptions(timeout=10))

        own = {"cert_chain": pem[:begin], "private_key": pem[begin:]}
        try:
            assert (await asyncio.to_thread(log_in, "alice", **own))[0] == b"authorization"
            with pytest.raises(fl.FlightUnauthenticatedError, match="name or password is wrong"):
                await asyncio.to_thread(log_in, "bob", **own)
            with pytest.raises((fl.FlightUnavailableError, fl.FlightInternalError)):
                await asyncio.to_thread(log_in, "alice")
        finally:
            await front.stop()

    asyncio.run(main())


def test_a_taken_address_is_told(made: Made) -> None:
    def front(port: int) -> FlightFront:
        return FlightFront(
            Calls(made.sessions, ServeConfig()), made.sessions, Address("127.0.0.1", port), None
        )

    async def main() -> None:
        first = front(0)
        (url,) = await first.start()
        with pytest.raises(OperationalError, match="another program listens there"):
            await front(int(url.rpartition(":")[2])).start()
        await first.stop()

    asyncio.run(main())
