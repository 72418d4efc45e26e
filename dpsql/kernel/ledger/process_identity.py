"""Identifies the process that holds a reservation, and tests whether that process is alive.

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


def current() -> str:
    """Return the identity of this process: machine and container, process number, start time."""
    return _identity(os.getpid())


@functools.cache
def _identity(process: int) -> str:
    return f"{_place()}|{process}|{_started('self')}"


def is_alive(holder: str) -> bool | None:
    """Whether the process is alive; None if that is unknown (another machine or container)."""
    if holder == current():
        return True
    place, process, started = ["", "", *holder.rsplit("|", 2)][-3:]
    if sys.platform == "win32" or place != _place() or not re.fullmatch("[0-9]{1,9}", process, re.ASCII):
        return None
    now = _started(process)
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


def _started(process: str) -> str:
    """Return when a process started, in clock ticks since boot; empty if that cannot be known."""
    try:
        stat = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return ""
    # The second field is the program's name in parentheses and may hold anything.
    fields = stat[stat.rfind(b")") + 1 :].split()
    return "dead" if fields[0] in (b"Z", b"X") else fields[19].decode()


if hasattr(os, "register_at_fork"):
    # A child may be given the number of a process that is gone.
    os.register_at_fork(after_in_child=_identity.cache_clear)
