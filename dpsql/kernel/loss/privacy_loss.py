"""The privacy loss of a mechanism, or of several run one after the other: its parts, and a delta."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from dpsql.errors import InternalError
from dpsql.kernel.loss.charge import Charge
from dpsql.kernel.loss.parts import BoundedRange, Gaussian, Part, PureDP, Realised, Stream

_NUMBER = r"(?:0|[1-9]\d{0,2999})(?:/[1-9]\d{0,2999})?"
_PART = re.compile(
    rf"(?P<kind>pure|range|gauss|sum|stream) (?P<amount>{_NUMBER})(?: of (?P<reserved>{_NUMBER}))?"
    r"(?: x (?P<times>[1-9]\d{0,17}))?",
    re.ASCII,
)
_DELTA = re.compile(rf"delta (?P<delta>{_NUMBER})", re.ASCII)
_NOTHING = "none"


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The parts of a privacy loss in the order in which they run, and a delta for all of them; exact.

    What is charged depends on the accounting: `charge` is basic composition, `cost` what is added at one
    order of Renyi divergence. With delta, both laws of two neighbours are within delta of laws that the
    parts describe.

    >>> loss = PrivacyLoss.of(Fraction(1, 4), times=2) + PrivacyLoss.of(Fraction(1, 2), Fraction(1, 10**9))
    >>> loss.charge
    Charge(epsilon=1, delta=1e-9)
    >>> str(loss)
    'pure 1/4 x 2 + pure 1/2 + delta 1/1000000000'
    >>> PrivacyLoss.parse(str(loss)) == loss
    True
    """

    parts: tuple[Part, ...] = ()
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.delta.numerator < 0:
            raise ValueError("a delta cannot be negative")

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction = Fraction(0), *, times: int = 1) -> Self:
        """Return the loss of equal (epsilon, delta)-private mechanisms, run one after the other."""
        if epsilon.numerator < 0 or times < 0:
            raise ValueError("a loss cannot be negative")
        parts = (PureDP(epsilon, times),) if epsilon and times else ()
        return cls(parts, times * delta) if delta else cls(parts)

    @classmethod
    def gaussian(cls, rho: Fraction) -> Self:
        """Return the loss of Gaussian noise that is rho-zero-concentrated differentially private."""
        return cls((Gaussian(rho),))

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        return PrivacyLoss(self.parts + other.parts, self.delta + other.delta)

    def repeated(self, times: int) -> PrivacyLoss:
        """Return the loss of so many runs."""
        if times == 0:
            return PrivacyLoss()
        parts = tuple(replace(part, times=part.times * times) for part in self.parts)
        return PrivacyLoss(parts, times * self.delta)

    @property
    def joined(self) -> PrivacyLoss:
        """The same loss with equal parts next to each other as one.

        >>> str(sum([PrivacyLoss.of(Fraction(1, 4))] * 3, PrivacyLoss()).joined)
        'pure 1/4 x 3'
        """
        found: list[Part] = []
        for part in self.parts:
            if found and replace(part, times=found[-1].times) == found[-1]:
                found[-1] = replace(part, times=found[-1].times + part.times)
            else:
                found.append(part)
        return PrivacyLoss(tuple(found), self.delta)

    @property
    def epsilon(self) -> Fraction | None:
        """The sum of all parts by basic composition; None if a part has no epsilon."""
        total = None
        for part in self.parts:
            if part.epsilon is None:
                return None
            each = part.epsilon if part.times == 1 else part.times * part.epsilon
            total = each if total is None else total + each
        return Fraction(0) if total is None else total

    @property
    def charge(self) -> Charge:
        """The sum of all parts by basic composition; `InternalError` if a part has no epsilon."""
        epsilon = self.epsilon
        if epsilon is None:
            raise InternalError("Gaussian noise has no epsilon that could be added to others")
        return Charge(epsilon, self.delta)

    @property
    def rho(self) -> Fraction | None:
        """A rho of zero-concentrated privacy of all parts, but for delta; None if none is known."""
        total = Fraction(0)
        for part in self.parts:
            if part.rho is None:
                return None
            total += part.times * part.rho
        return total

    def cost(self, order: Fraction) -> Fraction:
        """Return the sum of all parts at an order of Renyi divergence, which must be above 1."""
        return sum((part.cost(order) for part in self.parts), Fraction(0))

    def __str__(self) -> str:
        said = [str(part) for part in self.parts]
        return " + ".join([*said, f"delta {self.delta}"] if self.delta else said) or _NOTHING

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a loss back; `ValueError` for any text that `str` does not write."""
        found = cls(*_read(text.split(" + "))) if text != _NOTHING else cls()
        if str(found) != text:
            raise ValueError("not a privacy loss in its canonical text")
        return found


def _read(terms: list[str]) -> tuple[tuple[Part, ...], Fraction]:
    delta = _DELTA.fullmatch(terms[-1])
    found = [_PART.fullmatch(term) for term in (terms[:-1] if delta else terms)]
    parts = tuple(_part(match) for match in found)
    return parts, Fraction(delta["delta"]) if delta else Fraction(0)


def _part(match: re.Match[str] | None) -> Part:
    if match is None:
        raise ValueError("not a part of a privacy loss")
    kind, amount, times = match["kind"], Fraction(match["amount"]), int(match["times"] or 1)
    reserved = Fraction(match["reserved"]) if match["reserved"] else None
    if kind == "stream" and reserved is not None:
        return Stream(amount, reserved, times)
    if kind == "sum":
        return Realised(amount, reserved, times)
    if reserved is not None or kind == "stream":
        raise ValueError("only what is realised is a part of what is reserved")
    if kind == "gauss":
        return Gaussian(amount, times)
    return (PureDP if kind == "pure" else BoundedRange)(amount, times)
