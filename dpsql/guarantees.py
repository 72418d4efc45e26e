"""What a statement promises and what it takes of the budget, in words and figures."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.analysis import Plan
from dpsql.epsilon_division import Layout
from dpsql.kernel.loss import Filter, PrivacyLoss, approximate_epsilon
from dpsql.ledger import Budget

_CLOSED = (
    "the sum of epsilons admits no statement any more, only that of costs; noise = LAPLACE keeps it open"
)


def guarantee(plan: Plan, loss: PrivacyLoss) -> str:
    """Describe the privacy guarantee of a statement in a sentence."""
    unit = f"one {plan.unit}" if plan.owner.row else f"all rows of one {plan.unit}"
    epsilon, delta = loss.epsilon, f"{float(loss.delta):g}"
    if epsilon is not None:
        text = (
            f"adding or removing {unit} changes the probability of any answer by a factor of at most "
            f"e^{float(epsilon):g}"
        )
        return f"{text}, but for a probability of {delta}" if loss.delta else text
    rho = loss.rho
    if rho is None or not plan.filters:
        return f"adding or removing {unit} is hidden by noise"
    conversion = plan.filters[0].conversion_delta
    alone = approximate_epsilon(rho, conversion)
    text = f"for adding or removing {unit}, rho-zCDP with rho = {_up(rho)}"
    if loss.delta:
        text += f", but for a probability of {delta}"
    return f"{text}; alone ({float(alone):g}, {float(conversion + loss.delta):g})-DP"


def layout_facts(plan: Plan, loss: PrivacyLoss, budget: Budget | None) -> dict[str, object]:
    """Return what EXPLAIN shows of the layout, where costs are added beside epsilons."""
    way = plan.filters[0].order_way if plan.filters else None
    if way is None:
        return {}
    rho = loss.rho
    return {
        "layout": _layout(plan.layout),
        "cost": _up(loss.cost(way.order)),
        "rho": None if rho is None else _up(rho),
        "share_of_budget": max(_share(scope, loss) for scope in plan.filters),
        "more_like_this": None if budget is None else budget.more(loss),
        "after_it": _CLOSED if loss.epsilon is None else None,
    }


def _layout(layout: Layout) -> str:
    if layout.order is None:
        return "basic: its epsilon is divided"
    return f"order: its cost at alpha {float(layout.order):.4g} is divided"


def _share(scope: Filter, loss: PrivacyLoss) -> float:
    """Return the part of an unused budget that a loss takes, by the sum of which it takes less."""
    each = scope.amounts(loss)
    ways = [] if each.epsilon is None else [each.epsilon / scope.epsilon]
    if scope.order_way is not None:
        ways.append(each.cost / scope.order_way.limit)
    return float(min(ways, default=Fraction(1)))


def _up(value: Fraction) -> str:
    """Write a number with four digits, rounded up."""
    if not value:
        return "0"
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 3)
    return f"{float(math.ceil(value / unit) * unit):.4g}"
