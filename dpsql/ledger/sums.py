"""The totals as they are to be: added up from all entries, at the orders of the totals that are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from dpsql.kernel.loss import PrivacyLoss, Totals
from dpsql.ledger.amounts import read, read_loss
from dpsql.ledger.totals import BOUNDS, POLICY, Stored, amounts, base, restored_cost, scope

_ZERO = Fraction(0)


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
                more = amounts(reserved, charged, before.order)
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
