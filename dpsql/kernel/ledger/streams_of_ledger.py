"""`StreamsOfLedger`: the lasting streams of a ledger, for the threads of one process."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal
from weakref import WeakValueDictionary

from dpsql.errors import InternalError, OperationalError, ProgrammingError
from dpsql.kernel.facts import Facts
from dpsql.kernel.ledger import lasting_streams
from dpsql.kernel.ledger.caps import LastCaps
from dpsql.kernel.ledger.lasting_streams import (
    BegunCheck,
    CheckRequest,
    StoredCheck,
    StoredStream,
    StreamTerms,
)
from dpsql.kernel.ledger.renewal_rows import find_last
from dpsql.kernel.ledger.renewals import find_current
from dpsql.kernel.ledger.store import RollbackGuard, Store, storable

_RUNNING: Final = WeakValueDictionary[tuple[Path, int, int], BegunCheck]()
"""The checks that this process runs, by file, entry and step; one that nobody holds runs no more."""


class StreamsOfLedger:
    """The streams of a ledger; each method is one transaction, and durable when it returns."""

    def __init__(
        self,
        store: Store,
        caps: LastCaps,
        guard: RollbackGuard,
        adopt_facts: Callable[[sqlite3.Connection, Facts | None], None],
    ) -> None:
        self._store, self._caps, self._guard, self._adopt = store, caps, guard, adopt_facts

    def open(
        self,
        analyst: str,
        terms: StreamTerms,
        make_seal: Callable[[int, int, str], str],
        facts: Facts | None,
        *,
        refill: bool = False,
    ) -> StoredStream:
        """Charge all of a stream in every scope and open it, as `open_stream` does."""
        kept = replace(terms, statement=storable(terms.statement), name=storable(terms.name))
        with self._store.write() as connection:
            self._guard.hold(connection)
            self._adopt(connection, facts)
            found, event = lasting_streams.open_stream(
                connection,
                self._caps.find(connection),
                analyst,
                kept,
                make_seal,
                refill=refill,
                is_running=self._runs,
            )
        self._guard.cover(self._store, event)
        return found

    def begin(self, entry: int, request: CheckRequest, facts: Facts | None) -> BegunCheck:
        """Begin a check; `StreamBusy` if another one runs."""
        asked = replace(request, statement=storable(request.statement))
        with self._store.write() as connection:
            self._adopt(connection, facts)
            if entry <= find_last(connection).entry:
                self._refuse_earlier(connection, entry)
            begun = lasting_streams.begin(connection, self._caps.find(connection), entry, asked, self._runs)
            # Before the row can be seen: another thread would take the check for an interrupted one.
            _RUNNING[self._store.path, entry, begun.step] = begun
        return begun

    def finish(self, begun: BegunCheck, used: int, payload: bytes) -> None:
        """End a check and store its result; only then may anybody see it."""
        with self._ends(begun), self._store.write() as connection:
            self._guard.hold(connection)
            event = lasting_streams.finish(connection, begun, used, payload)
        self._guard.cover(self._store, event)

    def fail(self, begun: BegunCheck, *, failed: bool) -> None:
        """End a check that has no result: its miss stays charged."""
        with self._ends(begun), self._store.write() as connection:
            lasting_streams.fail(connection, begun, failed=failed)

    def close(self, entry: int, *, by_owner: bool = False) -> StoredStream:
        """Settle a stream; `StreamBusy` if a check of it runs."""
        with self._store.write() as connection:
            self._guard.hold(connection)
            event = lasting_streams.close(connection, entry, self._runs, by_owner=by_owner)
            found = lasting_streams.find_entry(connection, entry)
        self._guard.cover(self._store, event)
        if found is None:
            raise InternalError("a stream is gone")
        return found

    def close_all(self, connection: sqlite3.Connection) -> None:
        """Settle all open streams, within a transaction: their budget starts anew.

        One of which a check runs, or may run, stays open, and `begin` refuses further ones.
        """
        for stream in lasting_streams.list_streams(connection, None):
            if stream.state == "open":
                with suppress(OperationalError):
                    lasting_streams.close(connection, stream.entry, self._runs)

    def find(self, analyst: str, name: str) -> StoredStream | None:
        """Return an analyst's latest stream of a name."""
        with self._store.read() as connection:
            found = lasting_streams.find(connection, analyst, storable(name))
            return None if found is None else self._see_renewal(connection, found)

    def list(self, analyst: str | None = None) -> list[StoredStream]:
        """Return the latest stream of each name, of an analyst or of all."""
        with self._store.read() as connection:
            found = lasting_streams.list_streams(connection, analyst)
            return [self._see_renewal(connection, each) for each in found]

    def has_other_open(self, analyst: str, name: str) -> bool:
        """Return whether another stream than that of an analyst and a name is open."""
        with self._store.read() as connection:
            return lasting_streams.has_open(connection, (analyst, storable(name)))

    def find_answer(self, stream: StoredStream, key: str) -> StoredCheck | None:
        """Return what a check with this key was answered in this round of the stream."""
        with self._store.read() as connection:
            found = lasting_streams.find_check(connection, [stream.entry], "key", key)
        return self._cover(found)

    def find_last(self, stream: StoredStream, series: str | None = None) -> StoredCheck | None:
        """Return the latest answered check of a series, in any round of the stream; without one, of all."""
        with self._store.read() as connection:
            rounds = lasting_streams.list_rounds(connection, stream.analyst, stream.terms.name)
            column: Literal["series", "state"] = "state" if series is None else "series"
            found = lasting_streams.find_check(connection, rounds, column, series or "answered")
        return self._cover(found)

    def _see_renewal(self, connection: sqlite3.Connection, stream: StoredStream) -> StoredStream:
        """Return a stream with whether the budget has started anew since it was opened, or would now."""
        renewal = find_current(connection, self._caps.own.renewal)
        renewed = stream.entry <= find_last(connection).entry or (renewal is not None and renewal.is_over)
        return replace(stream, renewed=renewed)

    def _refuse_earlier(self, connection: sqlite3.Connection, entry: int) -> None:
        stream = lasting_streams.find_entry(connection, entry)
        name = "it" if stream is None else stream.terms.name
        raise ProgrammingError(
            f"the budget has started anew since the stream was opened: REFILL STREAM {name} charges it again"
        )

    def _cover(self, found: StoredCheck | None) -> StoredCheck | None:
        if found is not None:
            self._guard.cover(self._store, found.event)
        return found

    def _runs(self, entry: int, step: int) -> bool:
        return (self._store.path, entry, step) in _RUNNING

    @contextmanager
    def _ends(self, begun: BegunCheck) -> Iterator[None]:
        try:
            yield
        finally:
            _RUNNING.pop((self._store.path, begun.stream.entry, begun.step), None)
