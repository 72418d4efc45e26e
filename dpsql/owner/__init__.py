"""The owner's tools: introspection of sources, and verification of a policy against its data.

`introspect_sources` reads no row. `verify` reports exact private facts: it is for the owner alone. Nothing
that an analyst can reach calls it. ``verifying``, ``units``, ``declared_facts`` and ``findings`` belong to
it. ``ladder_releases`` charges, measures and keeps ladders, ``ladder_listing`` tells what they say.
"""

from dpsql.engines import engine_notice
from dpsql.engines.duckdb.source_schemas import Found, FoundColumn, Skipped
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
