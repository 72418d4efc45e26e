"""Verifies the invariants of the ledger, for the owner and for tests."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from dpsql.kernel.ledger.amounts import DamagedError, read, read_charge, read_loss
from dpsql.kernel.ledger.records import RefinementStep
from dpsql.kernel.ledger.refinements import problem_of
from dpsql.kernel.ledger.totals import BOUNDS, POLICY, Stored, added_amounts, base, restored_cost, scope
from dpsql.kernel.loss import Charge, PrivacyLoss, Totals
from dpsql.ledger import replay

_ZERO: Final = Fraction(0)


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
        found += _refinements(connection)
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


def _refinements(connection: sqlite3.Connection) -> Iterator[str]:
    """Return a sentence for each refinement that costs too little, or that its analyst had no right to."""
    rows = connection.execute(
        "SELECT f.entry, f.parent, f.epsilon, e.analyst, e.reserved_loss"
        " FROM refinement f JOIN entry e ON e.entry = f.entry"
    ).fetchall()
    for entry, parent, epsilon, analyst, reserved in rows:
        refines = RefinementStep(parent, read(epsilon))
        problem = problem_of(connection, analyst, read_loss(reserved).epsilon or Fraction(0), refines)
        if problem:
            yield f"entry {entry} {problem}"


def kept_sums(connection: sqlite3.Connection) -> dict[str, Stored]:
    """Return all totals as they are stored."""
    rows = connection.execute("SELECT name, epsilon, delta, cost, alpha FROM total")
    return {name: Stored.read(tuple(row)) for name, *row in rows}


def sums(connection: sqlite3.Connection, kept: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return the totals of all entries, ladders and restored amounts, at the orders of the stored ones."""
    by_owner: dict[str, list[str]] = {POLICY: [POLICY]}
    for name in kept:
        by_owner.setdefault(base(name), []).append(name)
    by_owner[POLICY] = [POLICY]
    found: dict[str, Stored] = {}
    order = {name: total.order for name, total in kept.items()}
    for reserved, charged, bases in _charges(connection):
        for each in bases:
            for name in by_owner.get(each, [each]):
                before = found.get(name, Stored(Totals(), order.get(name)))
                more = added_amounts(reserved, charged, before.order)
                found[name] = replace(before, totals=before.totals + more)
    for each, epsilon, delta, *costs in connection.execute(
        "SELECT scope, epsilon, delta, cost, alpha, most FROM restored"
    ):
        for name in by_owner.get(each, [each]):
            before = found.get(name, Stored(Totals(), order.get(name)))
            cost = _ZERO if before.order is None else restored_cost(tuple(costs), before.order)
            more = Totals(None if epsilon is None else read(epsilon), read(delta), cost)
            found[name] = replace(before, totals=before.totals + more)
    for name, total in kept.items():
        found.setdefault(name, Stored(Totals(), total.order))
    return found


def _charges(
    connection: sqlite3.Connection,
) -> Iterator[tuple[PrivacyLoss, PrivacyLoss, tuple[str, ...]]]:
    """Yield reserved and charged loss of all entries and ladders, and the scopes in which each counts."""
    rows = connection.execute("SELECT analyst, shared, reserved_loss, charged_loss FROM entry")
    for analyst, shared, *losses in rows:
        reserved, charged = map(read_loss, losses)
        yield reserved, charged, (scope(analyst),) if shared else (scope(analyst), POLICY)
    for (loss,) in connection.execute("SELECT loss FROM bounds"):
        yield read_loss(loss), read_loss(loss), (BOUNDS, POLICY)
