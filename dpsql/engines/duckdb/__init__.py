"""DuckDB, the default engine: sources, the shell database, and the locked-down private database."""
