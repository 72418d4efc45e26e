"""DuckDB, the default engine: sources, and the locked-down private database.

``duckdb_engine`` counts, ``unit_bits`` units by bits where that is faster; ``duckdb_settings`` locks every
database down, and knows the tested versions; ``table_readers`` and ``source_files`` read tables;
``source_schemas`` and ``duckdb_owner`` are for the owner.
"""
