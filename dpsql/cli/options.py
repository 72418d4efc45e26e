"""The options that all commands share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.output import Output
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpsql.ledger import Ledger, Opening
    from dpsql.policy import Policy
    from dpsql.remote import Target


@dataclass(frozen=True, slots=True)
class Settings:
    """Values of the options that stand before a command: `dpsql [OPTIONS] COMMAND`."""

    policy: str
    analyst: str | None
    format: str | None
    target: str | None
    on_error: str
    intervals: bool = False
    exact_digits: bool = False
    width: int | None = None
    server: Target | None = None
    """The server that answers, in place of a policy on this machine."""

    @property
    def go_on(self) -> bool:
        """Whether statements after one that failed run."""
        return self.on_error == "continue"

    def load_policy(self) -> Policy:
        """Load the policy's file; raises `PolicyError`."""
        from dpsql.policy import load

        return load(self.policy)

    def open_ledger(self, opening: Opening | None = None) -> Ledger:
        """Open the policy's ledger alone: reading the budget needs neither the data nor the engine."""
        from dpsql.ledger import Ledger, Opening

        ledger = Ledger.of(self.load_policy(), opening or Opening.USE)
        for text in ledger.messages:
            narrate.note(text)
        return ledger

    @contextmanager
    def answers(self, default: str | None = None) -> Iterator[Output]:
        """Check that answers can be written (else `UnwritableError`), and close their file at the end."""
        output = Output(
            self.format or default,
            self.target,
            intervals=self.intervals,
            exact_digits=self.exact_digits,
            columns=self.width,
        )
        output.check()
        try:
            yield output
        finally:
            output.close()
