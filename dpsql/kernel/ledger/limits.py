"""Limits on statements that end without an answer: of one analyst, and of all analysts together.

Whether a statement failed can depend on the data, and so can which one of many did. Each reservation may
still fail or be cancelled, so each holds a slot of both limits from the moment it is charged: statements
that run at the same time cannot pass a limit together.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Self

from dpsql.errors import TooManyFailures
from dpsql.kernel.ledger import process_identity

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
        "INSERT INTO running VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET n = n + 1",
        (analyst, process_identity.current()),
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
        if not process_identity.is_alive(other):
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
    return [(other, n, process_identity.is_alive(other)) for other, n in rows]
