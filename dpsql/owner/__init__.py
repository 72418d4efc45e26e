"""The owner's tools: introspection of sources, and verification of a policy against its data.

`introspect_sources` reads no row. `verify` reports exact private facts: it is for the owner alone. Nothing
that an analyst can reach calls it. ``verifying``, ``units``, ``facts``, ``bounds`` and ``findings`` belong
to it; ``naming`` guesses from names. ``kept_bounds`` charges, measures and keeps ladders, ``kept_list`` tells
what they say. ``declared`` shows the facts on which proofs rest.
"""

from dpsql.engines import engine_notice
from dpsql.engines.duckdb.schema import Found, FoundColumn, Skipped
from dpsql.owner.findings import Finding, Report
from dpsql.owner.introspection import introspect_sources
from dpsql.owner.verifying import verify

__all__ = [
    "Finding",
    "Found",
    "FoundColumn",
    "Report",
    "Skipped",
    "engine_notice",
    "introspect_sources",
    "verify",
]
