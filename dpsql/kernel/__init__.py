"""What the guarantee rests on; it imports numpy, pyarrow, duckdb, `errors` and `types` alone.

==================  ==============================================================================
``facts``           what the owner declares: units, unique columns, types, domains
``unit_parts``      parts of units by a date, and sets of them
``tree``            the query tree that the analysis builds and the engines write, with DuckDB's writer
``check``           derives from a tree and the facts how much one unit changes each number in it
``loss``            the loss of mechanisms, its composition, what is charged and what a budget admits
``counts``          exact counts behind handles (``sealed``), with how far a unit changes them (``changes``)
``key_columns``     keys of groups in Arrow: some of their rows, nothing behind a NULL
``kept``            copies of exact counts in memory that is overwritten when they are dropped
``faster``          texts with the same numbers as a certified query: units by bits, in a sealed range
``rows_first``      counts of few groups, of which rows are counted first
``unweighted``      texts of sums and counts of rows: only those of few units are weighed
``unit_tables``     texts of searches of bounds and what they bound: what units have is kept
``release``         the steps that run mechanisms on counts; ``parted`` those in several partitions
``stable_questions``  answers that no unit could change, and the step that releases them
``filled_domains``  counts over ranges: an engine has the groups with rows, the others are filled in
``levels``          from what number a refinement goes on
``noise``           exact samplers over the operating system's generator; ``threshold_noise`` the noise of a
                    lasting stream's threshold, which follows from a secret key
``mechanisms``      selections and measurements of exact counts, with their proofs
``public_order``    groups in an order that no unit can change
``ledger``          charges: durable before data is read, within every cap, chained by hashes
``charged_work``    runs private work under a reservation; its errors hold nothing of it
``exact_bounds``    rational bounds of exp, log and roots
==================  ==============================================================================
"""
