"""The totals of the scopes, and exact amounts as the ledger stores them and an error message shows them.

The scopes are the policy, each analyst, and analysts at the order of a group.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Final

from dpsql.errors import OperationalError
from dpsql.kernel.ledger.renewal_rows import RENEWAL, Last, find_last, renewal_total
from dpsql.kernel.loss import Charge, Part, PrivacyLoss, PureDP, Realised, Stream, Totals
from dpsql.lazy_dataclass import dataclass


class DamagedError(ValueError):
    """A stored amount that the ledger cannot have written."""


_STORED = re.compile(r"(0|[1-9]\d{0,2999})/([1-9]\d{0,2999})", re.ASCII)

# A total is a sum of rationals, so its denominator grows with every new prime in a charge. Without
# a limit the cost of a charge would grow too, and the text of a total would outgrow what Python converts.
_WIDEST = 4096
_GRID = 10**60


def write(amount: Fraction) -> str:
    """Return `numerator/denominator`, the form in which amounts are stored.

    >>> write(Fraction(7, 10)), read("7/10")
    ('7/10', Fraction(7, 10))
    """
    return f"{amount.numerator}/{amount.denominator}"


def read(text: object) -> Fraction:
    """Read an amount back; `DamagedError` for anything that `write` does not produce."""
    if not isinstance(text, str):
        raise DamagedError("not an amount")
    return _read(text)


@lru_cache(maxsize=256)
def _read(text: str) -> Fraction:
    match = _STORED.fullmatch(text)
    if match is None:
        raise DamagedError("not an amount")
    amount = Fraction(int(match[1]), int(match[2]))
    if write(amount) != text:
        raise DamagedError("not an amount in lowest terms")
    return amount


def read_charge(epsilon: object, delta: object) -> Charge:
    """Read a charge back, as `read` does its amounts."""
    return Charge(read(epsilon), read(delta))


def write_charge(charge: Charge) -> tuple[str, str]:
    """Return epsilon and delta of a charge as the ledger's columns store them."""
    return write(charge.epsilon), write(charge.delta)


def read_loss(text: object) -> PrivacyLoss:
    """Read the loss of an entry back; `DamagedError` for anything that `str` of one does not write."""
    try:
        return _parsed(text) if isinstance(text, str) else PrivacyLoss.parse("")
    except ValueError:
        raise DamagedError("not a privacy loss") from None


_parsed = lru_cache(maxsize=1024)(PrivacyLoss.parse)


def too_wide(total: Totals, more: Totals) -> bool:
    """Whether adding `more` made the digits of `total` outgrow the ledger.

    A decimal of up to 60 places is always fine: all of those together need one denominator of 200 bits.
    """
    zero = Fraction(0)
    pairs = (
        (total.epsilon or zero, more.epsilon or zero),
        (total.delta, more.delta),
        (total.cost, more.cost),
    )
    return any(
        _GRID % part.denominator and whole.denominator.bit_length() > _WIDEST for whole, part in pairs
    ) or any(max(part.denominator, part.numerator).bit_length() > _WIDEST for _, part in pairs)


def round_up_loss(loss: PrivacyLoss) -> PrivacyLoss:
    """Return a loss that is no less, and in which what was realised has at most 60 decimals."""

    def round_up(amount: Fraction) -> Fraction:
        return Fraction(math.ceil(amount * _GRID), _GRID)

    parts: list[Part] = []
    for part in loss.parts:
        if not isinstance(part, (Realised, Stream)) or part.reserved is None:
            parts.append(part)
        elif round_up(part.epsilon) < part.reserved:
            parts.append(replace(part, epsilon=round_up(part.epsilon)))
        else:
            parts.append(PureDP(part.reserved, part.times))
    return PrivacyLoss(tuple(parts), round_up(loss.delta))


def shown(amount: Fraction, *, up: bool) -> str:
    """Show an amount with six digits, rounded up (what is asked for) or down (what is left).

    >>> shown(Fraction(2, 3), up=True), shown(Fraction(2, 3), up=False), shown(Fraction(1, 10**9), up=True)
    ('0.666667', '0.666666', '1e-9')
    """
    context = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    rounded = context.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize(context)
    if rounded.is_zero():
        return "0"
    return f"{rounded:f}" if -5 < rounded.adjusted() < 9 else str(rounded).lower()


POLICY: Final = "policy"
"""The scope of everything that is released to anybody."""

BOUNDS: Final = "bounds"
"""The scope of the kept ladders, which all analysts know: its total counts in that of each of them."""

PERSON: Final = "person"
"""The scope of what one person bears where a unit is what one did in one period: by years."""

_GROUP: Final = "group "
_ZERO: Final = Fraction(0)

STEP: Final = 720_720 * 10**9
"""By parts of units, epsilons and costs are whole numbers of 1/STEP, each charge rounded up."""

Row = tuple[str | None, str, str | None, str | None]
"""A total as it is stored: epsilon, delta, cost, and the order of the cost."""


def scope(analyst: str) -> str:
    """Return the name of the scope that counts what one analyst spends."""
    return f"analyst {analyst}"


def group_scope(group: str) -> str:
    """Return the name of a group's scope, for messages; what is spent there is added up from its members."""
    return f"{_GROUP}{group}"


def member(group: str, analyst: str) -> str:
    """Return the name of the scope of what an analyst has spent, at the order of a group's costs."""
    return _GROUP + json.dumps([group, analyst])


def owner(name: str) -> str | None:
    """Return the analyst whose entries a scope adds up; None for the scopes of the policy and the ladders."""
    if name in (POLICY, BOUNDS, PERSON) or name.startswith(RENEWAL):
        return None
    if name.startswith(_GROUP):
        return str(json.loads(name.removeprefix(_GROUP))[1])
    return name.removeprefix(scope(""))


def base(name: str) -> str:
    """Return the scope whose entries a scope adds up: of a member of a group the analyst's own.

    A renewal has those of the policy that are later than its start.
    """
    if name.startswith(RENEWAL):
        return POLICY
    analyst = owner(name)
    return name if analyst is None else scope(analyst)


@dataclass(frozen=True, slots=True)
class Stored:
    """A total, and the order of its cost; None: it has no cost."""

    totals: Totals
    order: Fraction | None = None

    @classmethod
    def read(cls, row: Row) -> Stored:
        """Read a row; `DamagedError` for anything that `row` does not return."""
        epsilon, delta, cost, order = row
        if (cost is None) != (order is None):
            raise DamagedError("a cost without its order")
        amounts = (
            None if epsilon is None else read(epsilon),
            read(delta),
            _ZERO if cost is None else read(cost),
        )
        return cls(Totals(*amounts), None if order is None else read(order))

    @property
    def row(self) -> Row:
        """The total as a row of the ledger's table."""
        totals, order = self.totals, self.order
        return (
            None if totals.epsilon is None else write(totals.epsilon),
            write(totals.delta),
            None if order is None else write(totals.cost),
            None if order is None else write(order),
        )

    def settle(self, reserved: PrivacyLoss, charged: PrivacyLoss) -> Stored:
        """Return the total after an entry's final charge took the place of its reserved one."""
        try:
            less = added_amounts(reserved, reserved, self.order)
            totals = self.totals - less + added_amounts(reserved, charged, self.order)
        except ValueError:
            raise DamagedError("a total is less than what it is the sum of") from None
        return replace(self, totals=totals)


def added_amounts(reserved: PrivacyLoss, charged: PrivacyLoss, order: Fraction | None) -> Totals:
    """Return what an entry adds to a total with costs at an order.

    It has no epsilon if its reserved loss has none, whatever was charged in the end.
    """
    epsilon = None if reserved.epsilon is None else charged.epsilon
    return Totals(epsilon, charged.delta, _ZERO if order is None else charged.cost(order))


def read_total(connection: sqlite3.Connection, name: str) -> Stored | None:
    """Return the total of a scope as it is stored; None if there is none."""
    row = connection.execute(
        "SELECT epsilon, delta, cost, alpha FROM total WHERE name = ?", (name,)
    ).fetchone()
    if row is not None:
        return Stored.read(row)
    if name == POLICY:  # written when the ledger was made, and never deleted
        raise DamagedError("the policy's total is missing")
    return None


def total_at_order(connection: sqlite3.Connection, name: str, order: Fraction | None) -> Stored:
    """Return the total of a scope, its costs at an order; None: at the order of the stored costs."""
    found = read_total(connection, name)
    if found is not None and order in (None, found.order):
        return found
    if found is None and name.startswith(_GROUP):
        found = read_total(connection, scope(owner(name) or ""))
    if found is None:
        return Stored(Totals(), order)
    return Stored(replace(found.totals, cost=_add_up(connection, name, order)), order)


def ladder_total(connection: sqlite3.Connection, order: Fraction | None) -> Totals:
    """Return the total of all kept ladders, with costs at an order; None: without costs.

    It is stored once and added where a scope is looked at, so that it counts in every analyst's and group's
    scope from the first moment on, whenever this scope appears, is deleted or gets another name.
    """
    totals = total_at_order(connection, BOUNDS, order).totals
    return replace(totals, cost=_ZERO) if order is None else totals


def write_total(connection: sqlite3.Connection, name: str, total: Stored) -> None:
    """Write the total of a scope into the ledger."""
    connection.execute("INSERT OR REPLACE INTO total VALUES (?, ?, ?, ?, ?)", (name, *total.row))


def members_total(
    connection: sqlite3.Connection, group: str, members: Iterable[str], order: Fraction | None
) -> Totals:
    """Return the total of several analysts, at the order of their group's costs.

    It is added up at each charge, so that it is right at once when the policy changes who belongs to a group.
    """
    found = Totals()
    for analyst in members:
        name = scope(analyst) if order is None else member(group, analyst)
        total = total_at_order(connection, name, order)
        found += total.totals if order is not None else replace(total.totals, cost=_ZERO)
    return found


def keep_members(connection: sqlite3.Connection, group: str, members: Iterable[str], order: Fraction) -> None:
    """Store what each member of a group has spent at the order of the group's costs, where it is not."""
    for analyst in members:
        name = member(group, analyst)
        found = read_total(connection, name)
        if found is None or found.order != order:
            write_total(connection, name, total_at_order(connection, name, order))


def names_of(connection: sqlite3.Connection, analyst: str) -> list[str]:
    """Return the stored scopes that an analyst's entries count in, but for the policy's."""
    rows = connection.execute("SELECT name FROM total WHERE name >= 'group [' AND name < 'group \\'")
    groups = [name for (name,) in rows if owner(name) == analyst]
    return [scope(analyst), *groups]


def policy_names(connection: sqlite3.Connection, entry: int | None = None) -> list[str]:
    """Return the stored scopes in which an entry counts whoever asks; None: a new one."""
    renewal = renewal_total(connection, entry)
    return [POLICY] if renewal is None else [POLICY, renewal]


def _add_up(connection: sqlite3.Connection, name: str, order: Fraction | None) -> Fraction:
    """Return the cost at an order of all entries and ladders of a scope, and of what was restored."""
    if order is None:
        return _ZERO
    analyst, losses = owner(name), list[tuple[str, int]]()
    last = find_last(connection) if name.startswith(RENEWAL) else Last()
    if name != BOUNDS:
        chosen = "shared = 0 AND entry > ?" if analyst is None else "analyst = ?"
        given: tuple[int | str] = (last.entry if analyst is None else analyst,)
        query = (
            f"SELECT charged_loss, COUNT(*) FROM entry WHERE {chosen}"
            " AND NOT EXISTS (SELECT 1 FROM touch WHERE touch.entry = entry.entry) GROUP BY 1"
        )
        losses += connection.execute(query, given).fetchall()
    if analyst is None:
        query = "SELECT loss, COUNT(*) FROM bounds WHERE number > ? GROUP BY 1"
        losses += connection.execute(query, (last.ladder,)).fetchall()
    cost = sum((n * _cost(loss, order) for loss, n in losses), _ZERO)
    query = "SELECT event FROM restored WHERE scope = ? AND event > ?"
    rows = connection.execute(query, (base(name), last.event)).fetchall()
    return cost + sum((find_restored_cost(connection, event, name, order) for (event,) in rows), _ZERO)


@lru_cache(maxsize=4096)
def _cost(loss: str, order: Fraction) -> Fraction:
    """Return the cost of a stored loss: that of each ladder is asked for at each charge."""
    return read_loss(loss).cost(order)


def find_restored_cost(
    connection: sqlite3.Connection, event: int, name: str, order: Fraction | None
) -> Fraction:
    """Return what an event restored to a scope, or charged to all parts for old ones, at an order.

    None: it has no cost.
    """
    if order is None:
        return _ZERO
    row = connection.execute(
        "SELECT cost, alpha, most FROM restored WHERE event = ? AND scope = ?", (event, base(name))
    ).fetchone()
    if row is None:
        raise DamagedError("what was added to a total is missing")
    if row[2] is None and row[1] != write(order):
        ends = _find_old_entries(connection, event)
        if ends is not None:
            return _add_up_old_parts(connection, event, ends, owner(name), order)
    return restored_cost(row, order)


def _find_old_entries(connection: sqlite3.Connection, event: int) -> tuple[int, int] | None:
    """Return the last entries before and of the parts that an event ended; None: it ended none.

    Parts that an earlier event ended without adding anything had cost nothing: with their entries it is not
    less.
    """
    rows = connection.execute(
        "SELECT n, record FROM event WHERE n <= ? AND n IN (SELECT event FROM restored) ORDER BY n", (event,)
    ).fetchall()
    try:
        told = {n: json.loads(record) for n, record in rows}
        ended = {n: int(record["from"]) for n, record in told.items() if record["event"] == "parts"}
    except (ValueError, TypeError, KeyError):
        raise DamagedError("an event is unreadable") from None
    if event not in ended:
        return None
    last = ended.pop(event)
    return max(ended.values(), default=0), last


def _add_up_old_parts(
    connection: sqlite3.Connection, event: int, ends: tuple[int, int], analyst: str | None, order: Fraction
) -> Fraction:
    """Return the largest cost at an order of a part that an event ended, of an analyst or of all (None).

    A unit was in one of these parts, so what was charged to it there costs at most that, at each order. An
    entry counts as it was charged when the event was written: what was settled later, as it was reserved,
    since of old parts nothing is given back.
    """
    chosen, given = ("e.shared = 0", ()) if analyst is None else ("e.analyst = ?", (analyst,))
    rows = connection.execute(
        "SELECT t.low, t.high, CASE WHEN r.event < ? THEN e.charged_loss ELSE e.reserved_loss END, COUNT(*)"
        " FROM touch t JOIN entry e ON e.entry = t.entry LEFT JOIN release r ON r.entry = e.entry"
        f" WHERE t.entry > ? AND t.entry <= ? AND {chosen} GROUP BY 1, 2, 3",
        (event, *ends, *given),
    )
    changes = Counter[int]()
    for low, high, loss, n in rows:
        steps = n * math.ceil(_cost(loss, order) * STEP)
        changes[low] += steps
        changes[high + 1] -= steps
    return Fraction(max(accumulate(changes[part] for part in sorted(changes)), default=0), STEP)


def restored_cost(row: tuple[str | None, str | None, str | None], order: Fraction) -> Fraction:
    """Return what was restored to a scope, at an order: cost and order as stored, and its largest cost."""
    cost, at, most = row
    if cost is not None and at is not None and read(at) == order:
        return read(cost)
    if most is None:
        raise OperationalError(
            "what was restored to this ledger has no cost at another order: the budget's epsilon, delta and"
            " accounting have to stay what they were"
        )
    return read(most)
