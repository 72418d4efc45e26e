"""Formats numbers, tables, bars, plots and releases for people: terminal text, Markdown, HTML and SVG.

This module imports nothing, since `dpsql --help` loads it and has to start quickly.

=================  ====================================================================================
``figures``        numbers rounded to what they mean
``column_values``  the values of Arrow columns: as Python has them, and each as a text
``readable``       a release's estimates, price and certainty, as values and in words
``grid``           columns of text as a box table or as Markdown; cells of a terminal, statements shortened
``table``          a result as a box table, as Markdown, as bars or as lines; listings fitted to a width
``plots``          bars with intervals, spending over time, p-value curves, in characters
``html``           a release and p-value curves as HTML and SVG; a plot of matplotlib or Altair
``data``           a result for programs: CSV, JSON, JSON lines, Arrow, Parquet; numbers rounded for files
=================  ====================================================================================
"""
