"""The mechanisms: each maps integer counts and exact noise to a selection or measurement, at a privacy loss.

A mechanism is a class: `plan` makes an instance of public facts (number of groups, budget, sensitivity, ..),
which knows its scales, its privacy loss and its error; `run` takes counts. The functions named below plan for
the number of counts they are given and run at once; the result's `plan` is the mechanism that ran.

Selection: `noisy_top_k`, `noisy_max`, `sparse_vector`, `adaptive_sparse_vector`, `hybrid_top_k`,
`hybrid_sparse_vector`, `exponential`, `joint`; by rounds that are charged one by one `peeled_top_k`,
`gumbel_top_k`, `sparse_vector_by_rounds`; on an unknown domain `limited_domain`, `top_stable`,
`limited_then_stable`. Queries whose answer no single unit could change: `first_stable`, `stable_answers`.
Measuring what was selected: `box` (one noise for all counts), `gaussian` (noise of concentrated privacy),
`laplace` (each count), `anchor` (their total); `release_all` measures all groups, `Refinement` a count again
with less noise.
On a public grid of values: `quantile`, `extreme`. Among powers of two, a bound of contributions: `ladder`;
how many units contribute how much up to it: `Bins`.
Interactive queries that are charged only if a public guess is off: `GuessAndCheck`, `MedianOracle`.
``mechanism`` has the base classes, ``registry`` and ``audited`` what is audited (on ``audit_inputs``),
``ranges`` selections by sums; ``arguments`` checks public facts, ``grid`` draws noise, ``tails`` certifies
cutoffs, ``weights`` samples.
Every mechanism can be used on its own and does not depend on SQL. The proof stands in the class's docstring.

Positions: where a proof rests on the order of the counts, the mechanism takes `OrderedCounts`, which
`in_public_order` makes of an array. Everywhere else a permutation of the counts permutes the law of the
output and changes nothing else: each group has independent noise of the same law, and ties are broken by
random ranks.
"""

from dpsql.kernel.mechanisms.arguments import Noise
from dpsql.kernel.mechanisms.bins import Binned, Bins
from dpsql.kernel.mechanisms.box import Box, BoxMeasured, box
from dpsql.kernel.mechanisms.existence import Existing, ExistingGroups, existing_groups
from dpsql.kernel.mechanisms.exponential import Exponential, exponential
from dpsql.kernel.mechanisms.extremes import Extreme, Extremes, extreme
from dpsql.kernel.mechanisms.gaussian import Gaussian, GaussianMeasured, gaussian
from dpsql.kernel.mechanisms.grid import NoiseSource, usual_grid
from dpsql.kernel.mechanisms.guess_and_check import Checked, GuessAndCheck, GuessAndCheckPlan, Misses
from dpsql.kernel.mechanisms.gumbel import GumbelChoice, GumbelTopK, gumbel_top_k
from dpsql.kernel.mechanisms.histogram import Histograms
from dpsql.kernel.mechanisms.hybrid_sparse_vector import HybridSparseVector, hybrid_sparse_vector
from dpsql.kernel.mechanisms.hybrid_top_k import Hybrid, HybridTopK, hybrid_top_k
from dpsql.kernel.mechanisms.joint import Joint, JointTopK, joint
from dpsql.kernel.mechanisms.ladder import Ladder, Rung, excess_score, excess_scores, ladder
from dpsql.kernel.mechanisms.limited_domain import LimitedDomain, LimitedTopK, limited_domain
from dpsql.kernel.mechanisms.limited_then_stable import LimitedThenStable, OrderedThenSet, limited_then_stable
from dpsql.kernel.mechanisms.measure import Laplace, Measured, anchor, laplace, release_all
from dpsql.kernel.mechanisms.median_oracle import MedianOracle
from dpsql.kernel.mechanisms.peeled import PeeledTopK, peeled_top_k
from dpsql.kernel.mechanisms.quantile import Quantile, Quantiles, quantile
from dpsql.kernel.mechanisms.refine import Refined, Refinement
from dpsql.kernel.mechanisms.rung_bins import RungBins
from dpsql.kernel.mechanisms.sparse import check_sparse
from dpsql.kernel.mechanisms.sparse_vector import AdaptiveSparseVector, adaptive_sparse_vector, sparse_vector
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVector, best_share
from dpsql.kernel.mechanisms.sparse_vector_rounds import SparseVectorByRounds, sparse_vector_by_rounds
from dpsql.kernel.mechanisms.stable import (
    FirstStable,
    StabilityTests,
    StableAnswers,
    StableQueries,
    StableQuery,
    first_stable,
    stable_answers,
)
from dpsql.kernel.mechanisms.top_k import NoisyTopK, TopK, noisy_max, noisy_top_k
from dpsql.kernel.mechanisms.top_stable import StableSet, TopStable, top_stable
from dpsql.kernel.order import OrderedCounts, SparseCounts, in_public_order
from dpsql.kernel.tree import FULL

__all__ = [
    "FULL",
    "AdaptiveSparseVector",
    "Binned",
    "Bins",
    "Box",
    "BoxMeasured",
    "Checked",
    "Existing",
    "ExistingGroups",
    "Exponential",
    "Extreme",
    "Extremes",
    "FirstStable",
    "Gaussian",
    "GaussianMeasured",
    "GuessAndCheck",
    "GuessAndCheckPlan",
    "GumbelChoice",
    "GumbelTopK",
    "Histograms",
    "Hybrid",
    "HybridSparseVector",
    "HybridTopK",
    "Joint",
    "JointTopK",
    "Ladder",
    "Laplace",
    "LimitedDomain",
    "LimitedThenStable",
    "LimitedTopK",
    "Measured",
    "MedianOracle",
    "Misses",
    "Noise",
    "NoiseSource",
    "NoisyTopK",
    "OrderedCounts",
    "OrderedThenSet",
    "PeeledTopK",
    "Quantile",
    "Quantiles",
    "Refined",
    "Refinement",
    "Rung",
    "RungBins",
    "SparseCounts",
    "SparseVector",
    "SparseVectorByRounds",
    "StabilityTests",
    "StableAnswers",
    "StableQueries",
    "StableQuery",
    "StableSet",
    "TopK",
    "TopStable",
    "adaptive_sparse_vector",
    "anchor",
    "best_share",
    "box",
    "check_sparse",
    "excess_score",
    "excess_scores",
    "existing_groups",
    "exponential",
    "extreme",
    "first_stable",
    "gaussian",
    "gumbel_top_k",
    "hybrid_sparse_vector",
    "hybrid_top_k",
    "in_public_order",
    "joint",
    "ladder",
    "laplace",
    "limited_domain",
    "limited_then_stable",
    "noisy_max",
    "noisy_top_k",
    "peeled_top_k",
    "quantile",
    "release_all",
    "sparse_vector",
    "sparse_vector_by_rounds",
    "stable_answers",
    "top_stable",
    "usual_grid",
]
