"""Exit codes, and the exit code of each class of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import click

from dpsql import errors


class UnwritableError(Exception):
    """The output cannot be written; found before anything was charged."""


class OutputFailedError(Exception):
    """Writing an answer failed after it was charged."""


class UnchargedInterrupt(click.Abort):
    """Ctrl-C in a command that charges nothing; its text says what it leaves behind."""


@contextmanager
def uncharged(leaves: str) -> Iterator[None]:
    """Turn a Ctrl-C in the block into `UnchargedInterrupt`, whose text is `leaves`."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        raise UnchargedInterrupt(leaves) from None


class ExitCode(IntEnum):
    """Exit codes of the process."""

    OK = 0
    """Everything asked for was done."""
    QUERY_FAILED = 1
    """A statement is wrong or failed, or dpsql has a bug."""
    USAGE = 2
    """The command line or the policy is wrong; nothing ran."""
    DATABASE = 3
    """The engine, the ledger's file or the machine failed."""
    REFUSED = 4
    """A statement could not be proved private; it was not run and not charged."""
    BUDGET_EXCEEDED = 5
    """The budget does not pay for it; it was not run and not charged."""
    INTERRUPTED = 130
    """Ctrl-C; what was charged stays charged."""


_TABLE: tuple[tuple[type[BaseException], ExitCode], ...] = (
    # The first that fits counts, so subclasses stand before their bases.
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
    (click.Abort, ExitCode.INTERRUPTED),
    (click.UsageError, ExitCode.USAGE),
    (UnwritableError, ExitCode.USAGE),
    (errors.BudgetExceeded, ExitCode.BUDGET_EXCEEDED),
    (errors.OperationalError, ExitCode.DATABASE),
    (errors.PolicyError, ExitCode.USAGE),
    (errors.NotSupportedError, ExitCode.REFUSED),
    (BaseException, ExitCode.QUERY_FAILED),
)


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code of an error.

    >>> exit_code(errors.QueryRefused("x")).name, exit_code(errors.InternalError("x")).name
    ('REFUSED', 'QUERY_FAILED')
    """
    return next(code for kind, code in _TABLE if isinstance(error, kind))


def legend() -> str:
    """Describe all codes, for `--help`."""
    words = {code: code.name.lower().replace("_", " ") for code in ExitCode}
    words[ExitCode.USAGE] = "usage or policy"
    return "\n".join(f"  {code.value:>3}  {words[code]}" for code in ExitCode)
