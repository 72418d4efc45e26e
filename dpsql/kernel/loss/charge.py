"""What is charged, exactly: a charge of epsilon and delta, and the cost at one order of Renyi divergence.

Charges are added and compared without rounding. Costs are exact rationals, never below the true divergence.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from operator import index

from dpsql.kernel.exact_bounds import exp_bounds, log1p_bounds
from dpsql.lazy_dataclass import dataclass

Number = int | str | float | Fraction | Decimal
"""What a user may give for epsilon or delta."""

_DECIMAL = re.compile(r"\s*[+-]?(\d{1,40}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,3})?\s*")
_RATIO = re.compile(r"\s*[+-]?\d{1,400}\s*/\s*\d{1,400}\s*")


def exact(value: Number) -> Fraction:
    """Read a number as the rational its author typed: `0.7` is 7/10, not the double nearest to it.

    A float is read as its shortest decimal. Raises `ValueError` for NaN, infinities and text that is
    no number (or has an absurd size: over 40 digits before the point, an exponent of four digits).

    >>> exact(0.7), exact("1e-6"), exact("1/3")
    (Fraction(7, 10), Fraction(1, 1000000), Fraction(1, 3))
    """
    if isinstance(value, bool):
        raise ValueError("expected a number, got a boolean")  # noqa: TRY004  one error type for callers
    # Subclasses are read by the methods of their bases: what is returned runs no code of the caller's.
    if isinstance(value, int):
        return Fraction(int.__int__(value))
    if type(value) is Fraction and type(value.numerator) is int is type(value.denominator):
        return value
    if isinstance(value, Fraction):
        return Fraction(int.__int__(index(value.numerator)), int.__int__(index(value.denominator)))
    text = (
        str(Decimal(value))
        if isinstance(value, Decimal)
        else float.__repr__(value)
        if isinstance(value, float)
        else str.__str__(value)
        if isinstance(value, str)
        else None
    )
    if text is None or not (_DECIMAL.fullmatch(text) or _RATIO.fullmatch(text)):
        raise ValueError(f"not a finite number: {str(value)[:40]!r}")
    try:
        return Fraction(text.replace(" ", ""))
    except ZeroDivisionError:
        raise ValueError("not a finite number: division by zero") from None


def as_text(amount: Fraction) -> str:
    """Return a number as a person writes it, exactly: a decimal where it is one, else a fraction.

    >>> [as_text(Fraction(text)) for text in ("0.75", "1e-7", "1/3", "1000000", "0")]
    ['0.75', '1e-7', '1/3', '1000000', '0']
    """
    places = next((n for n in range(31) if 10**n % amount.denominator == 0), None)
    if places is None:
        return str(amount)
    number = Decimal(amount.numerator * 10**places // amount.denominator).scaleb(-places)
    plain = f"{number:f}" if number == 0 or number.adjusted() > -5 else str(number.normalize()).lower()
    return plain.rstrip("0").rstrip(".") if "." in plain and "e" not in plain else plain


@dataclass(frozen=True, slots=True)
class Charge:
    """An amount of privacy loss, (epsilon, delta)-differential privacy, exact.

    >>> Charge(Fraction(1, 2)) + Charge(Fraction(1, 4), Fraction(1, 10**9))
    Charge(epsilon=0.75, delta=1e-9)
    >>> Charge(Fraction(1, 3)), Charge(Fraction(1, 3)).epsilon
    (Charge(epsilon=1/3, delta=0), Fraction(1, 3))
    """

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.epsilon.numerator < 0 or self.delta.numerator < 0:
            raise ValueError("a charge cannot be negative")

    def __repr__(self) -> str:
        return f"Charge(epsilon={as_text(self.epsilon)}, delta={as_text(self.delta)})"

    def __add__(self, other: Charge) -> Charge:
        return Charge(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: Charge) -> Charge:
        """Return the difference, cut off at zero: what is left of a budget after spending."""
        return Charge(
            max(self.epsilon - other.epsilon, Fraction(0)), max(self.delta - other.delta, Fraction(0))
        )

    @property
    def fractions(self) -> dict[str, str]:
        """Both parts by name, as exact text: what JSON has of a charge."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    def fits(self, available: Charge) -> bool:
        """Whether epsilon and delta are at most the epsilon and delta of `available`."""
        return self.epsilon <= available.epsilon and self.delta <= available.delta


DECIMALS = 10**12
"""Divergences are rounded up to 12 decimals, and what is chosen to fit a cost down to them."""

_BITS = 64


@lru_cache(maxsize=1 << 14)
def pure_cost(epsilon: Fraction, order: Fraction) -> Fraction:
    """Return the cost of an epsilon-differentially private mechanism: its divergence, rounded up, or epsilon.

    Notes
    -----
    Every pair of laws within a factor e^epsilon of each other is a post-processing of randomised response
    (Kairouz, Oh and Viswanath 2015). So no Renyi divergence of order a is larger than that of randomised
    response, D = epsilon + ln((1 + e^(-(2a - 1) epsilon))/(1 + e^-epsilon))/(a - 1), which is at most epsilon
    and at most a epsilon^2/2.

    >>> pure_cost(Fraction(1, 10), Fraction(4)), pure_cost(Fraction(1), Fraction(4))
    (Fraction(9798231469, 500000000000), Fraction(447941629823, 500000000000))
    """
    return min(epsilon, _divergence(epsilon, order))


def range_cost(epsilon: Fraction, order: Fraction) -> Fraction:
    """Return the cost of a mechanism whose log-ratios lie in one interval of length epsilon.

    At most a epsilon^2/8 for the order a (Dong, Durfee and Rogers 2020; Cesar and Rogers 2021).

    >>> range_cost(Fraction(1, 10), Fraction(4))
    Fraction(1, 200)
    """
    return min(pure_cost(epsilon, order), order * epsilon * epsilon / 8)


def gaussian_cost(rho: Fraction, order: Fraction) -> Fraction:
    """Return the cost of rho-zero-concentrated differential privacy."""
    return order * rho


def _divergence(epsilon: Fraction, order: Fraction) -> Fraction:
    """Return the least number of 12 decimals that is not below the divergence of randomised response.

    No divergence has finitely many decimals: e^-epsilon is transcendental, and in it the equation of the
    divergence with a rational is algebraic and no identity. So the digits come out.
    """
    over, under = epsilon.numerator, epsilon.denominator
    steps, of = (order - 1).numerator, (order - 1).denominator
    bits = _BITS + steps.bit_length()
    while True:
        near, far = exp_bounds(epsilon, bits), exp_bounds((2 * order - 1) * epsilon, bits)
        least = log1p_bounds(*far, bits)[0] - log1p_bounds(*near, bits)[1]
        # The quotient is below 1, however close to it.
        most = min(log1p_bounds(*far, bits)[1] - log1p_bounds(*near, bits)[0], 0)
        scale = (under * steps) << bits
        first, last = (
            -(-DECIMALS * (((over * steps) << bits) + log * of * under) // scale) for log in (least, most)
        )
        if first == last:
            return Fraction(last, DECIMALS)
        bits *= 2


@lru_cache(maxsize=1024)
def largest_epsilon(cost: Fraction, order: Fraction) -> Fraction:
    """Return the largest epsilon of 12 decimals that costs at most this as a pure mechanism."""
    steps = math.floor(cost * DECIMALS)
    # The cost is at most epsilon and, rounded up, at most order epsilon^2/2.
    low = max(steps, math.isqrt(math.floor(2 * steps * DECIMALS / order)))
    stride = 1
    while _fits(low + stride, cost, order):
        low += stride
        stride *= 2
    high = low + stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(middle, cost, order) else (low, middle)
    return Fraction(low, DECIMALS)


def _fits(steps: int, cost: Fraction, order: Fraction) -> bool:
    return pure_cost.__wrapped__(Fraction(steps, DECIMALS), order) <= cost
