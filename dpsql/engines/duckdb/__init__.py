"""DuckDB, the default engine: sources, and the locked-down private database.

``duckdb_engine`` counts; where it is faster, ``unit_bits`` counts units by bits, and ``faster_counts`` counts
rows of all groups first, and rows and sums by what is known of units. ``duckdb_settings`` locks every
database down, and knows the tested versions; ``table_readers`` and ``source_files`` read tables;
``source_schemas`` and ``duckdb_owner`` are for the owner.
"""
