"""Prepare a password as clients do before they hash it (SASLprep, RFC 4013)."""

from __future__ import annotations

import stringprep
import unicodedata

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,  # unassigned in Unicode 3.2: clients differ in what they make of these
)


def prepare(password: str) -> str:
    r"""Return the form of a password that is hashed; `ValueError` if it holds a character without one.

    PostgreSQL's clients hash such a password as it is and other clients refuse it, so it could not be used
    everywhere.

    >>> prepare("I\u00adX"), prepare("\u2168"), prepare("a\u00a0b")
    ('IX', 'IX', 'a b')
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )
    prepared = unicodedata.normalize("NFKC", mapped)
    if any(prohibited(c) for c in prepared for prohibited in _PROHIBITED):
        raise ValueError(
            "a password may not hold control characters, private or unassigned characters or emoji: "
            "programs differ in how they send these"
        )
    right_to_left = [c for c in prepared if stringprep.in_table_d1(c)]
    if right_to_left and (
        any(stringprep.in_table_d2(c) for c in prepared)
        or not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1]))
    ):
        raise ValueError(
            "a password with letters written from right to left begins and ends with one, and holds none "
            "written from left to right"
        )
    return prepared
