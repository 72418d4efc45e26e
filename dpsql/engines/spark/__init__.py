"""Spark, in this process or over Spark Connect: the owner's tables, queried for counts only.

``spark_engine`` counts in a session of ``spark_connection``; ``spark_tables`` finds a table, reads its types,
and has what the owner is told; ``spark_sql`` writes its SQL and sends public rows.
"""
