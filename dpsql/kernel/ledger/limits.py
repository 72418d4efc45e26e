"""Limits on statements that end without an answer, and whether the process that runs one is alive.

A statement whose process dies with it (the engine ran out of memory) never reports its failure. That
failure may depend on the data as well, so a reservation whose process is gone counts as failed.

Whether a statement failed can depend on the data, and so can which one of many did. Each reservation may
still fail or be cancelled, so each holds a slot of both limits from the moment it is charged: statements
that run at the same time cannot pass a limit together.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import sqlite3
import sys
from pathlib import Path
from typing import Self

from dpsql.errors import InterfaceError, TooManyFailures
from dpsql.lazy_dataclass import dataclass


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


_CLEAR = "until the owner has looked and run `dpsql budget --clear-failures`"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most statements that may fail, or be cancelled, until the owner clears the counts."""

    failures: int
    failures_total: int
    cancelled: int
    cancelled_total: int

    @classmethod
    def of(
        cls,
        failures: int = 3,
        failures_total: int | None = None,
        cancelled: int | None = None,
        cancelled_total: int | None = None,
    ) -> Self:
        """Fill in defaults: totals are ten times an analyst's limit, 20 cancelled (or `failures` if more)."""
        own = max(20, failures) if cancelled is None else cancelled
        return cls(
            failures,
            10 * failures if failures_total is None else failures_total,
            own,
            10 * own if cancelled_total is None else cancelled_total,
        )


def check(connection: sqlite3.Connection, limits: Limits, analyst: str) -> None:
    """Refuse a statement if it could exceed a limit, should all running ones fail or be cancelled."""
    _keep_lost(connection, analyst)
    running, running_total = count_of(connection, "running", analyst)
    kinds = (
        ("failed", "have failed", "max_failures", limits.failures, limits.failures_total),
        ("cancelled", "were cancelled", "max_cancelled", limits.cancelled, limits.cancelled_total),
    )
    ended = {table: count_of(connection, table, analyst) for table, *_ in kinds}
    for table, words, key, most, _ in kinds:
        own = ended[table][0]
        if own >= most:
            raise TooManyFailures(
                f"{own} of your private statements {words}, so further ones are refused {_CLEAR}"
            )
        if running + own >= most:
            raise TooManyFailures(_message_of_crowd(running, f"{own} {words}", most, key))
    for table, words, key, _, most in kinds:
        if running_total + ended[table][1] >= most:
            raise TooManyFailures(
                f"as many private statements of all analysts together are running or {words} as the policy"
                f" allows ({key}_total): try again when some have ended; if it stays so, further ones are"
                f" refused {_CLEAR}"
            )


def _message_of_crowd(running: int, others: str, most: int, key: str) -> str:
    return (
        f"{running} of your private statements and streams are running and {others}; the policy allows"
        f" {most} of both together ({key}): wait until one has ended, or close a stream that is not used"
    )


def take_slot(connection: sqlite3.Connection, analyst: str) -> None:
    """Count a reservation of this process as running."""
    connection.execute(
        "INSERT INTO running VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET n = n + 1", (analyst, current())
    )


def release_slot(connection: sqlite3.Connection, analyst: str, mine: str) -> None:
    """Count one running reservation less, unless the owner has cleared it meanwhile."""
    key = (analyst, mine)
    connection.execute("DELETE FROM running WHERE analyst = ? AND holder = ? AND n = 1", key)
    if not connection.execute("SELECT changes()").fetchone()[0]:
        connection.execute("UPDATE running SET n = n - 1 WHERE analyst = ? AND holder = ?", key)


def add(connection: sqlite3.Connection, table: str, analyst: str, n: int = 1) -> None:
    """Count statements that ended without an answer, in the table `failed` or `cancelled`."""
    connection.execute(
        f"INSERT INTO {table} VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", (analyst, n)
    )


def clear(connection: sqlite3.Connection, analyst: str | None) -> None:
    """Reset the counts of failed and cancelled statements, of one analyst or of all."""
    chosen, given = ("analyst = ?", (analyst,)) if analyst is not None else ("1", ())
    connection.execute(f"DELETE FROM failed WHERE {chosen}", given)
    connection.execute(f"DELETE FROM cancelled WHERE {chosen}", given)
    held = connection.execute(f"SELECT DISTINCT holder FROM running WHERE {chosen}", given).fetchall()
    for (other,) in held:
        if not is_alive(other):
            connection.execute(f"DELETE FROM running WHERE holder = ? AND {chosen}", (other, *given))


def count_of(connection: sqlite3.Connection, table: str, analyst: str) -> tuple[int, int]:
    """Return the sums of a table of counts: of one analyst, and of all analysts."""
    row = connection.execute(
        f"SELECT COALESCE(SUM(n) FILTER (WHERE analyst = ?), 0), COALESCE(SUM(n), 0) FROM {table}", (analyst,)
    ).fetchone()
    return int(row[0]), int(row[1])


def _keep_lost(connection: sqlite3.Connection, analyst: str) -> None:
    """Count reservations of ended processes as failures and delete their rows, to keep the table short."""
    for other, n, living in holders_of(connection, analyst):
        if living is False:
            connection.execute("DELETE FROM running WHERE analyst = ? AND holder = ?", (analyst, other))
            add(connection, "failed", analyst, n)


def holders_of(connection: sqlite3.Connection, analyst: str) -> list[tuple[str, int, bool | None]]:
    """Return processes that hold reservations of an analyst: identity, number, whether it is alive."""
    rows = connection.execute("SELECT holder, n FROM running WHERE analyst = ?", (analyst,)).fetchall()
    return [(other, n, is_alive(other)) for other, n in rows]
