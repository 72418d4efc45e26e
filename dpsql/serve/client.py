"""`Client`: a login that asks, which describes, prices, runs and cancels statements, over any protocol.

Its methods are coroutines; the work is done in pools of threads. For each statement the gate is asked whether
the login still holds. The uploads of a connection are its own (`ClientUploads`).
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from dpsql.composition.explain import explain
from dpsql.composition.prepared import question_key
from dpsql.engines import Cancelled
from dpsql.errors import InterfaceError, OperationalError
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.serve.answers import DESCRIPTIONS, PLANS, RELOADED, Answer, DataCache, Described, StoredAnswers
from dpsql.serve.catalog import ConnectionRow, CursorRow, Encryption, PreparedRow, SessionFacts
from dpsql.serve.limits import PolicyReloaded, ShuttingDown, locate
from dpsql.serve.monitoring import StatementRecord
from dpsql.serve.statement_pool import ActiveStatement, Hold, Retired
from dpsql.serve.statement_run import Pending, StatementRun
from dpsql.serve.statement_service import Priced, StatementService
from dpsql.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.language import Options
    from dpsql.ledger import Budget
    from dpsql.policy import Policy
    from dpsql.policy.budget import BudgetPolicy
    from dpsql.serve.gate import Login
    from dpsql.serve.settings import Settings
    from dpsql.serve.shared import Generation, SharedByClients


MOST_CLIENTS: Final = 8
"""How many connections of a server have uploads at a time: each has engines of its own."""
_LOCK: Final = threading.Lock()
_OPEN: Final = weakref.WeakSet["ClientUploads"]()


class ClientUploads:
    """The uploads of one connection; they end with it, and when the policy is read again."""

    def __init__(self, analyst: str) -> None:
        self._analyst = analyst
        self._uploads: Uploads | None = None
        self._base: Generation | None = None
        self._own: Generation | None = None

    def of(self, base: Generation) -> Generation:
        """Return what is open for the policy, with the uploads of the connection."""
        if self._own is None:
            return base
        if self._base is not base:
            self.close()
            return base
        self._own.retired = base.retired
        return self._own

    def add(self, base: Generation, name: str, rows: pa.Table, key: str | None) -> None:
        """Upload a table under a name, for this connection alone, with caches of its own."""
        if self._base is not base:
            self.close()
        with _LOCK:
            if self not in _OPEN and len(_OPEN) >= MOST_CLIENTS:
                raise OperationalError(f"{MOST_CLIENTS} connections have uploads: ask again later")
            _OPEN.add(self)
        self._base, self._uploads = base, self._uploads or Uploads(base.database, self._analyst)
        database = self._uploads.add(name, rows, key)
        own = copy(base)
        own.database, own.policy = database, database.policy
        own.plans, own.descriptions, own.stored = DataCache(PLANS), DataCache(DESCRIPTIONS), StoredAnswers()
        self._own = own

    def close(self) -> None:
        """Forget all uploads of the connection, and close their engines in the background."""
        if self._uploads is not None:
            threading.Thread(target=self._uploads.close, name="dpsql closing uploads").start()
        self._uploads = self._base = self._own = None
        with _LOCK:
            _OPEN.discard(self)


_T = TypeVar("_T")
_ATTEMPTS = 3
AT_ONCE = 500
"""The most characters of a text that is worked on in the thread of the event loop, for a few milliseconds."""


@dataclass(frozen=True, slots=True)
class _Request(Generic[_T]):
    """A statement that is asked, and what is done with it, as steps of `StatementRun`."""

    text: str
    parameters: Sequence[object] | None
    """The values of `$1`, .. if they are known."""
    types: Sequence[pa.DataType | None]
    """The types of the parameters that the client announced."""
    step: Callable[[StatementRun], _T]
    """The step that does it, in turn with other analysts."""
    may_be_quick: Callable[[StatementRun], bool] = lambda _: False
    """Whether `quick` may suffice; it only looks things up, in the thread of the event loop."""
    quick: Callable[[StatementRun], _T | None] = lambda _: None


class Client(StatementService):
    """One login, on a connection or without. What a connection asks is answered one after the other."""

    def __init__(self, shared: SharedByClients, login: Login, number: int, settings: Settings) -> None:
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
        self.on_cancel: Callable[[], None] | None = None
        """What stops rows that are being sent, beside what is asked."""
        self.prepared: Callable[[], Sequence[PreparedRow]] = tuple
        """Returns the prepared statements of the connection."""
        self.cursors: Callable[[], Sequence[CursorRow]] = tuple
        """Returns the open cursors of the connection."""
        self.in_transaction: Callable[[], bool] = bool
        """Returns whether the connection has a transaction open."""
        self._shared = shared
        self._lock = threading.Lock()
        self._active: set[ActiveStatement] = set()
        self._turn = asyncio.Lock()
        self._closed = False
        self._uploads = ClientUploads(login.user.analyst)
        self._generation = shared.generation
        """The policy of the last statement."""
        self._completed: tuple[Options, BudgetPolicy, Options] | None = None
        self._generation.database.ledger.check_analyst(login.analyst)

    @property
    def name(self) -> str:
        """The login's name: a confirmation is for it alone, also where logins share an analyst."""
        return self.user.name

    @property
    def policy(self) -> Policy:
        """The policy that is open now."""
        return self._shared.generation.policy

    @property
    def is_running(self) -> bool:
        """Whether a statement is asked now."""
        return bool(self._active)

    # -- what protocols ask

    async def describe(
        self, text: str, types: Sequence[pa.DataType | None] = (), parameters: Sequence[object] | None = None
    ) -> Described:
        """Return parameters and columns of a statement; nothing is run and nothing is charged.

        `types` are those that the client announced, `parameters` the values if they are known already.
        """
        steps = StatementRun.describe, StatementRun.is_described, StatementRun.quick_description
        return await self._ask_free(_Request(text, parameters, types, *steps))

    async def answer(
        self, text: str, parameters: Sequence[object] = (), types: Sequence[pa.DataType | None] = ()
    ) -> Answer:
        """Answer a statement with the values of `$1`, ..; `types` are those that were announced for them.

        It may be charged what its text or the settings of the connection agree to.
        """
        steps = StatementRun.begin, StatementRun.is_planned, StatementRun.quick
        return await self._ask(_Request(text, parameters, types, *steps))

    async def price(self, sql: str) -> Priced:
        """Parse, analyse and price a statement, for `run`."""
        prepared = await self._in_turn(self._ask_free(_Request(sql, (), (), StatementRun.prepare)))
        return Priced(sql, question_key(prepared), prepared)

    async def run(self, priced: Priced, most: Charge | None = None) -> Answer:
        """Run a statement that was priced; with `most`, somebody has agreed to a charge of so much.

        Without it, what its text or the settings agree to is charged, as by `answer`.
        """
        prepared = priced.statement
        request = _Request(prepared.text, (), (), lambda run: run.run(prepared, most))
        return await self._in_turn(self._ask(request))

    async def explain(self, priced: Priced, budget: Budget) -> dict[str, Any]:
        """Return what EXPLAIN says of a statement, which is not prepared again."""

        def work() -> dict[str, Any]:
            table = explain(priced.statement, budget, json=True)
            facts: dict[str, Any] = json.loads(table.column(0)[0].as_py())
            return facts

        # Never in the thread of the event loop: the mechanisms that could answer it are compared.
        return await self.beside(max(len(priced.sql), AT_ONCE + 1), work)

    async def upload(self, size: int, name: str, read: Callable[[], pa.Table], key: str | None) -> int:
        """Keep a public table of the connection, which `read` decodes in a thread; return its length."""
        generation = self._shared.generation

        def work() -> int:
            rows = read()
            self._uploads.add(generation, name, rows, key)
            return int(rows.num_rows)

        with generation.use():
            return await self._in_turn(self.beside(max(size, AT_ONCE + 1), work))

    async def beside(self, size: int, work: Callable[[], _T]) -> _T:
        """Do work on a text of `size` characters: a long one in a thread, in turn with other analysts."""
        if size <= AT_ONCE:
            return work()
        return await asyncio.wrap_future(self._shared.planning_pool(size).submit(self.user.analyst, work))

    def cancel(self) -> None:
        """Stop the statements that run and the rows that are sent, from any thread; charges stay."""
        with self._lock:
            active = list(self._active)
        for each in active:
            each.cancel()
        if self.on_cancel is not None:
            self.on_cancel()

    def terminate(self) -> None:
        """Let the protocol end the connection, from any thread."""
        if self.on_terminate is not None:
            self.on_terminate()

    def close(self) -> None:
        """Ask nothing more; a statement that runs is not stopped. A second call has no effect."""
        self._closed = True
        self._uploads.close()
        self._shared.forget(self)

    # -- one statement

    async def _in_turn(self, work: Coroutine[object, object, _T]) -> _T:
        """Run a statement after those before it; cancel it when its program gives up, and see it end."""
        async with self._turn:
            task = asyncio.ensure_future(work)
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                import anyio  # noqa: PLC0415  of the extras whose programs alone give up so

                self.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([task])
                    with suppress(BaseException):
                        task.result()  # nobody is left to be told how it ended
                raise

    async def _ask_free(self, request: _Request[_T]) -> _T:
        """Do what costs nothing with a statement."""
        generation = self._shared.generation
        with self._open_statement(request.text, answers=False) as active, generation.use():
            return await self._first_step(active, self._new_run(generation, active, request), request)

    async def _ask(self, request: _Request[Answer | Pending]) -> Answer:
        """Answer a statement: its first step, and what that leaves to be done, perhaps for a charge."""
        with self._open_statement(request.text, answers=True) as active:
            for _ in range(_ATTEMPTS):
                generation = self._shared.generation
                moved = generation is not self._generation
                try:
                    with generation.use():
                        run = self._new_run(generation, active, request)
                        found = await self._first_step(active, run, request)
                        if isinstance(found, Pending):
                            found = await self._run_pending(active, generation, found)
                except Retired:
                    self.user = self._shared.gate.user(self.login)  # the users may be others, too
                    continue
                return replace(found, notices=(RELOADED, *found.notices)) if moved else found
            raise PolicyReloaded("the policy was read again while the statement waited; nothing was charged")

    async def _first_step(self, active: ActiveStatement, run: StatementRun, request: _Request[_T]) -> _T:
        """Do the first step of a statement: quickly if it was planned before, else in turn with others."""
        if request.may_be_quick(run):
            quick = request.quick
            found = await active.await_free_work(self._shared.light, run.generation, lambda: quick(run))
            if found is not None:
                return found
        pool = self._shared.planning_pool(len(run.text))
        return await active.await_free_work(pool, run.generation, lambda: request.step(run))

    async def _run_pending(self, active: ActiveStatement, generation: Generation, pending: Pending) -> Answer:
        """Run the charged or free part of a statement in its pool of threads, after its first step."""
        heavy = pending.pool == "heavy"

        def work() -> Answer:
            if generation.retired:
                raise Retired("the policy was read again")
            if not (heavy and generation.config.time_steps):
                return pending.work()
            active.running.before_end = hold = Hold(self._timeout(generation), self._shared.ended)
            try:
                return pending.work()
            finally:
                hold()

        pool = self._shared.heavy if heavy else self._shared.free
        return await active.await_charged_work(pool, generation, work)

    def _timeout(self, generation: Generation) -> float:
        """Return the seconds that a statement may run: the server's, or fewer."""
        own, most = self.settings.statement_timeout / 1000, float(generation.config.statement_timeout)
        return min(own, most) if own > 0 else most

    @contextmanager
    def _open_statement(self, text: str, *, answers: bool) -> Iterator[ActiveStatement]:
        """Ask one statement in this block, and record its end: of one that is not answered, an error.

        Errors are given their place in its text.
        """
        if self._closed:
            raise InterfaceError("the connection is closed")
        if self._shared.closing:
            raise ShuttingDown("the server is shutting down")
        self.user = self._shared.gate.user(self.login)
        generation = self._shared.generation
        active = ActiveStatement(self.user.analyst, generation.limit, self._timeout(generation))
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
                self._shared.abandon(active, active.future)
            if outcome:
                kind, price = ("data", None) if active.run is None else (active.run.kind, active.run.price)
                who = self.user.analyst, self.user.name, self.number, self.protocol
                record = StatementRecord(*who, text, kind, price, outcome, active.waited, shape)
                self._shared.record(record, time.monotonic() - active.asked)

    def _new_run(
        self, generation: Generation, active: ActiveStatement, request: _Request[Any]
    ) -> StatementRun:
        """Return the steps of a statement on a policy, which is kept open meanwhile."""
        self._generation = generation
        own = self.settings.defaults
        active.run = StatementRun(
            self._uploads.of(generation),
            self._complete(own, generation.policy.budget),
            self.user,
            active.running,
            request.text,
            request.parameters,
            request.types,
            agreed=self.user.auto_charge or (own.epsilon or own.error) is not None,
            most=self.settings.dp_most,
            intervals=self.settings.dp_columns == "interval",
            facts=self._facts,
            signal=lambda signal: self._shared.signal(self.user.analyst, signal),
        )
        return active.run

    def _complete(self, own: Options, budget: BudgetPolicy) -> Options:
        """Return the connection's options with those of the policy: the same object while neither changes."""
        if self._completed is None or self._completed[0] is not own or self._completed[1] is not budget:
            whole = replace(
                own,
                epsilon=budget.default_epsilon if own.epsilon is None else own.epsilon,
                delta=budget.default_delta if own.delta is None else own.delta,
                confidence=Fraction(95, 100) if own.confidence is None else own.confidence,
            )
            self._completed = own, budget, whole
        return self._completed[2]

    # -- the catalogue

    def _facts(self) -> SessionFacts:
        """Return what `pg_stat_activity` and the like say of the analyst's connections."""
        return SessionFacts(
            self.user.name,
            self.number,
            self.settings.as_mapping(),
            tuple(each.row() for each in self._shared.clients_of(self.user.analyst)),
            self.prepared(),
            self.cursors(),
            self.address or None,
        )

    def row(self) -> ConnectionRow:
        """Return the connection's row of `pg_stat_activity`."""
        state: Literal["active", "idle", "idle in transaction"] = "idle"
        if self.is_running:
            state = "active"
        elif self.in_transaction():
            state = "idle in transaction"
        return ConnectionRow(
            self.number,
            self.user.name,
            self.settings.as_mapping().get("application_name", ""),
            self.address or None,
            started=self.started,
            state=state,
            encryption=self.encryption,
        )
