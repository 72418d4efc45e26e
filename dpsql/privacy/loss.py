"""The privacy loss of a mechanism, as the differentially private steps that it consists of."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.privacy.charge import Charge


@dataclass(frozen=True, slots=True)
class ApproximateDP:
    """So many steps, each (epsilon, delta)-differentially private; pure where delta is 0."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    times: int = 1

    @property
    def charge(self) -> Charge:
        """Their sum by basic composition."""
        if self.times == 1:
            return Charge(self.epsilon, self.delta)
        return Charge(self.times * self.epsilon, self.times * self.delta)


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The steps of a mechanism, or of several run one after the other, exact.

    What is charged for them depends on the accounting; `charge` is basic composition.

    >>> loss = PrivacyLoss.of(Fraction(1, 4), times=2) + PrivacyLoss.of(Fraction(1, 2), Fraction(1, 10**9))
    >>> loss.charge
    Charge(epsilon=Fraction(1, 1), delta=Fraction(1, 1000000000))
    """

    parts: tuple[ApproximateDP, ...] = ()

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction = Fraction(0), *, times: int = 1) -> PrivacyLoss:
        """Return the loss of equal steps; none if they cost nothing."""
        part = ApproximateDP(epsilon, delta, times)
        charge = part.charge
        return cls((part,)) if charge.epsilon or charge.delta else cls(())

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        return PrivacyLoss(self.parts + other.parts)

    @property
    def charge(self) -> Charge:
        """The sum of all parts by basic composition."""
        return sum((part.charge for part in self.parts), Charge())
