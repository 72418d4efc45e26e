"""How fast dpsql is, always as a ratio to something that runs beside it: `python -m tests.benchmarks`.

=================  ============================================================================
``command``        the command line: sizes, which groups to run, the table, JSON, comparing two runs
``measures``       interleaved measuring, figures, goals
``events``         the made data, their policies and statements
``statements``     a whole statement over DuckDB's own exact counting query
``batch``          a batch file over the same statements, each counted alone
``processes``      cold start and peak memory, each in a process of its own
``samplers``       exact noise over numpy's inexact noise
``selections``     mechanisms over numpy's inexact ones, and over OpenDP where that is installed
``charges``        the ledger
``growth``         how time grows with groups, rows and k
=================  ============================================================================

Machines are shared and noisy: an absolute time is never the point. The thing and its floor alternate in one
run, and the median of the pairwise ratios counts. Nothing here is a test; pytest collects none of it.
"""
