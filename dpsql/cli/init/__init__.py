"""`dpsql init`: reads names and types of sources, decides each table's unit, writes a commented policy."""
