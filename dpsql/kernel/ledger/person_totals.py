"""What one person bears where a unit is what one did in one period, such as a patient in one week: by years.

*Group privacy.* Databases that differ in k units of one person are k steps apart, each between neighbours.
So what changes the odds by e^epsilon for one changes them by e^(k epsilon) for k, whatever the outcome, also
where epsilon follows from the outcome; with a delta, by (k epsilon, k e^((k-1) epsilon) delta) (Dwork and
Roth 2014, theorem 2.2). These add up by basic composition, however statements are chosen.

k is the number of periods that a statement reads, of those that begin in a year: by the calendar, never by
what a person did. What is charged to all parts reads all periods. Of a statement over tables without periods
the person is the unit: it is borne once, in every year. Rows without a date are one period of a year of their
own. So a person bears of a year at most the sum of k epsilon over its statements, which `[budget.person]`
limits beside the budget of each period; both are charged in one transaction, or neither.

Years are parts of a tree as any (`part_totals`). Years before 2000 and after 2099 have the most periods that
a year can have. What is known as totals alone, of ladders and of a ledger that was lost, is borne as often as
a year can have periods, of the shortest that were ever declared: with which it was charged is not known.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from dpsql.errors import OperationalError
from dpsql.kernel.ledger import part_totals
from dpsql.kernel.ledger.budget_errors import person_error
from dpsql.kernel.ledger.part_totals import Amounts
from dpsql.kernel.ledger.totals import PERSON, POLICY, ladder_total, read, total_at_order
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, Totals
from dpsql.kernel.unit_parts import ALL_PARTS, NULL_PART, Calendar, Every, PartSet

if TYPE_CHECKING:
    from dpsql.kernel.ledger.caps import Caps

MOST: Final[dict[Every, int]] = {"day": 366, "week": 53, "month": 12, "quarter": 4, "year": 1}
"""How many periods begin in a year at most."""
_FIRST, _LAST = 2000, 2099
"""The years whose periods are counted."""
_YEARS: Final = Calendar("year")

Times = tuple[int, int, int]
"""From which year to which, by their numbers as parts, and how many periods of each."""


def periods_by_year(parts: PartSet | None, every: Every) -> tuple[Times, ...]:
    """Return how many periods of each year are among parts; None: all parts.

    >>> year = _YEARS.number(date(2026, 1, 1))
    >>> weeks = Calendar("week")
    >>> first = weeks.number(date(2026, 1, 1))  # begins in 2025
    >>> found = periods_by_year(PartSet.of((first, first + 9)), "week")
    >>> [(low - year, high - year, k) for low, high, k in found]
    [(-1, -1, 1), (0, 0, 9)]
    """
    read, calendar = ALL_PARTS if parts is None else parts, Calendar(every)
    least, most = calendar.ends
    found: list[Times] = []
    for low, high in (read & PartSet(((least, most),))).ranges:
        first, last = calendar.first_day(low).year, calendar.first_day(high).year
        if first < _FIRST:
            found.append((first, min(last, _FIRST - 1), MOST[every]))
        for year in range(max(first, _FIRST), min(last, _LAST) + 1):
            start, end = _begin(calendar, year), _begin(calendar, year + 1) - 1
            found.append((year, year, min(high, end) - max(low, start) + 1))
        if last > _LAST:
            found.append((max(first, _LAST + 1), last, MOST[every]))
    listed = [(_YEARS.number(date(a, 1, 1)), _YEARS.number(date(b, 1, 1)), k) for a, b, k in found]
    if NULL_PART in read:
        listed.append((NULL_PART, NULL_PART, 1))
    return tuple(_join(listed))


def _begin(calendar: Calendar, year: int) -> int:
    """Return the first period that begins in a year."""
    number = calendar.number(date(year, 1, 1))
    return number if calendar.first_day(number).year == year else number + 1


def _join(listed: Iterable[Times]) -> Iterator[Times]:
    """Yield ranges of years, apart from each other: what several ranges of parts have of a year is added."""
    given = list(listed)
    last: Times | None = None
    for low, after in pairwise(sorted({end for a, b, _ in given for end in (a, b + 1)})):
        times = sum(k for a, b, k in given if a <= low and after - 1 <= b)
        if times and last is not None and last[1] == low - 1 and last[2] == times:
            last = (last[0], after - 1, times)
            continue
        if last is not None:
            yield last
        last = (low, after - 1, times) if times else None
    if last is not None:
        yield last


def write_periods(connection: sqlite3.Connection, entry: int, times: Iterable[Times]) -> None:
    """Write in how many periods of each year a person may be among what an entry was charged to."""
    connection.executemany("INSERT INTO periods VALUES (?, ?, ?, ?)", ((entry, *each) for each in times))


def periods_of(connection: sqlite3.Connection, entry: int) -> tuple[Times, ...]:
    """Return what was written of an entry; empty: the person is the unit."""
    rows = connection.execute("SELECT low, high, times FROM periods WHERE entry = ? ORDER BY low", (entry,))
    return tuple(rows.fetchall())


def _whole(times: Iterable[Times]) -> tuple[Times, ...]:
    return tuple(times) or ((ALL_PARTS.ranges[0][0], ALL_PARTS.ranges[0][1], 1),)


def spend(
    connection: sqlite3.Connection, caps: Caps, loss: PrivacyLoss, price: Charge, times: tuple[Times, ...]
) -> None:
    """Add a loss to what a person bears of each year, if `[budget.person]` allows it in all of them.

    Without that section nothing is refused, and it is added only where it was kept before.
    """
    if caps.person is None:
        if not part_totals.order_of_tree(connection, PERSON)[0]:
            return
    else:
        whole = whole_totals(connection, caps)
        for low, high, k in reversed(_whole(times)):  # the last year in which it does not fit is named
            years = PartSet(((low, high),))
            for start, _, amounts in part_totals.segments(connection, [(PERSON, None)], years):
                totals = whole + replace(amounts.totals, cost=Fraction(0))
                _admit(caps, caps.person, totals, loss, price, k, start)
    try:
        part_totals.keep_tree(connection, PERSON, None)
        for low, high, k in _whole(times):
            part_totals.add(connection, PERSON, PartSet(((low, high),)), Amounts.of_group(loss, loss, k))
    except OperationalError:
        if caps.person is not None:
            raise
        part_totals.forget_tree(connection, PERSON)  # more than a tree adds up, which nothing limits


def _admit(
    caps: Caps, cap: Charge, totals: Totals, loss: PrivacyLoss, price: Charge, k: int, year: int
) -> None:
    of = Amounts.of_group(loss, loss, k).totals
    admits = Filter.of(cap)
    if of.epsilon is not None and totals.epsilon is not None and of.delta < 1:
        spent = totals.epsilon + of.epsilon <= admits.epsilon
        if spent and totals.delta + of.delta <= admits.mechanism_delta:
            return
    left = Charge(
        max(admits.epsilon - (totals.epsilon or 0), Fraction(0)),
        max(admits.mechanism_delta - totals.delta, Fraction(0)),
    )
    asked = Charge(k * price.epsilon, min(of.delta, Fraction(1)))
    every = "" if caps.parts is None else caps.parts.calendar.every
    kind = "person" if caps.parts is None else caps.parts.kind
    where = "rows without a date" if year == NULL_PART else "any year"
    if _YEARS.ends[0] <= year <= _YEARS.ends[1]:
        where = _YEARS.name(year)
    raise person_error(asked, left, kind, f"{k} {every}s" if k > 1 else f"one {every}", where)


def note_length(connection: sqlite3.Connection, caps: Caps) -> None:
    """Write how many periods a year can have at most, of all that were ever declared."""
    most = _most_periods(connection, caps)
    if most > 1:
        connection.execute("INSERT OR REPLACE INTO setting VALUES ('most periods', ?)", (str(most),))


def _most_periods(connection: sqlite3.Connection, caps: Caps) -> int:
    row = connection.execute("SELECT value FROM setting WHERE name = 'most periods'").fetchone()
    before = 1 if row is None else int(row[0])
    if caps.parts is None or not caps.parts.periods:
        return before
    return max(before, MOST[caps.parts.calendar.every])


def whole_totals(connection: sqlite3.Connection, caps: Caps) -> Totals:
    """Return what a person bears in every year beside the entries: of ladders, and of what was restored."""
    most = _most_periods(connection, caps)
    found = total_at_order(connection, PERSON, None).totals
    known = replace(ladder_total(connection, None), cost=Fraction(0))
    rows = connection.execute(
        "SELECT epsilon, delta FROM restored WHERE scope = ? AND event NOT IN"
        " (SELECT event FROM restored WHERE scope = ?)",
        (POLICY, PERSON),
    )
    for epsilon, delta in rows.fetchall():
        known += Totals(None if epsilon is None else read(epsilon), read(delta), Fraction(0))
    epsilon = None if known.epsilon is None else most * known.epsilon
    delta = Fraction(1) if known.delta and most > 1 else known.delta
    return replace(found, cost=Fraction(0)) + Totals(epsilon, delta, Fraction(0))


def settle(connection: sqlite3.Connection, entry: int, reserved: PrivacyLoss, charged: PrivacyLoss) -> None:
    """Lower what a person bears of an entry from its reserved loss to the one that it is charged."""
    if not part_totals.order_of_tree(connection, PERSON)[0]:
        return
    times = periods_of(connection, entry)
    if times and entry <= part_totals.first_entry(connection):
        return  # the parts are other ones now, and it counts as it was reserved
    for low, high, k in _whole(times):
        less = Amounts.of_group(reserved, reserved, k)
        more = Amounts.of_group(reserved, charged, k)
        part_totals.add(connection, PERSON, PartSet(((low, high),)), more.minus(less))


def has_room(connection: sqlite3.Connection, caps: Caps, loss: PrivacyLoss) -> bool:
    """Return whether a person may bear ladders as well, as often as a year can have periods."""
    if caps.person is None or caps.parts is None:
        return True
    own = Amounts.of_group(loss, loss, _most_periods(connection, caps)).totals
    found = own + whole_totals(connection, caps)
    largest = part_totals.largest(connection, [(PERSON, None)]).totals
    if found.epsilon is None or largest.epsilon is None:
        return False
    delta = found.delta + largest.delta <= Filter.of(caps.person).mechanism_delta
    return delta and found.epsilon + largest.epsilon <= caps.person.epsilon


def borne_by_year(connection: sqlite3.Connection, caps: Caps) -> list[tuple[int, int, Totals]]:
    """Return what a person bears of each year, by the numbers of years as parts; equal neighbours are one."""
    whole = whole_totals(connection, caps)
    found = part_totals.segments(connection, [(PERSON, None)])
    return [(low, high, whole + replace(each.totals, cost=Fraction(0))) for low, high, each in found]
