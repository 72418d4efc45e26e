"""What a connection and its cursors share: the session, behind one lock and one closed flag."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.errors import InterfaceError, ProgrammingError

if TYPE_CHECKING:
    from dpsql.ledger import Budget
    from dpsql.session import Answer, Prepared, Session

__all__ = ["Channel", "Parameters"]

Parameters = Sequence[Any] | Mapping[str, Any]
"""A sequence for `?` markers, a mapping for `$name` markers."""


_TEXT = (str, bytes, bytearray, memoryview)


class Channel:
    """Serialises what threads ask of one session; `cancel` alone passes the queue."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.RLock()
        self.closed = False

    def run(self, text: str, parameters: Parameters | None) -> Answer:
        """Run one statement: one charge, if it is private."""
        checked = _check(text, parameters)
        with self._lock:
            return self.open_session().run(text, checked)

    def prepare(self, text: str, parameters: Parameters | None) -> Prepared:
        """Analyse and price one statement; charges nothing."""
        checked = _check(text, parameters)
        with self._lock:
            return self.open_session().prepare(text, checked)

    def execute(self, prepared: Prepared) -> Answer:
        """Run what was prepared."""
        with self._lock:
            return self.open_session().execute(prepared)

    def budget(self) -> Budget:
        """Return what is spent and what is left."""
        with self._lock:
            return self.open_session().budget()

    def cancel(self) -> None:
        """Stop the statement that runs now, from any thread; what was charged stays charged."""
        self.open_session().cancel()

    def close(self) -> None:
        """Close the session; a second call is an error, as PEP 249's compliance suite wants."""
        with self._lock:
            self.open_session()
            self.closed = True
            self._session.close()

    def open_session(self) -> Session:
        """Return the session, or say that it is closed."""
        if self.closed:
            raise InterfaceError("the connection is closed")
        return self._session


def _check(text: object, parameters: object) -> Parameters | None:
    if not isinstance(text, str):
        raise ProgrammingError("a statement is text (str)")
    if parameters is None:
        return None
    # Text is a sequence too, but never what was meant.
    if isinstance(parameters, (Sequence, Mapping)) and not isinstance(parameters, _TEXT):
        return parameters
    raise ProgrammingError("parameters are a sequence for ? markers or a mapping for $name markers")
