"""The server as a process: listening, reload, shutdown, health, with parts that answer nothing."""

from __future__ import annotations

import asyncio
import io
import json
import os
import resource
import signal
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import OperationalError, PolicyError
from dpsql.kernel.loss import Charge
from dpsql.ledger import Budget
from dpsql.login.scram import Verifier
from dpsql.policy import Address, Policy, ServeConfig
from dpsql.serve import monitoring
from dpsql.serve import server as process
from dpsql.serve import state as read_files
from dpsql.serve import state as states
from dpsql.serve import users as users_file
from dpsql.serve.monitoring import Figures, Log
from dpsql.serve.server import Server, notify
from dpsql.serve.state import State, listen
from dpsql.serve.users import Account, User, Users

POLICY = """
[budget]
epsilon = 5
[tables.pages]
source = "pages.csv"
public = true
columns = {{ page = "VARCHAR" }}
[analysts.alice]
epsilon = 1
[serve]
listen = [{listen}]
{more}
"""
VERIFIER = Verifier.of("correct horse battery", b"0123456789abcdef")


FIGURES = Figures(
    waiting=1,
    running=2,
    statements=Counter({("private", "00000"): 7, ("private", "ZP002"): 1, ("stored", "00000"): 3}),
    free_counts=(4, *[0] * 6, 2, *[0] * 5, 1),
    free_seconds=1.5,
)


class FakeService:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.refuses: Exception | None = None
        self.seems_ready = True
        self.ends = True
        self.reloads: list[tuple[Policy, ServeConfig, Users]] = []

    def reload(self, policy: Policy, config: ServeConfig, users: Users) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.reloads.append((policy, config, users))

    def shut_down(self) -> None:
        self.calls.append("shut down")

    def cancel_all(self) -> None:
        self.calls.append("cancel all")

    def close(self, within: float | None = None) -> bool:
        self.calls.append("close")
        return self.ends

    def is_ready(self) -> bool:
        return self.seems_ready

    messages: tuple[str, ...] = ()

    def figures(self) -> Figures:
        return FIGURES

    def budget(self, analyst: str | None) -> Budget:
        if analyst == "nobody":
            raise OperationalError("the ledger is gone")
        left = Fraction(9, 2) if analyst is None else Fraction(1, 4)
        return Budget(Charge(), Charge(), Charge(left))


class FakeConnections:
    handshakes = 4

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.busy = 0
        self.none_left = asyncio.Event()
        self.none_left.set()

    def __len__(self) -> int:
        return self.busy

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def cancel(self) -> None:
        self.calls.append("cancel")
        self.none_left.set()

    async def wait_closed(self) -> None:
        await self.none_left.wait()


class Greeting(asyncio.Protocol):
    def __init__(self, text: bytes) -> None:
        self.text = text

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.text)
        transport.close()


class FakeWire:
    def __init__(self) -> None:
        self.connections = FakeConnections()
        self.assigned: list[State] = []

    def factory(self, *, tls_required: bool) -> Callable[[], asyncio.BaseProtocol]:
        return lambda: Greeting(b"TLS" if tls_required else b"any")

    def assign(self, state: State) -> None:
        self.assigned.append(state)


class Harness:
    """A policy with one user, and a server on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "shop.toml"
        (folder / "pages.csv").write_text("page\nhome\n")
        self.service = FakeService()
        self.out = io.StringIO()
        self.addresses: list[str] = []
        self.users(alice="alice")

    def users(self, **analysts: str) -> None:
        with users_file.change_accounts(self.folder / "dpsql-users.toml") as accounts:
            accounts.clear()
            for name, analyst in analysts.items():
                accounts[name] = Account(User(name, analyst), VERIFIER)

    def policy(self, *listen: str, more: str = "") -> None:
        self.path.write_text(POLICY.format(listen=", ".join(map(repr, listen)), more=more))

    def run(self, body: Callable[[Server], Awaitable[None]], *, drain: float = 30, fronts: Any = ()) -> None:
        """Run a server, the block while it is ready, and stop it at the block's end."""

        async def main() -> None:
            self.wire = FakeWire()
            ready = asyncio.Event()

            def on_ready(addresses: list[str]) -> None:
                self.addresses = addresses
                ready.set()

            state = states.read_state(self.path)
            self.log = Log(state.users.secret, state.users.accounts.__contains__, self.out)
            server = Server(
                self.path,
                state,
                self.service,  # type: ignore[arg-type]  # what the process uses of one
                self.wire,  # type: ignore[arg-type]  # as above
                self.log,
                monitoring.LoginCounts(),
                on_ready=on_ready,
                drain=drain,
                fronts=fronts,
            )
            running = asyncio.create_task(server.run())
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            try:
                if not running.done():
                    await body(server)
            finally:
                server.stop()
                await running

        asyncio.run(main())

    @property
    def events(self) -> list[dict[str, Any]]:
        assert self.log.flush()
        return [json.loads(line) for line in self.out.getvalue().splitlines()]

    def event(self, name: str) -> dict[str, Any]:
        (found,) = [event for event in self.events if event["event"] == name]
        return found


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


async def nothing(server: Server) -> None:
    del server


async def ask(address: str, text: bytes = b"") -> bytes:
    if address.startswith("/"):
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    writer.write(text)
    answer = await reader.read()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return answer


async def get(harness: Harness, path: str, method: str = "GET") -> tuple[int, str]:
    answer = await ask(
        harness.event("metrics")["listen"], f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    )
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


def test_it_listens_on_tcp_and_on_a_socket(harness: Harness) -> None:
    path = f"{harness.folder}/.s.PGSQL.5433"
    harness.policy("127.0.0.1:0", "[::1]:0", path)

    async def body(server: Server) -> None:
        assert len(harness.addresses) == 3
        assert [await ask(address) for address in harness.addresses] == [b"any"] * 3
        assert os.stat(path).st_mode & 0o777 == 0o777

    harness.run(body)
    assert harness.addresses[2] == path
    assert not os.path.exists(path)
    assert [event["event"] for event in harness.events] == ["started", "ready", "stopping", "stopped"]
    assert harness.event("started")["database"] == "shop"
    assert harness.event("ready")["certificate"].endswith("dpsql-server.pem")


def test_an_address_that_others_reach_needs_tls(harness: Harness) -> None:
    harness.policy("127.0.0.1:0")
    harness.run(nothing)  # makes a certificate
    more = 'certificate = "dpsql-server.pem"\nkey = "dpsql-server.key"'
    harness.policy("127.0.0.1:0", "0.0.0.0:0", more=more)

    async def body(server: Server) -> None:
        assert await ask(harness.addresses[0]) == b"any"
        assert await ask("127.0.0.1:" + harness.addresses[1].rpartition(":")[2]) == b"TLS"

    harness.run(body)


def test_the_socket_of_a_living_server_is_not_taken(harness: Harness) -> None:
    path = f"{harness.folder}/.s.PGSQL.5433"
    harness.policy(path)

    async def body(server: Server) -> None:
        with pytest.raises(OperationalError, match="another program listens there"):
            await listen(Address("", 5433, Path(path)), asyncio.Protocol)

    harness.run(body)
    with socket.socket(socket.AF_UNIX) as left:  # as after kill -9
        left.bind(path)
    harness.run(nothing)


def test_an_address_in_use_ends_the_start(harness: Harness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        harness.policy("127.0.0.1:0", f"127.0.0.1:{port}")
        with pytest.raises(OperationalError, match=f"cannot listen on 127.0.0.1:{port}: another program"):
            harness.run(nothing)
    assert harness.service.calls == ["shut down", "close"]
    harness.policy("no-such-host.invalid:5433", more="certificate='dpsql-server.pem'\nkey='dpsql-server.key'")
    with pytest.raises(OperationalError, match="cannot listen on no-such-host"):
        harness.run(nothing)


def test_a_file_in_place_of_the_socket_stays(harness: Harness) -> None:
    path = harness.folder / ".s.PGSQL.5433"
    path.write_text("not a socket")
    harness.policy(str(path))
    with pytest.raises(OperationalError, match="a file is there"):
        harness.run(nothing)
    assert path.read_text() == "not a socket"


def test_nobody_can_log_in_without_users(harness: Harness) -> None:
    harness.policy("127.0.0.1:0")
    harness.users()
    with pytest.raises(PolicyError, match="lists no user"):
        states.read_state(harness.path)
    (harness.folder / "dpsql-users.toml").unlink()
    with pytest.raises(PolicyError, match="dpsql user add"):
        states.read_state(harness.path)


def test_users_without_a_place_in_the_policy_are_named(harness: Harness) -> None:
    harness.policy("127.0.0.1:0")
    harness.users(alice="alice", bob="alice", carol="carol")
    (warning,) = states.read_state(harness.path).warnings
    assert "user carol: the policy lists its analysts" in warning
    unlisted = POLICY.replace("[analysts.alice]\nepsilon = 1", "[groups.g]\nmembers = ['alice']\nepsilon = 1")
    harness.path.write_text(unlisted.format(listen="", more="").replace("listen = []", ""))
    (warning,) = states.read_state(harness.path).warnings
    assert "analyst carol has no cap" in warning


def test_without_the_package_there_is_no_tls(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(folder: Path) -> None:
        raise ImportError(folder)

    monkeypatch.setattr(read_files, "make_self_signed", missing)
    harness.policy("127.0.0.1:0")
    state = states.read_state(harness.path)
    assert state.tls is None
    assert any("install dpsql[serve]" in text for text in state.warnings)
    harness.policy("0.0.0.0:0")
    with pytest.raises(PolicyError, match="reached from other machines"):
        states.read_state(harness.path)


# -- the end


def test_statements_that_run_may_end_first(harness: Harness) -> None:
    harness.policy("127.0.0.1:0")

    async def body(server: Server) -> None:
        harness.wire.connections.none_left.clear()
        server.stop()
        while not harness.wire.connections.calls:
            await asyncio.sleep(0)
        with pytest.raises(OSError):
            await ask(harness.addresses[0])
        harness.wire.connections.none_left.set()

    harness.run(body)
    assert harness.wire.connections.calls == ["shutdown"]
    assert harness.service.calls == ["shut down", "close"]


def test_what_does_not_end_in_time_is_stopped(harness: Harness) -> None:
    harness.policy("127.0.0.1:0")

    async def body(server: Server) -> None:
        harness.wire.connections.none_left.clear()

    harness.run(body, drain=0.01)
    assert harness.wire.connections.calls == ["shutdown", "cancel"]
    assert harness.service.calls == ["shut down", "cancel all", "close"]


def test_what_does_not_end_at_all_is_told_and_does_not_keep_the_server(harness: Harness) -> None:
    harness.policy("127.0.0.1:0")
    harness.service.ends = False

    async def body(server: Server) -> None:
        """Nothing to do: it ends at once."""

    harness.run(body, drain=0.01)
    assert [event["event"] for event in harness.events][-3:] == ["stopping", "abandoned", "stopped"]


def test_told_twice_it_waits_for_nothing(harness: Harness) -> None:
    harness.policy("127.0.0.1:0")

    async def body(server: Server) -> None:
        harness.wire.connections.none_left.clear()
        os.kill(os.getpid(), signal.SIGTERM)
        while "shut down" not in harness.service.calls:
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)

    harness.run(body)  # its end would otherwise take the 30 seconds of the drain
    assert harness.service.calls == ["shut down", "cancel all", "close"]


# -- reload


async def hang_up(harness: Harness, event: str) -> None:
    before = len(harness.events)
    os.kill(os.getpid(), signal.SIGHUP)
    while not any(each["event"] == event for each in harness.events[before:]):
        await asyncio.sleep(0.001)


def test_a_reload_takes_the_users_over(harness: Harness) -> None:
    harness.policy("127.0.0.1:0")

    async def body(server: Server) -> None:
        harness.users(alice="alice", zoe="alice")
        await hang_up(harness, "reloaded")
        (state,) = harness.wire.assigned
        assert [user.name for user in state.users] == ["alice", "zoe"]
        assert harness.service.reloads == [(state.policy, state.config, state.users)]
        assert harness.log.is_user("zoe")

    harness.run(body)


@pytest.mark.parametrize("wrong", ["policy", "users", "service", "bug"])
def test_a_wrong_reload_changes_nothing(harness: Harness, wrong: str) -> None:
    harness.policy("127.0.0.1:0")

    async def body(server: Server) -> None:
        if wrong == "policy":
            harness.policy("127.0.0.1")
        elif wrong == "users":
            (harness.folder / "dpsql-users.toml").chmod(0o644)
        else:
            harness.service.refuses = (
                OperationalError("a file is missing") if wrong == "service" else ValueError("row 17 is Smith")
            )
        await hang_up(harness, "reload refused")
        assert harness.wire.assigned == []
        assert harness.service.reloads == []
        assert await ask(harness.addresses[0]) == b"any"

    harness.run(body)
    texts = {
        "policy": "serve.listen: '127.0.0.1' is no address",
        "users": "others may read",
        "service": "a file is missing",
        "bug": "a bug of dpsql",
    }
    assert texts[wrong] in harness.event("reload refused")["text"]
    assert harness.log.flush()
    assert "Smith" not in harness.out.getvalue()


def test_other_addresses_are_used_from_the_next_start_on(harness: Harness) -> None:
    harness.policy("127.0.0.1:0")

    async def body(server: Server) -> None:
        harness.policy("[::1]:0", more="max_connections = 7")
        await hang_up(harness, "reloaded")
        assert await ask(harness.addresses[0]) == b"any"

    harness.run(body)
    texts = [event["text"] for event in harness.events if event["event"] == "warning"]
    assert any("addresses" in text for text in texts)
    assert any("max_connections" in text for text in texts)


# -- systemd


def test_systemd_is_told(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.policy("127.0.0.1:0")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{harness.folder}/notify")
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{harness.folder}/notify")

        async def body(server: Server) -> None:
            await hang_up(harness, "reloaded")

        harness.run(body)
        told = [manager.recv(1000).decode() for _ in range(4)]
    assert told[0].startswith("READY=1\nSTATUS=serving shop at 127.0.0.1:")
    assert told[1].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert told[2:] == ["READY=1", "STOPPING=1"]


@pytest.mark.parametrize("address", ["", "relative", "/no/such/socket"])
def test_without_systemd_nobody_is_told(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert not notify("READY=1")


# -- health and figures


def test_health_and_readiness(harness: Harness) -> None:
    harness.policy("127.0.0.1:0", more='metrics = "127.0.0.1:0"')

    async def body(server: Server) -> None:
        assert await get(harness, "/health") == (200, "ok\n")
        assert await get(harness, "/ready?verbose") == (200, "ready\n")
        assert await get(harness, "/health", "HEAD") == (200, "")
        assert (await get(harness, "/"))[0] == 404
        assert (await get(harness, "/metrics", "POST"))[0] == 405
        harness.service.seems_ready = False
        assert await get(harness, "/ready") == (503, "not ready\n")

    harness.run(body)


@pytest.mark.parametrize(
    "request_text",
    [
        b"GET\r\n\r\n",
        b"\r\n\r\n",
        b"GET /health HTTP/2\r\n\r\n",
        b"GET /he\xffalth HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 3000 + b"\r\n",
    ],
)
def test_a_malformed_request_is_refused(harness: Harness, request_text: bytes) -> None:
    harness.policy("127.0.0.1:0", more='metrics = "127.0.0.1:0"')

    async def body(server: Server) -> None:
        with suppress(ConnectionError):  # of a long request the server reads the beginning only
            answer = await ask(harness.event("metrics")["listen"], request_text)
            assert answer.startswith(b"HTTP/1.1 400 ") or answer == b""
        assert (await get(harness, "/health"))[0] == 200

    harness.run(body)


def test_half_open_requests_do_not_add_up(harness: Harness) -> None:
    harness.policy("127.0.0.1:0", more='metrics = "127.0.0.1:0"')

    async def body(server: Server) -> None:
        host, _, port = harness.event("metrics")["listen"].rpartition(":")
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        for reader, writer in opened:
            writer.write(b"GET /health")
            await writer.drain()
            assert not reader.at_eof()
        reader, writer = await asyncio.open_connection(host, int(port))
        with suppress(ConnectionError):
            assert await reader.read() == b""
        for _, each in [*opened, (reader, writer)]:
            each.close()
            with suppress(ConnectionError):
                await each.wait_closed()

    harness.run(body)


def test_the_figures(harness: Harness) -> None:
    more = 'metrics = "127.0.0.1:0"\nmetrics_analysts = true'
    harness.policy("127.0.0.1:0", more=more)
    harness.users(alice="alice", bob="alice", nobody="nobody")

    async def body(server: Server) -> None:
        status, text = await get(harness, "/metrics")
        assert status == 200
        lines = text.splitlines()
        for line in (
            "dpsql_connections 0",
            "dpsql_handshakes 4",
            'dpsql_statements_total{kind="private",outcome="00000"} 7',
            'dpsql_statements_total{kind="private",outcome="ZP002"} 1',
            "dpsql_statements_waiting 1",
            "dpsql_stored_answers_total 3",
            'dpsql_free_statement_seconds_bucket{le="0.001"} 4',
            'dpsql_free_statement_seconds_bucket{le="0.25"} 6',
            'dpsql_free_statement_seconds_bucket{le="+Inf"} 7',
            "dpsql_free_statement_seconds_sum 1.5",
            "dpsql_free_statement_seconds_count 7",
            "dpsql_epsilon_remaining 4.5",
            'dpsql_epsilon_remaining{analyst="alice"} 0.25',
        ):
            assert line in lines
        assert not any("nobody" in line for line in lines)

    harness.run(body)
    harness.policy("127.0.0.1:0", more='metrics = "127.0.0.1:0"')
    assert harness.log.flush()
    harness.out.truncate(0)
    harness.out.seek(0)

    async def without(server: Server) -> None:
        assert "alice" not in (await get(harness, "/metrics"))[1]

    harness.run(without)


def test_failed_logins_are_counted_by_few_reasons() -> None:
    logins = monitoring.LoginCounts()
    for reason in ("wrong password", "28P01", "timeout", "something new", "08P01"):
        logins.count_event("handshake failed", {"reason": reason})
    logins.count_event("handshake failed", {"reason": "no such database", "outcome": "3D000"})
    logins.count_event("handshake refused", {})
    logins.count_event("connected", {})
    counts = {"password": 2, "timeout": 1, "other": 1, "protocol": 1, "database": 1, "full": 1}
    assert logins.read() == (1, counts)
    text = monitoring.render_metrics(
        logins, FIGURES, connections=1, handshakes=0, remaining={'a"\\\n': Fraction(1, 3)}
    )
    assert 'dpsql_failed_logins_total{reason="password"} 2' in text
    assert 'dpsql_epsilon_remaining{analyst="a\\"\\\\\\n"} 0.3333333333' in text


# -- the log


def test_the_log_keeps_to_its_fields() -> None:
    out = io.StringIO()
    log = Log(b"secret", {"alice"}.__contains__, out)
    log("connected", {"user": "alice", "address": "192.0.2.7", "sql": "SELECT 1", "rows": 17, "tls": True})
    log("handshake failed", {"user": "hunter2hunter2", "reason": "wrong password", "waited": 0.12345})
    log("warning", {"text": "two\nlines \x1b[31m" + "x" * 1000})
    assert log.flush()
    first, second, third = out.getvalue().splitlines()
    assert list(json.loads(first)) == ["time", "event", "user", "address", "tls"]
    assert "hunter2" not in second
    assert json.loads(second)["waited"] == 0.123
    assert len(third) < 700
    assert "\x1b" not in third


def test_a_statements_hash_needs_the_secret() -> None:
    log = Log(b"secret", bool, io.StringIO())
    assert log.hash_text("SELECT 1") == log.hash_text("SELECT 1") != log.hash_text("SELECT 2")
    assert log.hash_text("SELECT 1") != Log(b"other", bool, io.StringIO()).hash_text("SELECT 1")
    assert len(log.hash_text("\ud800")) == 32


def test_a_log_that_nobody_reads_ends_nothing() -> None:
    out = io.StringIO()
    out.close()
    log = Log(b"secret", bool, out)
    log("connected")
    assert log.flush()


def test_nobody_waits_for_a_reader_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a blocked reader has no room for is dropped, and counted as soon as he reads again."""
    monkeypatch.setattr("dpsql.serve.monitoring.MOST_WAITING", 100)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as file, ThreadPoolExecutor(1) as pool:
        with os.fdopen(writer, "w") as stream:
            log = Log(b"secret", bool, stream)
            log("first", {"text": "x" * 500})
            for number in range(5000):  # far more than a pipe holds
                log("next", {"number": number, "text": "x" * 500})
            assert not log.flush(0)
            found = pool.submit(file.read)
            assert log.flush(60)
            log("last")  # before all others are written there may be no room for it
            assert log.flush(60)
        lines = found.result().splitlines()
    events = [json.loads(line) for line in lines]
    dropped = [each["count"] for each in events if each["event"] == "dropped"]
    numbers = [each["number"] for each in events if each["event"] == "next"]
    assert numbers == sorted(numbers)
    assert len(numbers) + sum(dropped) == 5000
    assert sum(dropped) >= 1000
    assert [events[0]["event"], events[-1]["event"]] == ["first", "last"]


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ((1024, 4096), [(4096, 4096)]),
        ((1024, 524_288), [(65_536, 524_288)]),
        ((1024, resource.RLIM_INFINITY), [(65_536, resource.RLIM_INFINITY)]),
        ((20_000, 20_000), []),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), []),
    ],
)
def test_as_many_files_may_be_open_as_the_system_permits(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: list[tuple[int, int]]
) -> None:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: found.append(given))
    process.allow_files()
    assert found == wanted
