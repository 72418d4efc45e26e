"""The types of all statements together, and EXPLAIN of those that charge."""

from __future__ import annotations

from typing import Literal

from dpsql.language.statement import Describe, Query, Refine, ReportCommand, Set, Show, StatementText
from dpsql.language.stream_statements import Ask, Check, FirstStable, OpenChecks, StreamCommand
from dpsql.lazy_dataclass import dataclass

ExplainForm = Literal["TABLE", "JSON", "CERTIFICATE"]
"""What EXPLAIN returns."""


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a SELECT, a list of them, a REFINE RELEASE or a statement of a stream of checks."""

    source: StatementText
    query: Query | FirstStable | Refine | OpenChecks | Check | Ask | StreamCommand
    form: ExplainForm = "TABLE"
    """One JSON text; the proofs of what is counted; or a table of properties."""


Statement = (
    Query
    | FirstStable
    | Explain
    | Show
    | Describe
    | Set
    | Refine
    | OpenChecks
    | Check
    | Ask
    | StreamCommand
    | ReportCommand
)
