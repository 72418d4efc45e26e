"""The value of `--width`."""

from __future__ import annotations

import click

NARROWEST = 20
"""Cells below which no table can be read."""


class Width(click.ParamType[int]):
    """A number of cells, or `full`, which is 0: as many as a table takes."""

    name = "columns"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of cells."""
        text = str(value).strip().lower()
        if text == "full":
            return 0
        if text.isascii() and text.isdigit() and len(text) < 7 and int(text) >= NARROWEST:
            return int(text)
        return self.fail(f"{text[:20]!r} is no width: write a number from {NARROWEST}, or full", param, ctx)
