"""A process's only connection to the ledger's file: transactions, waiting, threads, forks, errors.

A `RollbackGuard` notices that the file was replaced by an older copy of itself.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from dpsql.errors import Error, InterfaceError, InternalError, OperationalError
from dpsql.kernel.ledger.events import Event, check_newest
from dpsql.kernel.ledger.schema import Migrate, check_present, create, recognise, update
from dpsql.kernel.ledger.totals import DamagedError

_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    # SQLite before 3.51.3 may lose transactions when a commit meets a checkpoint that follows right upon a
    # finished one (its "WAL-reset bug"), so checkpoints are run by us: rarely, and under the write lock.
    "PRAGMA wal_autocheckpoint = 0",
)

BUSY_SECONDS = 5.0
"""How long a charge waits for the ledger while other processes write to it."""

_TEXTS = {
    sqlite3.SQLITE_BUSY: f"is busy: other processes have held it for {BUSY_SECONDS:g} seconds; try again",
    sqlite3.SQLITE_LOCKED: f"is busy: other processes have held it for {BUSY_SECONDS:g} seconds; try again",
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: is there such a folder, and may this user write to it?",
    sqlite3.SQLITE_PERM: "cannot be opened: is there such a folder, and may this user write to it?",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error or is full",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup",
    sqlite3.SQLITE_NOTADB: "is damaged or no ledger of dpsql: restore it, or name another file",
    sqlite3.SQLITE_CONSTRAINT: "is damaged: restore it from a backup",
    sqlite3.SQLITE_TOOBIG: "cannot hold so large a release",
}


def storable(text: str) -> str:
    """Return text that SQLite can store: what is no valid Unicode is written as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _code(error: sqlite3.Error) -> int:
    # Errors that Python's own module raises carry no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock, so that waiting helps."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def faults(path: Path) -> Iterator[None]:
    """Raise errors of the file as `OperationalError`; dpsql's own errors stay as they are.

    They name the file without its folder: a server's analysts read them.
    """
    try:
        yield
    except Error:
        raise
    except sqlite3.Error as error:
        text = _TEXTS.get(_code(error), "cannot be used: is it damaged?")
        raise OperationalError(f"the ledger {path.name} {text}") from None
    except DamagedError as problem:
        text = f"the ledger {path.name} is damaged: {problem}; restore it from a backup"
        raise OperationalError(text) from None
    except OSError as error:
        raise OperationalError(f"the ledger {path.name} cannot be used: {error.strerror}") from None


class Store:
    """A ledger's file, opened for one policy; safe for threads, forks, and other processes."""

    def __init__(self, path: Path, policy_id: str, migrate: Migrate, *, trusting: bool = False) -> None:
        """Open the file, making a new one if there is none.

        `trusting`: open it although its newest event does not fit the rest of the file, to find out more.
        """
        self.path = path
        self._policy_id = policy_id
        self._migrate = migrate
        self._trusting = trusting
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._file: tuple[int, int] | None = None
        self._inside = False
        self._closed = False
        _STORES.add(self)
        with faults(path):
            self.created = create(path, policy_id)
            """Whether there was no file before."""
        with self.write() as connection:
            # Shows at once whether the file can be written; to begin a transaction does not.
            connection.execute("UPDATE setting SET value = value")

    def close(self) -> None:
        """Close the file; nothing but `close` may be called afterwards."""
        if os.getpid() != self._process:
            self._set_inherited_aside()
        with self._lock:
            self._closed = True
            self._drop()

    def __del__(self) -> None:
        """Close the connection of a store that nobody uses any more; one that a fork left here stays open."""
        connection: sqlite3.Connection | None = getattr(self, "_connection", None)
        if connection is None:
            return
        if os.getpid() == self._process:
            self._drop()
        else:
            _SET_ASIDE.append(connection)

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """Yield a connection in a read transaction, which sees one state of the ledger."""
        return self._transaction("BEGIN")

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        """Yield a connection in an exclusive write transaction, which is durable when the block ends."""
        return self._transaction("BEGIN IMMEDIATE")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._process:
            self._set_inherited_aside()
        with self._lock, faults(self.path):
            if self._closed:
                raise InterfaceError("the ledger is closed")
            if self._inside:
                raise InternalError("the ledger was entered twice by one thread")
            self._inside = True
            connection: sqlite3.Connection | None = None
            try:
                connection = self._begin(begin)
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                self._roll_back(error)
                raise
            finally:
                self._inside = False

    def _begin(self, begin: str) -> sqlite3.Connection:
        """Start a transaction, waiting while the ledger is busy."""
        # SQLite's own waiting sleeps ever longer, up to 100 ms, and starves one of many busy processes.
        deadline = time.monotonic() + BUSY_SECONDS
        pause = 0.0005
        while True:
            try:
                connection = self._connect_to_current()
                connection.execute(begin)
                check_present(connection, self.path)  # BEGIN alone takes no snapshot: what is read first does
            except sqlite3.Error as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                self._undo()
            else:
                return connection
            time.sleep(pause)
            pause = min(2 * pause, 0.008)

    def _connect_to_current(self) -> sqlite3.Connection:
        """Return the connection to the file that is at the path now."""
        found = os.stat(self.path)
        file = (found.st_dev, found.st_ino)
        if self._connection is not None:
            if file == self._file:
                return self._connection
            self._drop()
            raise OperationalError(f"the ledger {self.path.name} was replaced while it was in use")
        uri = f"{self.path.as_uri()}?mode=rw"
        connection = sqlite3.connect(
            uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._file = connection, file
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        recognise(connection, self.path, self._policy_id)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise OperationalError(f"the ledger {self.path.name} is on a file system without shared memory")
        update(connection, self._migrate)
        if not self._trusting:
            check_newest(connection)

    def _roll_back(self, error: BaseException) -> None:
        """Roll the transaction back; after an SQLite error, also close the connection."""
        self._undo()
        if isinstance(error, sqlite3.Error):
            self._drop()

    def _undo(self) -> None:
        connection = self._connection
        if connection is not None and connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def checkpoint(self) -> None:
        """Move the log into the file; the log is durable by itself, so errors are ignored."""
        with self._lock, suppress(sqlite3.Error):
            if self._connection is not None and not self._inside:
                # Waits for the write lock, and then keeps others from committing meanwhile.
                self._connection.execute("PRAGMA busy_timeout = 1000")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._connection.execute("PRAGMA busy_timeout = 0")

    def before_fork(self) -> None:
        """Close the connection: SQLite's connections may not be used in another process."""
        self._lock.acquire()
        self._drop()

    def after_fork(self, *, child: bool) -> None:
        """Make the store usable after a fork, in the parent or in the child."""
        if child:
            self._lock = threading.RLock()
            self._process = os.getpid()
            self._inside = False
        else:
            self._lock.release()

    def _set_inherited_aside(self) -> None:
        """Set aside a connection inherited through a fork that did not run Python's fork hooks.

        It may not even be closed: that would remove the parent's locks and its log.
        """
        if self._connection is not None:
            _SET_ASIDE.append(self._connection)
        self._connection = None
        self.after_fork(child=True)


class RollbackGuard(Protocol):
    """Notices that a ledger's file was replaced by an older copy of itself, by what it keeps elsewhere."""

    def hold(self, connection: sqlite3.Connection) -> None:
        """Prepare for an event that `cover` is called for, or that comes before one, in its transaction."""

    def cover(self, store: Store, event: Event) -> None:
        """Keep that the ledger has an event; only then may anybody be shown what it stored."""


_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_SET_ASIDE: list[sqlite3.Connection] = []
_held: list[Store] = []


def _before_fork() -> None:
    _held[:] = list(_STORES)
    for store in _held:
        store.before_fork()


def _after_fork(*, child: bool) -> None:
    for store in _held:
        store.after_fork(child=child)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(child=False),
        after_in_child=lambda: _after_fork(child=True),
    )
