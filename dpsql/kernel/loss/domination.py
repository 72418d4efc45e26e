"""Compare two losses part by part: one that is charged must be within the one that was reserved."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpsql.kernel.loss.parts import BoundedRange, Gaussian, Part, PureDP
from dpsql.kernel.loss.privacy_loss import PrivacyLoss

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
    rho = sum((part.times * part.rho for part in _noise(loss)), Fraction(0))
    if rho and rho > sum(part.times * part.rho for part in _noise(most)):
        return False
    ranges = _amounts(part for part in most.parts if isinstance(part, BoundedRange))
    own = [part for part in loss.parts if ranges and isinstance(part, BoundedRange)]
    others = [part for part in loss.parts if part not in own and not isinstance(part, Gaussian)]
    pure = _amounts(part for part in most.parts if isinstance(part, PureDP))
    return _within(_amounts(own), ranges) and _within(_amounts(others), pure)


def _noise(loss: PrivacyLoss) -> list[Gaussian]:
    return [part for part in loss.parts if isinstance(part, Gaussian)]


def _amounts(parts: Iterable[Part]) -> list[_Amount] | None:
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


def _within(amounts: list[_Amount] | None, most: list[_Amount] | None) -> bool:
    """Whether amounts can be divided among larger ones."""
    if amounts is None or most is None:
        return False
    return all(
        sum(n * a for a, n in amounts if a >= least) <= sum(n * b for b, n in most if b >= least)
        for least in {a for a, _ in amounts}
    )
