"""The options that all commands share."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.cli.output import Output

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Values of the options that stand before a command: `dpsql [OPTIONS] COMMAND`."""

    policy: str
    analyst: str | None
    format: str | None
    file: str | None
    on_error: str

    def output(self) -> Output:
        """Make the output for answers; raises `UnwritableError` if it cannot be written."""
        output = Output(self.format, self.file)
        output.check()
        return output
