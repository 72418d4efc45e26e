"""The mark of a ledger: its newest event and its totals, in a file that does not lie with the ledger.

A ledger that was replaced by an older copy of itself is sound in itself. Only something outside of it tells
that charges are missing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpsql.errors import OperationalError
from dpsql.ledger import faults
from dpsql.ledger.events import Event, Total, canonical
from dpsql.ledger.files import lock, replace_durably, unlock

SETTING = (
    '\nHint: the owner names another place in the policy, [budget] high_water = "FILE" (where files stay;'
    " best not on the ledger's volume), or does without: high_water = false"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a mark says."""

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
    totals: Mapping[str, Total]
    """The totals of its scopes."""

    @property
    def text(self) -> str:
        """The content of the file."""
        return canonical({"mark of a dpsql ledger": 1, **asdict(self)}) + "\n"

    @classmethod
    def read(cls, text: str) -> Mark:
        """Read the content of the file; `ValueError` if it is none."""
        try:
            found: dict[str, Any] = json.loads(text)
            if found.pop("mark of a dpsql ledger") != 1:
                raise ValueError("another version")
            totals = {str(name): _total(total) for name, total in found.pop("totals").items()}
            event, begun = Event(**found.pop("event")), tuple(Event(**each) for each in found.pop("begun"))
            return cls(**found, event=event, begun=begun, totals=totals)
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError("no mark") from problem


def _total(values: list[str | None]) -> Total:
    epsilon, delta, cost, alpha = values
    if delta is None:
        raise ValueError("a total without a delta")
    return epsilon, delta, cost, alpha


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

    def read(self) -> Mark | None:
        """Return the mark; None if there is no file."""
        with self._faults():
            try:
                text = self.path.read_bytes()
            except FileNotFoundError:
                return None
        try:
            return Mark.read(text.decode())
        except ValueError:
            raise OperationalError(
                f"{self.name} is damaged: restore it from a backup. Or the owner makes sure that the ledger"
                " is the newest one, and removes the mark"
            ) from None

    def write(self, mark: Mark) -> None:
        """Replace the file durably: after a crash it holds the old mark or the new one."""
        with self._faults():
            replace_durably(self.path, mark.text.encode())

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise OperationalError(
                f"{self.name} cannot be read or written ({problem.strerror}), so nothing is given out"
                + SETTING
            ) from None
