"""The scopes of a policy as the ledger keeps them: their budgets, and their orders when these change."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from fractions import Fraction

from dpsql.errors import PolicyError
from dpsql.kernel.loss import PrivacyLoss
from dpsql.ledger.amounts import shown
from dpsql.ledger.budgets import Budget, ScopeBudget
from dpsql.ledger.caps import Caps, GroupCap, order_of
from dpsql.ledger.totals import (
    POLICY,
    Stored,
    at_order,
    group_scope,
    keep_members,
    of_ladders,
    owner,
    put,
    scope,
    together,
)


def of_policy(connection: sqlite3.Connection, caps: Caps) -> ScopeBudget:
    """Return the budget of the policy's scope."""
    return ScopeBudget(POLICY, caps.filter, at_order(connection, POLICY, order_of(caps.filter)).totals)


def of_analyst(connection: sqlite3.Connection, caps: Caps, analyst: str) -> ScopeBudget | None:
    """Return the budget of an analyst's own scope, with all kept ladders; None if there is no cap on it."""
    own = caps.own_filter(analyst)
    if own is None:
        return None
    asked = at_order(connection, scope(analyst), order_of(own)).totals
    return ScopeBudget(scope(analyst), own, asked + of_ladders(connection, order_of(own)))


def of_group(connection: sqlite3.Connection, caps: Caps, name: str, group: GroupCap) -> ScopeBudget:
    """Return the budget that the members of a group have together.

    It bounds what they learn when they put together all that each of them knows. A ladder is one release that
    all of them know: what they know together has it once, so its loss is added once, not once a member. What
    they have asked is added member by member, since each answer has noise of its own.
    """
    admits = caps.filter_of(group.cap)
    asked = together(connection, name, group.members, order_of(admits))
    return ScopeBudget(group_scope(name), admits, asked + of_ladders(connection, order_of(admits)))


def all_of(connection: sqlite3.Connection, caps: Caps) -> list[ScopeBudget]:
    """Return the budgets of all scopes that have one: whatever is released to everybody counts in each.

    These are the policy's, those of the analysts whom the policy lists and of all others who have asked and
    have a cap, that of an analyst who has not asked yet (`*`), and those of the groups.
    """
    asked = connection.execute("SELECT name FROM total WHERE name >= 'analyst ' AND name < 'analyst!'")
    analysts = sorted({*caps.analysts, *(name.removeprefix(scope("")) for (name,) in asked)})
    owned = [of_analyst(connection, caps, analyst) for analyst in analysts]
    grouped = [of_group(connection, caps, *named) for named in caps.groups.items()]
    return [of_policy(connection, caps), *(each for each in owned if each is not None), *grouped]


def check_ladders(connection: sqlite3.Connection, caps: Caps) -> None:
    """Raise `PolicyError` if a cap is less than what the kept ladders cost, which counts in every scope."""
    for key, admits in caps.filters.items():
        kept = of_ladders(connection, order_of(admits))
        if not admits.admits(kept, PrivacyLoss()):
            over = "delta" if kept.epsilon is not None and kept.epsilon <= admits.epsilon else "epsilon"
            cost = getattr(kept, over)
            costs = f"{over} {shown(cost, up=True)}" if cost is not None else "more than any epsilon"
            raise PolicyError(
                f"{key}: the kept ladders of this ledger cost {costs}, which counts in every budget, but this"
                f" one is {over} {shown(getattr(admits, over), up=False)}",
                hint="give it at least that: what `dpsql bounds` told everybody stays spent",
            )


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
    for (name,) in connection.execute("SELECT name FROM total").fetchall():
        analyst = owner(name)  # None: the total and the ladders have the order of the policy
        if name.startswith(group_scope("")):
            connection.execute("DELETE FROM total WHERE name = ?", (name,))
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
