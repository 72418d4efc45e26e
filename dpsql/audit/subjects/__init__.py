"""The mechanisms of dpsql as audit subjects: each runs a mechanism in batches of independent trials."""

from dpsql.audit.subjects import threshold, unknown

__all__ = ["SUBJECTS"]

SUBJECTS = (*threshold.SUBJECTS, *unknown.SUBJECTS)
"""All of them, in the order of the catalogue."""
