"""One policy as it is open: its database, its catalogue, its plans. A reload makes another one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpsql.database import Database
from dpsql.engines import ResultLimit
from dpsql.engines.memory import available
from dpsql.serve.statement_caches import DESCRIPTIONS, PLANS, DataCache, Description, Planned, StoredAnswers

if TYPE_CHECKING:
    from dpsql.policy import Policy, ServeConfig
    from dpsql.serve.catalog.catalog import MakeCatalog


class Generation:
    """A policy, and what is open for it; it is closed at the end of its last use once retired."""

    def __init__(self, policy: Policy, config: ServeConfig, make_catalog: MakeCatalog) -> None:
        """Open everything; raises `PolicyError` or `OperationalError`."""
        self.policy, self.config = policy, config
        self.database = Database(policy, memory=int(available() * config.memory_share), background=True)
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
        """Keep it open in this block."""
        with self._lock:
            self._uses += 1
        try:
            yield
        finally:
            with self._lock:
                self._uses -= 1
            self._close_unused()

    def retire(self) -> None:
        """Let nothing more begin on it."""
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
