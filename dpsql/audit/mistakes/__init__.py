"""Audit subjects with a known verdict: published mistakes, and private mechanisms to compare them with.

``choice``, ``joint``, ``threshold``, ``measure``, ``box`` and ``unknown`` have the subjects, ``noise`` their
noise.
"""

from dpsql.audit.mistakes import box, choice, joint, measure, threshold, unknown

__all__ = ["SUBJECTS"]

SUBJECTS = (
    *choice.SUBJECTS,
    *joint.SUBJECTS,
    *threshold.SUBJECTS,
    *measure.SUBJECTS,
    *box.SUBJECTS,
    *unknown.SUBJECTS,
)
"""All of them, in the order of the catalogue."""
