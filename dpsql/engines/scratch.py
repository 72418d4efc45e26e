"""Private folders for an engine's temporary files; the next process removes those left by a crash.

The owner of a folder holds a lock (`flock`) on it until it removes the folder or its process ends, for
whatever reason. A folder whose lock is free has no owner and is removed. On systems without `flock` a folder
is removed by its owner only.
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


_PREFIX = "dpsql-scratch-"
_ATTEMPTS = 100


class Scratch:
    """A folder readable by its owner alone; it is removed with this object, or when its process ends."""

    def __init__(self) -> None:
        remove_ownerless()
        self.path, lock = _make()
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder and its contents; a second call has no effect."""
        self._finalizer()


def _make() -> tuple[Path, int | None]:
    """Make a folder and lock it; try again if another process removed it in between as ownerless."""
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            lock = _locked(path) if fcntl is not None else None
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
    lock = _locked(path)
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
    """Remove a folder, unless this is a forked child of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        with suppress(OSError):
            os.close(lock)
