"""The registry of mechanisms: a mechanism listed here is audited."""

from dpsql.mechanisms.audited import AuditCase
from dpsql.mechanisms.bins import AUDITED as BINS
from dpsql.mechanisms.box import AUDITED as BOX
from dpsql.mechanisms.existence import AUDITED as EXISTENCE
from dpsql.mechanisms.exponential import AUDITED as EXPONENTIAL
from dpsql.mechanisms.extremes import AUDITED as EXTREMES
from dpsql.mechanisms.gaussian import AUDITED as GAUSSIAN
from dpsql.mechanisms.guess_and_check import AUDITED as GUESS_AND_CHECK
from dpsql.mechanisms.gumbel import AUDITED as GUMBEL
from dpsql.mechanisms.hybrid_sparse_vector import AUDITED as HYBRID_SPARSE_VECTOR
from dpsql.mechanisms.hybrid_top_k import AUDITED as HYBRID_TOP_K
from dpsql.mechanisms.joint import AUDITED as JOINT
from dpsql.mechanisms.ladder import AUDITED as LADDER
from dpsql.mechanisms.limited_domain import AUDITED as LIMITED_DOMAIN
from dpsql.mechanisms.limited_then_stable import AUDITED as LIMITED_THEN_STABLE
from dpsql.mechanisms.measure import AUDITED as MEASURE
from dpsql.mechanisms.peeled import AUDITED as PEELED
from dpsql.mechanisms.quantile import AUDITED as QUANTILE
from dpsql.mechanisms.ranges import AUDITED as RANGES
from dpsql.mechanisms.refine import AUDITED as REFINE
from dpsql.mechanisms.sparse_vector import AUDITED as SPARSE_VECTOR
from dpsql.mechanisms.sparse_vector_rounds import AUDITED as SPARSE_VECTOR_BY_ROUNDS
from dpsql.mechanisms.stable import AUDITED as STABLE
from dpsql.mechanisms.top_k import AUDITED as TOP_K
from dpsql.mechanisms.top_stable import AUDITED as TOP_STABLE

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
    *SPARSE_VECTOR_BY_ROUNDS,
    *HYBRID_SPARSE_VECTOR,
    *GUESS_AND_CHECK,
    *LIMITED_DOMAIN,
    *TOP_STABLE,
    *EXISTENCE,
    *LIMITED_THEN_STABLE,
    *STABLE,
)
"""The audit cases of all mechanisms, in the order of the audit's catalogue."""
