"""Findings of the verification of a policy: exact private facts, for the owner alone."""

from __future__ import annotations

from dataclasses import field, replace

from dpsql.lazy_dataclass import dataclass
from dpsql.policy.lines import line_of


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    `level` is "ok", "note" (worth knowing) or "wrong" (the policy is not true of the data); `place` is the
    policy's key, and `line` the line of the policy's file in which it stands.
    """

    level: str
    place: str
    text: str
    line: int | None = None


@dataclass(slots=True)
class Report:
    """All findings of one verification.

    `passed` holds the version of each private table that is readable and whose unique facts hold. The ledger
    records it, so that no session has to read the table again before its first statement. A table whose
    values are all within the length limit has a second entry, under `lengths` of its name.
    """

    findings: list[Finding] = field(default_factory=list)
    passed: dict[str, str] = field(default_factory=dict)

    @property
    def wrong(self) -> int:
        """Number of findings that contradict the policy."""
        return sum(finding.level == "wrong" for finding in self.findings)

    def add(self, level: str, place: str, text: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(level, place, text))

    def locate(self, text: str) -> None:
        """Add the lines of the policy, whose text this is, to what is not ok."""
        self.findings = [
            each if each.level == "ok" else replace(each, line=line_of(text, each.place))
            for each in self.findings
        ]


def times(number: int, word: str) -> str:
    """Write a number with its noun, in the plural if needed.

    >>> times(1, "row"), times(1234, "value")
    ('1 row', '1,234 values')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"
