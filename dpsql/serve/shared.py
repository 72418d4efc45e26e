"""What all clients share: the policy that is open, the pools, the counts of statements."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from dpsql.serve.admission import FairPool
from dpsql.serve.figures import Counters, StatementRecord

if TYPE_CHECKING:
    from dpsql.serve.active import Active
    from dpsql.serve.gate import Gate
    from dpsql.serve.generation import Generation

LIGHT, PLANNING, LONG, FREE = 2, 2, 2, 8
"""Threads for what was planned before; for planning short texts; for planning long ones; for the rest that is
free: public statements, the catalogue, queries over stored releases."""
SHORT = 2_000
"""The most characters of a short text, which does not wait for long ones."""


class Shared:
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
        self._abandoned: set[Active] = set()
        self._lock = threading.Lock()

    @property
    def pools(self) -> tuple[FairPool, ...]:
        """All pools of threads."""
        return self.light, self._short, self._long, self.heavy, self.free

    def planning(self, size: int) -> FairPool:
        """Return the pool in which texts of so many characters are split into tokens, parsed and analysed.

        Each pool does one piece of an analyst at a time, in turn with those of others: whoever sends long
        texts waits for himself, and nobody waits for them with short ones.
        """
        return self._short if size <= SHORT else self._long

    def abandon(self, active: Active, future: Future[object]) -> None:
        """Let a statement run on that nobody awaits any more; the end of the server stops it."""
        with self._lock:
            self._abandoned.add(active)
        future.add_done_callback(lambda _: self._ended(active))

    def _ended(self, active: Active) -> None:
        with self._lock:
            self._abandoned.discard(active)

    def cancel_abandoned(self) -> None:
        """Stop what nobody awaits any more."""
        with self._lock:
            found = list(self._abandoned)
        for each in found:
            each.cancel()

    def record(self, record: StatementRecord, seconds: float) -> None:
        """Count a statement that has ended, and let it be logged."""
        self.counters.count(record.kind, record.outcome, seconds)
        if self.on_statement is not None:
            self.on_statement(record)
