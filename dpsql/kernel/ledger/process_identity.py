"""Identifies the process that holds a reservation or opened an object, and tests whether it is alive.

A statement whose process dies with it (the engine ran out of memory) never reports its failure. That
failure may depend on the data as well, so a reservation whose process is gone counts as failed.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from pathlib import Path

from dpsql.errors import InterfaceError


def current() -> str:
    """Return the identity of this process: machine and container, process number, start time."""
    return _identity(os.getpid())


@functools.cache
def _identity(process: int) -> str:
    return f"{_place()}|{process}|{_start_time('self')}"


def is_alive(holder: str) -> bool | None:
    """Whether the process is alive; None if that is unknown (another machine or container)."""
    if holder == current():
        return True
    place, process, started = ["", "", *holder.rsplit("|", 2)][-3:]
    if sys.platform == "win32" or place != _place() or not re.fullmatch("[0-9]{1,9}", process, re.ASCII):
        return None
    now = _start_time(process)
    if now and started:
        return now == started
    try:
        os.kill(int(process), 0)  # signal 0 only asks
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _place() -> str:
    """Return the scope in which process numbers are unique: boot of the machine, and container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return platform.node()
    return f"{boot}/{space}"


def _start_time(process: str) -> str:
    """Return when a process started, in clock ticks since boot; empty if that cannot be known."""
    try:
        stat = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return ""
    # The second field is the program's name in parentheses and may hold anything.
    fields = stat[stat.rfind(b")") + 1 :].split()
    return "dead" if fields[0] in (b"Z", b"X") else fields[19].decode()


_forks = 0


def _count_fork() -> None:
    global _forks  # noqa: PLW0603  counts the forks between the first process and this one
    _forks += 1
    _identity.cache_clear()  # a child may be given the number of a process that is gone


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


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
