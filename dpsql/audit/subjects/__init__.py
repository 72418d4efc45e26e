"""The mechanisms of dpsql as audit subjects: each runs a mechanism in batches of independent trials."""

from dpsql.audit.subjects import choice, threshold, unknown

__all__ = ["SUBJECTS"]

SUBJECTS = (*choice.SUBJECTS, *threshold.SUBJECTS, *unknown.SUBJECTS)
"""All of them, in the order of the catalogue."""
