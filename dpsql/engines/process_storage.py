"""What a process keeps for its engines: exact counts in memory, and private folders for temporary files.

Memory: how much there is follows from the machine, or from the control groups of this process.

Folders: the owner of a folder (`Scratch`) holds a lock (`flock`) on it until it removes the folder or its
process ends, for whatever reason. A folder whose lock is free has no owner and is removed. On systems without
`flock` a folder is removed by its owner only.

Counts: kept counts (`KeptCounts`) belong to the engines that counted them, so to one policy and one version
of the data. They are never written anywhere, and they are overwritten when they are dropped, unless a
statement still uses them.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dpsql.analysis import CompiledQuery
from dpsql.engines.worker import run_in_thread, running_statement
from dpsql.errors import OperationalError
from dpsql.kernel.charged_work import CANCELLED, FAILED
from dpsql.kernel.counts import Counts, Wanted
from dpsql.kernel.kept import KeptCopy
from dpsql.kernel.ledger.limits import OwnerProcess
from dpsql.kernel.rows_first import KeptFew, is_few, keep_few
from dpsql.lazy_dataclass import dataclass

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # tested before each use

_GROUPS = Path("/sys/fs/cgroup")
_PREFIX = "dpsql-scratch-"
_SHAPES, _TIMES = 256, 2
"""For how many groups it is known how often they were asked for; after so many times all are counted."""
_ATTEMPTS = 100
"""How often a folder is made anew where another process removes it before it is locked."""


def available_memory(root: Path = _GROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Return the bytes of the machine's memory, or the least limit of the control groups of this process."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_group_limits(root, membership)])


def _group_limits(root: Path, membership: Path) -> Iterator[int]:
    """Yield the limits of the process's group, and of those around it."""
    text = ""
    with suppress(OSError):
        text = membership.read_text()
    for line in text.splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        top = root if controllers == "" else root / "memory"
        file = "memory.max" if controllers == "" else "memory.limit_in_bytes"
        folder = top / name.lstrip("/")
        for each in (folder, *folder.parents):
            with suppress(OSError, ValueError):
                yield int((each / file).read_text())
            if each == top:
                break


class Scratch:
    """A folder readable by its owner alone; it is removed with this object, or when its process ends."""

    def __init__(self) -> None:
        remove_ownerless()
        self.path, lock = _make_folder()
        self._finalizer = weakref.finalize(self, _remove_folder, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder and its contents; a second call has no effect."""
        self._finalizer()


def _make_folder() -> tuple[Path, int | None]:
    """Make a folder and lock it; try again if another process removed it in between as ownerless."""
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            lock = _try_lock(path) if fcntl is not None else None
        except FileNotFoundError:
            continue
        except OSError:  # a file system without locks: no process can lock the folder, so none removes it
            return path, None
        if fcntl is None:
            return path, None
        if lock is not None and _is_at(lock, path):
            return path, lock
        if lock is not None:
            os.close(lock)
    raise OSError("no folder for temporary files can be made")


def remove_ownerless() -> None:
    """Remove this user's folders whose processes have ended."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for path in [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]:
            with suppress(OSError):
                _remove_if_ownerless(path)


def _remove_if_ownerless(path: Path) -> None:
    if not _is_mine(os.lstat(path)):
        return
    lock = _try_lock(path)
    if lock is None:
        return
    try:
        # Another folder may be at the path now; only the one that was locked is removed.
        if _is_at(lock, path) and _is_mine(os.fstat(lock)):
            shutil.rmtree(path)
    finally:
        os.close(lock)


def _is_mine(found: os.stat_result) -> bool:
    """Whether it is a folder (no link) of this user to which no other user has access."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _try_lock(path: Path) -> int | None:
    """Open a folder, following no symbolic link, and lock it; None if another process has the lock."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return handle


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open folder is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _remove_folder(path: Path, lock: int | None, process: int) -> None:
    """Remove a folder, unless this is a forked child of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        with suppress(OSError):
            os.close(lock)


class KeptCounts:
    """The counts of the compiled queries used last, as far as they fit into a number of bytes.

    Threads may use it at once. What it returns is read-only: statements share it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._owner_process = OwnerProcess("database")
        # A finalizer may close it while its own thread is in here.
        self._lock = threading.RLock()
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._number = 0
        """The number of the newest entry."""
        self._size = 0
        self._closed = False
        self._asked: OrderedDict[object, int] = OrderedDict()
        """How many statements that need few groups have asked for groups."""

    @property
    def size(self) -> int:
        """How many bytes of counts are kept."""
        return self._size

    def __len__(self) -> int:
        return len(self._entries)

    def fits(self, compiled: CompiledQuery) -> bool:
        """Whether the counts of a compiled query may fit, as far as it is known before they are counted."""
        groups = None if compiled.groups is None else compiled.groups.size
        columns = len(compiled.keys) + compiled.counts + len(compiled.places)
        return 8 * columns * (groups or 1) <= self._limit

    def is_asked_often(self, compiled: CompiledQuery) -> bool:
        """Return whether all counts of a query are worth counting, after many statements for few of them."""
        counted = CountedColumns.of(compiled)
        with self._lock:
            times = self._asked[counted.shape] = self._asked.pop(counted.shape, 0) + 1
            if len(self._asked) > _SHAPES:
                self._asked.popitem(last=False)
        return times > _TIMES

    def find_few(self, compiled: CompiledQuery) -> KeptFew | None:
        """Return the kept counts of a query of which only few groups were counted; None if not kept."""
        counted = CountedColumns.of(compiled)
        order = None if compiled.order is None else compiled.order.terms
        numbers = tuple(range(compiled.counts))
        wanted = Wanted(numbers, counted.places, None, compiled.certificate, order)
        with self._lock:
            for number, entry in self._entries.items():
                if entry.few and entry.counted == counted:
                    self._entries.move_to_end(number)
                    return KeptFew.of(entry.copy, wanted)
        return None

    def find(self, compiled: CompiledQuery) -> Counts | None:
        """Return the kept counts of a compiled query; None if there are none.

        A statement that was cancelled, or whose time is over, ends as it would in the engine.
        """
        self._owner_process.check()  # before the lock: another thread may have held it at a fork
        wanted = CountedColumns.of(compiled)
        with self._lock:
            every = ((n, entry) for n, entry in self._entries.items() if not entry.few)
            number = next((n for n, entry in every if wanted <= entry.counted), None)
            if number is None:
                return None
            self._entries.move_to_end(number)
            counts = self._entries[number].counts(compiled)
        found = run_in_thread(lambda: counts, lambda: None, lambda _: False, CANCELLED)
        if found is None:
            raise OperationalError(FAILED)
        return found

    def keep(self, compiled: CompiledQuery, counts: Counts) -> None:
        """Keep a copy of the counts that an engine returned for a compiled query, all or few."""
        self._owner_process.check()
        with running_statement() as statement:
            if self._closed or statement.cancelled or statement.failed or statement.timed_out:
                return
        few = is_few(counts)
        copy = keep_few(counts, self._limit) if few else KeptCopy.of(counts, self._limit)
        if copy is None:
            return
        entry = _Entry(CountedColumns.of(compiled), copy, few)
        with self._lock:
            if self._closed or copy.size > self._limit:
                copy.wipe()
                return
            for number in [n for n, other in self._entries.items() if other.counted <= entry.counted]:
                self._drop(number)
            self._number += 1
            self._entries[self._number] = entry
            self._size += copy.size
            while self._size > self._limit:
                self._drop(next(iter(self._entries)))

    def _drop(self, number: int) -> None:
        entry = self._entries.pop(number)
        self._size -= entry.copy.size
        entry.copy.wipe()

    def close(self) -> None:
        """Drop everything, and keep nothing more; what no statement uses is overwritten with zeros."""
        if not self._owner_process.in_own_process:
            return
        with self._lock:
            self._closed = True
            for number in list(self._entries):
                self._drop(number)


@dataclass(frozen=True, slots=True)
class CountedColumns:
    """What the columns of counts are; `a <= b` says that counts `a` can be taken from counts `b`."""

    shape: object
    """The rows and the groups, or the SQL of a query that is counted alone."""
    numbers: tuple[object, ...]
    places: tuple[str, ...]
    limit: int | None

    @classmethod
    def of(cls, compiled: CompiledQuery) -> CountedColumns:
        """Return the columns that a compiled query counts."""
        groups = compiled.groups
        if groups is None:
            return cls(compiled.sql, tuple(range(compiled.counts)), compiled.places, None)
        return cls((groups.shape, compiled.tables), groups.numbers, compiled.places, groups.limit)

    def __le__(self, other: CountedColumns) -> bool:
        return (
            self.shape == other.shape
            and set(self.numbers) <= set(other.numbers)
            and set(self.places) <= set(other.places)
            and (self.limit or 0) <= (other.limit or 0)
        )

    def take(self, counts: Counts | KeptCopy, compiled: CompiledQuery) -> Counts:
        """Extract the counts that a compiled query needs from counts that include them."""
        wanted = CountedColumns.of(compiled)
        numbers = tuple(self.numbers.index(n) for n in wanted.numbers)
        order = None if compiled.order is None else compiled.order.terms
        return counts.take(Wanted(numbers, wanted.places, wanted.limit, compiled.certificate, order))


@dataclass(frozen=True, slots=True)
class _Entry:
    counted: CountedColumns
    copy: KeptCopy
    few: bool
    """Whether few groups are counted: then the rows of all are kept, too."""

    def counts(self, compiled: CompiledQuery) -> Counts:
        """Return the counts of a compiled query out of those that are kept."""
        return self.counted.take(self.copy, compiled)


def take_counts(counts: Counts, query: CompiledQuery, compiled: CompiledQuery) -> Counts:
    """Return the counts of the query `compiled` from the counts of `query`, which includes them."""
    return CountedColumns.of(query).take(counts, compiled)
