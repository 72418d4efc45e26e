"""The registry of mechanisms: a mechanism listed here is audited."""

from dpsql.mechanisms.audited import AuditCase
from dpsql.mechanisms.exponential import AUDITED as EXPONENTIAL
from dpsql.mechanisms.hybrid_top_k import AUDITED as HYBRID_TOP_K
from dpsql.mechanisms.measure import AUDITED as MEASURE
from dpsql.mechanisms.top_k import AUDITED as TOP_K

__all__ = ["AUDITED"]

AUDITED: tuple[AuditCase, ...] = (*TOP_K, *EXPONENTIAL, *HYBRID_TOP_K, *MEASURE)
"""The audit cases of all mechanisms, in the order of the audit's catalogue."""
