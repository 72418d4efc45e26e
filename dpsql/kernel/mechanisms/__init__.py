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
Exact answers that no unit could change: `FirstStable`, `StableAnswers`, `StableStream`.
Interactive queries that are charged only if a public expectation is off: `CheckStream`.
Their files: ``top_k`` (also `PeeledTopK`, `HybridTopK`), ``sparse_vector`` with ``sparse_vector_plan``,
``exponential`` (with `GumbelTopK`), ``joint``, ``limited_domain`` (with `LimitedThenStable`), ``top_stable``,
``unknown_domain`` (`Existing`); ``measure`` (`Box`, `Laplace`, `Refinement`), ``gaussian``; ``quantile`` (and
`Extreme`), ``ladder`` (with `Bins`); ``check_stream``, ``stable_queries``.
``mechanism`` has the base classes, checks of public facts, and the grid; ``weights`` samples;
``noisy_order`` finds the largest noisy counts of a large domain, or of counts that are known from above.
Every mechanism can be used on its own (`dpsql.mechanisms`) and does not depend on SQL. The proof stands in
the class's docstring.

Positions: where a proof rests on the order of the counts, the mechanism takes `OrderedCounts`, which
`in_public_order` makes of an array. Everywhere else a permutation of the counts permutes the law of the
output and changes nothing else: each group has independent noise of the same law, and ties are broken by
random ranks.
"""

from dpsql.kernel.mechanisms.check_stream import (
    ANSWERS,
    CheckStream,
    CheckStreamPlan,
    Direction,
    Off,
    Statistic,
)
from dpsql.kernel.mechanisms.exponential import Exponential, GumbelTopK
from dpsql.kernel.mechanisms.gaussian import Gaussian
from dpsql.kernel.mechanisms.joint import Joint
from dpsql.kernel.mechanisms.ladder import (
    FULL,
    Binned,
    Bins,
    Ladder,
    Rung,
    RungBins,
    excess_score,
    excess_scores,
)
from dpsql.kernel.mechanisms.limited_domain import (
    LimitedDomain,
    LimitedThenStable,
    LimitedTopK,
    OrderedThenSet,
)
from dpsql.kernel.mechanisms.measure import Box, Laplace, Refinement
from dpsql.kernel.mechanisms.mechanism import Cells, Chosen, Measured, Noise, NoiseSource, usual_grid
from dpsql.kernel.mechanisms.noisy_order import TopK, check_sparse
from dpsql.kernel.mechanisms.quantile import Extreme, Quantile
from dpsql.kernel.mechanisms.sparse_vector import (
    AdaptiveSparseVector,
    HybridSparseVector,
    SparseVectorByRounds,
)
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVector, best_share
from dpsql.kernel.mechanisms.stable_queries import (
    FirstStable,
    StableAnswers,
    StableQueries,
    StableQuery,
    StableStream,
)
from dpsql.kernel.mechanisms.top_k import Hybrid, HybridTopK, NoisyTopK, PeeledTopK
from dpsql.kernel.mechanisms.top_stable import StabilityTests, StableSet, TopStable
from dpsql.kernel.mechanisms.unknown_domain import Existing, ExistingGroups
from dpsql.kernel.mechanisms.weights import Histograms
from dpsql.kernel.public_order import OrderedCounts, SparseCounts, in_public_order

__all__ = [
    "ANSWERS",
    "FULL",
    "AdaptiveSparseVector",
    "Binned",
    "Bins",
    "Box",
    "CheckStream",
    "CheckStreamPlan",
    "Chosen",
    "Direction",
    "Existing",
    "ExistingGroups",
    "Exponential",
    "Extreme",
    "FirstStable",
    "Gaussian",
    "GumbelTopK",
    "Histograms",
    "Hybrid",
    "HybridSparseVector",
    "HybridTopK",
    "Joint",
    "Ladder",
    "Laplace",
    "LimitedDomain",
    "LimitedThenStable",
    "LimitedTopK",
    "Measured",
    "Noise",
    "NoiseSource",
    "NoisyTopK",
    "Off",
    "OrderedCounts",
    "OrderedThenSet",
    "PeeledTopK",
    "Quantile",
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
    "StableStream",
    "Statistic",
    "TopK",
    "TopStable",
    "best_share",
    "check_sparse",
    "excess_score",
    "excess_scores",
    "in_public_order",
    "usual_grid",
]
