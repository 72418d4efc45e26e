"""Exact amounts as the ledger stores them, and as an error message shows them."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dpsql.privacy import Charge


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
    match = _STORED.fullmatch(text) if isinstance(text, str) else None
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


def read_loss(text: object) -> Charge:
    """Read the charge of an entry back, as `write_loss` writes it."""
    epsilon, separator, delta = text.partition(" ") if isinstance(text, str) else ("", "", "")
    if not separator:
        raise DamagedError("not a charge")
    return read_charge(epsilon, delta)


def write_loss(charge: Charge) -> str:
    """Return the charge of an entry as it is stored.

    >>> write_loss(Charge(Fraction(1, 2)))
    '1/2 0/1'
    """
    return " ".join(write_charge(charge))


def too_wide(total: Charge, charge: Charge) -> bool:
    """Whether adding `charge` made the digits of `total` outgrow the ledger.

    A decimal of up to 60 places is always fine: all of those together need one denominator of 200 bits.
    """
    pairs = ((total.epsilon, charge.epsilon), (total.delta, charge.delta))
    return any(
        _GRID % part.denominator and whole.denominator.bit_length() > _WIDEST for whole, part in pairs
    ) or any(max(part.denominator, part.numerator).bit_length() > _WIDEST for _, part in pairs)


def moved(spent: Charge, *, less: Charge, more: Charge) -> Charge:
    """Return `spent - less + more`, exactly."""
    try:
        return Charge(spent.epsilon - less.epsilon + more.epsilon, spent.delta - less.delta + more.delta)
    except ValueError:
        raise DamagedError("a total is less than what it is the sum of") from None


def rounded_up(charge: Charge, most: Charge) -> Charge:
    """Return the least decimal of 60 places that is not below `charge`, or `most` if that is less."""
    return Charge(
        min(most.epsilon, Fraction(math.ceil(charge.epsilon * _GRID), _GRID)),
        min(most.delta, Fraction(math.ceil(charge.delta * _GRID), _GRID)),
    )


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
