"""A release as lines of text, as Python's prompt and logs show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.render.cells import cut, escape_controls, pad, width
from dpsql.render.columns import columns
from dpsql.render.readable import summary

if TYPE_CHECKING:
    from dpsql.render.released import Released

__all__ = ["release_text"]

_ROWS = 20
"""Rows that are written; the others are counted below."""
_CELLS = 60
"""Where a long value is cut."""


def release_text(release: Released) -> str:
    """Write a release: the selection, its rows with noise and gaps, what it cost and how sure it is."""
    texts = []
    for column in columns(release, _ROWS):
        cells = [column.name, *("NULL" if cell is None else cell for cell in column.cells)]
        short = [cut(escape_controls(cell), _CELLS) for cell in cells]
        widest = max(map(width, short))
        texts.append([pad(cell, widest, right=column.right) for cell in short])
    lines = ["  ".join(cells).rstrip() for cells in zip(*texts, strict=True)]
    more = release.rows.num_rows - _ROWS
    if more > 0:
        lines.append(f"({more} more rows)")
    if not release.rows.num_rows:
        lines.append("(no rows)")
    return "\n".join(
        [f"<Release: {release.selection}>", *lines, escape_controls(" · ".join(summary(release, None)))]
    )
