"""What the budget of a policy or of an analyst has spent and left, of all parts of units and of each."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpsql.errors import NotSupportedError, ProgrammingError
from dpsql.kernel.ledger import renewals
from dpsql.kernel.ledger.caps import Caps, order_of
from dpsql.kernel.ledger.scopes import Scope, ScopeBudget, own_scopes, policy_scopes
from dpsql.kernel.ledger.totals import POLICY, shown, total_at_order
from dpsql.kernel.loss import Accounting, Charge, Filter, Number, PrivacyLoss, Totals, exact
from dpsql.kernel.unit_parts import (
    ALL_PARTS,
    LATER,
    NO_HOME,
    NULL_PART,
    Calendar,
    ListedValues,
    Numbering,
    PartSet,
    WholeNumbers,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_property import lazy_property


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
    listed: tuple[BudgetOfParts, ...] | None = field(default=None, repr=False, compare=False)
    """What `parts` returns; None: it was not asked for."""
    renewal: BudgetRenewal | None = field(default=None, repr=False, compare=False)
    """How the policy's budget starts anew over the same rows; None: it does not."""

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
    def of_scopes(cls, *scopes: ScopeBudget, by_parts: bool = False) -> Budget:
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
            **({} if self.renewal is None else {"renewal": self.renewal.facts}),
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
        renewal = None if "renewal" not in facts else BudgetRenewal.read(facts["renewal"])
        return cls(total, spent, remaining, scopes, facts.get("by_parts", False), renewal=renewal)

    @property
    def parts(self) -> tuple[BudgetOfParts, ...]:
        """The budgets of the parts of units, in order; equal neighbours are one. Empty without parts."""
        if self.listed is None and self.by_parts:
            raise NotSupportedError(
                "this budget is that of the fullest part alone"
                "\nHint: SHOW PRIVACY BUDGET BY PARTS shows that of each part"
            )
        return self.listed or ()

    def of(self, part: str | bool | int | date | None) -> Budget:
        """Return the budget of one part of units, as it was when this one was read.

        Parameters
        ----------
        part
            A part's name, such as `2026-W48`; a day, for the part that it is in; a value of the column, if
            its values are the parts; None for NULL; `no row` for units without a value.
        """
        if not self.parts:
            raise ProgrammingError(
                "the policy divides no units into parts\nHint: `budget()` is the whole budget"
            )
        number = self.parts[0].find(part)
        return next(each.budget for each in self.parts if each.low <= number <= each.high)

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


@dataclass(frozen=True, slots=True)
class BudgetRenewal:
    """How a budget starts anew over the same rows, and what counts in its lifetime."""

    every: str
    times: int
    """How often it has started anew."""
    since: date
    """The first day of the first renewal."""
    next_start: date
    """The first day, in UTC, on which a charge starts it anew."""
    together: Charge
    """For which epsilon and delta all releases together are private."""
    lifetime: Fraction | None
    """The most epsilon of all renewals together; None: no limit."""
    spent: Fraction | None
    """What all of them have cost; under `zcdp` the less of what both sums prove. None: it has no epsilon."""
    words: str
    """The same as a guarantee says it."""

    @property
    def facts(self) -> dict[str, Any]:
        """These facts as JSON has them."""
        return {
            "every": self.every,
            "times": self.times,
            "since": self.since.isoformat(),
            "next_start": self.next_start.isoformat(),
            "together": self.together.fractions,
            "lifetime": None if self.lifetime is None else str(self.lifetime),
            "spent": None if self.spent is None else str(self.spent),
            "words": self.words,
        }

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> BudgetRenewal:
        """Read `facts`."""
        lifetime, spent = (None if facts[n] is None else Fraction(facts[n]) for n in ("lifetime", "spent"))
        since, later = (date.fromisoformat(facts[name]) for name in ("since", "next_start"))
        together = Charge(*(Fraction(facts["together"][name]) for name in ("epsilon", "delta")))
        return cls(facts["every"], facts["times"], since, later, together, lifetime, spent, facts["words"])

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """The rows of a budget that tell it: name, total, spent, left."""
        spent = "no epsilon" if self.spent is None else _round_up(self.spent)
        total = left = "unlimited"
        if self.lifetime is not None:
            total = _round_down(self.lifetime)
            known = self.lifetime if self.spent is None else self.spent
            left = _round_down(max(self.lifetime - known, Fraction(0)))
        times = {0: "not yet", 1: "once", 2: "twice"}.get(self.times, f"{self.times} times")
        anew = f"{times} since {self.since}"
        return [
            ("lifetime epsilon", total, spent, left),
            ("starts anew", f"every {self.every}", anew, f"next on {self.next_start}"),
        ]


_OUTSIDE, _NO_ROW = "outside the declared values", "no row"
"""The names of the part of all values that are not listed, and of units without a value."""


class BudgetOfParts:
    """The budget of each of some parts of units that are next to each other, computed when it is read."""

    def __init__(self, ends: tuple[int, int], numbering: Numbering, compute: Callable[[], Budget]) -> None:
        self.low, self.high = ends
        self.numbering, self._compute = numbering, compute

    def __repr__(self) -> str:
        return f"<BudgetOfParts {self.words}: {self.budget!r}>"

    @lazy_property
    def budget(self) -> Budget:
        """What is spent and left of each."""
        return self._compute()

    @property
    def words(self) -> str:
        """The names of the parts: one, or the first and the last one."""
        return self.numbering.range_words((self.low, self.high))

    def find(self, part: str | bool | int | date | None) -> int:
        """Return the number of a part, whether it is one of these or not; raises `ProgrammingError`."""
        found = NULL_PART if part is None else _find_value(self.numbering, part)
        if found is None:
            found = {"NULL": NULL_PART, _NO_ROW: NO_HOME}.get(str(part))
        if found is None:
            raise ProgrammingError(
                f"no part of units is named {part!r}"
                "\nHint: SHOW PRIVACY BUDGET BY PARTS ALL has the names, such as those of "
                + {"day": "2026-11-28", "week": "2026-W48", "month": "2026-11", "quarter": "2026-Q4"}.get(
                    self.numbering.every if isinstance(self.numbering, Calendar) else "", self.words
                )
            )
        return found


def _find_value(numbering: Numbering, part: str | bool | int | date) -> int | None:
    """Return the number of the part of a value, or of the period with a name; None if there is none."""
    if isinstance(numbering, Calendar):
        day = part.date() if isinstance(part, datetime) else part
        return numbering.number(day) if isinstance(day, date) else numbering.parse(str(day))
    if isinstance(numbering, WholeNumbers):
        return (
            numbering.number(int(str(part))) if re.fullmatch(r"-?[0-9]{1,30}", str(part), re.ASCII) else None
        )
    if isinstance(numbering, ListedValues):
        listed = {str(value): number for value, number in numbering.values}
        outside = LATER if str(part) == _OUTSIDE and numbering.outside else None
        return listed.get(str(part), outside)
    return None


def budget_of(
    connection: sqlite3.Connection, caps: Caps, analyst: str | None, parts: PartSet = ALL_PARTS
) -> Budget:
    """Return what is spent and left of the policy, or of all scopes that bind an analyst.

    Where units are in parts, it is that of the fullest part among some, or among all.
    """
    found = [each.budget(connection, parts) for each in scopes_of(connection, caps, analyst)]
    budget = Budget.of_scopes(*found, by_parts=caps.parts is not None)
    return budget if caps.renewal is None else replace(budget, renewal=_find_renewal(connection, caps))


_ENDLESS = Fraction(10**18)
"""More than anything that is spent."""


def _find_renewal(connection: sqlite3.Connection, caps: Caps) -> BudgetRenewal | None:
    """Return how the budget starts anew; None: another process has read another policy."""
    found = renewals.find_seen(connection, caps.filter)
    if found is None or found.every is None or caps.renewal is None:
        return None
    since, later = date.fromisoformat(found.since), date.fromisoformat(found.next_start)
    together, words = (
        found.together(connection, caps.renewal, caps.filter),
        renewals.describe(connection, caps.renewal, caps.filter),
    )
    terms = [(each.renewal, each.filter) for each in caps.both if each.renewal is not None]
    limits = [limit for own, budget in terms if (limit := own.limit(budget)) is not None]
    limit = min(limits, key=lambda each: each.epsilon, default=None)
    lifetime, spent = None if limit is None else limit.epsilon, _find_spent(connection, limit, caps.filter)
    return BudgetRenewal(found.every, found.times, since, later, together, lifetime, spent, words)


def _find_spent(connection: sqlite3.Connection, limit: Filter | None, budget: Filter) -> Fraction | None:
    """Return the epsilon that all renewals have cost, by the sum of epsilons or by that of costs.

    It is at most a lifetime that admits them; None: no epsilon is proved.
    """
    totals = total_at_order(connection, POLICY, order_of(budget)).totals
    spent = replace(budget, epsilon=_ENDLESS).spent(totals)
    if limit is None or spent is None or not limit.admits(totals, PrivacyLoss()):
        return spent
    return min(spent, limit.epsilon)


def scopes_of(connection: sqlite3.Connection, caps: Caps, analyst: str | None) -> list[Scope]:
    """Return the scopes that bind an analyst, or the policy's alone; the one that is shown first."""
    found = list[Scope]()
    for each in caps.both:
        own = [] if analyst is None else own_scopes(connection, each, analyst)
        whole = policy_scopes(connection, each, shown_now=True)
        has_cap = analyst is not None and each.of(analyst) is not None
        found += [*reversed(own), *whole] if has_cap else [*whole, *own]
    return found


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
