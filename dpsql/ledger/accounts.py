"""The scopes of a policy as the ledger keeps them: what each has left, and their orders when they change."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from fractions import Fraction

from dpsql.ledger.budgets import Budget, ScopeBudget
from dpsql.ledger.caps import Caps, order_of
from dpsql.ledger.totals import (
    POLICY,
    Stored,
    at_order,
    group_scope,
    keep_members,
    owner,
    put,
    scope,
    together,
)


def standing(connection: sqlite3.Connection, caps: Caps, analyst: str | None) -> Budget:
    """Return what is spent and left of the policy, or of all scopes that bind an analyst."""
    whole = ScopeBudget(POLICY, caps.filter, at_order(connection, POLICY, order_of(caps.filter)).totals)
    if analyst is None:
        return Budget.of(whole)
    groups = []
    for name, group in caps.groups_of(analyst):
        admits = caps.filter_of(group.cap)
        total = together(connection, name, group.members, order_of(admits))
        groups.append(ScopeBudget(group_scope(name), admits, total))
    own = caps.own_filter(analyst)
    if own is None:
        return Budget.of(whole, *groups)
    total = at_order(connection, scope(analyst), order_of(own)).totals
    return Budget.of(ScopeBudget(scope(analyst), own, total), *groups, whole)


def reorder(connection: sqlite3.Connection, caps: Caps) -> None:
    """Add up the costs of all scopes at the orders of the policy, from all entries."""
    for (name,) in connection.execute("SELECT name FROM scope").fetchall():
        analyst = owner(name)
        if name.startswith(group_scope("")):
            connection.execute("DELETE FROM scope WHERE name = ?", (name,))
            continue
        order = order_of(caps.filter if analyst is None else caps.own_filter(analyst))
        total = at_order(connection, name, order)
        if order is None:
            total = Stored(replace(total.totals, cost=Fraction(0)))
        put(connection, name, total)
    for name, group in caps.groups.items():
        order = order_of(caps.filter_of(group.cap))
        if order is not None:
            keep_members(connection, name, group.members, order)
