"""What is spent and left of each part of units, and of all statements in sequence."""

from __future__ import annotations

import sqlite3
from fractions import Fraction

from dpsql.kernel.ledger import person_totals
from dpsql.kernel.ledger.scopes import Caps, ScopeBudget
from dpsql.kernel.ledger.totals import read_loss
from dpsql.kernel.unit_parts import NO_HOME, PARTS, Calendar
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger.listing import Budget, scopes_of


@dataclass(frozen=True, slots=True)
class BudgetOfParts:
    """The budget of each of some parts of units that are next to each other."""

    low: int
    high: int
    budget: Budget
    words: str


def list_parts(connection: sqlite3.Connection, caps: Caps, analyst: str | None) -> list[BudgetOfParts]:
    """Return the budgets of all parts of units, in order; equal neighbours are one."""
    if caps.parts is None:
        return []
    found: list[tuple[int, int, tuple[ScopeBudget, ...]]] = [(0, PARTS - 1, ())]
    for each in scopes_of(connection, caps, analyst):
        own = each.segments(connection)
        found = [
            (max(low, start), min(high, end), (*before, budget))
            for low, high, before in found
            for start, end, budget in own
            if max(low, start) <= min(high, end)
        ]
    numbering = caps.parts.number_in(connection)
    parted: list[tuple[int, int, Budget]] = []
    for low, high, scopes in found:
        budget = Budget.of(*scopes, by_parts=True)
        if parted and parted[-1][2] == budget:
            parted[-1] = parted[-1][0], high, budget
        else:
            parted.append((low, high, budget))
    return [
        BudgetOfParts(*ends, budget, numbering.range_words(ends))
        for low, high, budget in parted
        for ends in numbering.split((low, high))
    ]


@dataclass(frozen=True, slots=True)
class BorneInYears:
    """What one person bears of each of some years, and what is left of `[budget.person]`."""

    years: str
    spent: Fraction | None
    """None: it has no epsilon."""
    left: Fraction | None
    """None: nothing limits it, or it has no epsilon."""


def list_borne(connection: sqlite3.Connection, caps: Caps) -> list[BorneInYears]:
    """Return what one person bears of years, those in which it bears something; none without periods."""
    if caps.parts is None or not caps.parts.periods:
        return []
    years, found = Calendar("year"), list[BorneInYears]()
    for low, high, totals in person_totals.borne_by_year(connection, caps):
        for ends in years.split((low, high)):
            if totals.epsilon != 0 and ends[0] < NO_HOME:
                cap, spent = caps.person, totals.epsilon
                left = None if cap is None or spent is None else max(cap.epsilon - spent, Fraction(0))
                found.append(BorneInYears(years.range_words(ends), spent, left))
    return found


def total_in_sequence(connection: sqlite3.Connection, analyst: str | None) -> Fraction | None:
    """Return the sum of the epsilons of all statements, whatever parts they read; None if one has none."""
    where, given = ("shared = 0", ()) if analyst is None else ("analyst = ?", (analyst,))
    rows = connection.execute(
        f"SELECT reserved_loss, charged_loss, COUNT(*) FROM entry WHERE {where} GROUP BY 1, 2", given
    )
    found = Fraction(0)
    for reserved, charged, number in rows:
        epsilon = None if read_loss(reserved).epsilon is None else read_loss(charged).epsilon
        if epsilon is None:
            return None
        found += number * epsilon
    return found
