"""dpsql: differentially private SQL for DuckDB."""
