"""Guards of connections, sessions, streams and engines: one process, and one caller at a time."""

from __future__ import annotations

import os
import threading

from dpsql.errors import InterfaceError

_forks = 0


def _forked() -> None:
    global _forks  # noqa: PLW0603  counts the forks between the first process and this one
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _here() -> tuple[int, int]:
    # The system may give a process number again; the count of forks distinguishes such processes.
    return os.getpid(), _forks


class OwnerProcess:
    """The process that opened an object; a forked child may not use it, or it would spend a budget twice."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._process = _here()

    @property
    def in_own_process(self) -> bool:
        """Whether this process opened the object."""
        return self._process == _here()

    def check(self) -> None:
        """Raise `InterfaceError` in every process but the one that opened the object."""
        if not self.in_own_process:
            raise InterfaceError(
                f"this {self._what} belongs to the process that opened it: open another one after a fork"
            )


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
