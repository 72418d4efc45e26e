"""How figures and releases are written for people, without colours: numbers, cells, tables, HTML.

Light on purpose, and without imports here: `dpsql --help` passes through.

==============  ========================================================================
``figures``     numbers rounded to what they mean; budgets rounded against the analyst
``cells``       text that cannot steer a terminal, its width, cut and padded
``values``      a column's values as Python's, and one value as text
``readable``    a release's estimates, its price and certainty in words
``released``    what is needed of a release
``columns``     a release's columns as text
``plain``       a release as lines of text
``html``        a release as an HTML table with bars
==============  ========================================================================
"""
