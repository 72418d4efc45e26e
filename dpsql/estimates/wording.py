"""Predicted errors in words, for EXPLAIN."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction


def decimal(value: Fraction) -> str:
    """Write an exact number with separators of thousands: as a decimal of at most ten places, else rounded.

    >>> decimal(Fraction(5, 2)), decimal(Fraction(10**6)), decimal(Fraction(1, 3))
    ('2.5', '1,000,000', '0.333333')
    """
    number, divisor = value.numerator, value.denominator
    places = next((n for n in range(11) if 10**n % divisor == 0), None)
    if places is None:
        return f"{float(value):,.6g}"
    return f"{Decimal(number * 10**places // divisor).scaleb(-places):,f}"


def figure(value: float) -> str:
    """Write a predicted figure: three significant digits, or a whole number with separators of thousands.

    >>> figure(0.00412), figure(35949.2), figure(12.0)
    ('0.00412', '35,949', '12')
    """
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def with_noun(number: int | str, noun: str, verb: str = "") -> str:
    """Write a number with its noun, and a verb behind it, in the plural unless the number is 1.

    >>> with_noun(1, "person"), with_noun(1200, "row"), with_noun("1.5", "row"), with_noun(2, "entity")
    ('1 person', '1,200 rows', '1.5 rows', '2 entities')
    >>> with_noun(1, "row", "count"), with_noun(2, "row", "count"), with_noun(1, "unit", "reach")
    ('1 row counts', '2 rows count', '1 unit reaches')
    >>> with_noun(1, "group", "are")
    '1 group is'
    """
    text = number if isinstance(number, str) else f"{number:,}"
    one = text == "1"
    said = verb if not one else plural(verb)
    return f"{text} {noun if one else plural(noun)}" + (f" {said}" if verb else "")


def plural(word: str) -> str:
    """Return the plural of a noun, or the third person of a verb.

    >>> plural("patient"), plural("entity"), plural("are")
    ('patients', 'entities', 'is')
    """
    if word == "are":
        return "is"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    return f"{word[:-1]}ies" if word[-1:] == "y" and word[-2:-1] not in "aeiou" else f"{word}s"


def error_words(stddev: float, half_width: float | None = None, *, per_row: bool = False) -> str:
    """Write a standard deviation and half the width of the interval, divided by n if `per_row`.

    >>> error_words(8485.3, 35949.2)
    'stddev 8,485, half-width 35,949'
    >>> error_words(1200.0, per_row=True)
    'stddev at most 1,200 / n'
    """
    per = " / n" if per_row else ""
    words = f"stddev {'at most ' if per_row else ''}{figure(stddev)}{per}"
    if half_width is not None:
        words += f", half-width {figure(half_width)}{per}"
    return words
