"""`Client`: a logged-in connection, which describes, answers and cancels statements, over any protocol.

Its methods are coroutines; the work is done in pools of threads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from dpsql.engines import Cancelled
from dpsql.errors import InterfaceError
from dpsql.lazy_dataclass import dataclass
from dpsql.privacy import Charge
from dpsql.serve.active import Active, Hold, Retired
from dpsql.serve.answer import Answer, Column, Described, Notice, columns_of
from dpsql.serve.catalog.facts import CursorRow, Encryption, Facts, PreparedRow, Route
from dpsql.serve.errors import PolicyReloaded, ShuttingDown, locate
from dpsql.serve.figures import StatementRecord
from dpsql.serve.notices import RELOADED
from dpsql.serve.statement_pool import charged_work, free_work
from dpsql.serve.statement_run import Pending, StatementRun
from dpsql.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpsql.prepared import Prepared
    from dpsql.serve.catalog.facts import Signal
    from dpsql.serve.gate import Login
    from dpsql.serve.generation import Generation
    from dpsql.serve.registry import Registry
    from dpsql.serve.settings import Settings
    from dpsql.serve.shared import Shared

__all__ = ["Answer", "Client", "Column", "Described", "Notice"]

_T = TypeVar("_T")
_ATTEMPTS = 3
AT_ONCE = 500
"""The most characters of a text that is worked on in the thread of the event loop, for a few milliseconds."""


def _never(_: StatementRun) -> bool:
    return False


def _nothing(_: StatementRun) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Steps(Generic[_T]):
    """How a statement begins: `quick`, where it is `known` from before, if that suffices; else `whole`."""

    whole: Callable[[StatementRun], _T]
    known: Callable[[StatementRun], bool] = _never
    """Whether `quick` may suffice; it only looks things up, in the thread of the event loop."""
    quick: Callable[[StatementRun], _T | None] = _nothing


class Client:
    """One connection of a user. Its statements are answered one after the other."""

    def __init__(
        self, service: Shared, registry: Registry[Client], login: Login, number: int, settings: Settings
    ) -> None:
        """Let a user ask; raises `PolicyError` if the policy does not list the analyst."""
        self.login, self.number, self.settings = login, number, settings
        self.user = login.user
        """The user as he is now."""
        self.protocol = "wire"
        self.address = ""
        """Where the client is; empty on a Unix socket."""
        self.encryption: Encryption | None = None
        """How the connection is encrypted, as far as it is known."""
        self.started = datetime.now(UTC)
        self.on_terminate: Callable[[], None] | None = None
        """What ends the connection when another one of the analyst, or a reload, asks for it."""
        self.prepared: Callable[[], Sequence[PreparedRow]] = tuple
        """Returns the prepared statements of the connection."""
        self.cursors: Callable[[], Sequence[CursorRow]] = tuple
        """Returns the open cursors of the connection."""
        self.in_transaction: Callable[[], bool] = bool
        self._service = service
        self._registry = registry
        self._lock = threading.Lock()
        self._active: set[Active] = set()
        self._closed = False
        self._generation = service.generation
        """The policy of the last statement."""
        self._generation.database.ledger.admitted(login.analyst)

    @property
    def running(self) -> bool:
        """Whether a statement is asked now."""
        return bool(self._active)

    # -- what protocols ask

    async def describe(
        self,
        text: str,
        types: Sequence[pa.DataType | None] = (),
        parameters: Sequence[object] | None = None,
    ) -> Described:
        """Return parameters and columns of a statement; nothing is run and nothing is charged.

        `types` are those that the client announced, `parameters` the values if they are known already.
        """

        def whole(asking: StatementRun) -> Described:
            return self._describe(asking, text, types, parameters)

        def known(asking: StatementRun) -> bool:
            of_catalogue = asking.generation.catalogue.knows(text, types)
            return of_catalogue or asking.description_key(text, types) in asking.generation.descriptions

        def quick(asking: StatementRun) -> Described | None:
            if asking.generation.catalogue.knows(text, types):
                return whole(asking)
            found = asking.described_before(text, types)
            return None if found is None else Described(found[0], columns_of(found[1]))

        return await self._free(text, Steps(whole, known, quick) if parameters is None else Steps(whole))

    async def answer(
        self,
        text: str,
        parameters: Sequence[object] = (),
        types: Sequence[pa.DataType | None] = (),
    ) -> Answer:
        """Answer a statement with the values of `$1`, ..; `types` are those that were announced for them."""

        def known(asking: StatementRun) -> bool:
            of_catalogue = asking.generation.catalogue.knows(text, types)
            return of_catalogue or asking.key(text, parameters) in asking.generation.plans

        steps: Steps[Answer | Pending] = Steps(
            lambda asking: asking.begin(text, parameters, types),
            known,
            lambda asking: asking.quick(text, parameters, types),
        )
        return await self._answered(text, steps)

    async def prepare(self, text: str, parameters: Sequence[object] = ()) -> Prepared:
        """Parse, analyse and price a statement, for `run`."""

        def work(asking: StatementRun) -> Prepared:
            return asking.prepare(text, parameters)

        return await self._free(text, Steps(work))

    async def run(self, prepared: Prepared, *, most: Charge | None = None) -> Answer:
        """Answer a prepared statement; with `most`, somebody has agreed to a charge of so much."""
        return await self._answered(prepared.text, Steps(lambda asking: asking.run(prepared, most)))

    async def beside(self, size: int, work: Callable[[], _T]) -> _T:
        """Do work on a text of this size: a long one beside the event loop, in turn with other analysts."""
        if size <= AT_ONCE:
            return work()
        return await asyncio.wrap_future(self._service.planning(size).submit(self.user.analyst, work))

    def cancel(self) -> None:
        """Stop what is asked now, from any thread; what was charged stays charged."""
        with self._lock:
            active = list(self._active)
        for each in active:
            each.cancel()

    def terminate(self) -> None:
        """Let the protocol end the connection, from any thread."""
        if self.on_terminate is not None:
            self.on_terminate()

    def close(self) -> None:
        """Ask nothing more; a statement that runs is not stopped. A second call has no effect."""
        self._closed = True
        self._registry.forget(self)

    # -- one statement

    async def _free(self, text: str, steps: Steps[_T]) -> _T:
        """Do what costs nothing with a statement."""
        generation = self._service.generation
        with self._asking(text, answers=False) as active, generation.use():
            return await self._stepped(active, generation, text, steps)

    async def _answered(self, text: str, steps: Steps[Answer | Pending]) -> Answer:
        with self._asking(text, answers=True) as active:
            for _ in range(_ATTEMPTS):
                generation = self._service.generation
                moved = generation is not self._generation
                try:
                    with generation.use():
                        found = await self._stepped(active, generation, text, steps)
                        if isinstance(found, Pending):
                            found = await self._pending(active, generation, found)
                except Retired:
                    self.user = self._service.gate.user(self.login)  # the users may be others, too
                    continue
                return replace(found, notices=(RELOADED, *found.notices)) if moved else found
            raise PolicyReloaded("the policy was read again while the statement waited; nothing was charged")

    async def _stepped(self, active: Active, generation: Generation, text: str, steps: Steps[_T]) -> _T:
        """Do the first step of a statement: quickly if it was planned before, else in turn with others."""
        asking, analyst = self._new(generation, active), self.user.analyst
        if steps.known(asking):
            found = await free_work(
                self._service.light, analyst, active, generation, lambda: steps.quick(asking)
            )
            if found is not None:
                return found
        pool = self._service.planning(len(text))
        return await free_work(pool, analyst, active, generation, lambda: steps.whole(asking))

    async def _pending(self, active: Active, generation: Generation, pending: Pending) -> Answer:
        """Run what is left of a statement in its pool."""
        heavy = pending.pool == "heavy"

        def work() -> Answer:
            if generation.retired:
                raise Retired("the policy was read again")
            if not (heavy and generation.config.time_steps):
                return pending.work()
            active.running.before_end = hold = Hold(self._timeout(generation), self._service.ended)
            try:
                return pending.work()
            finally:
                hold()

        pool = self._service.heavy if heavy else self._service.free
        return await charged_work(pool, self.user.analyst, active, generation, work)

    def _timeout(self, generation: Generation) -> float:
        """Return the seconds that a statement may run: the server's, or fewer."""
        own, most = self.settings.statement_timeout / 1000, float(generation.config.statement_timeout)
        return min(own, most) if own > 0 else most

    # -- pools

    @contextmanager
    def _asking(self, text: str, *, answers: bool) -> Iterator[Active]:
        """Ask one statement in this block, and record its end: of one that is not answered, an error.

        Errors are given their place in its text.
        """
        if self._closed:
            raise InterfaceError("the connection is closed")
        if self._service.closing:
            raise ShuttingDown("the server is shutting down")
        self.user = self._service.gate.user(self.login)
        generation = self._service.generation
        active = Active(generation.limit, self._timeout(generation))
        with self._lock:
            self._active.add(active)
        outcome, shape = "00000" if answers else "", None
        try:
            yield active
        except BaseException as error:
            locate(error, text)
            given_up = isinstance(error, asyncio.CancelledError)
            outcome = Cancelled.sqlstate if given_up else getattr(error, "sqlstate", "XX000")
            shape = getattr(error, "shape", None)
            raise
        finally:
            with self._lock:
                self._active.discard(active)
            if active.future is not None:  # nobody awaits it any more, and it runs
                self._service.abandon(active, active.future)
            if outcome:
                self._record(active, text, outcome, shape)

    def _record(self, active: Active, text: str, outcome: str, shape: str | None) -> None:
        seconds = time.monotonic() - active.asked
        asking = active.asking
        kind, price = ("data", None) if asking is None else (asking.kind, asking.price)
        who = self.user.analyst, self.user.name, self.number, self.protocol
        record = StatementRecord(*who, text, kind, price, outcome, active.waited, shape)
        self._service.record(record, seconds)

    def _new(self, generation: Generation, active: Active) -> StatementRun:
        """Return the steps of a statement on a policy, which is kept open meanwhile."""
        self._generation = generation
        # Statements of a session wait for each other, in threads that others need; so each has its own.
        session = Session(generation.database, self.user.analyst)
        budget = generation.policy.budget
        own = self.settings.defaults
        session.defaults = replace(
            own,
            epsilon=budget.default_epsilon if own.epsilon is None else own.epsilon,
            delta=budget.default_delta if own.delta is None else own.delta,
            confidence=Fraction(95, 100) if own.confidence is None else own.confidence,
        )
        active.asking = StatementRun(
            generation,
            session,
            self.user,
            active.running,
            agreed=self.user.auto_charge or (own.epsilon or own.error) is not None,
            most=self.settings.dp_most,
            intervals=self.settings.dp_columns == "interval",
            facts=self._facts,
            signal=self._signal,
        )
        return active.asking

    # -- describing

    def _describe(
        self,
        asking: StatementRun,
        text: str,
        types: Sequence[pa.DataType | None],
        parameters: Sequence[object] | None,
    ) -> Described:
        route = asking.route(text)
        if route is Route.CATALOGUE:
            signal = asking.generation.catalogue.signal(text, tuple(parameters or ()))
            if signal is not None:
                return Described((), (Column(signal.column, pa.bool_()),))
            found = asking.generation.catalogue.describe(text, self._facts(), types)
            columns = tuple(Column(each.name, each.type, each.oid) for each in found.columns)
            return Described(found.parameters, columns, found.parameter_oids)
        kinds, schema = asking.described(text, types, parameters)
        return Described(kinds, columns_of(schema))

    # -- the catalogue

    def _facts(self) -> Facts:
        return Facts(
            self.user.name,
            self.number,
            self.settings.as_mapping(),
            self._registry.rows(self.user.analyst),
            self.prepared(),
            self.cursors(),
            self.address or None,
        )

    def _signal(self, signal: Signal) -> Answer:
        """Cancel or end a connection of the own analyst; the answer says whether there was one."""
        done = self._registry.signal(self.user.analyst, signal.kind, signal.pid)
        table = pa.table({signal.column: pa.array([done], pa.bool_())})
        return Answer(columns_of(table.schema), table)
