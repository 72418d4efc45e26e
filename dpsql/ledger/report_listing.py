"""What was released for reports; and compare what events tell of them with the table of reports."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from dpsql.kernel.ledger import part_totals, reports
from dpsql.kernel.unit_parts import PartSet
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReportRelease:
    """A release that was made for a report: its number, its place among those of its run, its parts."""

    number: int
    place: int
    """From 1."""
    parts: PartSet | None
    """The parts of units that it was charged to, as they were then; None: all."""
    key: str | None
    """The key of its question, which tells its policy and its data."""


def list_report_releases(connection: sqlite3.Connection, digest: str, analyst: str) -> list[ReportRelease]:
    """Return what was released for the reports of a text, which an analyst has registered."""
    rows = connection.execute(
        "SELECT e.release, ROW_NUMBER() OVER (PARTITION BY COALESCE(p.first, e.entry) ORDER BY p.place),"
        " e.entry, a.reuse_key FROM report_run u"
        " JOIN report r ON r.number = u.report JOIN entry e ON e.entry = u.entry"
        " JOIN release a ON a.number = e.release LEFT JOIN part p ON p.entry = e.entry"
        " WHERE r.digest = ? AND r.analyst = ? AND e.state = 'settled' ORDER BY e.release",
        (digest, analyst),
    ).fetchall()
    return [
        ReportRelease(number, place, part_totals.written_touches(connection, entry), key)
        for number, place, entry, key in rows
    ]


def compare_report(connection: sqlite3.Connection, record: Mapping[str, Any]) -> Iterator[str]:
    """Say whether a report is what it was when it was registered."""
    number = record["report"]["number"]
    if reports.content_of(connection, number) != record["report"]:
        yield f"report {number} is missing or not what it was when it was registered"


def compare_end(connection: sqlite3.Connection, n: int, record: Mapping[str, Any]) -> Iterator[str]:
    """Say whether a report has ended by the event `n`."""
    row = connection.execute("SELECT ended FROM report WHERE number = ?", (record["report"],)).fetchone()
    if row != (n,):
        yield f"report {record['report']} has not ended then"
