"""Renewals of the budget over the same rows: each is a scope, and everything counts in the lifetime as well.

With `[budget.renewal]` the policy's budget limits what was charged since its last start, and `lifetime`, if
it is limited, everything. A start is an event, written with the first charge of a new period of the calendar
(in UTC). It is never before the last one, so a clock that is set back starts nothing, and one that is set
forward starts one scope. Caps of analysts and groups, and the statements that may fail, do not start anew.

*Two policies.* A process that opened the ledger before its policy was changed has another budget than that
with which the ledger was opened last (`_find_adopted`). A renewal starts with the latter, and what such a
process charges has to be within both (`caps`).

*Together.* Each scope is (epsilon, delta)-private for its largest budget while it was open, by the theorem of
`Filter`: a statement is charged to the scope in which it was reserved, and its cost bounds its loss given
everything before, releases of other scopes too. So n scopes are private for the sum of their budgets, also
where one statement ends in the next scope (concurrent composition: Vadhan and Zhang 2023). A refinement's
loss is not bounded by its price given the release that it refines: it is refused in a later scope, and
streams are closed. What all releases cost in `lifetime` is limited by a filter over all of them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from dpsql.kernel.ledger import events
from dpsql.kernel.ledger.renewal_rows import RENEWAL, Last, renewal_setting, renewal_total
from dpsql.kernel.ledger.totals import (
    POLICY,
    Stored,
    find_restored_cost,
    read,
    read_charge,
    read_total,
    shown,
    total_at_order,
    write,
    write_charge,
    write_total,
)
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, Totals
from dpsql.kernel.unit_parts import FIRST_DAY, LAST_DAY, Calendar, Every
from dpsql.lazy_dataclass import dataclass

CAPS: Final = "caps"
"""The name under which the caps that the ledger was opened with last are stored."""

_TIMES: Final = {1: "once", 2: "twice"}


def now() -> datetime:
    """Return the present time in UTC, by which budgets start anew."""
    return datetime.now(UTC)


def _start_of(every: Every, *, later: int = 0) -> str:
    """Return the first day of the present period, or of a later one."""
    calendar, today = Calendar(every), min(max(now().date(), FIRST_DAY), LAST_DAY)
    return calendar.first_day(calendar.number(today) + later).isoformat()


@dataclass(frozen=True, slots=True)
class RenewalTerms:
    """How often the budget starts anew, and what all its renewals may cost together."""

    every: Every
    lifetime: Fraction | None
    """The most epsilon of everything; None: no limit."""

    @property
    def content(self) -> list[str]:
        """The terms as the events of the audit log tell them."""
        return [self.every, "unlimited" if self.lifetime is None else write(self.lifetime)]

    def limit(self, budget: Filter) -> Filter | None:
        """Return what the lifetime admits, given what each renewal does; None: everything.

        Its delta is as many times the budget's as its epsilon is.
        """
        if self.lifetime is None:
            return None
        return _widen(budget, Charge(self.lifetime, budget.delta * self.lifetime / budget.epsilon))


@dataclass(frozen=True, slots=True)
class Renewal:
    """The renewal that is open: its first day, and what came before it."""

    every: Every | None
    """None: the policy's budget does not start anew any more."""
    start: str
    since: str
    """The first day of the first renewal."""
    times: int
    """How often the budget has started anew."""
    last: Last
    ended: Charge
    """The sum of the budgets of those that are over."""
    most: Charge
    """The largest budget of the open one, and of those whose budget is not known."""
    unknown: int = 0
    """How many of those that are over a lost ledger had, of which only their number is known."""

    @property
    def scope(self) -> str:
        """Return the name of its total: the mark of the ledger tells by it how often the budget started."""
        return f"{RENEWAL}{self.start} {self.times} {self.since}"

    @property
    def is_over(self) -> bool:
        """Whether a charge would start the budget anew now."""
        return self.every is not None and _start_of(self.every) > self.start

    @property
    def next_start(self) -> str:
        """Return the day on which the budget starts anew, if something is charged before, then or later."""
        if self.every is None:
            return ""
        calendar = Calendar(self.every)
        number = calendar.number(date.fromisoformat(self.start))
        return max(calendar.first_day(number + 1).isoformat(), _start_of(self.every, later=1))

    def renew(self, budget: Filter, last: Last) -> Renewal:
        """Return the renewal that a charge now begins under a budget, after what came last."""
        if self.every is None:
            return self
        ended = self.ended if self.unknown else self.ended + self.most
        return replace(
            self,
            start=_start_of(self.every),
            times=self.times + 1,
            last=last,
            ended=ended,
            most=_largest(self.most, budget) if self.unknown else Charge(budget.epsilon, budget.delta),
            unknown=self.unknown + (self.unknown > 0),
        )

    def together(self, connection: sqlite3.Connection, terms: RenewalTerms | None, budget: Filter) -> Charge:
        """Return for which epsilon and delta all releases together are private.

        It is the lifetime, or the sum of the budgets, if that admits what is spent. It does not if more was
        spent before the first renewal, if a lifetime or a budget was lowered, or if two copies of a ledger
        went on: then it is what is spent, by the sum of epsilons or by the odometer of costs. Without both a
        delta of 1 says that nothing is proved.
        """
        scopes, way = self.unknown + 1, budget.order_way
        whole = self.ended + Charge(scopes * self.most.epsilon, scopes * self.most.delta)
        spent = total_at_order(connection, POLICY, None if way is None else way.order).totals
        _, known = _find_adopted(connection, terms, budget)
        most, limit = _widen(budget, whole), None if known is None else known.limit(budget)
        for each in (limit, most):
            if each is not None and each.epsilon <= most.epsilon and each.admits(spent, PrivacyLoss()):
                return Charge(each.epsilon, min(each.delta, Fraction(1)))
        sums = [] if spent.epsilon is None else [(spent.epsilon, spent.delta)]
        if way is not None:
            sums.append((spent.cost + way.margin, spent.delta + budget.conversion_delta))
        epsilon, delta = min(sums, default=(most.epsilon, Fraction(1)))
        return Charge(max(epsilon, most.epsilon), min(max(delta, most.delta), Fraction(1)))

    @property
    def content(self) -> dict[str, Any]:
        """Return it as the ledger stores it, and an event tells it."""
        amounts = {"ended": write_charge(self.ended), "most": write_charge(self.most)}
        told = {name: getattr(self, name) for name in ("every", "start", "since", "times", "unknown")}
        return {**told, "last": [*self.last], **{name: [*pair] for name, pair in amounts.items()}}


def _find_adopted(
    connection: sqlite3.Connection, terms: RenewalTerms | None, budget: Filter
) -> tuple[Filter, RenewalTerms | None]:
    """Return budget, without its costs, and terms of the policy that the ledger was opened with last."""
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (CAPS,)).fetchone()
    return (budget, terms) if row is None else _parse_adopted(row[0])


@lru_cache(maxsize=16)
def _parse_adopted(text: str) -> tuple[Filter, RenewalTerms | None]:
    caps = json.loads(text)
    every, lifetime = caps.get("renewal", (None, None))
    most = None if lifetime in (None, "unlimited") else read(lifetime)
    total = read_charge(*caps["total"])
    budget = Filter(total.epsilon, total.delta, read(caps["conversion_delta"]), None)
    return budget, None if every is None else RenewalTerms(every, most)


def find(connection: sqlite3.Connection) -> Renewal | None:
    """Return the renewal that is open, or was when the budget started anew last; None: it never did."""
    text = renewal_setting(connection)
    if text is None:
        return None
    found = json.loads(text)
    for name in ("ended", "most"):
        found[name] = read_charge(*found[name])
    return Renewal(**{**found, "last": Last(*found["last"])})


def find_current(connection: sqlite3.Connection, terms: RenewalTerms | None) -> Renewal | None:
    """Return the open renewal if the policy still declares it as a process has read it."""
    found = None if terms is None else find(connection)
    return None if found is None or terms is None or found.every != terms.every else found


def adopt_renewals(connection: sqlite3.Connection, terms: RenewalTerms | None, budget: Filter) -> None:
    """Adopt what the policy says of renewals, and its budget.

    What was charged before a section that is new, or stood there again, counts in the first of its renewals.
    """
    before = find(connection)
    if before is None and terms is None:
        return
    carried = total_at_order(connection, POLICY, None)
    most = _largest(Charge() if before is None else before.most, budget)
    every = None if terms is None else terms.every
    if before is None:
        start = "" if every is None else _start_of(every)
        after = Renewal(every, start, start, 0, Last(), Charge(), most)
    else:
        after = replace(before, every=every, most=most)
        if every is not None and before.every is None:
            after = replace(after, last=Last())
        elif before.every is not None:
            carried = read_total(connection, before.scope) or carried
        if every not in (None, before.every):
            after = replace(after, start=max(before.start, _start_of(every)))
    if after != before:
        _write(connection, after, carried)


def start_renewal(
    connection: sqlite3.Connection,
    terms: RenewalTerms | None,
    budget: Filter,
    close_streams: Callable[[sqlite3.Connection], None],
) -> None:
    """Start the budget anew if a new period has begun since it last did."""
    before = find_current(connection, terms)
    if before is None or not before.is_over:
        return
    close_streams(connection)
    after = before.renew(_find_adopted(connection, terms, budget)[0], _find_last(connection))
    total = read_total(connection, before.scope)
    _write(connection, after, Stored(Totals(), None if total is None else total.order))


def follow(connection: sqlite3.Connection, told: Iterable[str], common: Iterable[str]) -> None:
    """Go on with the renewal of a mark, if the ledger has not all that it tells: no period begins twice.

    `told` are the scopes of the mark, `common` those of the latest state that both are known to have. Of
    those that a lost ledger, or another copy, has begun since, only the number is known.
    """
    mark, shared = _read_scope(told), _read_scope(common)
    if mark is None:
        return
    begun, times, since = mark
    before = find(connection)
    if before is None:
        lost = Renewal(None, begun, since, times, Last(), Charge(), Charge(), times)
        _write(connection, lost, None)
        return
    own = read_total(connection, before.scope)
    is_empty = not before.times and total_at_order(connection, POLICY, None).totals == Totals()
    more = times - (shared[1] if shared else 0 if is_empty else -1)
    if more <= 0:
        return
    changes = {"start": max(begun, before.start), "since": min(since, before.since)}
    after = replace(before, **changes, times=before.times + more, unknown=before.unknown + more)  # type: ignore[arg-type]  # each of its type
    if begun > before.start:
        after = replace(after, last=_find_last(connection))
        own = None if own is None else Stored(Totals(), own.order)
    _write(connection, after, own)


def _read_scope(names: Iterable[str]) -> tuple[str, int, str] | None:
    """Return start, times and since of the open renewal among the names of scopes; None: it is not there."""
    for name in names:
        if name.startswith(RENEWAL):
            begun, times, since = name.removeprefix(RENEWAL).split(" ")
            return begun, int(times), since
    return None


def add_restored(connection: sqlite3.Connection, n: int) -> None:
    """Count in the open renewal, whole, what event `n` adds to the policy's total.

    Of which renewal these charges were is not known.
    """
    name = renewal_total(connection)
    row = connection.execute(
        "SELECT epsilon, delta FROM restored WHERE event = ? AND scope = ?", (n, POLICY)
    ).fetchone()
    total = None if name is None else read_total(connection, name)
    if name is None or total is None or row is None:
        return
    cost = find_restored_cost(connection, n, POLICY, total.order) or Fraction(0)
    more = Totals(None if row[0] is None else read(row[0]), read(row[1]), cost)
    write_total(connection, name, Stored(total.totals + more, total.order))


def find_seen(connection: sqlite3.Connection, budget: Filter) -> Renewal | None:
    """Return the renewal to which a statement would be charged now."""
    found = find(connection)
    if found is None or not found.is_over:
        return found
    return found.renew(_find_adopted(connection, None, budget)[0], found.last)


def describe(connection: sqlite3.Connection, terms: RenewalTerms | None, budget: Filter) -> str:
    """Say in a guarantee how often the budget has started anew; empty if it does not."""
    found = find_seen(connection, budget)
    if found is None or (found.every is None and not found.times):
        return ""
    charge = found.together(connection, terms, budget)
    pair = f"({_write_short(charge.epsilon)}, {_write_short(charge.delta)})-DP"
    day = date.fromisoformat(found.since)
    times = _TIMES.get(found.times, f"{found.times} times")
    text = f"the budget has started anew {times} since {day.day} {day:%B %Y} over the same rows"
    if not found.times:
        text = f"the budget starts anew every {found.every} over the same rows, and has not yet"
    return f"{text}: all releases together are {pair}"


def _write_short(amount: Fraction) -> str:
    text = shown(amount, up=True)
    return f"{Decimal(text).normalize():e}" if text.startswith("0.0000") else text


def _widen(budget: Filter, larger: Charge) -> Filter:
    """Return what a larger budget admits. Costs are at the same order.

    A limit is epsilon less a constant of the conversion's delta, which is not larger here.
    """
    way = budget.order_way
    way = None if way is None else replace(way, limit=way.limit + larger.epsilon - budget.epsilon)
    return replace(budget, epsilon=larger.epsilon, delta=larger.delta, order_way=way)


def _largest(one: Charge, other: Filter) -> Charge:
    return Charge(max(one.epsilon, other.epsilon), max(one.delta, other.delta))


def _find_last(connection: sqlite3.Connection) -> Last:
    rows = [
        connection.execute(f"SELECT COALESCE(max({column}), 0) FROM {table}").fetchone()[0]
        for column, table in (("entry", "entry"), ("number", "bounds"), ("n", "event"))
    ]
    return Last(*rows)


def _write(connection: sqlite3.Connection, after: Renewal, total: Stored | None) -> None:
    """Write the open renewal with its total, in the place of the one before, and the event that tells it."""
    name = renewal_total(connection)
    if name is not None:
        connection.execute("DELETE FROM total WHERE name = ?", (name,))
    if after.every is not None and total is not None:
        write_total(connection, after.scope, total)
    content = after.content
    connection.execute("INSERT OR REPLACE INTO setting VALUES ('renewal', ?)", (events.canonical(content),))
    at = now().isoformat(timespec="seconds")
    events.append(connection, "renewal", {"at": at, "renewal": content})
