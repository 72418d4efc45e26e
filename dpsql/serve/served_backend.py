"""`ServedBackend`: answers the statements of a user who asks over HTTP, by a client of the server's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from dpsql import info
from dpsql.login import entropy
from dpsql.privacy import Charge
from dpsql.serve.backends import Asked, Backend, asked_of
from dpsql.serve.client import AT_ONCE
from dpsql.serve.settings import Settings
from dpsql.sessions import StatementResult

if TYPE_CHECKING:
    from dpsql.ledger import Budget
    from dpsql.policy import Policy, ServeConfig
    from dpsql.prepared import Prepared
    from dpsql.serve.client import Client
    from dpsql.serve.gate import Login
    from dpsql.serve.service import Service

_T = TypeVar("_T")


class ServedBackend(Backend):
    """Answers by the server's client of one user, one statement at a time."""

    def __init__(self, client: Client, policy: Callable[[], Policy]) -> None:
        self.client = client
        self._policy = policy
        self._turn = anyio.Lock()

    @property
    def analyst(self) -> str:
        """The login: a confirmation is for it alone, also where logins share an analyst."""
        return self.client.user.name

    @property
    def policy(self) -> Policy:
        """The policy that is open now."""
        return self._policy()

    async def price(self, sql: str) -> Asked:
        """Prepare and price a statement."""

        async def work() -> Asked:
            return asked_of(sql, await self.client.prepare(sql))

        return await self._statement(work())

    async def run(self, asked: Asked, most: Charge) -> StatementResult:
        """Run a prepared statement, charging no more than this."""
        return await self._statement(self._run(asked.prepared, most))

    async def explained(self, asked: Asked, budget: Budget) -> dict[str, Any]:
        """Return what EXPLAIN says of a prepared statement, which is not prepared again."""

        def work() -> dict[str, Any]:
            table = info.explain(asked.prepared, budget, json=True)
            facts: dict[str, Any] = json.loads(table.column(0)[0].as_py())
            return facts

        # Never in the thread of the event loop: the mechanisms that could answer it are compared.
        return await self.client.beside(max(len(asked.sql), AT_ONCE + 1), work)

    async def _run(self, prepared: Prepared, most: Charge) -> StatementResult:
        answer = await self.client.run(prepared, most=most)
        return StatementResult(answer.table, answer.release)

    async def _statement(self, work: Coroutine[object, object, _T]) -> _T:
        """Wait for the user's other statements; cancel this one when its program gives up, and see it end."""
        async with self._turn:
            task = asyncio.ensure_future(work)
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                self.client.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([task])
                    with suppress(BaseException):
                        task.result()  # nobody is left to be told how it ended
                raise


class Backends:
    """The backend of each login, which is made when it first asks by a protocol."""

    def __init__(self, service: Callable[[], Service], config: ServeConfig, protocol: str) -> None:
        self._service = service
        self._config = config
        self._protocol = protocol
        self._backends: dict[Login, ServedBackend] = {}

    def of(self, login: Login) -> ServedBackend:
        """Return the backend of a login, and close those of the user's logins that do not hold any more."""
        backend, user = self._backends.get(login), login.user
        if backend is None:
            gate = self._service().gate
            gone = [old for old in self._backends if old.user.name == user.name and not gate.holds(old)]
            for old in gone:
                self._backends.pop(old).client.close()
            settings = Settings(
                user.name, self._config.name, statement_timeout=self._config.statement_timeout * 1000
            )
            client = self._service().client(login, entropy.number(31), settings)
            client.protocol = self._protocol
            client.on_terminate = client.cancel  # there is no connection to end
            backend = ServedBackend(client, lambda: self._service().policy)
            self._backends[login] = backend
        return backend
