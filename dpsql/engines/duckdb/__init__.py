"""DuckDB, the default engine: sources, domains, and the locked-down private database."""
