"""Styles of streams, and results printed as the command line shows them."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

from dpsql.render.cells import escape_controls, folded
from dpsql.render.grid import Style

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.render.readable import Released


PIPED_WIDTH = 120
"""Cells of a line of a table that is written to no terminal, unless another width is asked for."""


def style_of(stream: TextIO | None, columns: int | None = None) -> Style:
    """Return the style of a stream; None stands for a file: UTF-8, no colour.

    `columns` is the width that was asked for, 0 for as wide as needed.
    """
    given = os.environ.get("COLUMNS", "")
    if columns is None and given.isdigit() and int(given) > 0:
        columns = int(given)
    encoding = "utf-8" if stream is None else stream.encoding or "utf-8"
    if stream is None or not stream.isatty():
        return Style(PIPED_WIDTH if columns is None else columns or None, encoding)
    colour = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    if columns is None:
        columns = shutil.get_terminal_size().columns
    return Style(columns or None, encoding, colour)


def show(
    rows: pa.Table, release: Released | None, total: Charge | None = None, columns: int | None = None
) -> None:
    """Print a result to standard output: a table with the price below, what is assumed, warnings."""
    from dpsql.render.readable import assumptions
    from dpsql.render.table import as_table

    style = style_of(sys.stdout, columns)
    sys.stdout.write(as_table(rows, release, style, total=total))
    if release is None:
        return
    warnings = [f"warning: {escape_controls(text, style.encoding)}" for text in release.warnings]
    for line in (*assumptions(release), *warnings):
        for part in folded(line, style.columns or len(line)):
            sys.stdout.write(part + "\n")
