"""Private folders for an engine's temporary files, removed even after a crash: by the next process.

A folder's owner holds a lock (`flock`) on it until it removes it or its process ends, however that ends. A
folder whose lock is free has no owner and is removed. Where the system has no `flock`, only owners remove.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # tested before each use

__all__ = ["Scratch", "remove_ownerless"]

_PREFIX = "dpsql-scratch-"
_ATTEMPTS = 100


class Scratch:
    """A folder readable by its owner alone; it goes with this object, or with its process."""

    def __init__(self) -> None:
        remove_ownerless()
        self.path, lock = _make()
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder and what is in it; nothing happens the second time."""
        self._finalizer()


def _make() -> tuple[Path, int | None]:
    """Make a folder and lock it; between the two another process may have taken it for nobody's."""
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            lock = _locked(path) if fcntl is not None else None
        except FileNotFoundError:
            continue
        except OSError:  # a file system without locks: nobody can have it there either, so nobody removes it
            return path, None
        if fcntl is None:
            return path, None
        if lock is not None and _is_at(lock, path):
            return path, lock
        if lock is not None:
            os.close(lock)
    raise OSError("no folder for temporary files can be made")


def remove_ownerless() -> None:
    """Remove this user's folders whose processes are gone."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for path in [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]:
            with suppress(OSError):
                _remove_if_ownerless(path)


def _remove_if_ownerless(path: Path) -> None:
    if not _is_mine(os.lstat(path)):
        return
    lock = _locked(path)
    if lock is None:
        return
    try:
        # What is at the path now may be another's: what was locked is what must be there.
        if _is_at(lock, path) and _is_mine(os.fstat(lock)):
            shutil.rmtree(path)
    finally:
        os.close(lock)


def _is_mine(found: os.stat_result) -> bool:
    """Whether it is a real folder of this user, open to nobody else."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _locked(path: Path) -> int | None:
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


def _remove(path: Path, lock: int | None, process: int) -> None:
    """Remove a folder; a forked child leaves its parent's alone."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        with suppress(OSError):
            os.close(lock)
