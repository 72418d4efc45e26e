"""The file of a mark: locked while it is used, and written so that a crash loses nothing of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpsql.errors import OperationalError
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import faults
from dpsql.ledger.files import append_durably, lock, replace_durably, unlock
from dpsql.ledger.mark import Mark

SETTING = (
    '\nHint: the owner names another place in the policy, [budget] high_water = "FILE" (where files stay;'
    " best not on the ledger's volume), or does without: high_water = false"
)


_LONGEST = 1 << 14
"""A file of more bytes, besides those of its totals, is written anew."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A mark as a file has it."""

    mark: Mark
    state: tuple[int, ...]
    """The file's device, number, time of the last change, and size when it was read or written."""
    size: int
    """The bytes of its complete lines."""
    first: int
    """The bytes of its first line."""


class MarkFile:
    """A file that holds a mark; its errors name it only if they are for the owner."""

    def __init__(self, path: Path, name: str = "the mark of the ledger") -> None:
        self.path = path
        self.name = name
        """How errors call it."""

    def named(self) -> MarkFile:
        """Return the same file, which errors name."""
        return MarkFile(self.path, f"the mark {self.path}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from the file; also shows whether it can be written."""
        with self._faults():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with self._faults():
                self._wait(handle)
            try:
                yield
            finally:
                unlock(handle)
        finally:
            os.close(handle)

    def _wait(self, handle: int) -> None:
        deadline = time.monotonic() + faults.BUSY_SECONDS
        while not lock(handle):
            if time.monotonic() > deadline:
                raise OperationalError(
                    f"{self.name} is busy: other processes have held it for {faults.BUSY_SECONDS:g} seconds;"
                    " try again"
                )
            time.sleep(0.002)

    def read(self, known: Kept | None = None) -> Kept | None:
        """Return the mark; None if there is no file. A file that is as it was `known` is not read again."""
        with self._faults():
            try:
                with self.path.open("rb") as file:
                    state = _state(os.fstat(file.fileno()))
                    if known is not None and known.state == state:
                        return known
                    content = file.read()
            except FileNotFoundError:
                return None
        complete = content[: content.rfind(b"\n") + 1]  # a crash may have left a part of a line behind them
        try:
            return Kept(Mark.read(complete.decode()), state, len(complete), complete.find(b"\n") + 1)
        except ValueError:
            raise OperationalError(
                f"{self.name} is damaged: restore it from a backup. Or the owner makes sure that the ledger"
                " is the newest one, and removes the mark"
            ) from None

    def write(self, mark: Mark, kept: Kept | None = None) -> Kept:
        """Write a mark durably in place of the one that is kept: after a crash, the file holds one of both.

        A line is added to the file where that says it, and the file is not long.
        """
        line = None if kept is None else mark.line(kept.mark)
        with self._faults():
            if kept is None or line is None or kept.size > max(_LONGEST, 2 * kept.first):
                size = first = len(mark.text)
                replace_durably(self.path, mark.text.encode())
            else:
                size, first = kept.size + len(line), kept.first
                append_durably(self.path, kept.size, line.encode())
            return Kept(mark, _state(self.path.stat()), size, first)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise OperationalError(
                f"{self.name} cannot be read or written ({problem.strerror}), so nothing is given out"
                + SETTING
            ) from None


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
