"""What verifying a policy found: exact private facts, for the owner alone."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Finding", "Report", "times"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was verified.

    `level` is "ok", "note" (worth knowing) or "wrong" (the policy is not true of the data); `place` is the
    policy's key.
    """

    level: str
    place: str
    text: str


@dataclass(slots=True)
class Report:
    """All findings.

    `passed` holds the version of each private table that was read whole and keeps its vouched facts: the
    ledger remembers it, so that no session has to read the table again before its first statement. So it
    does of the `lengths` of a table whose values are all within the limit.
    """

    findings: list[Finding] = field(default_factory=list)
    passed: dict[str, str] = field(default_factory=dict)

    @property
    def wrong(self) -> int:
        """How many findings say that the policy is wrong."""
        return sum(finding.level == "wrong" for finding in self.findings)

    def ok(self, place: str, text: str) -> None:
        """Add what is as declared."""
        self.findings.append(Finding("ok", place, text))

    def note(self, place: str, text: str) -> None:
        """Add what the owner should know."""
        self.findings.append(Finding("note", place, text))

    def bad(self, place: str, text: str) -> None:
        """Add what is not as declared."""
        self.findings.append(Finding("wrong", place, text))


def times(number: int, word: str) -> str:
    """Write a number with its word.

    >>> times(1, "row"), times(1234, "value")
    ('1 row', '1,234 values')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"
