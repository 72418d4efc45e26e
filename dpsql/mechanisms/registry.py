"""The registry of mechanisms: a mechanism listed here is audited."""

from dpsql.mechanisms import measure, top_k
from dpsql.mechanisms.audited import AuditCase

__all__ = ["AUDITED"]

AUDITED: tuple[AuditCase, ...] = (*top_k.AUDITED, *measure.AUDITED)
"""The audit cases of all mechanisms, in the order of the audit's catalogue."""
