"""PostgreSQL over ADBC: the owner's tables, read-only, queried for counts only.

``postgres_engine`` counts over its connections; ``postgres_tables`` finds a table, reads its types and guards
it; ``postgres_sql`` writes its SQL and sends public rows; ``postgres_owner`` is for the owner.
"""
