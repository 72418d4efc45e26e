"""A service on the shipped clinic, or on a small policy, with users and a catalogue of one question."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa

from dpsql.kernel.loss import Charge
from dpsql.policy import ServeConfig
from dpsql.serve import users as users_file
from dpsql.serve.answers import Answer, Described
from dpsql.serve.catalog import Route, SessionFacts, Signal
from dpsql.serve.catalog.catalog import PgCatalog
from dpsql.serve.client import Client
from dpsql.serve.gate import Login
from dpsql.serve.service import Service
from dpsql.serve.settings import Settings
from dpsql.serve.users import Account, User, Users

ROOT = Path(__file__).parents[1]
_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on an event loop of its own."""
    return asyncio.run(work)


class Accounts:
    """The users file, as far as the service reads it."""

    def __init__(self, *users: User) -> None:
        self._users = {user.name: user for user in users}

    def user(self, name: str) -> User | None:
        return self._users.get(name)


class AnsweredCatalog(PgCatalog):
    """A catalogue that knows `SELECT pg_backend_pid()` and the two signals, by the words of the text."""

    def __init__(self) -> None:
        self.closed = False

    def route(self, text: str) -> Route:
        if "pg_" not in text:
            return Route.DATA
        return Route.BOTH if "visits" in text else Route.CATALOG

    def knows(self, text: str, types: Sequence[pa.DataType | None] = ()) -> bool:
        return False

    def describe(self, text: str, facts: SessionFacts, types: Sequence[pa.DataType | None] = ()) -> Described:
        return Described((), (), ())

    def answer(
        self,
        text: str,
        facts: SessionFacts,
        parameters: Sequence[object] = (),
        types: Sequence[pa.DataType | None] = (),
    ) -> Answer:
        rows = [f"{each.pid} {each.user} {each.state}" for each in facts.connections]
        return Answer((), pa.table({"pg_backend_pid": [str(facts.pid), *rows]}))

    def signal(self, text: str, parameters: Sequence[object] = ()) -> Signal | None:
        for kind in ("cancel", "terminate"):
            if f"pg_{kind}_backend" in text:
                pid = int(text.partition("(")[2].partition(")")[0])
                return Signal(cast("Any", kind), pid, f"pg_{kind}_backend")
        return None

    def close(self) -> None:
        self.closed = True


ALICE = User("alice", "alice")
BOB = User("bob", "bob")


@contextmanager
def serving(
    policy: Path, *users: User, make: Callable[[], AnsweredCatalog] = AnsweredCatalog, **config: Any
) -> Iterator[Service]:
    """Open a service on a policy for users, by default alice and bob."""
    accounts = cast("Users", Accounts(*(users or (ALICE, BOB))))
    service = Service(replace(ServeConfig(), **config), policy, accounts, catalog=lambda *_: make())
    try:
        yield service
    finally:
        service.close()


def clinic(folder: Path, epsilon: int | str = 1000, data: Path = ROOT / "data") -> Path:
    """Copy the shipped clinic to a folder, with another budget or data; return the path of its policy."""
    for name in ("patients.parquet", "visits.parquet", "diagnoses.parquet"):
        shutil.copy(data / name, folder / name)
    text = (ROOT / "data" / "clinic.toml").read_text()
    policy = folder / "clinic.toml"
    policy.write_text(text.replace("epsilon = 10\n", f"epsilon = {epsilon}\n"))
    return policy


def let_in(folder: Path, password: str, *users: User) -> None:
    """Add users with a password to the users file of a policy in a folder."""
    with users_file.change_accounts(folder / "dpsql-users.toml") as accounts:
        for user in users:
            accounts[user.name] = Account(user).with_password(password)


_numbers = iter(range(1, 1 << 31))


def client_of(service: Service, user: User = ALICE, **values: object) -> Client:
    """Return a new client of a user, with these settings."""
    config = service.generation.config
    settings = Settings(user.name, config.name, statement_timeout=1000 * config.statement_timeout)
    for name, value in values.items():
        settings.set(name, _written(value))
    return service.client(Login(user), next(_numbers), settings)


def _written(value: object) -> str:
    match value:
        case Fraction():
            return str(float(value))
        case Charge():
            return f"{value.epsilon},{value.delta}"
    return str(value)
