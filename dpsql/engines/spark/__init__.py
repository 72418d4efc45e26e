"""Spark, in this process or over Spark Connect: the owner's tables, queried for counts only."""
