"""How fast dpsql is, always as a ratio to something that runs beside it: `python -m tests.benchmarks`.

=================  ============================================================================
``command``        the command line: sizes, which groups to run, the table
``measures``       interleaved measuring, figures, goals
``history``        runs kept as JSON, and what changed between two
``page``           one page of HTML with the ratios
``events``         the made data, their policies and statements
``goals``          a module for each goal that is not met everywhere, found by its name
``statements``     a whole statement over DuckDB's own exact counting query
``processes``      peak memory, in processes of their own
``samplers``       exact noise over numpy's inexact noise
``selections``     mechanisms over numpy's inexact ones, and over OpenDP where that is installed
``charges``        the ledger
``growth``         how time grows with groups, rows and k
=================  ============================================================================

Machines are shared and noisy: an absolute time is never the point. The thing and its floor alternate in one
run, and the median of the pairwise ratios counts. Nothing here is a test; pytest collects none of it.
`tests/comparison` has other systems on the same rows and questions.
"""
