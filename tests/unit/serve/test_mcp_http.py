"""MCP over HTTP, with the package's own session manager behind it: who is let in, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("mcp")
import anyio
from starlette.testclient import TestClient

from dpsql.policy import Address, McpConfig, ServeConfig
from dpsql.serve import users
from dpsql.serve.mcp import http_app
from dpsql.serve.service import Service
from dpsql.serve.users import Account, User, Users
from tests.served import AnsweredCatalog, clinic

ADDRESS = "127.0.0.1:8433"


class Programs:
    """The users alice, with two tokens, and bob, and what answers at `/mcp`."""

    def __init__(self, folder: Path) -> None:
        file = folder / "dpsql-users.toml"
        self.tokens: dict[str, str] = {}
        with users.change_accounts(file) as accounts:
            for name, label in (("alice", "k1"), ("alice", "k2"), ("bob", "k1")):
                before = accounts.get(name, Account(User(name, name)))
                made, _, self.tokens[f"{name} {label}"] = before.with_token(label, None)
                accounts[name] = made
        config = replace(ServeConfig(), users=file)
        self.service = Service(config, clinic(folder), Users.load(file), catalog=lambda *_: AnsweredCatalog())
        self.file = file
        self.application = http_app(self.service, Address("127.0.0.1", 8433), McpConfig())
        self.client = TestClient(cast("Any", self.application), f"http://{ADDRESS}")

    def post(self, whose: str, method: str, session: str = "", **parameters: object) -> Any:
        """Send a request with somebody's token; return the reply."""
        headers = {
            "accept": "application/json, text/event-stream",
            "authorization": f"Bearer {self.tokens.get(whose, whose)}",
        }
        if session:
            headers["mcp-session-id"] = session
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        return self.client.post("/mcp", json=message, headers=headers)

    def begin(self, whose: str) -> Any:
        """Begin a session; return the reply."""
        about = {"name": "test", "version": "1"}
        return self.post(whose, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)

    def revoke(self, name: str, label: str) -> None:
        """Take a token away, and let the server read the users again."""
        with users.change_accounts(self.file) as accounts:
            accounts[name] = accounts[name].without_token(label)
        self.service.reload(users=Users.load(self.file))


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    with made.client:
        yield made
    made.service.close()


def test_a_token_opens_a_session_of_its_user_alone(programs: Programs) -> None:
    begun = programs.begin("alice k1")
    assert begun.status_code == 200
    session = begun.headers["mcp-session-id"]
    told = programs.post("alice k1", "tools/call", session, name="budget", arguments={})
    assert told.status_code == 200
    assert "epsilon" in told.text
    assert programs.begin("dpsql_unknown").status_code == 401
    assert programs.post("dpsql_unknown", "tools/list", session).status_code == 401
    assert programs.post("bob k1", "tools/list", session).status_code == 404


def test_a_revoked_token_gets_no_further_answer(programs: Programs) -> None:
    first, second = (programs.begin(f"alice {each}").headers["mcp-session-id"] for each in ("k1", "k2"))
    programs.revoke("alice", "k1")
    assert programs.post("alice k1", "tools/call", first, name="budget", arguments={}).status_code == 401
    for session in (first, second):  # both are alice's
        told = programs.post("alice k2", "tools/call", session, name="budget", arguments={})
        assert told.status_code == 200
        assert "no longer valid" not in told.text


def test_the_stream_of_a_revoked_token_ends(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs.application, "_every", 0.01)
    session = programs.begin("alice k1").headers["mcp-session-id"]
    headers = {"host": ADDRESS, "accept": "text/event-stream", "mcp-session-id": session}
    headers["authorization"] = f"Bearer {programs.tokens['alice k1']}"
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    came, sent = [{"type": "http.request", "body": b""}], list[Any]()

    async def receive() -> Any:
        return came.pop() if came else await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.start":
            programs.revoke("alice", "k1")

    async def stream() -> None:
        with anyio.fail_after(60):
            await programs.application(scope, receive, send)

    assert programs.client.portal is not None
    programs.client.portal.call(stream)
    assert sent[0]["status"] == 200
    assert sent[-1] == {"type": "http.response.body", "body": b""}
