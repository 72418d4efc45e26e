"""Formats numbers, tables, bars, plots and releases for people: terminal text, Markdown, HTML and SVG.

This module imports nothing, since `dpsql --help` loads it and has to start quickly.

==============  ==================================================================================
``figures``     numbers rounded to what they mean; budgets rounded against the analyst
``cells``       terminal text: control characters escaped, width, truncation, padding
``values``      Arrow columns as Python values, and one value as text
``readable``    a release's estimates, price and certainty, as values and in words
``grid``        columns of text as a box table or as Markdown
``listings``    what EXPLAIN, SHOW RELEASES and --dry-run list, fitted to a width
``shortening``  statements of a list cut where they agree
``rounding``    a release's numbers rounded for files
``table``       a result as a box table, as Markdown, as bars or as lines of text
``plots``       bars with intervals, spending over time, p-value curves, in characters
``html``        a release and p-value curves as HTML and SVG
``charts``      a release's number as bars: an SVG file, a plot of matplotlib or Altair
``data``        a result for programs: CSV, JSON, JSON lines, Arrow, Parquet
==============  ==================================================================================
"""
