"""The rows that show a budget: for each amount the total, what is spent, and what is left."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from dpsql.kernel.loss import PrivacyLoss
from dpsql.ledger.amounts import shown
from dpsql.ledger.budgets import Budget

LIKE = Fraction(1, 10)
"""The epsilon of the statements that are counted, if the policy has no default."""


def rows_of(budget: Budget, like: Fraction | None = None) -> list[tuple[str, str, str, str]]:
    """Return the rows of a budget with `zcdp`: name, total, spent, left.

    `like` is the epsilon of the statements that are counted.
    """
    each = LIKE if like is None else like
    first = budget.scopes[0]
    admits, totals = first.filter, first.totals
    price = _up(each)

    def more(number: int | None) -> str:
        return f"{number} more of {price}"

    loss, zero = PrivacyLoss.of(each), Fraction(0)
    basic = replace(admits, order_way=None).more(totals, loss)
    sums = "none" if totals.epsilon is None else _up(totals.epsilon)
    delta = f"{_up(admits.conversion_delta)} conversion"
    delta += f", {_up(totals.delta)} unknown domains"
    rows = [
        ("epsilon", _down(admits.epsilon), _up(budget.spent.epsilon), more(budget.more(each))),
        ("delta", _down(admits.delta), delta, _down(budget.remaining.delta)),
        ("basic way", _down(admits.epsilon), sums, more(basic)),
    ]
    way = admits.order_way
    if way is not None:
        number = replace(admits, epsilon=zero).more(replace(totals, epsilon=None), loss)
        left = f"{more(number)} (alpha {_down(way.order)})"
        rows.append(("order way", _down(way.limit), _up(totals.cost), left))
    return rows


def _down(amount: Fraction) -> str:
    return _short(shown(amount, up=False))


def _up(amount: Fraction) -> str:
    return _short(shown(amount, up=True))


def _short(text: str) -> str:
    """Write a small number with its exponent.

    >>> _short("0.000001"), _short("0.0195196")
    ('1e-6', '0.0195196')
    """
    return f"{Decimal(text).normalize():e}" if text.startswith("0.0000") else text
