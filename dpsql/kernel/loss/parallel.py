"""A privacy loss that is at least each of several, as that of disjoint sets of units needs it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpsql.kernel.loss.parts import BoundedRange, Gaussian, Part, PureDP, Realised, Stream
from dpsql.kernel.loss.privacy_loss import PrivacyLoss


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
        if all(_within(other.parts, loss.parts) for other in known):
            return PrivacyLoss(loss.parts, delta)
    noise = [[part for part in loss.parts if isinstance(part, Gaussian)] for loss in known]
    rho = max(_sum(part.times * part.rho for part in parts) for parts in noise)
    finite = [[part for part in loss.parts if not isinstance(part, Gaussian)] for loss in known]
    epsilon = max(_sum(part.times * part.epsilon for part in parts) for parts in finite)
    reserved = max(_sum(part.times * _reserved(part) for part in parts) for parts in finite)
    streams = any(isinstance(part, Stream) for parts in finite for part in parts)
    found: list[Part] = [Gaussian(rho)] if rho else []
    if epsilon < reserved:
        found.append(Stream(epsilon, reserved) if streams else Realised(epsilon, reserved))
    elif epsilon:
        found.append(PureDP(epsilon))
    return PrivacyLoss(tuple(found), delta)


def _sum(amounts: Iterable[Fraction]) -> Fraction:
    return sum(amounts, Fraction(0))


def _within(parts: tuple[Part, ...], most: tuple[Part, ...]) -> bool:
    """Whether each part is at most the one of others at its place."""
    return len(parts) <= len(most) and all(map(_at_most, parts, most))


def _at_most(part: Part, other: Part) -> bool:
    if part.times > other.times:
        return False
    if isinstance(part, Gaussian) or isinstance(other, Gaussian):
        return isinstance(part, Gaussian) and isinstance(other, Gaussian) and part.rho <= other.rho
    # A selection costs at most a pure mechanism, and what is realised at most all that was reserved.
    kinds = (type(part), PureDP, Stream) if isinstance(part, Realised) else (type(part), PureDP)
    if not isinstance(other, kinds):
        return False
    return part.epsilon <= other.epsilon and _reserved(part) <= _reserved(other)


def _reserved(part: PureDP | BoundedRange | Realised | Stream) -> Fraction:
    if isinstance(part, (PureDP, BoundedRange)):
        return part.epsilon
    if part.reserved is None:
        raise ValueError("the epsilon that was reserved is not known")
    return part.reserved
