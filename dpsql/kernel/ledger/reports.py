"""Reports: statements registered before their first answer, and what is kept of the budget for them.

A report may have a loss that is kept for it in each part of units, until it has measured that part: other
statements are admitted only if the budget admits this loss beside them. So a report only ever makes a ledger
refuse more; what is charged for it is charged as for every statement.

Each part is measured once: a second run, in another process or later, is refused before it is charged.
Blocks of parts that a report measures when they are over are a report of their own, named after it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from dpsql.errors import BudgetExceeded, OperationalError, ProgrammingError
from dpsql.kernel.ledger import events, limits, part_totals
from dpsql.kernel.ledger.caps import Caps, order_of
from dpsql.kernel.ledger.scopes import policy_scopes
from dpsql.kernel.ledger.totals import added_amounts, read_loss, shown
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.unit_parts import ALL_PARTS, NO_PARTS, PartSet
from dpsql.lazy_dataclass import dataclass

_FIXED: Final = ("number", "name", "analyst", "at", "digest", "statements", "plan", "kept", "event")
"""The columns of a report that never change."""


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report that is registered."""

    number: int
    name: str
    analyst: str
    at: str
    digest: str
    """Its number and name, whose it is, since when, and what tells its text from every other."""
    statements: str
    plan: str
    """Its statements, and what is measured for them with the predicted errors, as texts."""
    kept: PrivacyLoss | None
    """The loss that is kept for it in each part that it has not measured yet; none: nothing is."""


def register(connection: sqlite3.Connection, caps: Caps, report: StoredReport) -> StoredReport:
    """Register a report under its name; the same one again is the one that is there.

    What is kept for it has to fit beside what is kept for others: else each would refuse the others' runs.
    """
    known = find(connection, report.name)
    if known is not None:
        if (known.digest, known.analyst) == (report.digest, report.analyst):
            if report.kept not in (None, known.kept):
                raise ProgrammingError(f"report {report.name} is there with another share kept; end it first")
            return known
        raise ProgrammingError(
            f"there is another report {report.name!r}, and what is measured for one text answers no other;"
            " take another name, or end that one"
        )
    if report.kept is not None:
        others = [each for each in active(connection) if each.kept is not None]
        together = sum((each.kept for each in others if each.kept is not None), report.kept)
        if not caps.filter.admits(policy_scopes(connection, caps, shown_now=True)[0].whole, together):
            beside = " beside what is kept for " + ", ".join(each.name for each in others) if others else ""
            raise ProgrammingError(f"the budget of a part does not admit so large a share{beside}")
    kept = "" if report.kept is None else str(report.kept)
    row = (report.name, report.analyst, report.at, report.digest, report.statements, report.plan, kept)
    cursor = connection.execute(
        "INSERT INTO report (name, analyst, at, digest, statements, plan, kept, event)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, events.newest(connection).n + 1),
    )
    number = int(cursor.lastrowid or 0)
    events.append(connection, "report", {"report": content_of(connection, number)})
    return replace(report, number=number)


def end(connection: sqlite3.Connection, name: str, at: str) -> None:
    """End a report and those of its blocks: nothing is kept for it, and it is not run any more."""
    if find(connection, name) is None or "(" in name:
        raise ProgrammingError(f"there is no report {name!r}")
    for found in active(connection):
        if found.name == name or found.name.startswith(f"{name} ("):
            ended = events.newest(connection).n + 1, found.number
            connection.execute("UPDATE report SET ended = ? WHERE number = ?", ended)
            events.append(connection, "report-end", {"at": at, "report": found.number})


def find(connection: sqlite3.Connection, name: str) -> StoredReport | None:
    """Return the report of a name that has not ended."""
    return next((each for each in active(connection) if each.name == name), None)


def active(connection: sqlite3.Connection) -> list[StoredReport]:
    """Return the registered reports that have not ended."""
    rows = connection.execute(
        "SELECT number, name, analyst, at, digest, statements, plan, kept FROM report WHERE ended IS NULL"
        " ORDER BY number"
    )
    return [replace(StoredReport(*row), kept=read_loss(row[7]) if row[7] else None) for row in rows]


def content_of(connection: sqlite3.Connection, number: int) -> dict[str, Any] | None:
    """Return what an event says of a report; None: there is none."""
    row = connection.execute(f"SELECT {', '.join(_FIXED)} FROM report WHERE number = ?", (number,)).fetchone()
    return None if row is None else dict(zip(_FIXED, row, strict=True))


def parts_of(connection: sqlite3.Connection, number: int, *, measured: bool = False) -> PartSet:
    """Return the parts that were charged for a text; with `measured`, those measured, or measured now.

    They are those of its registration, whose digest tells how units are in parts, whatever changed since.
    """
    found = NO_PARTS
    rows = connection.execute(
        "SELECT e.entry, e.state, e.holder FROM report n JOIN report r ON r.digest = n.digest"
        " AND r.analyst = n.analyst JOIN report_run u ON u.report = r.number"
        " JOIN entry e ON e.entry = u.entry WHERE n.number = ?",
        (number,),
    ).fetchall()
    for entry, state, holder in rows:
        gone = state in ("failed", "cancelled") or (state == "reserved" and limits.is_alive(holder) is False)
        if not (measured and gone):
            found |= part_totals.written_touches(connection, entry) or ALL_PARTS
    return found


def check_runs(
    connection: sqlite3.Connection,
    caps: Caps,
    requests: Sequence[events.Request],
    touches: Sequence[PartSet | None],
) -> frozenset[int]:
    """Return the reports for which releases are; raise unless none has measured their parts yet."""
    asked: dict[int, PartSet] = {}
    for request, parts in zip(requests, touches, strict=True):
        if request.report is not None:
            known = asked.get(request.report, NO_PARTS)
            asked[request.report] = known | (ALL_PARTS if parts is None else parts)
    names = {each.number: each.name for each in active(connection)} if asked else {}
    for number, parts in asked.items():
        if number not in names:
            raise OperationalError("this report has ended; nothing was charged")
        again = parts & parts_of(connection, number, measured=True)
        if again:
            where = (
                f" for {caps.parts.words(connection, again)}"
                if caps.parts is not None and again != ALL_PARTS
                else ""
            )
            raise OperationalError(
                f"report {names[number]} was measured{where}, or is now; nothing was charged, ask for it"
                " again"
            )
    return frozenset(asked)


def check_kept(
    connection: sqlite3.Connection,
    caps: Caps,
    loss: PrivacyLoss,
    price: Charge,
    parts: PartSet | None,
    runs: frozenset[int] = frozenset(),
) -> None:
    """Raise `BudgetExceeded` if the policy's budget does not admit a loss beside what is kept for reports.

    What is kept for those whose `runs` it is of is not counted.
    """
    found: list[tuple[PartSet, PrivacyLoss, tuple[str, ...]]] = [(parts or ALL_PARTS, PrivacyLoss(), ())]
    for each in active(connection):
        if each.kept is None or each.number in runs:
            continue
        spent, now = parts_of(connection, each.number), []
        for where, kept, names in found:
            now += [(where & spent, kept, names), (where - spent, kept + each.kept, (*names, each.name))]
        found = [segment for segment in now if segment[0]]
    for where, kept, names in found:
        if not names:
            continue
        more = added_amounts(kept, kept, order_of(caps.filter))
        try:
            for scope in policy_scopes(connection, caps):
                replace(scope, whole=scope.whole + more).admit(
                    connection, caps, loss, price, None if parts is None else where
                )
        except BudgetExceeded as error:
            kept_words = shown(kept.epsilon, up=True) if kept.epsilon is not None else "a part"
            raise BudgetExceeded(
                f"{error}; {kept_words} of it is kept for report {' and '.join(names)}",
                error.requested,
                error.remaining,
                scope=error.scope,
            ) from None
