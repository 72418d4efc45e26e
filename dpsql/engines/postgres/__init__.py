"""PostgreSQL over ADBC: the owner's tables, read-only, queried for counts only."""
