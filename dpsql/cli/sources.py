"""Reads the statements of `-c` and `-f`, with their places, in the order in which they were given."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence


_COMMENTS = re.compile(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)

META = "dpsql.sources"
"""Key in click's context that holds the values of -c and -f, in order."""


@dataclass(frozen=True, slots=True)
class GivenSql:
    """One `-c SQL` (`file` is None) or one `-f FILE`."""

    text: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement and its place: the file and the line its text starts in, or "-c"."""

    text: str
    origin: str
    line: int

    @property
    def where(self) -> str:
        """The place of a statement as FILE:LINE, where it begins behind the comments before it; or `-c`."""
        if self.origin == "-c":
            return self.origin
        comments = _COMMENTS.match(self.text)
        return f"{self.origin}:{self.line + (comments[0].count(chr(10)) if comments else 0)}"


class InOrder(click.Group):
    """A click group that keeps the common order of `-c` and `-f`, which click separates."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, and once more for the order alone."""
        given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        waiting = {name: iter(given.get(name) or ()) for name in ("command", "file")}
        ctx.meta[META] = [(param.name, next(waiting[param.name])) for param in order if param.name in waiting]
        return super().parse_args(ctx, args)


def read(given: Sequence[tuple[str, str]]) -> list[GivenSql]:
    """Read the files; `-` is standard input. Raises `click.UsageError` for one that cannot be read."""
    return [GivenSql(value) if kind == "command" else _file(value) for kind, value in given]


def _file(name: str) -> GivenSql:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return GivenSql(data.decode("utf-8-sig"), "stdin" if name == "-" else name)
    except OSError as problem:
        raise click.UsageError(f"cannot read {name}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"cannot read {name}: it is no UTF-8 text") from None


def statements(sources: Sequence[GivenSql]) -> list[Piece]:
    """Split sources into statements."""
    from dpsql.language import pieces

    return [
        Piece(text, source.file or "-c", source.text.count("\n", 0, start) + 1)
        for source in sources
        for start, text in pieces(source.text)
    ]
