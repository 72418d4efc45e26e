"""Plan and answer reports: statements measured together and answered by one least-squares estimate.

Planning reads public inputs alone; an estimate reads released numbers. Other statements do not load this.

* `value_sets`: sets of values of a column;
* `marginals`: what a set of numbers tells apart on each column, and released ones with their noise;
* `column_atoms`: the finest sets of values that releases tell apart, and which of them no condition does.
"""
