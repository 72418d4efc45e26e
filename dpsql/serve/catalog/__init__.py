"""The catalogue: what tools ask of `pg_catalog` and `information_schema`, answered from the policy alone.

``catalog``                    the object that a server asks
``facts``                      what a question is answered from, answers, errors
``routing``                    which statements are the catalogue's, and which cancel another one
``parse``                      PostgreSQL's text to a tree, and the names in it
``translate``                  the tree to DuckDB's SQL, which sqlglot writes
``expressions``, ``calls``     the few nodes that DuckDB reads in another sense
``conversions``, ``pg_types``  PostgreSQL's types
``postgres_data``              PostgreSQL's own rows, and the closed list of functions, each a macro
``relations``                  the policy's tables and views, and the tables that `policy.sql` reads
``database``                   the database (with `session.sql`), and the check of SQL by DuckDB's own parser
``size``                       limits on what DuckDB makes of a question
"""

from __future__ import annotations
