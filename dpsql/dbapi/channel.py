"""The session that a connection shares with its cursors, behind one lock and one closed flag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.errors import InterfaceError
from dpsql.exclusive import Turn

if TYPE_CHECKING:
    from dpsql.ledger import Budget
    from dpsql.session import Prepared, Session, StatementResult

__all__ = ["Channel", "Parameters"]

Parameters = Sequence[Any] | Mapping[str, Any]
"""A sequence for `?` markers, a mapping for `$name` markers."""


class Channel:
    """Serialises the use of one session by several threads; only `cancel` does not wait.

    Only the process that opened it may use it; a forked child is refused.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = Turn("connection")
        self.closed = False

    def run(self, text: str, parameters: Parameters | None) -> StatementResult:
        """Run one statement: one charge, if it is private."""
        asked = _plain(text, parameters)
        with self._turn:
            return self.open_session().run(*asked)

    def prepare(self, text: str, parameters: Parameters | None) -> Prepared:
        """Analyse and price one statement; charges nothing."""
        asked = _plain(text, parameters)
        with self._turn:
            return self.open_session().prepare(*asked)

    def execute(self, prepared: Prepared) -> StatementResult:
        """Run a prepared statement."""
        with self._turn:
            return self.open_session().execute(prepared)

    def budget(self) -> Budget:
        """Return what is spent and what is left."""
        with self._turn:
            return self.open_session().budget()

    def cancel(self) -> None:
        """Stop the statement that runs now, from any thread; what was charged stays charged."""
        self.open_session().cancel()

    def close(self) -> None:
        """Close the session; a second call is an error, as PEP 249's compliance suite wants."""
        with self._turn:
            self.open_session()
            self.closed = True
            self._session.close()

    @property
    def in_own_process(self) -> bool:
        """Whether this process opened it."""
        return self._turn.in_own_process

    def open_session(self) -> Session:
        """Return the session; `InterfaceError` if it is closed or belongs to another process."""
        self._turn.check()
        if self.closed:
            raise InterfaceError("the connection is closed")
        return self._session


def _plain(text: object, parameters: object) -> tuple[str, Any]:
    """Copy a statement and its parameters into plain values, before the lock is taken."""
    # Imported here: there is a session, so it is loaded; `import dpsql` must not wait for it.
    from dpsql.language import plain, plain_text  # noqa: PLC0415

    return plain_text(text), plain(parameters)
