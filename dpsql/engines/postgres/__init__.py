"""PostgreSQL over ADBC: the owner's tables, read-only, queried for counts only.

``engine`` counts over a ``connection``; ``catalog``, ``schema`` and ``guard`` find a table, read its types
and check it; ``dialect`` and ``forms`` write its SQL; ``rows`` sends public rows.
"""
