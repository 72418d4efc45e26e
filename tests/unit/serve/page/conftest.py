"""A site: the analysts' application on a small policy, asked in this process as a server would ask it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpsql.policy import Address, HttpConfig, ServeConfig
from dpsql.serve import users
from dpsql.serve.gate import Throttle
from dpsql.serve.page import http_app
from dpsql.serve.service import Service
from dpsql.serve.users import Account, User, Users
from tests.served import AnsweredCatalog, let_in
from tests.support.world import write_world

PASSWORD = "correct horse battery"
HOSTILE = "<img src=x onerror=alert(1)>\"'&</script>\x1b[31m\u202e"
POLICY = f"""
[budget]
epsilon = 10
ledger = "ledger.sqlite"
[analysts."*"]
epsilon = 5
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = ["a", {json.dumps(HOSTILE)}]
page.complete = true
"""
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.75) COUNT(DISTINCT user_id) AS n FROM visits"
BY_PAGE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) page, COUNT(DISTINCT user_id) AS n FROM visits "
    "GROUP BY page TOP 2"
)
ORIGIN = "http://127.0.0.1:8080"


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def facts(self) -> Any:
        return json.loads(self.body)


@dataclass
class Site:
    """Sends requests; `headers` go with each."""

    application: Any
    service: Service
    throttle: Throttle
    events: list[tuple[str, dict[str, object]]]
    runner: asyncio.Runner
    token: str
    folder: Path
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(
        self,
        method: str,
        path: str,
        given: object = None,
        headers: Mapping[str, str | None] | None = None,
        *,
        raw: bytes | None = None,
        scheme: str = "http",
        state: dict[str, object] | None = None,
        client: str = "192.0.2.1",
    ) -> Reply:
        body = raw if raw is not None else b"" if given is None else json.dumps(given).encode()
        sent = {"host": "127.0.0.1:8080", "x-dpsql": "1", "content-type": "application/json"}
        sent = {**sent, **self.headers, **(headers or {})}  # type: ignore[dict-item]  # None takes one away
        target, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": scheme,
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in sent.items() if v is not None],
            "client": (client, 4711),
            "server": ("127.0.0.1", 8080),
            "state": dict(state or {}),
        }
        return self.runner.run(self._asked(scope, body))

    async def _asked(self, scope: dict[str, Any], body: bytes) -> Reply:
        messages: list[dict[str, Any]] = []
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return unread.pop() if unread else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        await self.application(scope, receive, send)
        begun = messages[0]
        headers = {name.decode().lower(): value.decode() for name, value in begun["headers"]}
        return Reply(begun["status"], headers, b"".join(each.get("body", b"") for each in messages[1:]))

    def sign_in(self, name: str = "alice", password: str = PASSWORD) -> Reply:
        """Sign in, and send the cookie from now on."""
        reply = self("POST", "/v1/session", {"name": name, "password": password})
        if reply.status == 200:
            self.headers["cookie"] = reply.headers["set-cookie"].partition(";")[0]
            self.headers["x-dpsql"] = reply.facts["key"]
        return reply

    def ask(self, sql: str) -> Reply:
        """Ask at the price that is told."""
        confirm = self("POST", "/v1/explain", {"sql": sql}).facts.get("confirm")
        return self("POST", "/v1/query", {"sql": sql, "confirm": confirm})

    @property
    def spent(self) -> float:
        return float(self.service.budget().spent.epsilon)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    pages = ["a", HOSTILE]
    rows = pa.table({"user_id": range(1000), "page": [pages[i % 2] for i in range(1000)]})
    write_world(folder, POLICY, visits=rows)
    let_in(folder, PASSWORD, User("alice", "alice"), User("bob", "bob"))
    file = folder / "dpsql-users.toml"
    with users.change_accounts(file) as accounts:
        made, _, token = Account(User("agent", "agent")).with_token(None, None)
        accounts["agent"] = made
    config = ServeConfig(users=file, http=HttpConfig(Address("127.0.0.1", 8080)))
    service = Service(config, folder / "dpsql.toml", Users.load(file), catalog=lambda *_: AnsweredCatalog())
    throttle, events = service.gate.throttle, []

    def log(event: str, fields: Mapping[str, object]) -> None:
        events.append((event, dict(fields)))

    application = http_app(service, Address("127.0.0.1", 8080), config.http, log)
    with asyncio.Runner() as runner:
        yield Site(application, service, throttle, events, runner, token, folder)
        service.close()


@pytest.fixture
def site(opened: Site) -> Site:
    """A site, with nobody signed in."""
    opened.headers.clear()
    opened.throttle.forget_failures("alice", "192.0.2.1")
    opened.events.clear()
    return opened
