"""Formats numbers, tables, bars, pictures and releases for people: terminal text, Markdown, HTML and SVG.

This module imports nothing, since `dpsql --help` loads it and has to start quickly.

==================  ===================================================================================
``figures``         numbers rounded to what they mean
``column_values``   the values of Arrow columns: as Python has them, and each as a text
``readable``        a release's estimates, price and certainty, as values and in words
``grid``            columns of text as a box table or as Markdown; cells of a terminal, statements shortened
``table``           a result as a box table, as Markdown or as lines; listings fitted to a width
``plots``           bars with intervals, spending over time, p-value curves, in characters
``pictures``        what is drawn of an answer: its kind, labels, numbers with their ranges, its words
``picture_choice``  the picture that fits a release
``drawing``         pictures as SVG: numbers, bars, shaded tables, marks
``svg_elements``    the elements of drawings, their axes, bars and markup
``text_pictures``   pictures in characters
``plot_packages``   pictures by matplotlib or Altair
``html``            a release and p-value curves as HTML
``data``            a result for programs: CSV, JSON, JSON lines, Arrow, Parquet; numbers rounded for files
==================  ===================================================================================
"""
