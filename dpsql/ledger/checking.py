"""Verifies the invariants of the ledger, for the owner and for tests."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from dpsql.kernel.loss import Charge
from dpsql.ledger import refining, replay
from dpsql.ledger.amounts import DamagedError, read_charge, read_loss
from dpsql.ledger.sums import kept_sums, sums


def problems(connection: sqlite3.Connection) -> list[str]:
    """Return a sentence for each violated invariant."""
    found = [
        f"the file is damaged: {text}"
        for (text,) in connection.execute("PRAGMA integrity_check")
        if text != "ok"
    ]
    try:
        found += [
            f"{row[0]} refers to a missing {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")
        ]
        found += _entries(connection)
        found += _releases(connection)
        found += _steps(connection)
        found += _parts(connection)
        found += refining.problems(connection)
        found += replay.problems(connection)
    except DamagedError as problem:
        found.append(f"something is unreadable: {problem}")
    except sqlite3.DatabaseError:
        if not found:
            raise
    return found


def _entries(connection: sqlite3.Connection) -> Iterator[str]:
    open_ones: Counter[tuple[str, str]] = Counter()
    rows = connection.execute(
        "SELECT entry, analyst, state, release, holder, reserved_loss, charged_loss FROM entry ORDER BY entry"
    )
    for entry, analyst, state, release, holder, *losses in rows:
        reserved, charged = map(read_loss, losses)
        most = reserved.epsilon
        if charged.delta > reserved.delta or (most is not None and (charged.epsilon or 0) > most):
            yield f"entry {entry} is charged more than was reserved"
        if state != "settled" and charged != reserved:
            yield f"entry {entry} is {state} but not charged in full"
        if (state == "settled") != (release is not None):
            yield f"entry {entry} is {state} but has {'a' if release is not None else 'no'} release"
        if state == "reserved":
            open_ones[analyst, holder] += 1
    kept = kept_sums(connection)
    found = sums(connection, kept)
    for name in sorted({*found, *kept}):
        if found.get(name) != kept.get(name):
            yield f"the total of {name} is not the sum of its entries"
    for analyst, holder, n in connection.execute("SELECT * FROM running"):
        if n > open_ones[analyst, holder]:
            yield f"{n} statements of {analyst} are counted as running, {open_ones[analyst, holder]} are"


def _releases(connection: sqlite3.Connection) -> Iterator[str]:
    rows = connection.execute(
        "SELECT r.number FROM release r LEFT JOIN entry e ON e.entry = r.entry AND e.release = r.number"
        " AND e.state = 'settled' AND e.analyst = r.analyst WHERE e.entry IS NULL"
    )
    for (number,) in rows:
        yield f"release {number} has no settled entry"


def _parts(connection: sqlite3.Connection) -> Iterator[str]:
    """Check that the releases of a statement were charged by one analyst and ended together."""
    rows = connection.execute(
        "SELECT p.first FROM part p JOIN entry e ON e.entry = p.entry GROUP BY p.first"
        " HAVING COUNT(DISTINCT e.state) > 1 OR COUNT(DISTINCT e.analyst) > 1 OR min(p.entry) <> p.first"
        " OR COUNT(DISTINCT p.places) > 1"
    )
    for (first,) in rows:
        yield f"the releases of the statement of entry {first} did not end together"


def _steps(connection: sqlite3.Connection) -> Iterator[str]:
    """Check that the recorded loss of a stream never falls, and is never above its charge."""
    rows = connection.execute(
        "SELECT p.entry, p.step, e.charged_loss, p.epsilon, p.delta"
        " FROM progress p JOIN entry e ON e.entry = p.entry ORDER BY p.entry, p.step"
    )
    last: tuple[int, int, Charge] = (0, 0, Charge())
    for entry, step, loss, *amounts in rows:
        spent, charged = read_charge(*amounts), read_loss(loss)
        before = last[1:] if last[0] == entry else (0, Charge())
        if step != before[0] + 1 or not before[1].fits(spent):
            yield f"the steps of entry {entry} are not in order"
        if not spent.fits(Charge(charged.epsilon or Fraction(0), charged.delta)):
            yield f"entry {entry} is charged less than its steps have spent"
        last = (entry, step, spent)
