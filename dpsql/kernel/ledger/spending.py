"""Adds a loss to the totals of the scopes that it counts in, if the caps of all of them admit it."""

from __future__ import annotations

import sqlite3
from fractions import Fraction

from dpsql.errors import BudgetExceeded, OperationalError
from dpsql.kernel.ledger.amounts import shown, too_wide
from dpsql.kernel.ledger.scopes import (
    Caps,
    ScopeBudget,
    analyst_budget,
    group_budget,
    order_of,
)
from dpsql.kernel.ledger.totals import (
    POLICY,
    Stored,
    added_amounts,
    group_scope,
    keep_members,
    member,
    names_of,
    scope,
    total_at_order,
    write_total,
)
from dpsql.kernel.loss import Charge, PrivacyLoss


def spend_own(
    connection: sqlite3.Connection,
    caps: Caps,
    analyst: str,
    reserved: PrivacyLoss,
    charged: PrivacyLoss | None = None,
    *,
    price: Charge | None = None,
) -> None:
    """Add a loss to an analyst's total, if the analyst's own cap and those of all groups allow it.

    They have to allow the reserved loss also where another one is charged: else an outcome could be told from
    what is refused.
    """
    orders = {scope(analyst): order_of(caps.own_filter(analyst))}
    for name, group in caps.groups_of(analyst):
        order = order_of(caps.filter_of(group.cap))
        if order is not None:
            keep_members(connection, name, group.members, order)
            orders[member(name, analyst)] = order
        admit(group_budget(connection, caps, name, group), reserved, price)
    own = analyst_budget(connection, caps, analyst)
    if own is not None:
        admit(own, reserved, price)
    for name in {*names_of(connection, analyst), *orders}:
        add_loss(connection, name, orders.get(name), reserved, reserved if charged is None else charged)


def admit(budget: ScopeBudget, loss: PrivacyLoss, price: Charge | None) -> None:
    """Raise `BudgetExceeded` unless a scope admits a loss; without a price it is that of a stored answer."""
    if budget.admits(loss):
        return
    if price is None and loss.epsilon is None:
        raise _gaussian_exceeded(loss, budget.remaining, budget.name)
    asked = loss.charge if price is None else price
    one = PrivacyLoss.of(asked.epsilon, asked.delta)
    other = price is not None and one != loss and budget.admits(one)
    raise exceeded(asked, budget.remaining, budget.name, other=other)


def add_loss(
    connection: sqlite3.Connection,
    name: str,
    order: Fraction | None,
    reserved: PrivacyLoss,
    charged: PrivacyLoss,
) -> None:
    """Add what is not written yet to the total of a scope, at an order or at that of the total."""
    before = total_at_order(connection, name, order)
    more = added_amounts(reserved, charged, before.order)
    after = Stored(before.totals + more, before.order)
    if too_wide(after.totals, more):
        raise OperationalError("this epsilon or delta has too many digits: give it as a short decimal")
    write_total(connection, name, after)


def _gaussian_exceeded(loss: PrivacyLoss, available: Charge, name: str) -> BudgetExceeded:
    """Return the error for a stored answer with Gaussian noise, which has no epsilon that could be named."""
    whose = f"the budget of your {name}" if name.startswith(group_scope("")) else "your own budget"
    return BudgetExceeded(
        f"the stored answer has Gaussian noise, for which too little is left of {whose}, or it has no delta",
        (available.epsilon, loss.delta),
        (available.epsilon, available.delta),
        scope=name,
    )


def exceeded(requested: Charge, available: Charge, name: str, *, other: bool = False) -> BudgetExceeded:
    """Return the error; the requested amount is rounded up, the available one down.

    `other`: the statement would be admitted if its epsilon were divided among its mechanisms.
    """
    over = (
        "epsilon" if requested.epsilon > available.epsilon or requested.delta <= available.delta else "delta"
    )
    costs = f"the statement costs {over} {shown(getattr(requested, over), up=True)}, but"
    left = shown(getattr(available, over), up=False)
    if name == "query":
        text = f"{costs} one statement may cost at most {left}"
    elif name == POLICY:
        text = f"{costs} only {left} of the budget is left"
    elif name.startswith(group_scope("")):
        text = f"{costs} only {left} of the budget of your {name} is left"
    else:
        text = f"{costs} only {left} of your own budget is left"
    if other:
        text += ", in which it fits only with OPTIONS (layout = BASIC)"
    return BudgetExceeded(
        text, (requested.epsilon, requested.delta), (available.epsilon, available.delta), scope=name
    )
