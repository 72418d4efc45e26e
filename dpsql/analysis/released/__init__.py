"""The aggregates that a private statement may release, from their SQL to what the engine computes.

``released_calls``       which calls are released; those of SUM, AVG, VARIANCE and STDDEV, with their bounds
``unit_counts``          counts, of units, rows or different values
``unit_values``          the numbers that are released for sums, averages and variances, on `analysis.grids`
``quantiles``            the calls of quantiles and extremes, and the cells of which the rows are counted
``contribution_bounds``  bounds on what one unit contributes: as declared, by default, or found privately
``conditional_counts``   counts by conditions, also where they are written as sums or means of zeros and ones
``released_numbers``     the types: `UnitNumber`, `ReleasedAggregate`, `AggregateCall`

A further number is a subclass of `UnitNumber` that says what the counting query counts (`build_counted`), the
function that compiles a call of it, and its name in `RULES` of ``released_calls``.
"""
