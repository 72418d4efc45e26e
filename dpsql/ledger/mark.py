"""The mark of a ledger: its newest event and its totals, kept in a file that does not lie with the ledger.

A ledger that was replaced by an older copy of itself is sound in itself. Only something outside of it tells
that charges are missing. The text of a mark is one line of JSON, and one more line for each newer event, with
the totals that it changed. Its file is the one that the policy names, or one in the user's folder for state;
it is locked while it is used, and written so that a crash loses nothing of it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from dpsql.errors import OperationalError
from dpsql.kernel.ledger import store
from dpsql.kernel.ledger.events import Event, canonical
from dpsql.kernel.ledger.schema import sync_folder
from dpsql.kernel.ledger.totals import Row
from dpsql.lazy_dataclass import dataclass

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
        """Release the lock of the mark's file."""
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


SETTING = (
    '\nHint: the owner names another place in the policy, [budget] high_water = "FILE" (where files stay;'
    " best not on the ledger's volume), or does without: high_water = false"
)

_LONGEST = 1 << 14
"""A file of more bytes, besides those of its totals, is written anew."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What the mark of a ledger has: the newest event and the totals that it had seen."""

    ledger: str
    """The random identifier of the ledger."""
    path: str
    """Where the ledger was."""
    holder: str
    """The random identifier of this mark: other users of the ledger may have marks of their own."""
    event: Event
    """The ledger's newest event."""
    begun: tuple[Event, ...]
    """The latest events after which another mark than before was kept, the newest last."""
    totals: Mapping[str, Row]
    """The totals of its scopes."""

    @property
    def text(self) -> str:
        """The first line of the file."""
        return canonical({"mark of a dpsql ledger": 1, **asdict(self)}) + "\n"

    def line(self, before: Mark) -> str | None:
        """Return the line that makes this mark of another one; None if more than events and totals differ."""
        kept = replace(before, event=self.event, totals=self.totals)
        if kept != self or not before.totals.keys() <= self.totals.keys():
            return None
        changed = {name: total for name, total in self.totals.items() if before.totals.get(name) != total}
        event = {"n": self.event.n, "hash": self.event.hash}
        return canonical({"event": event, "totals": changed}) + "\n"

    @classmethod
    def read(cls, text: str) -> Mark:
        """Read complete lines of the file; `ValueError` if they are none of a mark."""
        first, *later = text.splitlines() or [""]
        mark = cls._first(first)
        event, totals = mark.event, dict(mark.totals)
        try:
            for line in later:
                found = json.loads(line)
                event = Event(**found["event"])
                totals.update({str(name): _read_total(total) for name, total in found["totals"].items()})
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError("no mark") from problem
        return replace(mark, event=event, totals=totals)

    @classmethod
    def _first(cls, text: str) -> Mark:
        try:
            found: dict[str, Any] = json.loads(text)
            if found.pop("mark of a dpsql ledger") != 1:
                raise ValueError("another version")
            totals = {str(name): _read_total(total) for name, total in found.pop("totals").items()}
            event, begun = Event(**found.pop("event")), tuple(Event(**each) for each in found.pop("begun"))
            return cls(**found, event=event, begun=begun, totals=totals)
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError("no mark") from problem


def _read_total(values: list[str | None]) -> Row:
    epsilon, delta, cost, alpha = values
    if delta is None:
        raise ValueError("a total without a delta")
    return epsilon, delta, cost, alpha


@dataclass(frozen=True, slots=True)
class StoredMark:
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

    def for_owner(self) -> MarkFile:
        """Return the same file, which errors name."""
        return MarkFile(self.path, f"the mark {self.path}")

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
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
        deadline = time.monotonic() + store.BUSY_SECONDS
        while not lock(handle):
            if time.monotonic() > deadline:
                raise OperationalError(
                    f"{self.name} is busy: other processes have held it for {store.BUSY_SECONDS:g} seconds;"
                    " try again"
                )
            time.sleep(0.002)

    def read(self, known: StoredMark | None = None) -> StoredMark | None:
        """Return the mark; None if there is no file. A file that is as it was `known` is not read again."""
        with self._faults():
            try:
                with self.path.open("rb") as file:
                    state = _file_state(os.fstat(file.fileno()))
                    if known is not None and known.state == state:
                        return known
                    content = file.read()
            except FileNotFoundError:
                return None
        complete = content[: content.rfind(b"\n") + 1]  # a crash may have left a part of a line behind them
        try:
            return StoredMark(Mark.read(complete.decode()), state, len(complete), complete.find(b"\n") + 1)
        except ValueError:
            raise OperationalError(
                f"{self.name} is damaged: restore it from a backup. Or the owner makes sure that the ledger"
                " is the newest one, and removes the mark"
            ) from None

    def write(self, mark: Mark, kept: StoredMark | None = None) -> StoredMark:
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
            return StoredMark(mark, _file_state(self.path.stat()), size, first)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise OperationalError(
                f"{self.name} cannot be read or written ({problem.strerror}), so nothing is given out"
                + SETTING
            ) from None


def _file_state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


class MarkPlace(Protocol):
    """Finds the file of a ledger's mark."""

    def file(self, ledger: str) -> MarkFile:
        """Return the file for the ledger with an identifier."""

    def at(self, path: Path) -> Mark | None:
        """Return the mark of the ledger that was at a path, if one was."""

    def keep(self, ledger: str, path: Path) -> None:
        """Remember that the ledger with an identifier is at a path; the mark's file is locked."""


class NamedPlace:
    """The file that a policy names."""

    def __init__(self, path: Path) -> None:
        self._file = MarkFile(path)

    def file(self, ledger: str) -> MarkFile:
        """Return the file of the mark of a ledger."""
        return self._file

    def at(self, path: Path) -> Mark | None:
        """Return the mark, whatever ledger it is of."""
        return _read_mark(self._file)

    def keep(self, ledger: str, path: Path) -> None:
        """Do nothing: the file is found without that."""


class StateFolder:
    """A folder with the marks of all ledgers of a user.

    It has a file for each ledger, by its identifier, and one for each place of a ledger, which says what
    ledger was there: a ledger that is missing cannot tell its identifier.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, ledger: str) -> MarkFile:
        """Return the file for the ledger with an identifier."""
        return MarkFile(self._folder / f"{ledger}.mark")

    def at(self, path: Path) -> Mark | None:
        """Return the mark of the ledger that was at a path, unless it was opened elsewhere since."""
        try:
            ledger = self._place(path).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise _unusable(self._folder, problem) from None
        mark = _read_mark(self.file(ledger)) if ledger.isalnum() else None
        return mark if mark is not None and mark.path == str(path) else None

    def keep(self, ledger: str, path: Path) -> None:
        """Remember that the ledger with an identifier is at a path."""
        place = self._place(path)
        try:
            if not place.exists() or place.read_text(encoding="ascii").strip() != ledger:
                replace_durably(place, f"{ledger}\n".encode())
        except OSError as problem:
            raise _unusable(self._folder, problem) from None

    def _place(self, path: Path) -> Path:
        return self._folder / f"at-{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}"


def _read_mark(file: MarkFile) -> Mark | None:
    kept = file.for_owner().read()
    return None if kept is None else kept.mark


def mark_place(chosen: Path | None) -> MarkPlace:
    """Return the place that a policy has chosen, or the user's folder for state."""
    return StateFolder(state_folder() / "dpsql" / "ledgers") if chosen is None else NamedPlace(chosen)


def state_folder() -> Path:
    """Return the folder in which programs of this user keep state."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given)
    local = os.environ.get("LOCALAPPDATA", "")
    if sys.platform == "win32" and local:
        return Path(local)
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError:
        raise OperationalError(
            "the mark of the ledger has no place: this user has no home folder, so nothing is given out"
            + SETTING
        ) from None


def _unusable(folder: Path, problem: OSError) -> OperationalError:
    return OperationalError(
        f"the folder {folder} for the marks of ledgers cannot be read or written ({problem.strerror}), so"
        f" nothing is given out{SETTING}"
    )
