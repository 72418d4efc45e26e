"""The mechanisms: each maps integer counts and exact noise to a selection or measurement, at a privacy loss.

A mechanism is a class: `plan` makes an instance of public facts (number of groups, budget, sensitivity, ..),
which knows its scales, its privacy loss and its error; `run` takes counts.

Selection: `NoisyTopK`, `AdaptiveSparseVector`, `HybridTopK`, `HybridSparseVector`, `Exponential`, `Joint`; by
rounds that are charged one by one `PeeledTopK`, `GumbelTopK`, `SparseVectorByRounds`; on an unknown domain
`LimitedDomain`, `TopStable`, `LimitedThenStable`, `Existing`.
Measuring what was selected: `Box` (one noise for all counts), `Gaussian` (noise of concentrated privacy),
`Laplace` (each count, or their total), `Refinement` (a count again with less noise).
On a public grid of values: `Quantile`, `Extreme`. Among powers of two, a bound of contributions: `Ladder`;
how many units contribute how much up to it: `Bins`.
Interactive queries that are charged only if a public guess is off: `GuessAndCheck`, `MedianOracle`.
``mechanism`` has the base classes, ``registry`` and ``audited`` what is audited (on ``audit_inputs``),
``ranges`` selections by sums; ``arguments`` checks public facts, ``grid`` draws noise, ``tails`` certifies
cutoffs, ``weights`` samples.
Every mechanism can be used on its own (`dpsql.mechanisms`) and does not depend on SQL. The proof stands in
the class's docstring.

Positions: where a proof rests on the order of the counts, the mechanism takes `OrderedCounts`, which
`in_public_order` makes of an array. Everywhere else a permutation of the counts permutes the law of the
output and changes nothing else: each group has independent noise of the same law, and ties are broken by
random ranks.
"""

from dpsql.kernel.mechanisms.arguments import Noise
from dpsql.kernel.mechanisms.bins import Binned, Bins
from dpsql.kernel.mechanisms.box import Box, BoxMeasured
from dpsql.kernel.mechanisms.existence import Existing, ExistingGroups
from dpsql.kernel.mechanisms.exponential import Exponential
from dpsql.kernel.mechanisms.extremes import Extreme, Extremes
from dpsql.kernel.mechanisms.gaussian import Gaussian, GaussianMeasured
from dpsql.kernel.mechanisms.grid import NoiseSource, usual_grid
from dpsql.kernel.mechanisms.guess_and_check import Checked, GuessAndCheck, GuessAndCheckPlan, Misses
from dpsql.kernel.mechanisms.gumbel import GumbelChoice, GumbelTopK
from dpsql.kernel.mechanisms.histogram import Histograms
from dpsql.kernel.mechanisms.hybrid_sparse_vector import HybridSparseVector
from dpsql.kernel.mechanisms.hybrid_top_k import Hybrid, HybridTopK
from dpsql.kernel.mechanisms.joint import Joint, JointTopK
from dpsql.kernel.mechanisms.ladder import FULL, Ladder, Rung, excess_score, excess_scores
from dpsql.kernel.mechanisms.limited_domain import LimitedDomain, LimitedTopK
from dpsql.kernel.mechanisms.limited_then_stable import LimitedThenStable, OrderedThenSet
from dpsql.kernel.mechanisms.measure import Laplace, Measured
from dpsql.kernel.mechanisms.median_oracle import MedianOracle
from dpsql.kernel.mechanisms.peeled import PeeledTopK
from dpsql.kernel.mechanisms.quantile import Quantile, Quantiles
from dpsql.kernel.mechanisms.refine import Refined, Refinement
from dpsql.kernel.mechanisms.rung_bins import RungBins
from dpsql.kernel.mechanisms.sparse import TopK, check_sparse
from dpsql.kernel.mechanisms.sparse_vector import AdaptiveSparseVector
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVector, best_share
from dpsql.kernel.mechanisms.sparse_vector_rounds import SparseVectorByRounds
from dpsql.kernel.mechanisms.stable import (
    StabilityTests,
)
from dpsql.kernel.mechanisms.top_k import NoisyTopK
from dpsql.kernel.mechanisms.top_stable import StableSet, TopStable
from dpsql.kernel.order import OrderedCounts, SparseCounts, in_public_order

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
    "StableSet",
    "TopK",
    "TopStable",
    "best_share",
    "check_sparse",
    "excess_score",
    "excess_scores",
    "in_public_order",
    "usual_grid",
]
