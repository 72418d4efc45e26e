"""Compare what events tell of reports with the table of reports."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from dpsql.kernel.ledger import reports


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
