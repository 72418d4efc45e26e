"""`Backend`: prices and runs a program's statements, by a session here or on a server, or by a client."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
import anyio.to_thread

from dpsql.errors import Error
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Budget
from dpsql.prepared import PreparedComposed, PreparedPrivate
from dpsql.privacy import Charge
from dpsql.sessions import StatementResult

if TYPE_CHECKING:
    from dpsql.policy import Policy
    from dpsql.prepared import Prepared
    from dpsql.release import Release
    from dpsql.remote import RemoteSession
    from dpsql.remote.session import RemotePrepared
    from dpsql.session import Session

_T = TypeVar("_T")
_Session = TypeVar("_Session", bound="Session | RemoteSession")


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement that was prepared: nothing is charged, nothing private was read."""

    sql: str
    key: str
    price: Charge
    private: bool
    setting: bool
    prepared: Any
    """What the backend runs."""


class Backend(ABC):
    """Answers statements of one analyst; `price` and `run` are its own, the rest are statements by these."""

    @property
    @abstractmethod
    def policy(self) -> Policy | None:
        """The policy that is open now; None where it lies on a server."""

    @property
    @abstractmethod
    def analyst(self) -> str:
        """Who asks."""

    @abstractmethod
    async def price(self, sql: str) -> Asked:
        """Prepare and price a statement."""

    @abstractmethod
    async def run(self, asked: Asked, most: Charge) -> StatementResult:
        """Run a prepared statement, charging no more than this."""

    async def free(self, sql: str) -> StatementResult:
        """Run a statement that costs nothing, such as SHOW TABLES."""
        return await self.run(await self.price(sql), Charge())

    async def budget(self) -> Budget:
        """Return what the analyst may still spend: the exact amounts beside the rows of the statement."""
        table = (await self.free("SHOW PRIVACY BUDGET")).table
        return Budget.read(json.loads((table.schema.metadata or {})[b"dpsql.budget"]))

    async def release(self, number: int) -> Release:
        """Return one of the analyst's own releases."""
        found = (await self.free(f"SHOW RELEASE {int(number)}")).release
        assert found is not None  # noqa: S101  the statement answers with a release, or an error
        return found


class _SessionBackend(Backend, Generic[_Session]):
    """Answers by a session, whose work is done in a thread: what is alike in this process and on a server."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def run(self, asked: Asked, most: Charge) -> StatementResult:
        """Run a prepared statement, charging no more than this."""
        return await self._in_thread(lambda: self._session.execute(asked.prepared, most=most))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await in_thread(work, self._session.cancel)


class LocalBackend(_SessionBackend["Session"]):
    """Answers by a session in this process; its statements run in threads, one at a time."""

    @property
    def analyst(self) -> str:
        """The session's analyst."""
        return self._session.analyst

    @property
    def policy(self) -> Policy:
        """The session's policy."""
        return self._session.policy

    async def price(self, sql: str) -> Asked:
        """Prepare and price a statement."""
        return asked_of(sql, await self._in_thread(lambda: self._session.prepare(sql)))


class RemoteBackend(_SessionBackend["RemoteSession"]):
    """Answers by a session on a server, whose prepared statements are their texts."""

    policy = None
    analyst = ""

    def __init__(self, session: RemoteSession, analyst: str) -> None:
        super().__init__(session)
        self.analyst = analyst

    async def price(self, sql: str) -> Asked:
        """Prepare and price a statement."""
        prepared: RemotePrepared = await self._in_thread(lambda: self._session.prepare(sql))
        key = hashlib.sha256(prepared.outgoing.text.encode()).hexdigest()
        return Asked(sql, key, prepared.price, prepared.private, prepared.setting, prepared)

    async def free(self, sql: str) -> StatementResult:
        """Run a statement that costs nothing; the server knows what is free of those that have a price."""
        return await self._in_thread(lambda: self._session.run(sql, most=Charge()))

    async def budget(self) -> Budget:
        """Return what the analyst may still spend."""
        return await self._in_thread(self._session.budget)


async def in_thread(work: Callable[[], _T], cancel: Callable[[], None]) -> _T:
    """Run work in a thread; when the caller gives up, what runs is cancelled."""
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True), suppress(Error):
            await anyio.to_thread.run_sync(cancel)
        raise


def asked_of(sql: str, prepared: Prepared) -> Asked:
    """Return a statement that was prepared in this process."""
    return Asked(sql, question_key(prepared), prepared.price, prepared.private, prepared.setting, prepared)


def question_key(prepared: Prepared) -> str:
    """Return what distinguishes a statement's releases: the questions, the data, how they are asked.

    A confirmation of one statement holds for another with the same key: both are the same releases, and the
    query over them, which is free, is the same.
    """
    if not isinstance(prepared, (PreparedPrivate, PreparedComposed)):
        return ""  # it costs nothing
    parts: list[Any] = []
    for part in prepared.parts:
        refined = part.refines and (part.refines.parent, str(part.refines.epsilon))
        parts.append([part.key, refined, bool(part.plan.options.fresh)])
    outer, values = None, []
    if isinstance(prepared, PreparedComposed):  # a key has only the place of a value that is not known yet
        outer, values = prepared.outer, [value.sql for value in prepared.values]
    return hashlib.sha256(json.dumps([parts, outer, values]).encode()).hexdigest()
