"""An ASGI application in the server's loop: start, requests, TLS where others reach it, the end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpsql.errors import OperationalError
from dpsql.policy import Address
from dpsql.serve import state
from dpsql.serve.http import HttpFront, _open_socket

pytest.importorskip("uvicorn")
from dpsql.serve import http


class Application:
    """Answers with the scheme of the request; `wait` holds the answer back."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.wait = asyncio.Event()
        self.wait.set()
        self.ended = False

    async def __call__(
        self, scope: dict[str, Any], receive: Any, send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.ended = True
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.asked.set()
        await self.wait.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": f"by {scope['scheme']}.".encode()})


async def get(port: int, context: ssl.SSLContext | None = None) -> bytes:
    reader, writer = await asyncio.open_connection("localhost" if context else "127.0.0.1", port, ssl=context)
    writer.write(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].removesuffix("/mcp"))


def test_requests_that_run_may_end_first() -> None:
    async def main() -> None:
        application = Application()
        front = HttpFront(lambda _: application, Address("127.0.0.1", 0), None)
        (url,) = await front.start()
        assert url.startswith("http://127.0.0.1:")
        assert (await get(port_of(url))).count(b"by http.") == 1
        application.wait.clear()
        application.asked.clear()
        waiting = asyncio.create_task(get(port_of(url)))
        await application.asked.wait()
        stopping = asyncio.create_task(front.stop())
        await asyncio.sleep(0)
        application.wait.set()
        assert (await waiting).count(b"by http.") == 1
        await stopping
        assert application.ended
        with pytest.raises(OSError):
            await get(port_of(url))

    asyncio.run(main())


def test_tls_where_other_machines_reach_it(tmp_path: Path) -> None:
    made = state.load_tls(*state.make_self_signed(tmp_path))

    async def main() -> None:
        front = HttpFront(lambda _: Application(), Address("0.0.0.0", 0), made)
        (url,) = await front.start()
        assert url.startswith("https://0.0.0.0:")
        client = ssl.create_default_context(cafile=made.certificate)
        assert (await get(port_of(url), client)).count(b"by https.") == 1
        await front.stop()

    asyncio.run(main())


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_clients_need_certificates_where_the_policy_says_so(tmp_path: Path, host: str) -> None:
    certificate, key = state.make_self_signed(tmp_path)
    made = state.load_tls(certificate, key, clientcert=certificate)

    async def main() -> None:
        front = HttpFront(lambda _: Application(), Address(host, 0), made)
        (url,) = await front.start()
        assert url.startswith("https://")
        client = ssl.create_default_context(cafile=certificate)
        answer = b""
        with suppress(ssl.SSLError, ConnectionError):  # TLS 1.3 tells a client only when it reads
            answer = await get(port_of(url), client)
        assert answer == b""
        await front.stop()

    asyncio.run(main())


def test_a_request_with_two_lengths_ends_its_connection() -> None:
    async def main() -> None:
        application = Application()
        front = HttpFront(lambda _: application, Address("127.0.0.1", 0), None)
        (url,) = await front.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
        hidden = b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"
        lengths = f"Content-Length: {5 + len(hidden)}\r\nTransfer-Encoding: chunked\r\n".encode()
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + lengths + b"\r\n0\r\n\r\n" + hidden)
        found = await asyncio.wait_for(reader.read(), 5)
        assert found.startswith(b"HTTP/1.1 400 ")
        assert found.count(b"HTTP/1.1 ") == 1
        assert not application.asked.is_set()
        writer.close()
        await front.stop()

    asyncio.run(main())


def test_an_address_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])

        async def main() -> None:
            front = HttpFront(lambda _: Application(), address, None)
            with pytest.raises(OperationalError, match="another program listens there"):
                await front.start()
            await front.stop()

        asyncio.run(main())


HALF = (
    b"",
    b"G",
    b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
)


@pytest.mark.parametrize("sent", HALF)
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.sampled(3, rest="longer")
def test_who_sends_no_whole_request_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, again: bool
) -> None:
    monkeypatch.setattr(http, "SECONDS", 0.05)

    async def main() -> None:
        front = HttpFront(lambda _: Application(), Address("127.0.0.1", 0), None)
        (url,) = await front.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
        if again:  # behind a request that was answered
            writer.write(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"by http." in await reader.readuntil(b"by http.")
        writer.write(sent)
        async with asyncio.timeout(20):  # else it waits for ever
            with suppress(ConnectionError):
                await reader.read()
        writer.close()
        await front.stop()

    asyncio.run(main())


LONG = 16 << 20
"""Bytes of an answer that no socket takes without a reader."""


async def long_answer(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    if scope["type"] == "lifespan":
        await Application()(scope, receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    step = 1 << 16 if scope["path"] == "/parts" else LONG
    for start in range(0, LONG, step):
        await send({"type": "http.response.body", "body": bytes(step), "more_body": start + step < LONG})


def small_window() -> socket.socket:
    """Return a socket that takes little before it is read."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    made.setblocking(False)
    return made


@pytest.mark.parametrize("path", ["/whole", "/parts"])
@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"])
@pytest.mark.parametrize("secured", [False, True])
@pytest.mark.sampled(3, rest="longer")
def test_who_does_not_read_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, last: bytes, secured: bool
) -> None:
    monkeypatch.setattr(http, "SECONDS", 0.1)
    made = state.load_tls(*state.make_self_signed(tmp_path)) if secured else None

    async def main() -> None:
        host = "0.0.0.0" if secured else "127.0.0.1"
        front = HttpFront(lambda _: long_answer, Address(host, 0), made)
        (url,) = await front.start()
        raw = small_window()
        loop = asyncio.get_running_loop()
        await loop.sock_connect(raw, ("127.0.0.1", port_of(url)))
        context = None if made is None else ssl.create_default_context(cafile=made.certificate)
        name = "localhost" if secured else None
        reader, writer = await asyncio.open_connection(
            sock=raw, ssl=context, server_hostname=name, limit=1 << 10
        )
        writer.write(b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (path.encode(), last))
        async with asyncio.timeout(20):  # else it waits for ever
            while not front._server.server_state.connections:
                await asyncio.sleep(0.01)
            while front._server.server_state.connections:
                await asyncio.sleep(0.01)
        found = bytearray()
        with suppress(ConnectionError, ssl.SSLError):
            while some := await reader.read(1 << 16):
                found += some
        assert len(found) < LONG
        writer.transport.abort()
        await front.stop()

    asyncio.run(main())


class Transport:
    """Has so many bytes to send each time it is looked at, and may be cut off."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes, self.aborted = list(sizes), False

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0)

    def abort(self) -> None:
        self.aborted = True


KIB = 1 << 10


@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        ([0, 0, 0], False),
        ([0, 500 * KIB, 468 * KIB, 436 * KIB, 404 * KIB], False),
        ([500 * KIB, 469 * KIB], True),
        ([500 * KIB, 500 * KIB], True),
        ([20 * KIB, 9 * KIB, 4 * KIB, 1 * KIB, 0, 20 * KIB], False),
        ([20 * KIB, 19 * KIB], True),
        ([1, 1], True),
        ([1, 0, 1, 0], False),
        ([10 * KIB, 40 * KIB], True),
    ],
)
def test_who_reads_slowly_gets_the_whole_answer(sizes: list[int], cut: bool) -> None:
    protocol: Any = http.LimitedProtocol.__new__(http.LimitedProtocol)
    protocol.transport = transport = Transport(sizes)
    due: list[int] = [0]
    protocol.loop = SimpleNamespace(call_later=lambda _, look, left: due.append(left))
    while due and transport.sizes:
        protocol._look(due.pop())
    assert transport.aborted == cut


def test_an_answer_that_goes_on_is_read() -> None:
    protocol: Any = http.LimitedProtocol.__new__(http.LimitedProtocol)
    protocol.transport = transport = Transport([64 * KIB] * 3)
    protocol.loop = SimpleNamespace(call_later=lambda *_: None)
    protocol.flow = SimpleNamespace(resume_writing=lambda: None)
    for resumed in (True, True, False):
        assert not transport.aborted
        if resumed:
            protocol.resume_writing()
        protocol._look(64 * KIB)
    assert transport.aborted


@pytest.mark.parametrize(
    "more", [b"X-A: " + b"a" * 20_000, b"Cookie: " + b"a=b;" * 5_000, b"X: y\r\n" * 4_000]
)
def test_headers_are_short(more: bytes) -> None:
    async def main() -> None:
        application = Application()
        front = HttpFront(lambda _: application, Address("127.0.0.1", 0), None)
        (url,) = await front.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
        writer.write(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n%s" % more)
        found = b""
        async with asyncio.timeout(20):
            with suppress(ConnectionError):
                found = await reader.read()
        assert b"by http." not in found
        assert not application.asked.is_set()
        writer.close()
        await front.stop()

    asyncio.run(main())


def test_a_request_that_takes_long_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SECONDS", 0.05)

    async def main() -> None:
        application = Application()
        front = HttpFront(lambda _: application, Address("127.0.0.1", 0), None)
        (url,) = await front.start()
        application.wait.clear()
        waiting = asyncio.create_task(get(port_of(url)))
        await application.asked.wait()
        await asyncio.sleep(0.2)
        application.wait.set()
        assert b"by http." in await waiting
        await front.stop()

    asyncio.run(main())


def test_a_handshake_that_does_not_come_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SECONDS", 0.05)
    made = state.load_tls(*state.make_self_signed(tmp_path))

    async def main() -> None:
        front = HttpFront(lambda _: Application(), Address("0.0.0.0", 0), made)
        (url,) = await front.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()
        await front.stop()

    asyncio.run(main())


@pytest.mark.parametrize("limit", ["_MOST", "_MOST_OF_ONE_NETWORK"])
def test_too_many_connections_are_refused(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(http, limit, 2)

    async def main() -> None:
        front = HttpFront(lambda _: Application(), Address("127.0.0.1", 0), None)
        (url,) = await front.start()
        idle = [await asyncio.open_connection("127.0.0.1", port_of(url)) for _ in range(2)]
        await asyncio.sleep(0)
        answer = b""
        with suppress(ConnectionError):
            answer = await get(port_of(url))
        assert answer == b""
        for _, writer in idle:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(20):
            while b"by http." not in answer:
                with suppress(ConnectionError):
                    answer = await get(port_of(url))
        await front.stop()

    asyncio.run(main())


def test_an_answer_does_not_wait_for_the_client_to_acknowledge_its_head() -> None:
    with (
        _open_socket(Address("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
