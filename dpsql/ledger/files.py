"""Durable and exclusive use of small files."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from dpsql.kernel.ledger.schema import sync_folder

if sys.platform == "win32":
    import msvcrt

    def lock(handle: int) -> bool:
        """Take the lock of an open file; return whether that was possible at once."""
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Give the lock back."""
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock(handle: int) -> bool:
        """Take the lock of an open file; return whether that was possible at once."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Give the lock back; also where a forked child has inherited the open file."""
        fcntl.flock(handle, fcntl.LOCK_UN)


def replace_durably(path: Path, content: bytes) -> None:
    """Replace a file as a whole, durably; its users hold a lock, so that the draft has one name."""
    draft = path.with_name(f".{path.name}.new")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def append_durably(path: Path, size: int, content: bytes) -> None:
    """Write durably behind the first `size` bytes of a file, of which nothing that follows is kept.

    If that fails, the file is cut to these bytes again as far as that is possible.
    """
    with path.open("r+b", buffering=0) as file:
        try:
            file.truncate(size)
            file.seek(size)
            if file.write(content) != len(content):
                _no_space()
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                file.truncate(size)
            raise


def _no_space() -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
