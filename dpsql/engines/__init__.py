"""Engines: the schema database, which binds statements, and the private engines, which count.

The schema database, in which private tables are empty, answers everything public. A private engine runs
`CompiledQuery` objects and nothing else.
"""

from dpsql.engines.engine import Engine, length_check_key, open_engine
from dpsql.engines.protocol import CANCELLED, FAILED, Cancelled, Counts, Untranslatable
from dpsql.engines.worker import RunningStatement, running_statement

__all__ = [
    "CANCELLED",
    "FAILED",
    "Cancelled",
    "Counts",
    "Engine",
    "RunningStatement",
    "Untranslatable",
    "length_check_key",
    "open_engine",
    "running_statement",
]
