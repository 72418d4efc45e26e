"""The privacy loss of a mechanism, or of several run one after the other: its parts, and a delta.

A part is what is known of the mechanisms that a statement runs. It stands for `times` equal ones. That number
is public: a bound, or what the release itself tells. Each mechanism may be chosen by what came before it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Self

from dpsql.errors import InternalError
from dpsql.kernel.loss.charge import Charge, gaussian_cost, pure_cost, range_cost
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PureDP:
    """Epsilon-differential privacy, but for a delta that the whole loss has."""

    epsilon: Fraction
    times: int = 1

    def __post_init__(self) -> None:
        _check(self.epsilon, self.times)

    @property
    def rho(self) -> Fraction:
        """The rho of each loss under zCDP: epsilon^2/2 (Bun and Steinke 2016, Proposition 3.3)."""
        return self.epsilon * self.epsilon / 2

    def cost(self, order: Fraction) -> Fraction:
        """Return what all of them cost at an order of Renyi divergence above 1."""
        return self.times * pure_cost(self.epsilon, order)

    def __str__(self) -> str:
        return _text(f"pure {self.epsilon}", self.times)


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """A selection whose log-ratio, over all outputs of two neighbours, lies in an interval of length epsilon.

    Only for the exponential mechanism and its like, and only if nothing of the noise but the choice is
    released. With a gap, a p-value or a noisy count it is `PureDP`.
    """

    epsilon: Fraction
    times: int = 1

    def __post_init__(self) -> None:
        _check(self.epsilon, self.times)

    @property
    def rho(self) -> Fraction:
        """The rho of each loss under zCDP: epsilon^2/8 (Cesar and Rogers 2021)."""
        return self.epsilon * self.epsilon / 8

    def cost(self, order: Fraction) -> Fraction:
        """Return what all of them cost at an order of Renyi divergence above 1."""
        return self.times * range_cost(self.epsilon, order)

    def __str__(self) -> str:
        return _text(f"range {self.epsilon}", self.times)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Rho-zero-concentrated differential privacy, as Gaussian noise gives it: for no epsilon alone."""

    rho: Fraction
    times: int = 1

    def __post_init__(self) -> None:
        _check(self.rho, self.times)

    @property
    def epsilon(self) -> None:
        """None: a Gaussian mechanism has no epsilon that basic composition could add."""

    def cost(self, order: Fraction) -> Fraction:
        """Return what all of them cost at an order of Renyi divergence above 1."""
        return self.times * gaussian_cost(self.rho, order)

    def __str__(self) -> str:
        return _text(f"gauss {self.rho}", self.times)


@dataclass(frozen=True, slots=True)
class Realised:
    """What a run of a pure mechanism cost by its outcome: the outcome's probabilities differ by e^epsilon.

    Notes
    -----
    The cost is the smaller one of the outcome's epsilon and of the mechanism's cost. *Never* the cost of a
    mechanism with the outcome's epsilon: cheap outcomes that are likely are paid for by dear ones that
    are rare, and the loss of the cheap ones has the same sign each time.

    *Private:* let L be the log-ratio of the laws P, Q of a mechanism with epsilon e, E the outcome's epsilon
    with |L| <= E <= e, c at least the divergence D of order a of randomised response for e, and b = a - 1.
    Then the mean of phi(L) = exp(b (L - min(|L|, c))) under P is at most 1, and so it is with E for |L|. For
    larger c, phi falls, so take c = D, and v = (1 - exp(-b (e + c)))/(exp(e) - 1). It suffices that phi(L) <=
    1 + v (1 - exp(-L)) on [-e, e], as the mean of exp(-L) is 1. For 0 <= L <= c, phi is 1. On [c, e] phi is
    convex, the right side is concave, and they are ordered at both ends; at e they are equal, which defines
    D. As functions of x = -L in [0, e], phi is convex, its slope jumping from -2 b phi to -b phi at c, and
    the right side is concave; at 0 and e they are equal. It is for one-shot releases: a stream, whose
    questions other answers may decide while it is open, is a `Stream`.
    """

    epsilon: Fraction
    """Of the outcome."""
    reserved: Fraction | None = None
    """The epsilon of the mechanism; None: not known."""
    times: int = 1

    def __post_init__(self) -> None:
        _check(self.epsilon, self.times)
        if self.reserved is not None and self.reserved <= self.epsilon:
            raise ValueError("what is realised must be less than what is reserved; else the part is pure")

    @property
    def rho(self) -> Fraction | None:
        """The rho of each loss under zCDP, from the reserved epsilon; None if that is not known."""
        return None if self.reserved is None else self.reserved * self.reserved / 2

    def cost(self, order: Fraction) -> Fraction:
        """Return what all of them cost at an order of Renyi divergence above 1."""
        most = self.epsilon if self.reserved is None else pure_cost(self.reserved, order)
        return self.times * min(self.epsilon, most)

    def __str__(self) -> str:
        return _text(f"sum {self.epsilon}" + _of(self.reserved), self.times)


@dataclass(frozen=True, slots=True)
class Stream:
    """What a pure mechanism that took its questions one by one cost by its answers.

    It is a post-processing of one randomised response, whatever runs besides (Vadhan and Wang 2021; Lyu
    2022), so its cost is that of all it had reserved; only basic composition counts what is realised.
    """

    epsilon: Fraction
    reserved: Fraction
    times: int = 1

    def __post_init__(self) -> None:
        _check(self.reserved, self.times)
        if not (self.epsilon.numerator >= 0 and self.epsilon < self.reserved):
            raise ValueError("what is realised must be less than what is reserved; else the part is pure")

    @property
    def rho(self) -> Fraction:
        """The rho of each loss under zCDP, from the reserved epsilon."""
        return self.reserved * self.reserved / 2

    def cost(self, order: Fraction) -> Fraction:
        """Return what all of them cost at an order of Renyi divergence above 1."""
        return self.times * pure_cost(self.reserved, order)

    def __str__(self) -> str:
        return _text(f"stream {self.epsilon}" + _of(self.reserved), self.times)


Part = PureDP | BoundedRange | Gaussian | Realised | Stream
"""What is known of each of so many mechanisms."""


def _check(amount: Fraction, times: int) -> None:
    if amount.numerator <= 0:
        raise ValueError("the epsilon or rho of a part cannot be zero or negative")
    if times < 1:
        raise ValueError("a part runs at least once")


def _of(reserved: Fraction | None) -> str:
    return "" if reserved is None else f" of {reserved}"


def _text(one: str, times: int) -> str:
    return one if times == 1 else f"{one} x {times}"


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
        """Return the loss of several runs of the mechanism that has this loss."""
        if times == 0:
            return PrivacyLoss()
        parts = tuple(replace(part, times=part.times * times) for part in self.parts)
        return PrivacyLoss(parts, times * self.delta)

    @property
    def joined(self) -> PrivacyLoss:
        """The equal loss in which equal parts that stand next to each other are one part.

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
