"""The catalogue: what tools ask of `pg_catalog` and `information_schema`, answered from the policy alone.

``catalog``                       the object that a server asks
``parse``                         PostgreSQL's text to a tree
``translate``, ``sources``, ``scope``  the tree to DuckDB's SQL, which sqlglot writes
``expressions``, ``operators``, ``calls``, ``typed``  the few nodes that DuckDB reads in another sense
``names``, ``pg_types``           names of output columns, PostgreSQL's types
``functions``                     the closed list of functions, each a macro
``wall``                          the check of the SQL by DuckDB's own parser
``data``, ``objects``, ``live``   the rows: PostgreSQL's own, the policy's (by `policy.sql`), the session's
``build``, ``output``             the database, and the answers' columns
``routing``, ``signals``          which statements are the catalogue's; cancelling by statement
"""

from dpsql.serve.catalog.catalog import Catalog, Columns
from dpsql.serve.catalog.errors import (
    QuestionTimedOut,
    QuestionTooLarge,
    UnknownObject,
    UnknownQuestion,
    UnknownSetting,
)
from dpsql.serve.catalog.facts import (
    CatalogAnswer,
    CatalogColumn,
    CatalogDescription,
    Connection,
    CursorRow,
    Encryption,
    Facts,
    PreparedRow,
    Route,
    Signal,
)

__all__ = [
    "Catalog",
    "CatalogAnswer",
    "CatalogColumn",
    "CatalogDescription",
    "Columns",
    "Connection",
    "CursorRow",
    "Encryption",
    "Facts",
    "PreparedRow",
    "QuestionTimedOut",
    "QuestionTooLarge",
    "Route",
    "Signal",
    "UnknownObject",
    "UnknownQuestion",
    "UnknownSetting",
]
