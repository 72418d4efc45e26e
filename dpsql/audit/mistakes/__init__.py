"""Audit subjects with a known verdict: published mistakes, and private mechanisms to compare them with."""

from dpsql.audit.mistakes import choice, measure, threshold, unknown

__all__ = ["SUBJECTS"]

SUBJECTS = (*choice.SUBJECTS, *threshold.SUBJECTS, *measure.SUBJECTS, *unknown.SUBJECTS)
"""All of them, in the order of the catalogue."""
