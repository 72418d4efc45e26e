"""Spark, in this process or by Spark Connect: the owner's tables there, asked for counts alone."""
