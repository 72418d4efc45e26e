"""Formats numbers and releases for people, without colours: terminal text and HTML.

This module imports nothing, since `dpsql --help` loads it and has to start quickly.

==============  ========================================================================
``figures``     numbers rounded to what they mean; budgets rounded against the analyst
``cells``       terminal text: control characters escaped, width, truncation, padding
``values``      Arrow columns as Python values, and one value as text
``readable``    a release's estimates, its price and certainty in words
``released``    the attributes of a release that are drawn
``columns``     a release's columns as text
``plain``       a release as lines of text
``html``        a release as an HTML table with bars
==============  ========================================================================
"""
