"""`Vocabulary`: the words that a bound plan of the engine may have.

They are facts of a version of the engine, so they come from the engine's package as data, not from this one.
"""

from __future__ import annotations

from collections.abc import Collection

from dpsql.errors import EngineNotTested, Error, InternalError
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words that bound plans of counting SQL are made of, in the tested versions of the engine."""

    expressions: Collection[str]
    """Classes of expressions."""
    operators: Collection[str]
    windows: Collection[str]
    """Window functions."""
    plans: Collection[str]
    """Nodes of plans."""
    functions: Collection[str]
    """Functions and aggregates by the names that the plan has; none is volatile."""
    untested: str = ""
    """Which engine is installed and which one to install, if the installed one was not tested; else empty."""

    def refuse(self, what: str) -> Error:
        """Return the error that a bound plan has something that is not allowed; nothing was run or charged.

        With an engine that was tested it is a bug of dpsql. Another engine may plan a right statement so.
        """
        if self.untested:
            return EngineNotTested(f"{self.untested}; {what}, so nothing was run or charged")
        return InternalError(f"this is a bug of dpsql, nothing was run or charged: {what}")
