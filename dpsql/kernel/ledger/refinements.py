"""Refinements: a release whose noise depends on that of an earlier one, and what both may cost."""

from __future__ import annotations

import sqlite3
from fractions import Fraction

from dpsql.errors import InternalError, OperationalError
from dpsql.kernel.ledger.amounts import read, read_loss, write
from dpsql.kernel.ledger.records import RefinementStep, Request
from dpsql.kernel.loss import Charge, PrivacyLoss, Stream


def reserved_loss(connection: sqlite3.Connection, request: Request) -> PrivacyLoss:
    """Return the largest loss of a release.

    One that refines another has noise that depends on the other's. Together they are as private as the new
    one, which basic composition knows; given the other, the new one's loss may be both their epsilons.
    """
    if request.refines is None:
        return request.reserved
    paid = request.charge.epsilon
    before = paid_before(connection, request.refines.parent)
    return PrivacyLoss((Stream(paid, paid + 2 * before),)) if before else PrivacyLoss.of(paid)


def begin(
    connection: sqlite3.Connection, entry: int, analyst: str, charge: Charge, refines: RefinementStep
) -> None:
    """Record, with its charge, that an entry refines a release, if no other entry does."""
    if connection.execute("SELECT 1 FROM refinement WHERE parent = ?", (refines.parent,)).fetchone():
        raise OperationalError(
            f"release {refines.parent} was refined by another statement; nothing was charged"
        )
    problem = problem_of(connection, analyst, charge.epsilon, refines)
    if problem:
        raise InternalError(f"a refinement {problem}")
    connection.execute(
        "INSERT INTO refinement VALUES (?, ?, ?)", (entry, refines.parent, write(refines.epsilon))
    )


def paid_before(connection: sqlite3.Connection, number: int) -> Fraction:
    """Return the epsilon of a release and of those that it refines; 0 if it has none or is not there."""
    row = connection.execute(
        "SELECT e.entry, e.charged_loss FROM release r JOIN entry e ON e.entry = r.entry WHERE r.number = ?",
        (number,),
    ).fetchone()
    if row is None:
        return Fraction(0)
    before = step_of(connection, row[0])
    return (read_loss(row[1]).epsilon or Fraction(0)) if before is None else before.epsilon


def problem_of(
    connection: sqlite3.Connection, analyst: str, price: Fraction, refines: RefinementStep
) -> str | None:
    """Say why a refinement at this price is not allowed; None: it is."""
    row = connection.execute(
        "SELECT e.entry, e.analyst, e.shared, e.charged_loss FROM release r JOIN entry e"
        " ON e.entry = r.entry WHERE r.number = ?",
        (refines.parent,),
    ).fetchone()
    if row is None or row[1] != analyst or row[2]:
        return "is of a release that is not the analyst's own"
    before = step_of(connection, row[0])
    spent = read_loss(row[3]).epsilon if before is None else before.epsilon
    if spent is None:
        return "is of a release that has no epsilon"
    if price <= 0 or spent + price < refines.epsilon:
        return "costs less than what it adds"
    return None


def step_of(connection: sqlite3.Connection, entry: int) -> RefinementStep | None:
    """Return what an entry refines; None: nothing."""
    row = connection.execute("SELECT parent, epsilon FROM refinement WHERE entry = ?", (entry,)).fetchone()
    return None if row is None else RefinementStep(row[0], read(row[1]))
