"""Audit subjects with a known verdict: published mistakes, and private mechanisms to compare them with.

``choice``, ``joint``, ``threshold``, ``measure``, ``box`` and ``unknown`` have the subjects, ``noise`` their
noise.
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
