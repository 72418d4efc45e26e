"""Refinements: which release a count was released before with, by whom, and what all its releases cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from fractions import Fraction

from dpsql.errors import InternalError, OperationalError
from dpsql.kernel.loss import Charge
from dpsql.ledger.amounts import read, read_loss, write
from dpsql.ledger.records import Lineage, RefinementStep


def lineage(connection: sqlite3.Connection, number: int, analyst: str) -> Lineage | None:
    """Return what is known of one of the analyst's own releases; None if there is no such release."""
    row = connection.execute(
        "SELECT r.payload, r.entry FROM release r"
        " WHERE r.number = ? AND r.analyst = ? AND r.payload IS NOT NULL",
        (number, analyst),
    ).fetchone()
    if row is None:
        return None
    payload, entry = row
    before = _refined_by(connection, entry)
    epsilon, first = None if before is None else before.epsilon, entry
    while before is not None:
        (first,) = connection.execute(
            "SELECT entry FROM release WHERE number = ?", (before.parent,)
        ).fetchone()
        before = _refined_by(connection, first)
    statement, shared, key, charged = connection.execute(
        "SELECT e.statement, e.shared, r.reuse_key, e.charged_loss"
        " FROM entry e JOIN release r ON r.entry = e.entry WHERE e.entry = ?",
        (first,),
    ).fetchone()
    child = connection.execute(
        "SELECT e.release FROM refinement f JOIN entry e ON e.entry = f.entry WHERE f.parent = ?", (number,)
    ).fetchone()
    return Lineage(
        payload,
        epsilon,
        statement,
        key,
        read_loss(charged).epsilon,
        shared=bool(shared),
        refined=child is not None,
        child=None if child is None else child[0],
    )


def begin(
    connection: sqlite3.Connection, entry: int, analyst: str, charge: Charge, refines: RefinementStep
) -> None:
    """Record, with its charge, that an entry refines a release, if no other entry does."""
    if connection.execute("SELECT 1 FROM refinement WHERE parent = ?", (refines.parent,)).fetchone():
        raise OperationalError(
            f"release {refines.parent} was refined by another statement; nothing was charged"
        )
    problem = _problem(connection, analyst, charge.epsilon, refines)
    if problem:
        raise InternalError(f"a refinement {problem}")
    connection.execute(
        "INSERT INTO refinement VALUES (?, ?, ?)", (entry, refines.parent, write(refines.epsilon))
    )


def problems(connection: sqlite3.Connection) -> Iterator[str]:
    """Return a sentence for each refinement that costs too little, or that its analyst had no right to."""
    rows = connection.execute(
        "SELECT f.entry, f.parent, f.epsilon, e.analyst, e.reserved_loss"
        " FROM refinement f JOIN entry e ON e.entry = f.entry"
    ).fetchall()
    for entry, parent, epsilon, analyst, reserved in rows:
        refines = RefinementStep(parent, read(epsilon))
        problem = _problem(connection, analyst, read_loss(reserved).epsilon or Fraction(0), refines)
        if problem:
            yield f"entry {entry} {problem}"


def paid_before(connection: sqlite3.Connection, number: int) -> Fraction:
    """Return the epsilon of a release and of those that it refines; 0 if it has none or is not there."""
    row = connection.execute(
        "SELECT e.entry, e.charged_loss FROM release r JOIN entry e ON e.entry = r.entry WHERE r.number = ?",
        (number,),
    ).fetchone()
    if row is None:
        return Fraction(0)
    before = _refined_by(connection, row[0])
    return (read_loss(row[1]).epsilon or Fraction(0)) if before is None else before.epsilon


def _problem(
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
    before = _refined_by(connection, row[0])
    spent = read_loss(row[3]).epsilon if before is None else before.epsilon
    if spent is None:
        return "is of a release that has no epsilon"
    if price <= 0 or spent + price < refines.epsilon:
        return "costs less than what it adds"
    return None


def _refined_by(connection: sqlite3.Connection, entry: int) -> RefinementStep | None:
    row = connection.execute("SELECT parent, epsilon FROM refinement WHERE entry = ?", (entry,)).fetchone()
    return None if row is None else RefinementStep(row[0], read(row[1]))
