"""Engines: the schema database, which binds statements, and the private engines, which count.

The schema database, in which private tables are empty, answers everything public. A private engine runs
`CompiledQuery` objects and nothing else.

===================  =========================================================================
``engine``           the `Engine` protocol, and the choice of an engine by the policy
``protocol``         what engines raise: `UnboundQuery`, `Untranslatable`, and their messages
``schema_database``  the binder, the catalog and the engine of public statements
``over_releases``    queries over released rows, which run there too
``duckdb``           the default engine; its ``tested_versions`` are what is known of each version
``kept``             the exact counts of earlier statements, in memory
``remote``           the base class of the others: ``postgres``, ``spark``
``writer``           the query tree as another engine's SQL
``worker``           runs a statement in a thread that can be interrupted
``scratch``          private folders for temporary files
===================  =========================================================================
"""

from dpsql.engines.duckdb.tested_versions import notice as engine_notice
from dpsql.engines.engine import Engine, length_check_key, open_engine
from dpsql.engines.kept import KeptCounts, taken
from dpsql.engines.protocol import UnboundQuery, Untranslatable
from dpsql.engines.worker import ResultLimit, RunningStatement, running_statement
from dpsql.kernel.charged_work import CANCELLED, FAILED, Cancelled

__all__ = [
    "CANCELLED",
    "FAILED",
    "Cancelled",
    "Engine",
    "KeptCounts",
    "ResultLimit",
    "RunningStatement",
    "UnboundQuery",
    "Untranslatable",
    "engine_notice",
    "length_check_key",
    "open_engine",
    "running_statement",
    "taken",
]
