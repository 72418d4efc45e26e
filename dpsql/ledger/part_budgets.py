"""What is spent and left of each part of units, and of all statements in sequence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from heapq import nlargest, nsmallest
from typing import Any

from dpsql.kernel.ledger import person_totals
from dpsql.kernel.ledger.caps import Caps
from dpsql.kernel.ledger.part_totals import Amounts, Segment
from dpsql.kernel.ledger.scopes import Scope
from dpsql.kernel.ledger.totals import POLICY, ladder_total, read, read_loss
from dpsql.kernel.unit_parts import NO_HOME, Calendar, ListedValues, Numbering, WholeNumbers
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger.budgets import Budget, BudgetOfParts, scopes_of


class ChargedParts(BudgetOfParts):
    """The budget of each of some parts, with what was charged to them alone."""

    def __init__(
        self, ends: tuple[int, int], amounts: tuple[Amounts, ...], scopes: list[Scope], numbering: Numbering
    ) -> None:
        super().__init__(ends, numbering, self._add_up)
        self._amounts, self._scopes = amounts, scopes

    def _add_up(self) -> Budget:
        pairs = zip(self._scopes, self._amounts, strict=True)
        return Budget.of_scopes(*(scope.budget_with(amounts) for scope, amounts in pairs), by_parts=True)

    @property
    def epsilon(self) -> int:
        """What was charged to them alone in the first scope, in whole steps."""
        return self._amounts[0].epsilon

    @property
    def adds_epsilons(self) -> bool:
        """Whether what is left is the budget of one scope, less the epsilons that were charged."""
        return len(self._scopes) == 1 and not self._scopes[0].filter.order_way and not self._amounts[0].open


def list_parts(connection: sqlite3.Connection, caps: Caps, analyst: str | None) -> list[ChargedParts]:
    """Return the budgets of all parts of units, in order; equal neighbours are one."""
    if caps.parts is None:
        return []
    scopes, found = scopes_of(connection, caps, analyst), list[tuple[int, int, tuple[Amounts, ...]]]()
    for i, each in enumerate(scopes):
        own = each.segments(connection)
        found = [*_pair(found, own)] if i else [(low, high, (amounts,)) for low, high, amounts in own]
    numbering = caps.parts.number_in(connection)
    return [
        ChargedParts(ends, amounts, scopes, numbering)
        for low, high, amounts in found
        for ends in numbering.split((low, high))
    ]


def write_parts(found: list[ChargedParts]) -> dict[str, Any]:
    """Return the exact budgets of all parts, as JSON has them: `read_parts` reads them."""
    first, numbering = found[0].budget.facts, found[0].numbering
    return {
        "every": numbering.every if isinstance(numbering, Calendar) else None,
        "values": numbering.values if isinstance(numbering, ListedValues) else None,
        "common": first,
        "parts": [
            [each.low, each.high, {key: value for key, value in facts.items() if value != first[key]}]
            for each in found
            for facts in [each.budget.facts]
        ],
    }


def read_parts(facts: Mapping[str, Any]) -> tuple[BudgetOfParts, ...]:
    """Read what `write_parts` has written."""
    numbering: Numbering = WholeNumbers()
    if facts["every"] is not None:
        numbering = Calendar(facts["every"])
    elif facts["values"] is not None:
        numbering = ListedValues(tuple((value, number) for value, number in facts["values"]))
    return tuple(
        BudgetOfParts((low, high), numbering, partial(Budget.read, {**facts["common"], **own}))
        for low, high, own in facts["parts"]
    )


def list_fullest(found: list[ChargedParts], number: int) -> list[ChargedParts]:
    """Return those of some parts that have least left."""
    if all(each.adds_epsilons for each in found):
        return nlargest(number, found, key=lambda each: each.epsilon)
    return nsmallest(number, found, key=lambda each: each.budget.remaining.epsilon)


def _pair(
    before: list[tuple[int, int, tuple[Amounts, ...]]], own: list[Segment]
) -> Iterator[tuple[int, int, tuple[Amounts, ...]]]:
    """Yield ranges of the same parts with what a further scope was charged."""
    i = j = 0
    while i < len(before) and j < len(own):
        low, high = max(before[i][0], own[j][0]), min(before[i][1], own[j][1])
        if low <= high:
            yield low, high, (*before[i][2], own[j][2])
        i, j = i + (before[i][1] <= high), j + (own[j][1] <= high)


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


def total_in_sequence(connection: sqlite3.Connection, caps: Caps, analyst: str | None) -> Fraction | None:
    """Return what would be spent without parts, in the scope that is shown first; None if it has no epsilon.

    It is the sum of the epsilons of all statements there, of kept ladders, and of what is known of a ledger
    that was lost.
    """
    name = scopes_of(connection, caps, analyst)[0].name
    where, given = ("shared = 0", ()) if name == POLICY else ("analyst = ?", (analyst,))
    rows = connection.execute(
        f"SELECT reserved_loss, charged_loss, COUNT(*) FROM entry WHERE {where} GROUP BY 1, 2", given
    )
    found = ladder_total(connection, None).epsilon
    for reserved, charged, number in rows:
        epsilon = None if read_loss(reserved).epsilon is None else read_loss(charged).epsilon
        if found is None or epsilon is None:
            return None
        found += number * epsilon
    lost = connection.execute(
        "SELECT restored.epsilon FROM restored JOIN event ON event.n = restored.event"
        " WHERE restored.scope = ? AND json_extract(event.record, '$.event') = 'restored'",
        (name,),
    )
    for (epsilon,) in lost:
        found = None if found is None or epsilon is None else found + read(epsilon)
    return found
