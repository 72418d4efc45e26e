"""What the ledger tells of entries, releases, ladders and budgets: to the owner, and to an analyst."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from dpsql.kernel.ledger import limits
from dpsql.kernel.ledger.charging import step_of
from dpsql.kernel.ledger.kept_results import find_number
from dpsql.kernel.ledger.scopes import (
    Caps,
    Scope,
    ScopeBudget,
    analyst_scope,
    policy_scope,
    scope_of_group,
)
from dpsql.kernel.ledger.totals import read_loss, shown
from dpsql.kernel.levels import Level
from dpsql.kernel.loss import Accounting, Charge, Filter, Number, PrivacyLoss, Totals, exact
from dpsql.kernel.unit_parts import ALL_PARTS, PartSet
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent in all, what is spent, and what is left. All exact; shown rounded.

    >>> Budget(Charge(Fraction(1)), Charge(Fraction(1, 3)), Charge(Fraction(2, 3)))
    <Budget: epsilon 0.333334 of 1 spent, 0.666666 left>

    `remaining` has the largest epsilon that one statement may still have; with `zcdp`, many small statements
    may have more together: `more` says how many.
    """

    total: Charge
    spent: Charge
    remaining: Charge
    scopes: tuple[ScopeBudget, ...] = field(default=(), repr=False, compare=False)
    """Those that bind, the one that is shown first."""
    by_parts: bool = field(default=False, repr=False, compare=False)
    """Whether units are in parts that each have the whole budget: this is then that of the fullest part."""

    def __repr__(self) -> str:
        amounts = {
            name: [getattr(each, name) for each in (self.total, self.spent, self.remaining)]
            for name in ("epsilon", "delta")
        }
        parts = [
            f"{name} {shown(spent, up=True)} of {shown(total, up=False)} spent, {shown(left, up=False)} left"
            for name, (total, spent, left) in amounts.items()
            if total
        ]
        return f"<Budget: {'; '.join(parts)}>"

    @classmethod
    def of(cls, *scopes: ScopeBudget, by_parts: bool = False) -> Budget:
        """Return the budget of the first of some scopes; what is left is the least that they leave."""
        first, left = scopes[0], [each.remaining for each in scopes]
        smallest = Charge(min(each.epsilon for each in left), min(each.delta for each in left))
        return cls(Charge(first.filter.epsilon, first.filter.delta), first.spent, smallest, scopes, by_parts)

    @property
    def accounting(self) -> Accounting:
        """How statements add up: `pure` or `zcdp`."""
        return "zcdp" if self.scopes and self.scopes[0].filter.conversion_delta else "pure"

    @property
    def alpha(self) -> Fraction | None:
        """The order at which costs add up; None if only epsilons do."""
        way = self.scopes[0].filter.order_way if self.scopes else None
        return None if way is None else way.order

    @property
    def limit(self) -> Fraction | None:
        """The limit of the sum of costs; None if only epsilons add up."""
        way = self.scopes[0].filter.order_way if self.scopes else None
        return None if way is None else way.limit

    @property
    def cost(self) -> Fraction | None:
        """The sum of costs so far; None if only epsilons add up."""
        return self.scopes[0].totals.cost if self.alpha is not None else None

    @property
    def facts(self) -> dict[str, Any]:
        """The exact amounts of the scope that is shown first, and what all scopes leave, as JSON has them."""
        first = self.scopes[0]
        admits, totals = first.filter, first.totals
        return {
            **{name: getattr(self, name).fractions for name in ("total", "spent", "remaining")},
            "accounting": self.accounting,
            "conversion_delta": str(admits.conversion_delta),
            "name": first.name,
            "epsilons": None if totals.epsilon is None else str(totals.epsilon),
            "deltas": str(totals.delta),
            "costs": str(totals.cost),
            **({"by_parts": True} if self.by_parts else {}),
        }

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Budget:
        """Read `facts`; of other scopes than the first only what they leave is known."""
        total, spent, remaining = (
            Charge(Fraction(facts[name]["epsilon"]), Fraction(facts[name]["delta"]))
            for name in ("total", "spent", "remaining")
        )
        if "accounting" not in facts:  # of an older server
            return cls(total, spent, remaining)
        admits = Filter.of(total, facts["accounting"], Fraction(facts["conversion_delta"]))
        epsilon = None if facts["epsilons"] is None else Fraction(facts["epsilons"])
        totals = Totals(epsilon, Fraction(facts["deltas"]), Fraction(facts["costs"]))
        scopes = (ScopeBudget(facts["name"], admits, totals),)
        return cls(total, spent, remaining, scopes, facts.get("by_parts", False))

    def more(self, epsilon: Number | PrivacyLoss) -> int:
        """Return how many further statements of an epsilon, or of a loss, every scope admits.

        Of a server's budget, what other scopes than one's own admit is known for the next statement only.
        """
        loss = epsilon if isinstance(epsilon, PrivacyLoss) else PrivacyLoss.of(exact(epsilon))
        if not loss.parts:
            raise ValueError("an epsilon above 0 is needed")
        if loss.epsilon is not None and len(loss.parts) == 1 and loss.epsilon > self.remaining.epsilon:
            return 0
        if not self.scopes:  # of an older server, which adds epsilons
            return 0 if loss.epsilon is None else self.remaining.epsilon // loss.epsilon
        found = [each.filter.more(each.totals, loss) for each in self.scopes]
        return min(n for n in found if n is not None)


def budget_of(
    connection: sqlite3.Connection, caps: Caps, analyst: str | None, parts: PartSet = ALL_PARTS
) -> Budget:
    """Return what is spent and left of the policy, or of all scopes that bind an analyst.

    Where units are in parts, it is that of the fullest part among some, or among all.
    """
    found = [each.budget(connection, parts) for each in scopes_of(connection, caps, analyst)]
    return Budget.of(*found, by_parts=caps.parts is not None)


def scopes_of(connection: sqlite3.Connection, caps: Caps, analyst: str | None) -> list[Scope]:
    """Return the scopes that bind an analyst, or the policy's alone; the one that is shown first."""
    whole = policy_scope(connection, caps)
    if analyst is None:
        return [whole]
    groups = [scope_of_group(connection, caps, *named) for named in caps.groups_of(analyst)]
    own = analyst_scope(connection, caps, analyst)
    return [whole, *groups] if own is None else [own, *groups, whole]


LIKE = Fraction(1, 10)
"""The epsilon of the statements that are counted, if the policy has no default."""


def rows_of(budget: Budget, like: Fraction | None = None) -> list[tuple[str, str, str, str]]:
    """Return the rows of a budget with `zcdp`: name, total, spent, left.

    `like` is the epsilon of the statements that are counted.
    """
    each = LIKE if like is None else like
    first = budget.scopes[0]
    admits, totals = first.filter, first.totals
    price = _round_up(each)

    def more(number: int | None) -> str:
        return f"{number} more of {price}"

    loss, zero = PrivacyLoss.of(each), Fraction(0)
    basic = replace(admits, order_way=None).more(totals, loss)
    sums = "none" if totals.epsilon is None else _round_up(totals.epsilon)
    delta = f"{_round_up(admits.conversion_delta)} conversion"
    delta += f", {_round_up(totals.delta)} unknown domains"
    rows = [
        ("epsilon", _round_down(admits.epsilon), _round_up(budget.spent.epsilon), more(budget.more(each))),
        ("delta", _round_down(admits.delta), delta, _round_down(budget.remaining.delta)),
        ("basic way", _round_down(admits.epsilon), sums, more(basic)),
    ]
    way = admits.order_way
    if way is not None:
        number = replace(admits, epsilon=zero).more(replace(totals, epsilon=None), loss)
        left = f"{more(number)} (alpha {_round_down(way.order)})"
        rows.append(("order way", _round_down(way.limit), _round_up(totals.cost), left))
    return rows


def _round_down(amount: Fraction) -> str:
    return _write_short(shown(amount, up=False))


def _round_up(amount: Fraction) -> str:
    return _write_short(shown(amount, up=True))


def _write_short(text: str) -> str:
    """Write a small number with its exponent.

    >>> _write_short("0.000001"), _write_short("0.0195196")
    ('1e-6', '0.0195196')
    """
    return f"{Decimal(text).normalize():e}" if text.startswith("0.0000") else text


_LATELY: Final = 1000
"""How many of the latest releases are searched for a statement's text, which has no index."""


_CLASSES: Final = {
    "TopK": "top-k",
    "AboveThreshold": "above threshold",
    "AllGroups": "all groups",
    "Scalar": "count",
    "TopPerPartition": "top-k of each partition",
}
"""What older versions wrote as the selection, and the words that releases use."""


@dataclass(frozen=True, slots=True)
class LadderCharge:
    """What was charged for a ladder, for the owner, whether it was measured in the end or not."""

    number: int
    when: datetime
    source: str
    measure: str
    version: str
    statement: str
    loss: PrivacyLoss
    state: str
    """`settled` (it is kept), or `reserved`, `failed` or `cancelled`: charged in full without a result."""


@dataclass(frozen=True, slots=True)
class ReleaseInfo:
    """One line of an analyst's list of releases."""

    number: int
    when: datetime
    analyst: str
    statement: str
    selection: str
    mechanism: str
    charge: PrivacyLoss
    place: int = 1
    """Its place among the releases of its statement, from 1."""
    places: int = 1
    """How many releases its statement has."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """A release that may be refined, and the statement whose count it releases."""

    payload: bytes
    level: Level | None
    """The number that a further release goes on from; None: its noise is not known."""
    epsilon: Fraction | None
    """What this release and those that it refines cost together; None if it refines none."""
    statement: str
    """The text of the statement that released the count first."""
    reuse_key: str | None
    """The key of that statement."""
    first_epsilon: Fraction | None
    """What that statement cost; None if it has no epsilon."""
    shared: bool
    """Whether the release was another analyst's."""
    refined: bool
    """Whether it was refined before, successfully or not."""
    child: int | None
    """The number of the release that refined it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger, for the owner; an analyst is never shown `state`."""

    entry: int
    when: datetime
    analyst: str
    statement: str
    selection: str
    mechanism: str
    reserved: PrivacyLoss
    charged: PrivacyLoss
    state: str
    """`reserved` (running, or ended without a record), `settled`, `failed`, `cancelled`; all but `settled`
    are charged in full."""
    release: int | None
    shared: bool
    """Whether it was another analyst's release, charged to this analyst's own cap only."""


def list_releases(connection: sqlite3.Connection, analyst: str) -> list[ReleaseInfo]:
    """List an analyst's own releases, oldest first."""
    rows = connection.execute(
        "SELECT r.number, r.at, r.analyst, e.statement, e.reading, e.mechanism, e.charged_loss,"
        " COALESCE(p.place, 1), COALESCE(p.places, 1)"
        " FROM release r JOIN entry e ON e.entry = r.entry LEFT JOIN part p ON p.entry = e.entry"
        " WHERE r.analyst = ? ORDER BY r.number",
        (analyst,),
    )
    return [
        ReleaseInfo(
            number,
            datetime.fromisoformat(at),
            who,
            text,
            _CLASSES.get(kind, kind),
            how,
            read_loss(loss),
            place,
            places,
        )
        for number, at, who, text, kind, how, loss, place, places in rows
    ]


def list_entries(connection: sqlite3.Connection, analyst: str | None, limit: int | None) -> list[Entry]:
    """List the entries, of an analyst or of all, newest first."""
    where, given = ("", ()) if analyst is None else (" WHERE analyst = ?", (analyst,))
    rows = connection.execute(
        "SELECT entry, at, analyst, statement, reading, mechanism, reserved_loss, charged_loss,"
        f" state, release, shared FROM entry{where} ORDER BY entry DESC LIMIT ?",
        (*given, -1 if limit is None else max(0, limit)),
    )
    return [
        Entry(
            number,
            datetime.fromisoformat(at),
            who,
            text,
            _CLASSES.get(kind, kind),
            how,
            read_loss(reserved),
            read_loss(charged),
            state,
            release,
            bool(shared),
        )
        for number, at, who, text, kind, how, reserved, charged, state, release, shared in rows
    ]


def find_asked(
    connection: sqlite3.Connection, question: str, statement: str, analyst: str, place: int
) -> list[tuple[str, datetime]]:
    """Return reuse keys and times of the analyst's releases of the same question or statement.

    Keys of the same question begin with `question`. A text is compared for the latest releases only, at the
    same place among the releases of its statement.
    """
    same_question = connection.execute(
        "SELECT reuse_key, at FROM release WHERE analyst = ? AND reuse_key >= ? AND reuse_key < ?"
        " ORDER BY number DESC LIMIT 1",
        (analyst, question, question + "g"),  # a key goes on with hexadecimal digits
    ).fetchall()
    same_text = connection.execute(
        "SELECT r.reuse_key, r.at FROM release r JOIN entry e ON e.entry = r.entry"
        " LEFT JOIN part p ON p.entry = e.entry"
        " WHERE r.number > (SELECT max(number) FROM release) - ? AND r.analyst = ?"
        " AND r.reuse_key IS NOT NULL AND e.statement = ? AND COALESCE(p.place, 1) = ?"
        " ORDER BY r.number DESC LIMIT 4",
        (_LATELY, analyst, statement, place),
    ).fetchall()
    return [(key, datetime.fromisoformat(at)) for key, at in same_question + same_text]


def find_release_number(connection: sqlite3.Connection, reuse_key: str, analyst: str) -> int | None:
    """Return the number of an analyst's own latest release under a reuse key."""
    row = connection.execute(
        "SELECT number FROM release"
        " WHERE analyst = ? AND reuse_key = ? AND payload IS NOT NULL ORDER BY number DESC LIMIT 1",
        (analyst, reuse_key),
    ).fetchone()
    return None if row is None else int(row[0])


def is_shareable(connection: sqlite3.Connection, reuse_key: str) -> bool:
    """Whether any analyst has a release under a reuse key."""
    row = connection.execute(
        "SELECT 1 FROM release WHERE reuse_key = ? AND payload IS NOT NULL", (reuse_key,)
    ).fetchone()
    return row is not None


def find_lineage(connection: sqlite3.Connection, number: int, analyst: str) -> Lineage | None:
    """Return what is known of one of the analyst's own releases; None if there is no such release."""
    found = find_number(connection, number, analyst)
    if found is None:
        return None
    (entry,) = connection.execute("SELECT entry FROM release WHERE number = ?", (number,)).fetchone()
    before = step_of(connection, entry)
    epsilon, first = None if before is None else before.epsilon, entry
    while before is not None:
        (first,) = connection.execute(
            "SELECT entry FROM release WHERE number = ?", (before.parent,)
        ).fetchone()
        before = step_of(connection, first)
    statement, shared, key, charged = connection.execute(
        "SELECT e.statement, e.shared, r.reuse_key, e.charged_loss"
        " FROM entry e JOIN release r ON r.entry = e.entry WHERE e.entry = ?",
        (first,),
    ).fetchone()
    child = connection.execute(
        "SELECT e.release FROM refinement f JOIN entry e ON e.entry = f.entry WHERE f.parent = ?", (number,)
    ).fetchone()
    return Lineage(
        found.payload,
        found.level,
        epsilon,
        statement,
        key,
        read_loss(charged).epsilon,
        shared=bool(shared),
        refined=child is not None,
        child=None if child is None else child[0],
    )


def list_ladder_charges(connection: sqlite3.Connection) -> list[LadderCharge]:
    """Return all ladders that were charged, the newest last."""
    rows = connection.execute(
        "SELECT number, at, source, measure, version, statement, loss, state FROM bounds ORDER BY number"
    )
    return [
        LadderCharge(
            number, datetime.fromisoformat(at), source, measure, version, statement, read_loss(loss), state
        )
        for number, at, source, measure, version, statement, loss, state in rows
    ]


def count_failures(connection: sqlite3.Connection, analyst: str) -> int:
    """Return how many of an analyst's statements failed, including those whose process may have ended."""
    lost = sum(n for _, n, living in limits.holders_of(connection, analyst) if not living)
    return lost + limits.count_of(connection, "failed", analyst)[0]


def count_ended(connection: sqlite3.Connection, table: str, analyst: str) -> int:
    """Return how many of an analyst's statements are counted in a table."""
    return limits.count_of(connection, table, analyst)[0]
