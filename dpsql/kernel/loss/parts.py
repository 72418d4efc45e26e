"""The parts of a privacy loss: what is known of each mechanism that a statement runs one after the other.

A part stands for `times` equal mechanisms. That number is public: a bound, or what the release itself tells.
Each mechanism may be chosen by what came before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.kernel.loss.renyi import gaussian_cost, pure_cost, range_cost


@dataclass(frozen=True, slots=True)
class PureDP:
    """Epsilon-differential privacy, but for a delta that the whole loss has."""

    epsilon: Fraction
    times: int = 1

    def __post_init__(self) -> None:
        _check(self.epsilon, self.times)

    @property
    def rho(self) -> Fraction:
        """Of each, epsilon^2/2 (Bun and Steinke 2016, Proposition 3.3)."""
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
        """Of each, epsilon^2/8 (Cesar and Rogers 2021)."""
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
        """None: basic composition cannot add it."""

    def cost(self, order: Fraction) -> Fraction:
        """Return what all of them cost at an order of Renyi divergence above 1."""
        return self.times * gaussian_cost(self.rho, order)

    def __str__(self) -> str:
        return _text(f"gauss {self.rho}", self.times)


@dataclass(frozen=True, slots=True)
class Realised:
    """What a run of a pure mechanism cost by its outcome: the outcome's probabilities differ by e^epsilon.

    Attributes
    ----------
    epsilon
        Of the outcome.
    reserved
        The epsilon of the mechanism; None: not known.

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
    reserved: Fraction | None = None
    times: int = 1

    def __post_init__(self) -> None:
        _check(self.epsilon, self.times)
        if self.reserved is not None and self.reserved <= self.epsilon:
            raise ValueError("what is realised must be less than what is reserved; else the part is pure")

    @property
    def rho(self) -> Fraction | None:
        """Of each, that of what was reserved; None if that is not known."""
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
        """Of each, that of what was reserved."""
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
