"""`StatementService`: prices and runs the statements of one analyst, for whatever protocol asks.

On a server it is a `Client`; of a program on this machine it is a session, in this process or on a server.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dpsql.errors import Error
from dpsql.kernel.loss import Charge
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Budget
from dpsql.prepared import question_key

if TYPE_CHECKING:
    from dpsql.policy import Policy
    from dpsql.release import Release
    from dpsql.remote import RemoteSession
    from dpsql.remote.session import RemotePrepared
    from dpsql.serve.answer import Answer
    from dpsql.session import Session
    from dpsql.sessions import StatementResult

_T = TypeVar("_T")
_Session = TypeVar("_Session", bound="Session | RemoteSession")


@dataclass(frozen=True, slots=True)
class Priced:
    """A statement that was prepared: nothing is charged, nothing private was read."""

    sql: str
    key: str
    """What distinguishes its question (`question_key`)."""
    statement: Any
    """The statement as it was prepared (a `PricedStatement`), for the service that did it."""

    @property
    def price(self) -> Charge:
        """The most that the statement can charge."""
        charge: Charge = self.statement.price
        return charge


class StatementService(ABC):
    """The statements of one analyst; `price` and `run` are its own, the rest are statements by these."""

    @property
    @abstractmethod
    def policy(self) -> Policy | None:
        """The policy that is open now; None where it lies on a server."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Who asks: a confirmation is for this name alone."""

    @abstractmethod
    async def price(self, sql: str) -> Priced:
        """Parse, analyse and price a statement, for `run`."""

    @abstractmethod
    async def run(self, priced: Priced, most: Charge) -> Answer | StatementResult:
        """Run a statement; somebody has agreed to a charge of `most`, and no more is charged."""

    async def free(self, sql: str) -> Answer | StatementResult:
        """Run a statement that costs nothing, such as SHOW TABLES."""
        return await self.run(await self.price(sql), Charge())

    async def explain(self, priced: Priced, budget: Budget) -> dict[str, Any]:
        """Return what EXPLAIN says of a query; `budget` is what the analyst may still spend."""
        table = (await self.free(f"EXPLAIN (FORMAT JSON)\n{priced.sql}")).table
        facts: dict[str, Any] = json.loads(table.column(0)[0].as_py())
        return facts

    async def budget(self) -> Budget:
        """Return what the analyst may still spend: the exact amounts beside the rows of the statement."""
        table = (await self.free("SHOW PRIVACY BUDGET")).table
        return Budget.read(json.loads((table.schema.metadata or {})[b"dpsql.budget"]))

    async def release(self, number: int) -> Release:
        """Return one of the analyst's own releases."""
        found = (await self.free(f"SHOW RELEASE {int(number)}")).release
        assert found is not None  # noqa: S101  the statement answers with a release, or an error
        return found


class _SessionService(StatementService, Generic[_Session]):
    """The statements of a session, each in a thread, one at a time."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def run(self, priced: Priced, most: Charge) -> StatementResult:
        """Run a statement, charging no more than `most`."""
        return await self._in_thread(lambda: self._session.execute(priced.statement, most=most))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await in_thread(work, self._session.cancel)


class LocalService(_SessionService["Session"]):
    """The statements of a session in this process."""

    @property
    def name(self) -> str:
        """The session's analyst."""
        return self._session.analyst

    @property
    def policy(self) -> Policy:
        """The session's policy."""
        return self._session.policy

    async def price(self, sql: str) -> Priced:
        """Parse, analyse and price a statement."""
        prepared = await self._in_thread(lambda: self._session.prepare(sql))
        return Priced(sql, question_key(prepared), prepared)


class RemoteService(_SessionService["RemoteSession"]):
    """The statements of a session on a server, where prepared statements are their texts."""

    policy = None
    name = ""

    def __init__(self, session: RemoteSession, name: str) -> None:
        super().__init__(session)
        self.name = name

    async def price(self, sql: str) -> Priced:
        """Parse, analyse and price a statement."""
        prepared: RemotePrepared = await self._in_thread(lambda: self._session.prepare(sql))
        return Priced(sql, hashlib.sha256(prepared.outgoing.text.encode()).hexdigest(), prepared)

    async def free(self, sql: str) -> StatementResult:
        """Run a statement that costs nothing; the server knows what is free of those that have a price."""
        return await self._in_thread(lambda: self._session.run(sql, most=Charge()))

    async def budget(self) -> Budget:
        """Return what the analyst may still spend."""
        return await self._in_thread(self._session.budget)


async def in_thread(work: Callable[[], _T], cancel: Callable[[], None]) -> _T:
    """Run work in a thread; when the caller gives up, what runs is cancelled."""
    import anyio.to_thread  # noqa: PLC0415  of the extra `dpsql[mcp]`

    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True), suppress(Error):
            await anyio.to_thread.run_sync(cancel)
        raise
