"""The errors of a budget of which too little is left."""

from __future__ import annotations

from dpsql.errors import BudgetExceeded, with_article
from dpsql.kernel.ledger.renewal_rows import LIFETIME
from dpsql.kernel.ledger.totals import PERSON, POLICY, group_scope, shown
from dpsql.kernel.loss import Charge, PrivacyLoss


def gaussian_budget_error(loss: PrivacyLoss, available: Charge, name: str, where: str = "") -> BudgetExceeded:
    """Return the error for a stored answer with Gaussian noise, which has no epsilon that could be named."""
    whose = f"the budget of your {name}" if name.startswith(group_scope("")) else "your own budget"
    whose += f" for {where}" if where else ""
    return BudgetExceeded(
        f"the stored answer has Gaussian noise, for which too little is left of {whose}, or it has no delta",
        (available.epsilon, loss.delta),
        (available.epsilon, available.delta),
        scope=name,
    )


def person_error(requested: Charge, available: Charge, kind: str, periods: str, year: str) -> BudgetExceeded:
    """Return the error of a statement that one person would bear too much of, in one year."""
    over = "epsilon" if requested.epsilon > available.epsilon else "delta"
    costs, left = shown(getattr(requested, over), up=True), shown(getattr(available, over), up=False)
    one = with_article(kind)
    return BudgetExceeded(
        f"the statement costs {one} in {periods} {over} {costs}, but only {left} of what {one} may bear"
        f" of {year} is left ([budget.person])",
        (requested.epsilon, requested.delta),
        (available.epsilon, available.delta),
        scope=PERSON,
    )


def budget_error(
    requested: Charge, available: Charge, name: str, *, other: bool = False, where: str = "", renews: str = ""
) -> BudgetExceeded:
    """Return the error; the requested amount is rounded up, the available one down.

    `other`: the statement would be admitted if its epsilon were divided among its mechanisms. `where` names
    the parts of units of which too little is left, `renews` the day on which the budget starts anew.
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
        if renews:
            text += f" until it starts anew on {renews} (UTC)"
    elif name == LIFETIME:
        text = f"{costs} only {left} is left of the lifetime of the budget, in which all its renewals count"
    elif name.startswith(group_scope("")):
        text = f"{costs} only {left} of the budget of your {name} is left"
    else:
        text = f"{costs} only {left} of your own budget is left"
    if where and name != "query":
        text += f" for {where}"
    if other:
        text += ", in which it fits only with OPTIONS (layout = BASIC)"
    return BudgetExceeded(
        text, (requested.epsilon, requested.delta), (available.epsilon, available.delta), scope=name
    )
