"""PostgreSQL over ADBC: the owner's tables there, read-only, asked for counts alone."""
