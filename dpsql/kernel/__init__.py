"""What the guarantee rests on; it imports numpy, pyarrow, duckdb, `errors` and `types` alone.

================  ==============================================================================
``tree``          the query tree that the analysis builds and the engines write, with DuckDB's writer
``facts``         what the owner declares: units, unique columns, types, domains
``check``         derives from a tree and the facts how much one unit changes each number in it
``mechanisms``    selections and measurements of exact counts, with their proofs; ``order`` their counts
``noise``         exact samplers over the operating system's generator
``loss``          the loss of mechanisms, its composition, what is charged and what a budget admits
``ledger``        charges: durable before data is read, within every cap, chained by hashes
``charged_work``  runs private work under a reservation; its errors hold nothing of it
``exact_bounds``  rational bounds of exp, log and roots
================  ==============================================================================
"""
