"""Cancelling by key, the end of connections from the server's side, slow readers and long messages."""

from __future__ import annotations

import asyncio
import ssl
import struct

import pytest

from dpsql.serve import state
from dpsql.serve.wire import WireConnection, channel, startup
from dpsql.serve.wire.messages import FatalError
from tests.serve import frontend as f
from tests.serve.bench import PASSWORD, Bench, run
from tests.unit.serve.wire.test_simple import error


@pytest.fixture(params=["plain", "tls"])
def secured(request: pytest.FixtureRequest) -> tuple[state.Tls, ssl.SSLContext] | None:
    """The two ends of TLS, or None without it."""
    if request.param == "plain":
        return None
    return request.getfixturevalue("server_tls"), request.getfixturevalue("client_tls")


Secured = tuple[state.Tls, ssl.SSLContext] | None


def bench_of(secured: Secured) -> Bench:
    return Bench(tls=None if secured is None else secured[0])


async def log_in(bench: Bench, secured: Secured) -> f.Frontend:
    alice = await bench.connect()
    if secured is not None:
        await alice.start_tls(secured[1])
    return await alice.log_in(password=PASSWORD)


async def cancel(bench: Bench, number: int, secret: bytes) -> bytes:
    """Ask to cancel on a connection of its own; return what the server says before it closes."""
    asking = await bench.connect()
    await asking.send(f.cancel_request(number, secret))
    return await asking.reader.read()


@pytest.mark.parametrize("version", [3 << 16, 3 << 16 | 2])
def test_a_key_cancels_what_runs_under_it(version: int) -> None:
    async def test(bench: Bench) -> None:
        frontend = await bench.connect()
        alice = await frontend.log_in("alice", version=version)
        bob = await bench.log_in("bob")
        await alice.send(f.query("SELECT 'wait'"))
        await bench.service.began.wait()
        assert await cancel(bench, bob.number, alice.secret) == b""
        assert await cancel(bench, alice.number, alice.secret[:-1] + bytes([alice.secret[-1] ^ 1])) == b""
        assert await cancel(bench, alice.number, b"????") == b""
        assert bench.service.cancelled == []
        assert await cancel(bench, alice.number, alice.secret) == b"", "the answer is always a closed socket"
        assert error(await alice.until())["C"] == "57014"
        assert bench.service.cancelled == [alice.number]
        assert [tag for tag, _ in await alice.ask(f.query("SELECT 1"))] == [b"T", b"D", b"C", b"Z"]

    run(test)


LONG = "SELECT repeat('x', 1000) AS t FROM range(30000)"


@pytest.mark.parametrize(
    "asked",
    [
        [f.query(LONG)],
        [f.query(f"COPY ({LONG}) TO STDOUT")],
        [f.parse(LONG), f.bind(), f.execute(), f.SYNC],
        [f.parse(f"COPY ({LONG}) TO STDOUT"), f.bind(), f.execute(), f.SYNC],
    ],
    ids=["rows", "copy", "portal", "copy of a portal"],
)
@pytest.mark.sampled(3)
def test_a_key_stops_the_rows_that_are_sent_under_it(asked: list[bytes]) -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.send(*asked)
        found = [await alice.receive()]
        while found[-1][0] not in b"Dd":
            found.append(await alice.receive())
        assert await cancel(bench, alice.number, alice.secret) == b""
        found += await alice.until()
        assert error(found)["C"] == "57014"
        assert 0 < sum(tag in b"Dd" for tag, _ in found) < 30_000
        assert bench.service.cancelled == []  # the statement has been answered, and charged
        assert [tag for tag, _ in await alice.ask(f.query("SELECT 1"))] == [b"T", b"D", b"C", b"Z"]
        found = await alice.ask(f.query(LONG))
        assert sum(tag == b"D" for tag, _ in found) == 30_000

    run(test)


def test_what_cancels_a_client_stops_the_rows_that_are_sent_to_it() -> None:
    """`pg_cancel_backend` of another connection calls the client's `cancel`."""

    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.send(f.query(LONG))
        found = [await alice.receive(), await alice.receive()]
        stop = bench.service.clients[alice.number].on_cancel
        assert stop is not None
        stop()
        found += await alice.until()
        assert error(found)["C"] == "57014"
        stop()  # nothing is sent
        assert [tag for tag, _ in await alice.ask(f.query("SELECT 1"))] == [b"T", b"D", b"C", b"Z"]

    run(test)


def test_a_key_cancels_nothing_if_nothing_runs() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        assert await cancel(bench, alice.number, alice.secret) == b""
        assert bench.service.cancelled == []
        assert [tag for tag, _ in await alice.ask(f.query("SELECT 1"))] == [b"T", b"D", b"C", b"Z"]

    run(test)


@pytest.mark.parametrize("secret", [b"", b"abc", b"x" * 257])
def test_a_request_to_cancel_has_a_key(secret: bytes) -> None:
    async def test(bench: Bench) -> bytes:
        return await cancel(bench, 1, secret)

    assert run(test)[:1] == b"E"


def test_a_number_in_use_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([7, 7, 0, 8])
    monkeypatch.setattr(startup, "draw_number", lambda bits: next(drawn))

    async def test(bench: Bench) -> list[int]:
        return [(await bench.log_in()).number for _ in range(2)]

    assert run(test) == [7, 8]


def test_idle_connections_end_at_once_and_others_behind_their_statement() -> None:
    async def test(bench: Bench) -> None:
        idle, busy = await bench.log_in("alice"), await bench.log_in("bob")
        await busy.send(f.query("SELECT 1; SELECT 'wait'; SELECT 2"))
        await bench.service.began.wait()
        bench.connections.shutdown()
        assert error(await idle.rest())["C"] == "57P01"
        stranger = await bench.connect()
        assert error(await stranger.rest())["C"] == "57P03"
        assert list(bench.connections.live) == [busy.number]
        bench.connections.cancel()
        found = await busy.rest()
        assert [tag for tag, _ in found] == [b"T", b"D", b"C", b"E", b"Z", b"E"]
        assert error(found)["C"] == "57014"
        assert f.fields(found[-1][1])["C"] == "57P01"
        await bench.connections.wait_closed()
        assert bench.service.asked == ["SELECT 1", "SELECT 'wait'"]

    run(test)


def test_who_logs_in_during_a_shutdown_is_told() -> None:
    async def test(bench: Bench) -> str:
        alice = await bench.connect()
        await alice.send(f.startup({"user": "alice"}))
        bench.connections.shutdown()
        with pytest.raises(f.RefusedError) as caught:
            await alice.prove(PASSWORD)
        return caught.value.fields["C"]

    assert run(test) == "57P03"


def test_a_connection_is_ended_by_its_number() -> None:
    async def test(bench: Bench) -> None:
        alice, bob = await bench.log_in("alice"), await bench.log_in("bob")
        bench.connections.live[alice.number].end(FatalError("your login was removed", "28000"))
        ((_, body),) = await alice.rest()
        assert (f.fields(body)["S"], f.fields(body)["C"]) == ("FATAL", "28000")
        assert [tag for tag, _ in await bob.ask(f.query("SELECT 1"))] == [b"T", b"D", b"C", b"Z"]

    run(test)


def test_the_service_can_end_a_connection_from_any_thread() -> None:
    async def test(bench: Bench) -> str:
        alice = await bench.log_in()
        await alice.send(f.query("SELECT 'wait'"))
        await bench.service.began.wait()
        terminate = bench.service.clients[alice.number].on_terminate
        assert terminate is not None
        await asyncio.to_thread(terminate)
        *_, (tag, body) = await alice.rest()
        assert tag == b"E"
        return f.fields(body)["C"]

    assert run(test) == "57P01"


def test_a_message_may_come_in_single_bytes() -> None:
    async def test(bench: Bench) -> list[bytes]:
        alice = await bench.log_in()
        for byte in f.query("SELECT 1"):
            await alice.send(bytes([byte]))
            await asyncio.sleep(0)
        return [tag for tag, _ in await alice.until()]

    assert run(test) == [b"T", b"D", b"C", b"Z"]


def test_the_longest_message_is_read_and_no_more_is_buffered(
    monkeypatch: pytest.MonkeyPatch, secured: Secured
) -> None:
    async def test(bench: Bench) -> None:
        alice = await log_in(bench, secured)
        longest = f.message(b"Q", b"x" * ((1 << 20) - 5) + b"\0")
        # More than the connection's buffer waits while the first statement runs.
        sending = asyncio.ensure_future(alice.send(f.query("SELECT 'wait'"), *[longest] * 6))
        await bench.service.began.wait()
        (served,) = channels
        while served._plain.is_reading():
            await asyncio.sleep(0.01)
        assert served.buffered_bytes < channel.RECEIVE_BUFFER + (1 << 20)
        bench.connections.cancel()
        found = [await alice.until() for _ in range(7)]
        await sending
        assert [error(one)["C"] for one in found] == ["57014"] + ["54000"] * 6

    channels: list[channel.Channel] = []
    made = channel.Channel.connection_made

    def connection_made(self: channel.Channel, transport: asyncio.BaseTransport) -> None:
        channels.append(self)
        made(self, transport)

    monkeypatch.setattr(channel.Channel, "connection_made", connection_made)
    run(test, bench_of(secured))


def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch, secured: Secured) -> None:
    monkeypatch.setattr(channel, "SLOW_READER", 0.1)

    async def test(bench: Bench) -> None:
        alice = await log_in(bench, secured)
        alice.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's
        await alice.send(f.query("SELECT repeat('x', 1000) FROM range(20000)"))
        await bench.connections.wait_closed()
        left = [fields["reason"] for event, fields in bench.events if event == "disconnected"]
        assert left == ["lost"]
        alice.writer.transport.abort()

    run(test, bench_of(secured))


def test_a_client_that_reads_slowly_gets_all(monkeypatch: pytest.MonkeyPatch, secured: Secured) -> None:
    monkeypatch.setattr(channel, "SEND_BUFFER", 1 << 12)

    async def test(bench: Bench) -> int:
        alice = await log_in(bench, secured)
        await alice.send(f.query("SELECT repeat('x', 1000) FROM range(2000)"))
        return sum(tag == b"D" for tag, _ in await alice.until())

    assert run(test, bench_of(secured)) == 2000


def test_the_last_words_of_a_connection_are_sent_before_it_is_closed(
    monkeypatch: pytest.MonkeyPatch, secured: Secured
) -> None:
    monkeypatch.setattr(channel, "SEND_BUFFER", 1 << 12)

    async def test(bench: Bench) -> None:
        alice = await log_in(bench, secured)
        alice.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's
        await alice.send(f.query(f"SELECT '{'x' * 900_000}'"), b"?")
        await asyncio.sleep(0.05)
        alice.writer.transport.resume_reading()  # type: ignore[attr-defined]
        found = await alice.rest()
        assert [tag for tag, _ in found] == [b"E", b"Z", b"E"]
        assert f.fields(found[-1][1])["C"] == "08P01"

    run(test, bench_of(secured))


def test_a_client_that_never_ends_its_tls_does_not_keep_the_connection(
    server_tls: state.Tls, client_tls: ssl.SSLContext
) -> None:
    async def test(bench: Bench) -> None:
        alice = await log_in(bench, (server_tls, client_tls))
        (served,) = bench.connections.live.values()
        assert isinstance(served, WireConnection)
        alice.writer.transport.pause_reading()  # type: ignore[attr-defined]  # so it answers to no end of TLS
        await alice.send(b"?")
        async with asyncio.timeout(channel.LINGER / 2):
            await served._channel._closed.wait()
        alice.writer.transport.abort()

    run(test, Bench(tls=server_tls))


def test_a_long_result_lets_others_be_answered() -> None:
    async def test(bench: Bench) -> None:
        alice, bob = await bench.log_in("alice"), await bench.log_in("bob")
        await alice.send(f.query("SELECT * FROM range(100000)"))
        found = await bob.ask(f.query("SELECT 1"))
        assert [tag for tag, _ in found] == [b"T", b"D", b"C", b"Z"]
        rows = [struct.unpack("!i", body[2:6])[0] for tag, body in await alice.until() if tag == b"D"]
        assert len(rows) == 100_000

    run(test)


def test_an_error_keeps_its_code_when_it_ends_the_connection() -> None:
    async def test(bench: Bench) -> str:
        alice = await bench.log_in()
        bench.connections.live[alice.number].end(FatalError("idle for too long", "57P05"))
        ((_, body),) = await alice.rest()
        return f.fields(body)["C"]

    assert run(test) == "57P05"
