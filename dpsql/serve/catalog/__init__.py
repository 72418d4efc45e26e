"""The catalogue: what tools ask of `pg_catalog` and `information_schema`, answered from the policy alone.

``catalog``      the object that a server asks
``facts``        what a question is answered from, and the errors
``parse``        PostgreSQL's text to a tree; who answers it; limits on what DuckDB makes of it
``translate``    the tree to DuckDB's SQL, which sqlglot writes
``expressions``  the few nodes and calls that DuckDB reads in another sense
``conversions``  conversions between PostgreSQL's types
``postgres``     PostgreSQL's own rows and types, and the closed list of functions, each a macro
``database``     the policy's tables and views in DuckDB (with `policy.sql`, `session.sql`), and the check of
                 SQL by DuckDB's own parser
"""

from __future__ import annotations
