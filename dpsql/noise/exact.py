"""Certified bounds of e^-x in integer arithmetic, at any precision."""

from __future__ import annotations

from fractions import Fraction


def positive_rational(value: Fraction | int, name: str) -> Fraction:
    """Check a positive rational parameter of a sampler; raises `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise ValueError(f"{name} must be an int or a Fraction")  # noqa: TRY004  one error type for callers
    if value.numerator <= 0:
        raise ValueError(f"{name} must be positive")
    return value if type(value) is Fraction else Fraction(value)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Bound e^-x from both sides, to `bits` binary places.

    Parameters
    ----------
    x
        A positive rational. e^-x is then irrational, so both bounds are strict.
    bits
        Binary places of the answer.

    Returns
    -------
    low, high
        `0 <= low < 2^bits e^-x < high`, a few units apart.

    Notes
    -----
    x is halved s times until it is at most 1/2, and the result squared s times; a squaring at most
    doubles the width of the bounds (the values are at most 1), for which s + 16 guard bits are kept.
    Each Taylor term is a truncated product of a truncated one: off by at most 3 units of the last
    place, and the alternating tail is below its first left-out term, which is 0 when truncated.

    >>> exp_bounds(Fraction(1), 16)
    (24109, 24110)
    """
    halvings = max(0, (2 * x.numerator // x.denominator).bit_length())
    work = bits + halvings + 16
    unit = 1 << work
    scaled = (x.numerator << work) // (x.denominator << halvings)
    total, term, n = unit, unit, 0
    while term:
        n += 1
        term = (term * scaled >> work) // n
        total += -term if n % 2 else term
    # 3 units a term, one for x itself cut off, one for the tail, both rounded up.
    low, high = max(total - 3 * n - 4, 0), min(total + 3 * n + 4, unit)
    for _ in range(halvings):
        low, high = low * low >> work, (high * high >> work) + 1
    cut = work - bits
    return low >> cut, (high >> cut) + 1


def scaled_exp_bounds(x: Fraction, bits: int) -> tuple[int, int, int]:
    """Bound e^-x from both sides, to `bits` significant binary digits, however small it is.

    Parameters
    ----------
    x
        A positive rational.
    bits
        Significant digits of the bounds.

    Returns
    -------
    low, high, places
        `0 < low < 2^places e^-x < high`, a few units apart.

    Notes
    -----
    As in `exp_bounds`, but every square keeps its leading digits only. A squaring doubles the relative width
    of the bounds and adds two units.

    >>> scaled_exp_bounds(Fraction(100), 16)
    (54368, 54369, 160)
    """
    halvings = max(0, (2 * x.numerator // x.denominator).bit_length())
    work = places = bits + halvings + 16
    low, high = exp_bounds(x / (1 << halvings), work)
    for _ in range(halvings):
        low, high = low * low, high * high
        cut = high.bit_length() - work
        low, high, places = low >> cut, (high >> cut) + 1, 2 * places - cut
    cut = high.bit_length() - bits
    return low >> cut, (high >> cut) + 1, places - cut
