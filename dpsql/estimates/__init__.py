"""Estimate counts from released numbers: best estimates, intervals, p-values, predictions.

Pure functions of released values or public parameters; nothing here reads private data or draws randomness.

* `combined_counts`: counts with standard deviations, intervals and p-values from a release, in one call;
* `threshold_counts`: the same for the hits of a sparse vector, whose intervals hold given the hit, and for
  groups that are shown because their noisy numbers of units reach a threshold;
* `linear_estimates`: the best linear unbiased estimate that both use, and the noises in its error;
* `noise_laws`: measurements, the laws of their noises, and variances of noises on their grid;
* `number_noises`: what released numbers are made of: sums of measured values, and functions of them;
* `noise_quantiles`, `box_law`: intervals that cover Laplace, Gaussian and box noise, and sums of noises;
* `noise_terms`: the errors of sums and ratios of measured numbers; `noise_draws` draws of their noises;
* `value_sets`: sets of values of a column, as conditions and groups take them in;
* `moments`: averages, sums and variances from the noisy moments of a column;
* `kept_ladder`: bounds on what a unit contributes, and intervals that cover what they cut, from noisy numbers
  of units by size;
* `scores_and_weights`: scores of improvements on a board, from the gap of a check and a number of rows;
  what is expected of a count by the weighted median of hypotheses, which learn from answers;
* `predictions`: budget shares and predicted errors before spending;
* `sparse_vector_law`: predicted hits, errors, coverage and charge of a sparse vector run;
* `reports`: the plans and the least squares of reports.
"""

from dpsql.estimates.box_law import pair_half_width
from dpsql.estimates.combined_counts import (
    Combined,
    Offsets,
    exponential_mechanism_p_value,
    from_measurement,
    from_top_k,
    offsets,
    p_value,
)
from dpsql.estimates.kept_ladder import KeptLadder, Shared, Side, ValuesBeyond
from dpsql.estimates.linear_estimates import ErrorModel, Estimates, GapNoise, blue, top_k_offsets
from dpsql.estimates.moments import Average, Deviation, Formula, RowCount, SumOfRows, Variance
from dpsql.estimates.noise_laws import (
    BoxNoise,
    GaussianNoise,
    LaplaceNoise,
    Measurement,
    MeasuringNoise,
    Noise,
    SharedNoise,
    laplace_variance,
    noise_variance,
)
from dpsql.estimates.noise_quantiles import count_offset, lower_bound_offset, threshold_gap_offsets
from dpsql.estimates.predictions import (
    Strategy,
    decimal,
    distinguishable_gap,
    error_words,
    figure,
    logistic_gap,
    measuring_share,
    plural,
    sparse_vector_error,
    split_measuring,
    with_noun,
)
from dpsql.estimates.scores_and_weights import ModelWeights, most_misses
from dpsql.estimates.sparse_vector_law import Outlook, SparseVectorLaw
from dpsql.estimates.threshold_counts import from_reached, from_threshold

__all__ = [
    "Average",
    "BoxNoise",
    "Combined",
    "Deviation",
    "ErrorModel",
    "Estimates",
    "Formula",
    "GapNoise",
    "GaussianNoise",
    "KeptLadder",
    "LaplaceNoise",
    "Measurement",
    "MeasuringNoise",
    "ModelWeights",
    "Noise",
    "Offsets",
    "Outlook",
    "RowCount",
    "Shared",
    "SharedNoise",
    "Side",
    "SparseVectorLaw",
    "Strategy",
    "SumOfRows",
    "ValuesBeyond",
    "Variance",
    "blue",
    "count_offset",
    "decimal",
    "distinguishable_gap",
    "error_words",
    "exponential_mechanism_p_value",
    "figure",
    "from_measurement",
    "from_reached",
    "from_threshold",
    "from_top_k",
    "laplace_variance",
    "logistic_gap",
    "lower_bound_offset",
    "measuring_share",
    "most_misses",
    "noise_variance",
    "offsets",
    "p_value",
    "pair_half_width",
    "plural",
    "sparse_vector_error",
    "split_measuring",
    "threshold_gap_offsets",
    "top_k_offsets",
    "with_noun",
]
