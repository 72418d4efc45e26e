"""Numbers for people: budgets rounded against the analyst, estimates to the precision of their noise."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from fractions import Fraction


MOST_DRAWN, LEAST_DRAWN = 1e290, 1e-290
"""Numbers from here on are not drawn, and an axis is at least so long: places on it are finite then."""
_DIGITS = 4
"""Significant digits of a budget that has no short decimal."""


def show_spent(amount: Fraction) -> str:
    """Write an epsilon or delta that is spent or requested, rounded up.

    >>> from fractions import Fraction
    >>> show_spent(Fraction(7, 10)), show_spent(Fraction(1, 3)), show_spent(Fraction(1, 10**9))
    ('0.7', '0.3334', '1e-9')
    """
    return _round_decimal(amount, ROUND_CEILING)


def show_left(amount: Fraction) -> str:
    """Write a remaining epsilon or delta, rounded down.

    >>> from fractions import Fraction
    >>> show_left(Fraction(1, 3)), show_left(Fraction(99999, 10000))
    ('0.3333', '9.999')
    """
    return _round_decimal(amount, ROUND_FLOOR)


def _round_decimal(amount: Fraction, rounding: str) -> str:
    # Whole numbers keep all their digits.
    context = Context(prec=max(_DIGITS, len(str(int(amount)))), rounding=rounding)
    value = context.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize(context)
    return f"{value:f}" if not value or value.adjusted() >= -4 else f"{value:e}"


def unit_of(half: float) -> int | None:
    """Return the decimal place (a power of ten) that two significant digits of a half-width end at.

    >>> unit_of(41.3), unit_of(0.021), unit_of(412.0), unit_of(99.5)
    (0, -3, 1, 1)
    """
    if not math.isfinite(half) or half <= 0:
        return None
    place = math.floor(math.log10(half)) - 1
    # 99.5 is shown as 100: one place up, or it would have three digits.
    return place + 1 if _count_steps(half, place) >= 100 else place


def _count_steps(half: float, place: int) -> int:
    # A hair below, so that 41.000000000000006 is 41 and not 42. Below 1e-308 the step itself is no DOUBLE.
    steps = half / 10.0**place if place > -308 else float(Decimal(half).scaleb(-place))
    return math.ceil(steps * (1 - 1e-12))


def at_unit(value: float, place: int, rounding: str = ROUND_HALF_EVEN) -> str:
    """Write a number rounded to a multiple of 10^place, with separators of thousands.

    >>> at_unit(1234.4, 0), at_unit(12347.0, 1), at_unit(-0.01, 0), at_unit(2.5, -2)
    ('1,234', '12,350', '0', '2.50')
    """
    if not math.isfinite(value):
        return str(value)
    rounded = Decimal(repr(value)).scaleb(-place).to_integral_value(rounding).scaleb(place)
    return f"{abs(rounded) if rounded == 0 else rounded:,.{max(0, -place)}f}"


def number(value: float) -> str:
    """Write a float for reading: up to six significant digits, or four decimals if it is large.

    >>> number(0.1 + 0.2), number(1234567.891234), number(20.0), number(1e-7), number(-0.0)
    ('0.3', '1234567.8912', '20', '1e-07', '0')
    """
    if math.isfinite(value) and 1 <= abs(value) < 1e15:
        return f"{value:.4f}".rstrip("0").rstrip(".")
    return f"{value + 0.0:.6g}"


SYMMETRIC = 1.1
"""An interval is written with ± if its longer side is at most this many times its shorter side."""

FALSE_ROW = "may be a false row"
"""Said of a row over a threshold whose count has no lower bound: it may lie anywhere below."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A noisy number and the interval around it; None where there is no bound."""

    value: float
    low: float | None
    high: float | None

    @property
    def start(self) -> float:
        """The start of the interval as it is drawn: 0 without a lower bound, the value without any bound."""
        if self.low is None:
            return self.value if self.high is None else min(self.value, 0.0)
        return self.low

    @property
    def negative(self) -> bool:
        """Whether the whole interval is below 0; without an interval, whether the value is."""
        return (self.value if self.high is None else self.high) < 0

    @property
    def reach(self) -> float:
        """Where a bar for the estimate ends: the upper bound, or the value if that is larger."""
        return self.value if self.high is None else max(self.value, self.high)

    def drawn(self) -> Estimate | None:
        """Return what a picture has room for: an infinite end is none, and infinity and NaN have no place."""
        ends = [None if end is None or math.isinf(end) else end for end in (self.low, self.high)]
        every = (self.value, *(end for end in ends if end is not None))
        return Estimate(self.value, *ends) if all(abs(each) < MOST_DRAWN for each in every) else None

    def negate(self) -> Estimate:
        """Return the estimate of the negative of the number."""
        negated = (None if bound is None else -bound for bound in (self.high, self.low))
        return Estimate(-self.value, *negated)

    @property
    def half(self) -> float | None:
        """Half-width that is shown after ±: the distance to the farther bound, so that ± covers the interval.

        None if a bound is missing, or if one is more than a tenth farther than the other (`SYMMETRIC`): then
        the two bounds are shown.

        >>> Estimate(990.0, 840.0, 1155.0).half, Estimate(990.0, 914.0, 1150.0).half
        (165.0, None)
        """
        if self.low is None or self.high is None:
            return None
        # Bounds are floats: a side is known to a few units in the last place of the numbers it is between.
        slack = 4 * math.ulp(max(abs(self.value), abs(self.low), abs(self.high)))
        nearer = min(self.value - self.low, self.high - self.value)
        return self.farther if self.farther <= SYMMETRIC * nearer + slack else None

    @property
    def farther(self) -> float:
        """Distance to the farther bound; 0 if there is none."""
        return max(
            (abs(bound - self.value) for bound in (self.low, self.high) if bound is not None), default=0.0
        )

    @property
    def unit(self) -> int | None:
        """Decimal place of the noise; lower digits of the value carry no information."""
        return unit_of(self.farther)

    def text(self, *, pm: str = "±") -> tuple[str, str]:
        """Write the value and its uncertainty, the latter rounded outwards.

        >>> Estimate(1234.4, 1193.4, 1275.4).text(), Estimate(90.0, 80.0, None).text()
        (('1,234', '± 41'), ('90', '(≥ 80)'))
        >>> Estimate(990.0, 914.0, 1150.0).text()
        ('990', '(910 to 1,150)')
        >>> Estimate(90.0, None, 100.0).text()
        ('90', '(≤ 100, may be a false row)')
        >>> Estimate(90.0, 90.0, 90.0).text()  # of a number that is rounded
        ('90', '± 0')
        """
        place = self.unit
        if place is None:
            return number(self.value), f"{pm} 0" if self.low == self.high == self.value else ""
        value, half = at_unit(self.value, place), self.half
        if half is not None:
            return value, f"{pm} {half_text(half, place)}"
        least, most = ("≥", "≤") if pm == "±" else (">=", "<=")
        low = None if self.low is None else at_unit(self.low, place, ROUND_FLOOR)
        high = None if self.high is None else at_unit(self.high, place, ROUND_CEILING)
        if low is None or high is None:
            return value, f"({most} {high}, {FALSE_ROW})" if low is None else f"({least} {low})"
        return value, f"({low} to {high})"


def half_text(half: float, place: int) -> str:
    """Write a half-width to a decimal place, rounded up."""
    steps = Decimal(_count_steps(half, place)).scaleb(place)
    return f"{steps:,.{max(0, -place)}f}"
