"""How the mechanisms are audited: options and inputs for each. A mechanism listed in `AUDITED` is audited."""

from __future__ import annotations

from dpsql.audit.cases.case import AuditCase
from dpsql.audit.cases.measuring import BINS, BOX, EXTREMES, GAUSSIAN, LADDER, MEASURE, QUANTILE, REFINE
from dpsql.audit.cases.selection import EXPONENTIAL, GUMBEL, HYBRID_TOP_K, JOINT, PEELED, RANGES, TOP_K
from dpsql.audit.cases.thresholds import (
    EXISTENCE,
    GUESS_AND_CHECK,
    HYBRID_SPARSE_VECTOR,
    LIMITED_DOMAIN,
    LIMITED_THEN_STABLE,
    SPARSE_VECTOR,
    SPARSE_VECTOR_ROUNDS,
    STABLE,
    TOP_STABLE,
)

AUDITED: tuple[AuditCase, ...] = (
    *TOP_K,
    *PEELED,
    *GUMBEL,
    *EXPONENTIAL,
    *JOINT,
    *HYBRID_TOP_K,
    *RANGES,
    *MEASURE,
    *BOX,
    *GAUSSIAN,
    *REFINE,
    *QUANTILE,
    *EXTREMES,
    *LADDER,
    *BINS,
    *SPARSE_VECTOR,
    *SPARSE_VECTOR_ROUNDS,
    *HYBRID_SPARSE_VECTOR,
    *GUESS_AND_CHECK,
    *LIMITED_DOMAIN,
    *TOP_STABLE,
    *EXISTENCE,
    *LIMITED_THEN_STABLE,
    *STABLE,
)
"""The audit cases of all mechanisms, in the order of the audit's catalogue."""
