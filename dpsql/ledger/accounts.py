"""The scopes of a policy as the ledger keeps them: their budgets, and their orders when these change."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from fractions import Fraction

from dpsql.ledger.budgets import Budget, ScopeBudget
from dpsql.ledger.caps import Caps, GroupCap, order_of
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
from dpsql.privacy import Filter


def of_policy(connection: sqlite3.Connection, caps: Caps) -> ScopeBudget:
    """Return the budget of the policy's scope."""
    return _at_filter(connection, POLICY, caps.filter)


def of_analyst(connection: sqlite3.Connection, caps: Caps, analyst: str) -> ScopeBudget | None:
    """Return the budget of an analyst's own scope; None if there is no cap on it."""
    own = caps.own_filter(analyst)
    return None if own is None else _at_filter(connection, scope(analyst), own)


def of_group(connection: sqlite3.Connection, caps: Caps, name: str, group: GroupCap) -> ScopeBudget:
    """Return the budget that the members of a group have together."""
    admits = caps.filter_of(group.cap)
    return ScopeBudget(group_scope(name), admits, together(connection, name, group.members, order_of(admits)))


def _at_filter(connection: sqlite3.Connection, name: str, admits: Filter) -> ScopeBudget:
    return ScopeBudget(name, admits, at_order(connection, name, order_of(admits)).totals)


def standing(connection: sqlite3.Connection, caps: Caps, analyst: str | None) -> Budget:
    """Return what is spent and left of the policy, or of all scopes that bind an analyst."""
    whole = of_policy(connection, caps)
    if analyst is None:
        return Budget.of(whole)
    groups = [of_group(connection, caps, *named) for named in caps.groups_of(analyst)]
    own = of_analyst(connection, caps, analyst)
    return Budget.of(whole, *groups) if own is None else Budget.of(own, *groups, whole)


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
