"""Add up what the steps of a release cost, and refuse a step beyond what is reserved for it."""

from __future__ import annotations

from dpsql.errors import InternalError
from dpsql.kernel.loss.domination import is_within
from dpsql.kernel.loss.parallel import largest_loss
from dpsql.kernel.loss.privacy_loss import PrivacyLoss


class Spending:
    """What the steps of one release have cost until now, within what is reserved for it."""

    def __init__(self, limit: PrivacyLoss) -> None:
        self.limit = limit
        self._spent: list[PrivacyLoss | _Parts] = []

    @property
    def loss(self) -> PrivacyLoss:
        """What all steps have cost, in the order in which they ran; of parts, what the largest has."""
        return self.beside(None)

    def beside(self, parts: _Parts | None) -> PrivacyLoss:
        """Return what all other steps have cost than those of some parts."""
        others = (each for each in self._spent if each is not parts)
        return sum((each.loss if isinstance(each, _Parts) else each for each in others), PrivacyLoss())

    def admit(self, most: PrivacyLoss) -> None:
        """Refuse a step that may cost so much, if that is more than is left."""
        self.check(self.loss + most)

    def check(self, total: PrivacyLoss) -> None:
        """Refuse steps that cost so much in all."""
        if not is_within(total, self.limit):
            raise InternalError("a step would cost more than what is reserved for its release")

    def add(self, loss: PrivacyLoss) -> None:
        """Add what a step has cost."""
        last = self._spent[-1] if self._spent else None
        if isinstance(last, PrivacyLoss):
            self._spent[-1] = last + loss
        else:
            self._spent.append(loss)

    def parts(self, number: int, times: int) -> list[Spending]:
        """Return those of several parts, of which so many `times` count; what they cost is spent here."""
        made = _Parts(self, times)
        self._spent.append(made)
        made.each = [_PartSpending(made) for _ in range(number)]
        return [*made.each]


class _Parts:
    """Parts of a release whose steps cost together what those of the largest one cost, some times."""

    def __init__(self, whole: Spending, times: int) -> None:
        self.whole, self.times = whole, times
        self.each: list[_PartSpending] = []

    @property
    def loss(self) -> PrivacyLoss:
        """What they have cost until now."""
        known = dict.fromkeys(each.loss for each in self.each)
        return largest_loss(known).repeated(self.times) if known else PrivacyLoss()


class _PartSpending(Spending):
    """What the steps of one of several parts have cost."""

    def __init__(self, parts: _Parts) -> None:
        super().__init__(parts.whole.limit)
        self._parts = parts

    def check(self, total: PrivacyLoss) -> None:
        """Refuse steps that cost so much, as often as parts count, beside all steps of the whole."""
        whole = self._parts.whole
        whole.check(whole.beside(self._parts) + total.repeated(self._parts.times))
