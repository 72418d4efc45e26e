"""What all clients share: the open policy, pools that take analysts in turn, and the list of all clients.

`Generation` is a policy with what is open for it; a reload makes another one, with its own database,
catalogue and plans. `FairPool` runs work in threads. `SharedByClients` has both, and who is connected.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dpsql.database import Database
from dpsql.engines import ResultLimit
from dpsql.engines.process_storage import available_memory
from dpsql.lazy_dataclass import dataclass
from dpsql.serve.answers import DESCRIPTIONS, PLANS, DataCache, Description, Planned, StoredAnswers
from dpsql.serve.limits import QueueFull, ShuttingDown
from dpsql.serve.monitoring import Counters, StatementRecord

if TYPE_CHECKING:
    from dpsql.policy import Policy, ServeConfig
    from dpsql.serve.catalog import ConnectionRow, Signal
    from dpsql.serve.catalog.catalog import MakeCatalog
    from dpsql.serve.gate import Gate, Login
    from dpsql.serve.users import User

_T = TypeVar("_T")


@dataclass(eq=False, slots=True, weakref_slot=True)
class _PoolJob(Generic[_T]):
    """Work that waits or runs, and its future."""

    analyst: str
    work: Callable[[], _T]
    future: Future[_T] = field(default_factory=Future)

    def run(self) -> Callable[[], None]:
        """Run the work, unless it was cancelled; return a function that then sets the future's result."""
        future = self.future
        if not future.set_running_or_notify_cancel():
            return lambda: None
        try:
            result = self.work()
        except BaseException as error:  # noqa: BLE001  it is the future's
            try:
                return partial(future.set_exception, error)
            finally:
                del self, future  # the error holds this frame, and must not hold itself by it
        return partial(future.set_result, result)


class FairPool:
    """Runs work in threads: of each analyst at most `each` at a time, and of all analysts in turn.

    At most `waiting` pieces of work wait, of an analyst at most `waiting_each` (None: any number); more are
    refused. What waits may be cancelled by its future, and then never runs.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        *,
        each: int = 1,
        waiting: int | None = None,
        waiting_each: int | None = None,
    ) -> None:
        self._each = each
        self._most = waiting
        self._most_each = waiting_each
        self._changed = threading.Condition()
        self._queues: dict[str, deque[_PoolJob[Any]]] = {}
        """The waiting work of each analyst who has any; the analysts in the order of their turns."""
        self._running: Counter[str] = Counter()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"dpsql {name} {i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting_count(self) -> int:
        """How many pieces of work wait."""
        with self._changed:
            return sum(map(len, self._queues.values()))

    @property
    def running_count(self) -> int:
        """How many pieces of work run."""
        with self._changed:
            return self._running.total()

    def submit(self, analyst: str, work: Callable[[], _T]) -> Future[_T]:
        """Let work wait for its turn; raises `QueueFull` or `ShuttingDown`."""
        job = _PoolJob(analyst, work)
        with self._changed:
            if self._closed:
                raise ShuttingDown("the server is shutting down")
            self._admit(analyst)
            self._queues.setdefault(analyst, deque()).append(job)
            self._changed.notify()
        # A future keeps its callbacks. One that held the job, which holds the future, would be a cycle with
        # the result in it, and only the cyclic garbage collector would free that.
        waits = weakref.ref(job)
        job.future.add_done_callback(lambda future: self._withdraw(waits()) if future.cancelled() else None)
        return job.future

    def _admit(self, analyst: str) -> None:
        """Raise `QueueFull` if the queues are full and no thread is free for this analyst's work."""
        if self._most is None and self._most_each is None:
            return
        own = len(self._queues.get(analyst, ()))
        everyone = sum(map(len, self._queues.values()))
        free = len(self._threads) - self._running.total()
        before = sum(min(len(q), self._each - self._running[name]) for name, q in self._queues.items())
        if before < free and own + self._running[analyst] < self._each:
            return
        if self._most_each is not None and own >= self._most_each:
            raise QueueFull(f"{own} statements of yours are waiting already; nothing was charged")
        if self._most is not None and everyone >= self._most:
            raise QueueFull("too many statements of all analysts are waiting; nothing was charged")

    def _withdraw(self, job: _PoolJob[Any] | None) -> None:
        """Take work back that was cancelled while it waited; None: it ran, and nothing holds it any more."""
        with self._changed:
            queue = None if job is None else self._queues.get(job.analyst)
            if job is None or queue is None or job not in queue:
                return
            queue.remove(job)
            if not queue:
                del self._queues[job.analyst]

    def _next(self) -> _PoolJob[Any] | None:
        """Return the next piece of work, and move its analyst behind the others; None if none may run."""
        for analyst in self._queues:
            if self._running[analyst] < self._each:
                queue = self._queues.pop(analyst)
                job = queue.popleft()
                if queue:
                    self._queues[analyst] = queue
                self._running[analyst] += 1
                return job
        return None

    def _work(self) -> None:
        while True:
            with self._changed:
                while (job := self._next()) is None:
                    if self._closed and not self._queues:
                        return
                    self._changed.wait()
            tell = job.run()
            with self._changed:
                self._running[job.analyst] -= 1
                if not self._running[job.analyst]:
                    del self._running[job.analyst]
                if self._closed:  # else what may run now is run by this thread
                    self._changed.notify_all()
            tell()
            del job, tell  # its result may be large

    def close(self, within: float | None = None) -> bool:
        """Take no more work, and return whether all of it has ended within a given number of seconds.

        What waits still runs. None: wait for it, however long it takes. The threads that have not ended then
        do not keep the process alive.
        """
        until = None if within is None else time.monotonic() + within
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)


class Generation:
    """A policy, and what is open for it; it is closed at the end of its last use once retired."""

    def __init__(self, policy: Policy, config: ServeConfig, make_catalog: MakeCatalog) -> None:
        """Open everything; raises `PolicyError` or `OperationalError`."""
        self.policy, self.config = policy, config
        memory = int(available_memory() * config.memory_share)
        self.database = Database(policy, memory=memory, background=True)
        try:
            schema = self.database.engines().schema_database
            self.catalog = make_catalog(policy, schema, config.name)
        except BaseException:
            self.database.close()
            raise
        self.plans = DataCache[Planned](PLANS)
        self.descriptions = DataCache[Description](DESCRIPTIONS)
        self.stored = StoredAnswers()
        self.retired = False
        """Whether another policy is open now: nothing begins on this one."""
        self._lock = threading.Lock()
        self._uses = 0
        self._closed = False

    @property
    def limit(self) -> ResultLimit:
        """The rows and bytes that an answer may have."""
        return ResultLimit(self.config.max_rows, self.config.max_bytes)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Keep what is open for the policy open in this block."""
        with self._lock:
            self._uses += 1
        try:
            yield
        finally:
            with self._lock:
                self._uses -= 1
            if self.retired:
                self._close_unused()

    def retire(self) -> None:
        """Let nothing more begin on this policy."""
        self.retired = True
        self._close_unused()

    def _close_unused(self) -> None:
        with self._lock:
            if not self.retired or self._uses or self._closed:
                return
            self._closed = True
        # A statement may end in the thread of the event loop, which must not wait for engines. A process that
        # ends waits for this thread: inside an engine it could not be stopped.
        threading.Thread(target=self.close, name="dpsql closing").start()

    def close(self) -> None:
        """Close the database and its sessions, and the catalogue."""
        self._closed = True
        self.database.close()
        self.catalog.close()


LIGHT, PLANNING, LONG, FREE = 2, 2, 2, 8
"""Threads for what was planned before; for planning short texts; for planning long ones; for the rest that is
free: public statements, the catalogue, queries over stored releases."""
SHORT = 2_000
"""The most characters of a short text, which does not wait for long ones."""


class Cancellable(Protocol):
    """A statement, or what a client asks now."""

    def cancel(self) -> None:
        """Stop the statement, from any thread."""


class ConnectedClient(Cancellable, Protocol):
    """What others see of a client, and do to it."""

    login: Login
    user: User
    number: int

    def row(self) -> ConnectionRow:
        """Return the client's row of `pg_stat_activity`."""

    def terminate(self) -> None:
        """Let the client's connection end."""


class SharedByClients:
    """The part of the service that clients use. Any thread may use it."""

    def __init__(self, generation: Generation, gate: Gate) -> None:
        config = generation.config
        self.gate = gate
        self.generation = generation
        """The policy that is open now."""
        self.light = FairPool("light", LIGHT)
        self.free = FairPool("public", FREE)
        self._short, self._long = FairPool("planning", PLANNING), FairPool("long planning", LONG)
        self.heavy = FairPool(
            "private", config.max_running, waiting=config.queue, waiting_each=config.queue_per_analyst
        )
        self.closing = False
        """Whether the server runs no further statement."""
        self.ended = threading.Event()
        """Set when the service is closed: nothing waits any more."""
        self.on_statement: Callable[[StatementRecord], None] | None = None
        """Called for each statement that has ended, on any thread."""
        self.counters = Counters()
        self._abandoned: set[Cancellable] = set()
        self._clients: dict[int, ConnectedClient] = {}
        self._lock = threading.Lock()

    def planning_pool(self, size: int) -> FairPool:
        """Return the pool in which texts of so many characters are split into tokens, parsed and analysed.

        Each pool does one piece of an analyst at a time, in turn with those of others: whoever sends long
        texts waits for himself, and nobody waits for them with short ones.
        """
        return self._short if size <= SHORT else self._long

    def record(self, record: StatementRecord, seconds: float) -> None:
        """Count a statement that has ended, and let it be logged."""
        self.counters.count(record.kind, record.outcome, seconds)
        if self.on_statement is not None:
            self.on_statement(record)

    def abandon(self, active: Cancellable, future: Future[object]) -> None:
        """Let a statement run on that nobody awaits any more; the end of the server stops it."""
        with self._lock:
            self._abandoned.add(active)
        future.add_done_callback(lambda _: self._end_abandoned(active))

    def _end_abandoned(self, active: Cancellable) -> None:
        with self._lock:
            self._abandoned.discard(active)

    # -- the clients that are connected; an analyst sees, cancels and ends his own connections alone

    @property
    def clients(self) -> list[ConnectedClient]:
        """The clients that are connected to the server now."""
        with self._lock:
            return list(self._clients.values())

    def clients_of(self, analyst: str) -> list[ConnectedClient]:
        """Return the clients of an analyst."""
        return [each for each in self.clients if each.user.analyst == analyst]

    def add(self, client: ConnectedClient) -> None:
        """Add a client, under its number."""
        with self._lock:
            self._clients[client.number] = client

    def forget(self, client: ConnectedClient) -> None:
        """Remove a client from the list of connected clients, if it is there."""
        with self._lock:
            if self._clients.get(client.number) is client:
                del self._clients[client.number]

    def signal(self, analyst: str, signal: Signal) -> bool:
        """Cancel or end a connection of an analyst; return False if the analyst has no such connection."""
        for client in self.clients_of(analyst):
            if client.number == signal.pid:
                (client.cancel if signal.kind == "cancel" else client.terminate)()
                return True
        return False

    # -- the end

    def shut_down(self) -> None:
        """Let no further statement begin."""
        self.closing = True

    def cancel_all(self) -> None:
        """Stop what runs and what waits, also what nobody awaits any more."""
        with self._lock:
            running: list[Cancellable] = [*self._clients.values(), *self._abandoned]
        for each in running:
            each.cancel()

    def close(self, within: float | None = None) -> bool:
        """Stop everything, and close the pools; return whether all has ended within so many seconds."""
        self.closing = True
        self.ended.set()
        self.cancel_all()
        until = None if within is None else time.monotonic() + within
        pools = (self.light, self._short, self._long, self.heavy, self.free)
        ended = [pool.close(None if until is None else until - time.monotonic()) for pool in pools]
        return all(ended)
