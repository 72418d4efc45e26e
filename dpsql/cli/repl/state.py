"""The state of the interactive shell, and how it runs one statement."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpsql.cli import narrate
from dpsql.cli.batch import write_result
from dpsql.cli.exits import ExitCode
from dpsql.cli.progress import progress
from dpsql.render.figures import show_left
from dpsql.render.readable import price

if TYPE_CHECKING:
    from pathlib import Path

    from dpsql.cli.output import AnswerOutput
    from dpsql.sessions import AnalystSession, PricedStatement, StatementResult


class LineReader(Protocol):
    """What the shell reads its lines from."""

    interactive: bool
    """Whether somebody is there to be asked."""

    def line(self, prompt: str, begun: str) -> str:
        """Return the next line, or several; `begun` is what a statement has so far. `EOFError` at the end."""

    def ask(self, question: str) -> bool:
        """Ask for a yes; anything else is a no."""


@dataclass
class ReplState:
    """What dot commands read and change."""

    session: AnalystSession
    """Whose budget pays."""
    output: AnswerOutput
    """Where answers go."""
    reader: LineReader
    """Where lines come from."""
    policy: Path | None = None
    """The policy's file, shown by `.policy`; None if it lies on a server."""
    go_on: bool = False
    """Go on after an error; somebody at a terminal always may."""
    timer: bool = False
    """Whether run times are shown."""
    last: StatementResult | None = None
    """The last answer with rows."""
    asked: str | None = None
    """The last private statement, for `.explain`."""
    done: bool = False
    code: ExitCode = ExitCode.OK
    """The first failure."""

    def note(self, code: ExitCode) -> None:
        """Remember a failure; in a pipe it ends the shell, unless it is to go on."""
        self.code = self.code or code
        if code and not self.reader.interactive and not self.go_on:
            self.done = True

    def statement(self, text: str) -> None:
        """Run one statement; ask before, if it takes much of what is left."""
        prepared = self.session.prepare(text)
        self.output.check()
        if prepared.private and not self._is_agreed(prepared):
            narrate.note("not run")
            return
        start = time.monotonic()
        with progress("counting"):
            answer = self.session.execute(prepared)
        took = time.monotonic() - start
        if prepared.private:
            self.asked = text
        if answer.table.num_columns:
            self.last = answer
        write_result(self.session, self.output, answer)
        if self.timer:
            narrate.note(f"{took:.3f} s")

    def _is_agreed(self, prepared: PricedStatement) -> bool:
        """Ask before more than a quarter of what is left is spent; what does not fit is refused anyway."""
        remaining, cost = self.session.budget().remaining, prepared.price
        cap = self.session.max_epsilon_per_query
        dear = 4 * cost.epsilon > remaining.epsilon or 4 * cost.delta > remaining.delta
        if not dear or not cost.fits(remaining) or (cap is not None and cost.epsilon > cap):
            return True
        rest = f"epsilon {show_left(remaining.epsilon)}"
        rest += f", delta {show_left(remaining.delta)}" if cost.delta else ""
        return self.reader.ask(f"this takes {price(cost)} of the {rest} left; run it? [y/N] ")
