"""A guard of connections, sessions and streams: one process, and one caller at a time."""

from __future__ import annotations

import threading

from dpsql.errors import InterfaceError
from dpsql.kernel.ledger.process_identity import OwnerProcess


class Turn(OwnerProcess):
    """A lock for `with` blocks: other threads wait, a second entry by the same thread is refused.

    The same thread can enter again from a signal handler, a finalizer or a callback, in the middle of a
    statement whose state is not yet recorded.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._lock = threading.RLock()
        self._taken = False

    def __enter__(self) -> None:
        self.check()
        self._lock.acquire()
        if self._taken:
            self._lock.release()
            raise InterfaceError(f"this {self._what} is in use: what it runs must end first")
        self._taken = True

    def __exit__(self, *error: object) -> None:
        self._taken = False
        self._lock.release()
