"""Exact amounts as the ledger stores them, and as an error message shows them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from dpsql.kernel.loss import Charge, Part, PrivacyLoss, PureDP, Realised, Stream, Totals


class DamagedError(ValueError):
    """A stored amount that the ledger cannot have written."""


_STORED = re.compile(r"(0|[1-9]\d{0,2999})/([1-9]\d{0,2999})", re.ASCII)

# A total is a sum of rationals, so its denominator grows with every new prime in a charge. Without
# a limit the cost of a charge would grow too, and the text of a total would outgrow what Python converts.
_WIDEST = 4096
_GRID = 10**60


def write(amount: Fraction) -> str:
    """Return `numerator/denominator`, the form in which amounts are stored.

    >>> write(Fraction(7, 10)), read("7/10")
    ('7/10', Fraction(7, 10))
    """
    return f"{amount.numerator}/{amount.denominator}"


def read(text: object) -> Fraction:
    """Read an amount back; `DamagedError` for anything that `write` does not produce."""
    if not isinstance(text, str):
        raise DamagedError("not an amount")
    return _read(text)


@lru_cache(maxsize=256)
def _read(text: str) -> Fraction:
    match = _STORED.fullmatch(text)
    if match is None:
        raise DamagedError("not an amount")
    amount = Fraction(int(match[1]), int(match[2]))
    if write(amount) != text:
        raise DamagedError("not an amount in lowest terms")
    return amount


def read_charge(epsilon: object, delta: object) -> Charge:
    """Read a charge back, as `read` does its amounts."""
    return Charge(read(epsilon), read(delta))


def write_charge(charge: Charge) -> tuple[str, str]:
    """Return epsilon and delta as they are stored."""
    return write(charge.epsilon), write(charge.delta)


def read_loss(text: object) -> PrivacyLoss:
    """Read the loss of an entry back; `DamagedError` for anything that `str` of one does not write."""
    try:
        return _parsed(text) if isinstance(text, str) else PrivacyLoss.parse("")
    except ValueError:
        raise DamagedError("not a privacy loss") from None


_parsed = lru_cache(maxsize=1024)(PrivacyLoss.parse)


def too_wide(total: Totals, more: Totals) -> bool:
    """Whether adding `more` made the digits of `total` outgrow the ledger.

    A decimal of up to 60 places is always fine: all of those together need one denominator of 200 bits.
    """
    zero = Fraction(0)
    pairs = (
        (total.epsilon or zero, more.epsilon or zero),
        (total.delta, more.delta),
        (total.cost, more.cost),
    )
    return any(
        _GRID % part.denominator and whole.denominator.bit_length() > _WIDEST for whole, part in pairs
    ) or any(max(part.denominator, part.numerator).bit_length() > _WIDEST for _, part in pairs)


def rounded_up(loss: PrivacyLoss) -> PrivacyLoss:
    """Return a loss that is no less, and in which what was realised has at most 60 decimals."""

    def rounded(amount: Fraction) -> Fraction:
        return Fraction(math.ceil(amount * _GRID), _GRID)

    parts: list[Part] = []
    for part in loss.parts:
        if not isinstance(part, (Realised, Stream)) or part.reserved is None:
            parts.append(part)
        elif rounded(part.epsilon) < part.reserved:
            parts.append(replace(part, epsilon=rounded(part.epsilon)))
        else:
            parts.append(PureDP(part.reserved, part.times))
    return PrivacyLoss(tuple(parts), rounded(loss.delta))


def shown(amount: Fraction, *, up: bool) -> str:
    """Show an amount with six digits, rounded up (what is asked for) or down (what is left).

    >>> shown(Fraction(2, 3), up=True), shown(Fraction(2, 3), up=False), shown(Fraction(1, 10**9), up=True)
    ('0.666667', '0.666666', '1e-9')
    """
    context = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    rounded = context.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize(context)
    if rounded.is_zero():
        return "0"
    return f"{rounded:f}" if -5 < rounded.adjusted() < 9 else str(rounded).lower()
