"""Show what the kernel certified of a statement: how far one unit changes each number, and why."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dpsql.kernel.check import Certificate, Change, Together
from dpsql.prepared import PreparedComposed, PreparedPrivate, PreparedPublic

COLUMNS = ("query", "rule", "concludes", "place")
"""The columns of EXPLAIN (FORMAT CERTIFICATE), all VARCHAR: one row for each step of a proof, in order."""


def certificate_table(prepared: PreparedPrivate | PreparedComposed | PreparedPublic) -> pa.Table:
    """Return the proofs of all counting queries of a statement, rule by rule, and what they conclude."""
    rows = [
        (name, rule, concludes, place)
        for name, certificate in _queries(prepared)
        for rule, concludes, place in _steps(certificate)
    ]
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(COLUMNS)}, _SCHEMA)


_SCHEMA = pa.schema((name, pa.string()) for name in COLUMNS)


def _queries(
    prepared: PreparedPrivate | PreparedComposed | PreparedPublic,
) -> Iterator[tuple[str, Certificate]]:
    """Yield the names of the counting queries of a statement, and their certificates."""
    parts = () if isinstance(prepared, PreparedPublic) else prepared.parts
    for place, part in enumerate(parts):
        release = f"release {place + 1}" if len(parts) > 1 else "counts"
        for search, ladder in enumerate(part.plan.ladders):
            name = "search of a bound" if len(part.plan.ladders) == 1 else f"search of bound {search + 1}"
            yield (f"{release}: {name}" if len(parts) > 1 else name), ladder.compiled.certificate
        yield release, part.plan.compiled.certificate


def _steps(certificate: Certificate) -> Iterator[tuple[str, str, str]]:
    """Yield the steps of a proof, then what is concluded of each number."""
    for step in certificate.derivation:
        yield step.rule, step.concludes, step.path or "query"
    for change in certificate.numbers:
        yield "conclusion", _number(change, certificate), change.column
    for found in certificate.together:
        yield "conclusion", *_together(found, certificate)


def _together(found: Together, certificate: Certificate) -> tuple[str, str]:
    """Say how far one unit changes several numbers, and which."""
    names = ", ".join(change.column for change in certificate.numbers if change.column in found.columns)
    where = "" if certificate.most_groups == 1 or not certificate.columns else " in each group"
    text = f"one unit changes {names} by at most {found.each:,} together{where}"
    if found.total is not None and where:
        text += f", by at most {found.total:,} in all groups"
    return text, names


def _number(change: Change, certificate: Certificate) -> str:
    """Say how far one unit changes a number."""
    where = "" if certificate.most_groups == 1 or not certificate.columns else " in each group"
    text = f"one unit changes {change.column} by {change.low:,} to {change.high:,}{where}"
    if change.total is not None and where:
        text += f", by at most {change.total:,} in all groups together"
    return text
