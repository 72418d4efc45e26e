"""Audit subjects with a known verdict: published mistakes, and private mechanisms to compare them with.

``choice`` has selections and counts, ``threshold`` sparse vectors and unknown domains, ``measuring`` box
noise, several numbers and large counts; it also draws the noise of all.
"""

from dpsql.audit.mistakes import choice, measuring, threshold

__all__ = ["SUBJECTS"]

SUBJECTS = (
    *choice.CHOICE_SUBJECTS,
    *choice.JOINT_SUBJECTS,
    *threshold.THRESHOLD_SUBJECTS,
    *measuring.MEASURE_SUBJECTS,
    *measuring.BOX_SUBJECTS,
    *threshold.UNKNOWN_SUBJECTS,
)
"""All of them, in the order of the catalogue."""
