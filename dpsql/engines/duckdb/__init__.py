"""DuckDB, the default engine: sources, domains, and the locked-down private database.

``engine`` counts; ``settings`` locks every database down; ``sources`` (with ``csv_source`` and ``lengths``)
and ``domains`` write the tables; ``schema`` and ``checks`` are for the owner.
"""
