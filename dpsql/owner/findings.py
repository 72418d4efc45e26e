"""Findings of the verification of a policy, and their lines in its file: private facts, for the owner."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import field, replace

from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

_HEADER = lazy_pattern(r"\s*\[{1,2}([^\[\]].*?)\]{1,2}\s*(?:#.*)?$")
_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = lazy_pattern(rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=")


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
        """Add a finding about the policy or its data to the list."""
        self.findings.append(Finding(level, place, text))

    def conclude(self, found: object, place: str, text: str, fine: str, level: str = "wrong") -> None:
        """Add what a check has found, or that all is fine if it has found nothing."""
        self.add(*((level, place, text) if found else ("ok", place, fine)))

    def locate(self, text: str) -> None:
        """Add to each finding that is not ok the line of the policy's text that it is about."""
        self.findings = [
            each if each.level == "ok" else replace(each, line=find_line(text, each.place))
            for each in self.findings
        ]


def number_of(number: int, word: str) -> str:
    """Write a number with its noun, in the plural if needed.

    >>> number_of(1, "row"), number_of(1234, "value")
    ('1 row', '1,234 values')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def find_line(text: str, key: str) -> int | None:
    r"""Return the line of a policy's text that has a key path, or the nearest table around it; else None.

    A field of a struct, `domain."address.city"`, may be written as a path as well.

    >>> policy = '[budget]\nepsilon = 1\n[tables.v]\nunit = "u"\n[tables.v.domain]\na.b = [1]\n'
    >>> [find_line(policy, k) for k in ("budget.epsilon", 'tables.v.domain."a.b"', "tables.v.unique[0]", "x")]
    [2, 6, 3, None]
    """
    wanted = _path_of(re.sub(r"\[\d+\]$", "", key))
    best: tuple[int, int] | None = None
    for number, path in _key_lines(text):
        if ".".join((*wanted, "")).startswith(".".join((*path, ""))) and (
            best is None or len(path) > best[0]
        ):
            best = len(path), number
    return best[1] if best is not None else None


def _key_lines(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the lines that name a table or a key, each with its path."""
    above: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            above = _path_of(header[1])
            yield number, above
        elif key := _KEY.match(line):
            yield number, above + _path_of(key[1])


def _path_of(key: str) -> tuple[str, ...]:
    """Return the names of a key path in TOML syntax; none if it is no such path."""
    try:
        found: object = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return ("",)
    names = []
    while isinstance(found, dict):
        ((name, found),) = found.items()
        names.append(name)
    return tuple(names)
