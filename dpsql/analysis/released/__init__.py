"""The aggregates that a private statement may release, from their SQL to what the engine computes.

``aggregate`` has the types, ``counts`` the counts. ``sums`` has sums on the grid of `analysis.grids`,
``value_rules`` the calls of SUM and AVG, ``values`` which sums are released for them. ``quantile_rules`` has
the calls of quantiles and extremes, ``cells`` the rows that are counted for them. A further count is a
subclass of `Part`, the function that compiles a call of it, and its name in `RULES` of ``calls``.
"""
