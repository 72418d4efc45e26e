"""Sessions of MCP: one user's are ended before they keep out another's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from dpsql.serve import mcp
from dpsql.serve.http import Receive, Send
from dpsql.serve.mcp import SessionsOfUsers

Pair = tuple[bytes, bytes]


class Protocol:
    """Opens a session for a request without one, and ends those that are deleted by their users."""

    def __init__(self) -> None:
        self.open: dict[bytes, bytes] = {}
        self._opened = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        headers = dict(reversed(scope["headers"]))
        user, session = headers.get(b"authorization", b""), headers.get(b"mcp-session-id")
        status, found = 200, b""
        if user in (b"", b"Bearer wrong"):
            status = 401
        elif session is None:
            self._opened += 1
            found = str(self._opened).encode()
            self.open[found] = user
        elif self.open.get(session) != user:
            status = 404
        elif scope["method"] == "DELETE":
            assert await receive() == {"type": "http.request", "body": b"", "more_body": False}
            del self.open[session]
        answered = [(b"mcp-session-id", found)] if found else []
        await send({"type": "http.response.start", "status": status, "headers": answered})


def ask(
    application: SessionsOfUsers, user: str, session: str = "", method: str = "POST", **state: object
) -> int:
    statuses: list[int] = []
    headers: list[Pair] = [(b"host", b"here"), (b"authorization", f"Bearer {user}".encode())]
    headers.append((b"authorization", b"Bearer wrong"))  # the first one counts
    headers += [(b"mcp-session-id", session.encode())] if session else []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    asyncio.run(
        application({"type": "http", "method": method, "headers": headers, "state": state}, receive, send)
    )
    return statuses[0]


def user_of(token: str) -> str | None:
    return None if token == "wrong" else token.partition("-")[0]


def test_the_session_used_least_recently_is_ended() -> None:
    protocol = Protocol()
    application = SessionsOfUsers(protocol, user_of, most=2)
    for _ in range(2):
        ask(application, "alice")
    ask(application, "bob")
    ask(application, "alice", "1")
    ask(application, "alice")
    assert protocol.open == {b"1": b"Bearer alice", b"3": b"Bearer bob", b"4": b"Bearer alice"}
    for _ in range(20):
        ask(application, "alice")
    assert sorted(protocol.open.values()) == [b"Bearer alice", b"Bearer alice", b"Bearer bob"]
    assert b"3" in protocol.open


def test_sessions_that_ended_and_refused_ones_take_no_place() -> None:
    protocol = Protocol()
    application = SessionsOfUsers(protocol, user_of, most=2)
    ask(application, "alice")
    ask(application, "alice")
    ask(application, "alice", "1", "DELETE")
    ask(application, "wrong")
    ask(application, "bob", "2", "DELETE")  # not his
    ask(application, "alice")
    assert protocol.open == {b"2": b"Bearer alice", b"3": b"Bearer alice"}


def test_a_certificate_is_that_of_the_user_of_the_token() -> None:
    application = SessionsOfUsers(Protocol(), user_of)
    assert ask(application, "alice", dpsql_client="alice") == 200
    assert ask(application, "alice", dpsql_client="bob") == 401
    assert ask(application, "alice", dpsql_client=None) == 401
    assert ask(application, "alice") == 200


def test_a_right_token_with_anothers_certificate_is_refused_as_a_wrong_one() -> None:
    """What the application within is asked has no token: it says the same of both."""
    asked: list[list[Pair]] = []

    async def inner(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        asked.append(scope["headers"])
        await send({"type": "http.response.start", "status": 401, "headers": []})

    for user in ("alice", "wrong"):
        assert ask(SessionsOfUsers(inner, user_of), user, dpsql_client="bob") == 401
    assert asked[0] == asked[1] == [(b"host", b"here")]


def test_an_open_stream_ends_with_the_login_of_its_user() -> None:
    users = {"alice", "bob"}
    sent: list[MutableMapping[str, Any]] = []

    async def stream(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            await send({"type": "http.response.body", "body": b"news", "more_body": True})

    async def main() -> None:
        looked = 0

        def named(token: str) -> str | None:
            nonlocal looked
            looked += 1
            if looked == 3:
                users.remove("alice")
            return token if token in users else None

        given = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if given:
                return given.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        application = SessionsOfUsers(stream, named, every=0.001)
        headers = [(b"authorization", b"Bearer alice")]
        async with asyncio.timeout(60):
            await application({"type": "http", "method": "GET", "headers": headers}, receive, send)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1  # nothing is left that waits

    asyncio.run(main())
    assert [message.get("body") for message in sent] == [None, b"news", b""]
    assert not sent[-1].get("more_body", False)


def test_one_user_has_so_many_requests_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "MOST_AT_ONCE", 2)

    async def main() -> None:
        go, found = asyncio.Event(), list[tuple[str, int]]()

        async def waiting(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        application = SessionsOfUsers(waiting, user_of)

        async def one(user: str) -> None:
            async def receive() -> dict[str, Any]:
                return {}

            async def send(message: MutableMapping[str, Any]) -> None:
                if "status" in message:
                    found.append((user, message["status"]))

            headers = [(b"authorization", f"Bearer {user}".encode())]
            await application({"type": "http", "method": "GET", "headers": headers}, receive, send)

        tasks = [asyncio.create_task(one(user)) for user in ("alice", "alice-2", "alice", "bob")]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert found == [("alice", 429)]
        go.set()
        await asyncio.gather(*tasks)
        assert sorted(status for _, status in found) == [200, 200, 200, 429]
        await one("alice")
        assert found[-1] == ("alice", 200)

    asyncio.run(main())


def post(application: SessionsOfUsers, *chunks: bytes) -> tuple[int, list[bytes]]:
    """Send a body in parts; return the status, and what the application within was given."""
    statuses: list[int] = []
    left = list(chunks)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    headers = [(b"authorization", b"Bearer alice")]
    asyncio.run(application({"type": "http", "method": "POST", "headers": headers}, receive, send))
    return statuses[0], left


class Reader:
    """Reads the body of each request."""

    def __init__(self) -> None:
        self.read: list[bytes] = []

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self.read.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})


CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "explain"}}


def test_a_message_is_given_on_whole() -> None:
    inner = Reader()
    data = json.dumps(CALL | {"params": {"arguments": {"sql": "SELECT '[[[[' || \"{\""}}}).encode()
    assert post(SessionsOfUsers(inner, user_of), data[:9], data[9:]) == (200, [])
    assert inner.read == [data]


@pytest.mark.parametrize(
    "params",
    [
        [{}] * 2_000,
        {str(n): n for n in range(2_000)},
        [""] * 3_000,
        json.loads("[" * 100 + "]" * 100),
        {"name": 10**400},
        "x" * (300 << 10),
    ],
)
def test_a_message_that_stands_for_much_is_refused_before_it_is_read(params: object) -> None:
    inner = Reader()
    data = json.dumps(CALL | {"params": params}).encode()
    assert post(SessionsOfUsers(inner, user_of), data, b"")[0] == 413
    assert inner.read == []


def test_an_address_is_short() -> None:
    inner = Reader()
    headers = [(b"authorization", b"Bearer alice")]
    scope = {"type": "http", "method": "GET", "headers": headers, "query_string": b"&" * 2_000}
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {}

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    asyncio.run(SessionsOfUsers(inner, user_of)(scope, receive, send))
    assert statuses == [414]
