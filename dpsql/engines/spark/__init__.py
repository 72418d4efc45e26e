"""Spark, in this process or over Spark Connect: the owner's tables, queried for counts only.

``engine`` counts over a ``connection``; ``catalog``, ``schema`` and ``guard`` find a table, read its types
and check it; ``dialect`` and ``forms`` write its SQL; ``rows`` sends public rows.
"""
