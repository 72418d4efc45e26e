"""A Flight server in this process on a small policy, with the clients of pyarrow and gRPC."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from dpsql.policy import Address, FlightConfig, ServeConfig
from dpsql.serve import account_file, changes
from dpsql.serve.accounts import Users
from dpsql.serve.flight import messages as m
from dpsql.serve.flight.protobuf import read, write
from dpsql.serve.service import Service
from dpsql.serve.throttle import Throttle
from dpsql.serve.user import Account, User

pytest.importorskip("grpc")
from dpsql.serve.flight.front import FlightFront, flight_front

_T = TypeVar("_T")
PASSWORDS = {"alice": "correct horse battery", "bob": "another long password"}
POLICY = """
[budget]
epsilon = 1000
default_epsilon = 0.5
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = [0, 1, 2]
page.complete = true
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "INTEGER", title = "VARCHAR" }
"""


@dataclass
class Flight:
    """A running server; `users` may be changed while it runs."""

    service: Service
    users: Users
    front: FlightFront
    loop: asyncio.AbstractEventLoop
    url: str = ""
    log: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)

    def call(self, work: Coroutine[Any, Any, _T], seconds: float = 30) -> _T:
        """Run a coroutine on the server's event loop."""
        future: Future[_T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(seconds)

    def client(self, user: str = "alice", **options: Any) -> Program:
        return Program(fl.FlightClient(self.url, **options), user)

    @property
    def spent(self) -> float:
        return float(self.service.budget().spent.epsilon)


class Program:
    """A program that has logged in."""

    def __init__(self, client: fl.FlightClient, user: str) -> None:
        self.client = client
        self.header = client.authenticate_basic_token(user, PASSWORDS[user])
        self.options = fl.FlightCallOptions(headers=[self.header], timeout=30)

    @staticmethod
    def descriptor(command: str, **fields: Any) -> fl.FlightDescriptor:
        return fl.FlightDescriptor.for_command(m.write_any(command, fields))

    def info(self, command: str, **fields: Any) -> fl.FlightInfo:
        return self.client.get_flight_info(self.descriptor(command, **fields), self.options)

    def query(self, text: str) -> fl.FlightInfo:
        return self.info("CommandStatementQuery", query=text)

    def get(self, ticket: fl.Ticket) -> pa.Table:
        return self.client.do_get(ticket, self.options).read_all()

    def fetch(self, info: fl.FlightInfo) -> pa.Table:
        return self.get(info.endpoints[0].ticket)

    def ask(self, text: str) -> pa.Table:
        return self.fetch(self.query(text))

    def look_up(self, command: str, **fields: Any) -> pa.Table:
        return self.fetch(self.info(command, **fields))

    def act(self, name: str, body: bytes) -> list[bytes]:
        return [each.body.to_pybytes() for each in self.client.do_action(fl.Action(name, body), self.options)]

    def prepare(self, text: str) -> dict[str, Any]:
        action = "ActionCreatePreparedStatement"
        (body,) = self.act("CreatePreparedStatement", m.write_any(f"{action}Request", {"query": text}))
        name, found = m.read_any(body)
        assert name == f"{action}Result"
        return found

    def bind(self, handle: bytes, batch: pa.RecordBatch) -> bytes:
        asked = self.descriptor("CommandPreparedStatementQuery", prepared_statement_handle=handle)
        writer, reader = self.client.do_put(asked, batch.schema, self.options)
        with writer:
            writer.write_batch(batch)
            writer.done_writing()
            answer = reader.read().to_pybytes()
        found: bytes = read(m.PREPARED_RESULT, answer)["prepared_statement_handle"]
        return found

    def run(self, handle: bytes) -> pa.Table:
        return self.look_up("CommandPreparedStatementQuery", prepared_statement_handle=handle)


def words(error: pytest.ExceptionInfo[Any]) -> str:
    """Return the words of an error of pyarrow's client, without what it adds."""
    return str(error.value).partition(". gRPC client debug context")[0].rpartition("with message: ")[2]


def users_of(folder: Path, *users: User) -> Users:
    path = folder / "dpsql-users.toml"
    with account_file.changed(path) as accounts:
        for user in users:
            accounts[user.name] = changes.with_password(Account(user), PASSWORDS[user.name])
    return Users.load(path)


def write_data(folder: Path) -> Path:
    rows = "SELECT i AS user_id, i % 3 AS page FROM range(300) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{folder}/visits.parquet'")
    (folder / "pages.csv").write_text("page,title\n0,a\n1,b\n2,c\n")
    (folder / "dpsql.toml").write_text(POLICY)
    return folder / "dpsql.toml"


@pytest.fixture(scope="session")
def flight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flight]:
    folder = tmp_path_factory.mktemp("flight")
    users = users_of(folder, User("alice", "alice"), User("bob", "bob", max_connections=3))
    config = replace(ServeConfig(), name="shop", flight=FlightConfig(Address("127.0.0.1", 0)))
    service = Service(config, write_data(folder), users)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    log: list[tuple[str, Mapping[str, object]]] = []

    def logged(name: str, fields: Mapping[str, object]) -> None:
        log.append((name, fields))

    front = flight_front(lambda: service, lambda: made.users, config, Throttle(), logged, None)
    made = Flight(service, users, front, loop, log=log)
    service.on_statement = lambda record: logged("statement", {"record": repr(replace(record, text=""))})
    try:
        (made.url,) = made.call(front.start())
        yield made
        made.call(front.stop())
    finally:
        service.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def alice(flight: Flight) -> Program:
    return flight.client("alice")


@pytest.fixture
def bob(flight: Flight) -> Program:
    return flight.client("bob")


def command_descriptor(name: str, **fields: Any) -> bytes:
    """Return the bytes of a descriptor with a command."""
    return write(m.DESCRIPTOR, {"type": m.COMMAND_DESCRIPTOR, "cmd": m.write_any(name, fields)})
