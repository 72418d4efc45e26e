"""What the guarantee rests on; it imports numpy, pyarrow, duckdb, `errors` and `types` alone.

==========  ====================================================================================
``tree``    the query tree that the analysis builds and the engines write, with DuckDB's writer
``facts``   what the owner declares: units, unique columns, types, domains
``check``   derives from a tree and the facts how much one unit changes each number that it counts
==========  ====================================================================================
"""
