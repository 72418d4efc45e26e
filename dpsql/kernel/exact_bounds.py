"""Certified bounds of e^-x and of logarithms in integer arithmetic, at any precision."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache


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


def log_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Bound ln x from both sides, to `bits` binary places.

    Parameters
    ----------
    x
        A positive rational.
    bits
        Binary places of the answer.

    Returns
    -------
    low, high
        `low <= 2^bits ln x <= high`, a few units apart.

    Notes
    -----
    x is 2^n m with m in (1/2, 2), and ln m = 2 artanh((m - 1)/(m + 1)).

    >>> log_bounds(Fraction(2), 16), log_bounds(Fraction(1, 3), 16)
    ((45426, 45427), (-71999, -71998))
    """
    twos = x.numerator.bit_length() - x.denominator.bit_length()
    work = bits + 12 + abs(twos).bit_length()
    over, under = x.numerator << max(-twos, 0), x.denominator << max(twos, 0)
    low, high = _twice_artanh(abs(over - under), over + under, work)
    if over < under:
        low, high = -high, -low
    ends = [twos * end for end in _log_two(work)]
    cut = work - bits
    return (low + min(ends)) >> cut, -(-(high + max(ends)) >> cut)


def log1p_bounds(low: int, high: int, bits: int) -> tuple[int, int]:
    """Bound ln(1 + y) for a y that is bounded itself, `low <= 2^bits y <= high`, with 0 <= y <= 1.

    As in `log_bounds`, with ln(1 + y) = 2 artanh(y/(2 + y)).

    >>> log1p_bounds(1 << 15, 1 << 15, 16)
    (26572, 26573)
    """
    two, work = 2 << bits, bits + 8
    return _twice_artanh(low, two + low, work)[0] >> 8, -(-_twice_artanh(high, two + high, work)[1] >> 8)


@lru_cache(maxsize=64)
def _log_two(bits: int) -> tuple[int, int]:
    return _twice_artanh(1, 3, bits)


def _twice_artanh(over: int, under: int, bits: int) -> tuple[int, int]:
    """Bound 2 artanh(over/under) from both sides, to `bits` binary places, for a quotient of at most 1/3.

    Every step rounds down, so the sum of z^(2j+1)/(2j+1) is a lower bound. A power is at most 3 units too
    small, as its error is less than a quarter of the one before plus 2; a term at most 4; and what follows
    the first power that is truncated to 0 is below 4.
    """
    z = (over << bits) // under
    square, power = z * z >> bits, z
    total, n = 0, 0
    while power:
        total += power // (2 * n + 1)
        power = power * square >> bits
        n += 1
    return 2 * total, 2 * (total + 4 * n + 8)
