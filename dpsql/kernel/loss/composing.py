"""Compose losses: of steps and of parallel parts; whether one is within another; what is settled in the end.

`Spending`: what the steps of a release cost is added up, and a step beyond what is reserved is refused.

`is_within`: a loss that is charged must be within the one that was reserved. `largest_loss`: a loss that is
at least each of several, as that of disjoint sets of units needs it. `settle`: what a statement is charged
in the end, its reserved loss lowered to what its outcome realised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from dpsql.errors import InternalError
from dpsql.kernel.loss.privacy_loss import BoundedRange, Gaussian, Part, PrivacyLoss, PureDP, Realised, Stream
from dpsql.kernel.unit_parts import PartSet

_Amount = tuple[Fraction, int]
"""The epsilon or rho of each of so many mechanisms."""


def is_within(loss: PrivacyLoss, most: PrivacyLoss) -> bool:
    """Whether a loss is at most another one, in epsilon, delta and, but for rounding, cost at every order.

    Each part must be within parts of its kind; what has an epsilon is also within pure parts, but a selection
    of bounded range is only if there are none of its own kind. A realised part is as much as was reserved for
    it: its mechanism may be one of several in a single pure part. Parts may stand in any order. `most` has no
    realised parts, except where both losses have the same parts.

    >>> parse = PrivacyLoss.parse
    >>> is_within(parse("sum 1/9 of 1/2 + pure 1/4 x 2"), parse("pure 1"))
    True
    >>> is_within(parse("pure 1/2"), parse("pure 1/4 x 9"))  # it costs four times as much as one of these
    False

    Notes
    -----
    Parts with the amounts a, which are epsilons, are within parts with the amounts b if for each a those
    at least as large add up to at most the sum of all b that are at least a. Then all of a can be divided
    among the b, each a going to larger b alone, and no b gets more than itself. So it suffices for a cost f
    that f(a) <= (a/b) f(b) for a <= b, that is, that f(x)/x does not fall: for f(x) = x, x^2 and, of several
    such f, the least one. It is so for the divergence D of randomised response at an order a > 1: 1 - D(x)/x
    is the integral of 1/(1 + e^(x v)) over v from 1 to 2 a - 1, divided by a - 1, which falls. The cost of
    Gaussian noise is in proportion to rho: sums are compared.
    """
    if loss.delta > most.delta:
        return False
    if loss.parts == most.parts or not loss.parts:
        return True
    first = most.parts[0] if len(most.parts) == 1 else None
    if type(first) is PureDP and first.times == 1 and all(type(part) is PureDP for part in loss.parts):
        return (loss.epsilon or 0) <= first.epsilon  # as `_within` has it for a single one
    if not all(isinstance(part, (PureDP, BoundedRange, Gaussian)) for part in most.parts):
        return False
    rho = sum((part.times * part.rho for part in _gaussian_parts(loss)), Fraction(0))
    if rho and rho > sum(part.times * part.rho for part in _gaussian_parts(most)):
        return False
    ranges = _reserved_epsilons(part for part in most.parts if isinstance(part, BoundedRange))
    own = [part for part in loss.parts if ranges and isinstance(part, BoundedRange)]
    others = [part for part in loss.parts if part not in own and not isinstance(part, Gaussian)]
    pure = _reserved_epsilons(part for part in most.parts if isinstance(part, PureDP))
    return _fit_among(_reserved_epsilons(own), ranges) and _fit_among(_reserved_epsilons(others), pure)


def _gaussian_parts(loss: PrivacyLoss) -> list[Gaussian]:
    return [part for part in loss.parts if isinstance(part, Gaussian)]


def _reserved_epsilons(parts: Iterable[Part]) -> list[_Amount] | None:
    """Return the epsilons that were reserved for parts; None if one is not known."""
    found = []
    for part in parts:
        epsilon = (
            part.epsilon if isinstance(part, (PureDP, BoundedRange)) else getattr(part, "reserved", None)
        )
        if epsilon is None:
            return None
        found.append((epsilon, part.times))
    return found


def _fit_among(amounts: list[_Amount] | None, most: list[_Amount] | None) -> bool:
    """Return whether each of some amounts can be charged to a larger one of the others."""
    if amounts is None or most is None:
        return False
    return all(
        sum(n * a for a, n in amounts if a >= least) <= sum(n * b for b, n in most if b >= least)
        for least in {a for a, _ in amounts}
    )


def largest_loss(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Return a loss that is at least each of some, in its epsilon and in its cost at every order.

    It is one of them if that has at least the parts of all others. Else all parts with an epsilon become one:
    mechanisms cost together at most what one with the sum of their epsilons costs.

    Raises
    ------
    ValueError
        If there is no loss, or the epsilon that was reserved for a realised one is not known.
    """
    known = list(dict.fromkeys(losses))
    delta = max(loss.delta for loss in known)
    for loss in known:
        if all(_is_within(other.parts, loss.parts) for other in known):
            return PrivacyLoss(loss.parts, delta)
    noise = [[part for part in loss.parts if isinstance(part, Gaussian)] for loss in known]
    rho = max(_sum(part.times * part.rho for part in parts) for parts in noise)
    finite = [[part for part in loss.parts if not isinstance(part, Gaussian)] for loss in known]
    epsilon = max(_sum(part.times * part.epsilon for part in parts) for parts in finite)
    reserved = max(_sum(part.times * _reserved_epsilon(part) for part in parts) for parts in finite)
    streams = any(isinstance(part, Stream) for parts in finite for part in parts)
    found: list[Part] = [Gaussian(rho)] if rho else []
    if epsilon < reserved:
        found.append(Stream(epsilon, reserved) if streams else Realised(epsilon, reserved))
    elif epsilon:
        found.append(PureDP(epsilon))
    return PrivacyLoss(tuple(found), delta)


def _sum(amounts: Iterable[Fraction]) -> Fraction:
    return sum(amounts, Fraction(0))


def _is_within(parts: tuple[Part, ...], most: tuple[Part, ...]) -> bool:
    """Whether each part is at most the one of others at its place."""
    return len(parts) <= len(most) and all(map(_is_at_most, parts, most))


def _is_at_most(part: Part, other: Part) -> bool:
    if part.times > other.times:
        return False
    if isinstance(part, Gaussian) or isinstance(other, Gaussian):
        return isinstance(part, Gaussian) and isinstance(other, Gaussian) and part.rho <= other.rho
    # A selection costs at most a pure mechanism, and what is realised at most all that was reserved.
    kinds = (type(part), PureDP, Stream) if isinstance(part, Realised) else (type(part), PureDP)
    if not isinstance(other, kinds):
        return False
    return part.epsilon <= other.epsilon and _reserved_epsilon(part) <= _reserved_epsilon(other)


def _reserved_epsilon(part: PureDP | BoundedRange | Realised | Stream) -> Fraction:
    if isinstance(part, (PureDP, BoundedRange)):
        return part.epsilon
    if part.reserved is None:
        raise ValueError("the epsilon that was reserved is not known")
    return part.reserved


def settle(reserved: PrivacyLoss, realised: PrivacyLoss, *, stream: bool = False) -> PrivacyLoss:
    """Return the loss to charge for a mechanism that has run.

    Parameters
    ----------
    reserved
        The largest loss of a run.
    realised
        The loss by the run's outcome. Of one reserved pure mechanism, any parts: their sum counts. Of
        several parts, the realised ones stand at the same places; parts that did not run are left out at the
        end, and rounds by a smaller number of `times`: which ones ran must be told by what is released.
    stream
        Whether the mechanism took its questions one by one, so that other answers could come between.

    Returns
    -------
    PrivacyLoss
        A pure part with a smaller epsilon than reserved becomes `Realised`, or `Stream`. Selections of
        bounded range and Gaussian noise cost what was reserved for them.

    Raises
    ------
    InternalError
        If more is realised than was reserved, or the parts do not correspond.

    >>> one = PrivacyLoss.of(Fraction(1))
    >>> str(settle(one, PrivacyLoss.of(Fraction(1, 4)))), str(settle(one, one))
    ('sum 1/4 of 1', 'pure 1')
    >>> str(settle(PrivacyLoss.of(Fraction(1), times=10), PrivacyLoss.of(Fraction(1), times=3)))
    'pure 1 x 3'
    """
    if realised.delta > reserved.delta:
        raise InternalError("a mechanism's realised delta is more than what was reserved for it")
    if len(reserved.parts) == 1 and isinstance(reserved.parts[0], PureDP) and reserved.parts[0].times == 1:
        realised_epsilon = realised.epsilon
        if realised_epsilon is None:
            raise InternalError("a pure mechanism realised the loss of Gaussian noise")
        found = [_settle_pure(reserved.parts[0], realised_epsilon, 1, stream=stream)]
    else:
        if len(realised.parts) > len(reserved.parts) or stream:
            raise InternalError("a mechanism's realised loss does not correspond to what was reserved for it")
        found = [_settle_part(*pair) for pair in zip(reserved.parts, realised.parts, strict=False)]
    return PrivacyLoss(tuple(part for part in found if part is not None), realised.delta)


def _settle_part(reserved: Part, realised: Part) -> Part | None:
    if realised.times > reserved.times:
        raise InternalError("more rounds of a mechanism ran than were reserved")
    if isinstance(reserved, PureDP) and isinstance(realised, (PureDP, Realised)):
        return _settle_pure(reserved, realised.epsilon, realised.times, stream=False)
    if replace(reserved, times=realised.times) != realised:
        raise InternalError("a mechanism realised something else than what was reserved for it")
    return realised


def _settle_pure(reserved: PureDP, epsilon: Fraction, times: int, *, stream: bool) -> Part | None:
    """Return what a given number of rounds of a pure mechanism cost that realised an epsilon each."""
    if epsilon > reserved.epsilon:
        raise InternalError("a mechanism's realised epsilon is more than what was reserved for it")
    if epsilon == reserved.epsilon:
        return PureDP(epsilon, times)
    if stream:
        return Stream(epsilon, reserved.epsilon, times)
    return Realised(epsilon, reserved.epsilon, times) if epsilon else None


class Spending:
    """What the steps of one release have cost until now, within what is reserved for it.

    It is reserved for some parts of units, or for all (None): counts that depend on others are refused.
    """

    def __init__(self, limit: PrivacyLoss, unit_parts: PartSet | None = None) -> None:
        self.limit, self.unit_parts = limit, unit_parts
        self._spent: list[PrivacyLoss | _Parts] = []

    @property
    def loss(self) -> PrivacyLoss:
        """The loss of all steps, in the order in which they ran; of parallel parts, the largest loss."""
        return self.beside(None)

    def beside(self, parts: _Parts | None) -> PrivacyLoss:
        """Return the loss of all steps but the steps of some parallel parts."""
        others = (each for each in self._spent if each is not parts)
        return sum((each.loss if isinstance(each, _Parts) else each for each in others), PrivacyLoss())

    def check_parts(self, parts: PartSet | None) -> None:
        """Refuse counts of units of parts for which nothing is reserved; None: of all parts."""
        if self.unit_parts is not None and (parts is None or not parts <= self.unit_parts):
            raise InternalError("counts depend on units of parts that are not charged")

    def admit(self, most: PrivacyLoss) -> None:
        """Refuse a step that may cost so much, if that is more than is left."""
        self.check(self.loss + most)

    def check(self, total: PrivacyLoss) -> None:
        """Raise `InternalError` if a total loss is above what is reserved for the release."""
        if not is_within(total, self.limit):
            raise InternalError("a step would cost more than what is reserved for its release")

    def add(self, loss: PrivacyLoss) -> None:
        """Add the loss of a step that has run."""
        last = self._spent[-1] if self._spent else None
        if isinstance(last, PrivacyLoss):
            self._spent[-1] = last + loss
        else:
            self._spent.append(loss)

    def parts(self, number: int, times: int) -> list[Spending]:
        """Return a spending for each of several parts; the largest of their losses counts `times` times."""
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
        """The loss of the parts until now: the largest of their losses, `times` times."""
        known = dict.fromkeys(each.loss for each in self.each)
        return largest_loss(known).repeated(self.times) if known else PrivacyLoss()


class _PartSpending(Spending):
    """What the steps of one of several parts have cost."""

    def __init__(self, parts: _Parts) -> None:
        super().__init__(parts.whole.limit, parts.whole.unit_parts)
        self._parts = parts

    def check(self, total: PrivacyLoss) -> None:
        """Refuse steps that cost so much, as often as parts count, beside all steps of the whole."""
        whole = self._parts.whole
        whole.check(whole.beside(self._parts) + total.repeated(self._parts.times))
