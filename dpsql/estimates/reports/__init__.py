"""Plan and answer reports: statements measured together and answered by one least-squares estimate.

Planning reads public inputs alone; an estimate reads released numbers. Other statements do not load this.

* `marginals`: what a set of numbers tells apart on each column, and released ones with their noise;
* `column_atoms`: the finest sets of values that releases tell apart, and classes that no condition divides;
* `marginal_blocks`: the normal equations, one small system for each set of columns;
* `block_answers`: numbers from their solutions, the noises in them, and half-widths;
* `marginal_estimate`: the estimate of all releases of a report, what it leaves out and what is missing;
* `plan_candidates`, `plan_weights`, `report_plan`: what a report measures, with which shares of its budget.
"""
