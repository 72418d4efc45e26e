"""The epsilon and delta that are offered to a statement that names none, and what a budget pays for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.errors import Obstacle
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Budget, shown
from dpsql.prepared import PreparedComposed, PreparedPrivate

_SHARE, _DELTA_SHARE = 20, 1000
"""The parts of the whole budget that are offered: a twentieth of epsilon, a thousandth of delta."""
_WRITTEN = {
    "epsilon": re.compile(r"(?<=\bOPTIONS \(epsilon = )1(?=\))"),
    "delta": re.compile(r"(?<=\bOPTIONS \(delta = )1e-6(?=\))"),
}
"""What stands in hints for an amount, which depends on the budget."""
_CHOICE = re.compile(r",? or OPTIONS \(delta = 1e-6\)|OPTIONS \(delta = 1e-6\),? or ")
"""The words of a hint that name one of several ways."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """What is offered: amounts as text, each None where nothing of it is left."""

    epsilon: str | None
    delta: str | None

    @classmethod
    def of(cls, budget: Budget, most: Fraction | None) -> Amounts:
        """Return a small part of a budget, of which something is left; `most` is the cap of one statement.

        >>> from dpsql.kernel.loss import Charge
        >>> whole, nothing = Charge(Fraction(1), Fraction(1, 10**6)), Charge()
        >>> Amounts.of(Budget(whole, nothing, whole), None)
        Amounts(epsilon='0.05', delta='1e-9')
        >>> Amounts.of(Budget(whole, whole, nothing), None)
        Amounts(epsilon=None, delta=None)
        """
        total, left = budget.total, budget.remaining
        epsilon = min(left.epsilon, total.epsilon / _SHARE, *([] if most is None else [most]))
        return cls(_round(epsilon), _round(min(left.delta, total.delta / _DELTA_SHARE)))

    def put_into(self, obstacles: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
        """Return obstacles whose hints and fixes say these amounts; without one, they do not offer it."""
        return tuple(self._in(one) for one in obstacles)

    def _in(self, one: Obstacle) -> Obstacle:
        for name, amount in (("epsilon", self.epsilon), ("delta", self.delta)):
            offered = one.fix is not None and one.fix.option == name and one.fix.guess
            if amount is not None and one.hint is not None:
                one = replace(one, hint=_WRITTEN[name].sub(amount, one.hint))
            if offered and amount is not None and one.fix is not None:
                one = replace(one, fix=replace(one.fix, text=amount, guess=amount))
            elif offered:
                hint = None if name == "epsilon" else _CHOICE.sub("", one.hint or "") or None
                left = f"{one.message}, and nothing is left of the budget's {name}"
                one = replace(one, message=left, hint=hint, fix=None)
        return one


def is_paid(prepared: PreparedPrivate | PreparedComposed, budget: Budget, most: Fraction | None) -> bool:
    """Return whether every scope of a budget, and the cap of one statement, allow what is not stored."""
    price = prepared.price
    if most is not None and price.epsilon > most:
        return False
    losses = [
        part.method.quote.loss if part.refines is None else PrivacyLoss.of(part.price.epsilon)
        for part in prepared.parts
        if part.price != Charge()
    ]
    for scope in budget.scopes:
        totals = scope.totals
        for loss in losses:
            if not scope.filter.admits(totals, loss):
                return False
            totals += scope.filter.amounts(loss)
    return True


def _round(amount: Fraction) -> str | None:
    """Return the largest of .., 0.1, 0.2, 0.5, 1, 2, 5, .. that is no more than an amount; None for 0.

    >>> [_round(Fraction(x)) for x in ("1/3", "1", "0.05", "99", "0", "1e-9")]
    ['0.2', '1', '0.05', '50', None, '1e-9']
    """
    if amount <= 0:
        return None
    power = Fraction(1)
    while power > amount:
        power /= 10
    while power * 10 <= amount:
        power *= 10
    return shown(next(n * power for n in (5, 2, 1) if n * power <= amount), up=False)
