"""DuckDB, the default engine: sources, the schema database, and the locked-down private database."""
