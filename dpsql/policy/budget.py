"""The budget of a policy: its total, the caps of single analysts and of groups; their checks and readers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import get_args

from dpsql.kernel.loss import Accounting, Charge, Filter, exact
from dpsql.kernel.unit_parts import EVERY, Every
from dpsql.lazy_dataclass import dataclass
from dpsql.policy.names import key_path, suggest, wrong
from dpsql.policy.policy_keys import KEYS
from dpsql.policy.toml_values import Section

LEDGER = "dpsql-ledger.sqlite"
_LIMITS = ("max_failures", "max_failures_total", "max_cancelled", "max_cancelled_total", "max_uploads")
_NUMBERS = (
    *("epsilon", "delta", "conversion_delta", "max_epsilon_per_query", "default_epsilon", "default_delta"),
    "smallest_interesting",
    "lifetime_epsilon",
)


@dataclass(frozen=True, slots=True)
class PersonBudget:
    """What one person may bear of a year, where a unit is what one did in one period (`unit_period`)."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    every: str = "year"

    def __post_init__(self) -> None:
        _read_numbers(self, "budget", "person")

    @property
    def charge(self) -> Charge:
        """The limit on what one person bears, as a charge."""
        return Charge(self.epsilon, self.delta)

    def check(self, accounting: str) -> None:
        """Raise `PolicyError` for a number out of range, or what is added up in another way."""
        _check_pair(self, "budget", "person")
        if self.every != "year":
            raise wrong("budget.person.every", "is a year", 'write every = "year"')
        if accounting != "pure":
            raise wrong("budget.person", "adds up epsilons", 'write accounting = "pure", or leave it out')


@dataclass(frozen=True, slots=True)
class RenewalPolicy:
    """How often the budget starts anew over the same rows, and the most of all that is released."""

    every: Every
    lifetime_epsilon: Fraction | None
    """None: it is not limited."""

    def __post_init__(self) -> None:
        _read_numbers(self, "budget", "renewal")

    def check(self, budget: Charge) -> None:
        """Raise `PolicyError` for a period that there is not, or a lifetime that is less than the budget."""
        if self.every not in EVERY:
            raise wrong(
                "budget.renewal.every",
                f"{str(self.every)[:40]!r} is no period",
                f"write one of {', '.join(EVERY)}",
            )
        most = self.lifetime_epsilon
        if most is None:
            return
        if most < budget.epsilon:
            raise wrong(
                "budget.renewal.lifetime_epsilon", "is less than budget.epsilon, which could never be spent"
            )
        if budget.delta * most / budget.epsilon >= 1:
            raise wrong(
                "budget.renewal.lifetime_epsilon", "has a delta of 1 or more, as many times the budget's"
            )


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """The total budget, the limits of single statements, and the file of the ledger.

    Numbers may be given as `dpsql.kernel.loss.exact` reads them (`5`, `"0.7"`, `0.7`); they are held exact.

    Attributes
    ----------
    epsilon, delta
        The policy's total.
    accounting
        How statements add up: `pure`, epsilons add; `zcdp`, statements are admitted by that sum or by the sum
        of their costs at one order of Renyi divergence.
    conversion_delta
        With `zcdp`, the part of delta that pays for the conversion of costs; mechanisms that need a delta
        share the rest. None: half of delta.
    max_epsilon_per_query
        The most one statement may take; None for no such cap.
    max_failures
        How many of an analyst's private statements may fail before further ones are refused. What runs counts
        as if it failed, so this is also how many may run at the same time.
    max_cancelled
        The same for statements that the analyst cancels; None: 20, or `max_failures` if that is more.
    max_failures_total, max_cancelled_total
        The same for all analysts together; None: ten times as many.
    max_uploads
        How many different tables one analyst may upload: the ledger keeps their hashes for ever.
    default_epsilon, default_delta
        For statements that name none; None: such statements are refused.
    smallest_interesting
        The smallest count that analysts look at, of which they give an error in percent.
    ledger
        The ledger's file.
    high_water
        The file of the ledger's mark, by which an older copy of the ledger is noticed; None: in the user's
        folder for state. False: no mark is kept.
    person
        What one person may bear of a year, where units are what one did in one period; None: no limit.
    renewal
        How often the budget starts anew over the same rows; None: never.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    max_epsilon_per_query: Fraction | None = None
    max_failures: int = 3
    default_epsilon: Fraction | None = None
    default_delta: Fraction | None = None
    ledger: Path = Path(LEDGER)
    max_failures_total: int | None = None
    max_cancelled: int | None = None
    max_cancelled_total: int | None = None
    smallest_interesting: Fraction = Fraction(1000)
    high_water: Path | bool | None = None
    accounting: Accounting = "pure"
    conversion_delta: Fraction | None = None
    person: PersonBudget | None = None
    renewal: RenewalPolicy | None = None
    max_uploads: int = 10_000

    def __post_init__(self) -> None:
        _read_numbers(self, "budget")
        object.__setattr__(self, "ledger", Path(self.ledger))
        if self.high_water is not None and not isinstance(self.high_water, bool):
            object.__setattr__(self, "high_water", Path(self.high_water))

    @property
    def total(self) -> Charge:
        """The whole budget of the policy as one charge."""
        return Charge(self.epsilon, self.delta)

    @property
    def filter(self) -> Filter:
        """The filter of the policy's scope: which losses it admits."""
        return self.filter_of(self.total)

    def filter_of(self, cap: Charge) -> Filter:
        """Return what a scope with another budget admits, accounted as the policy's.

        The same share of its delta as of the policy's pays for the conversion. A cap without delta has basic
        composition only.
        """
        if self.accounting == "pure":
            return Filter.of(cap)
        part = self.conversion_delta
        return Filter.of(cap, self.accounting, None if part is None else part * cap.delta / self.delta)

    def check(self) -> None:
        """Raise `PolicyError` for a number that is out of range or contradicts another."""
        _check_pair(self, "budget")
        _check_accounting(self.accounting, self.delta, self.conversion_delta)
        most = self.max_epsilon_per_query
        _check_cap("max_epsilon_per_query", most, self.epsilon, "epsilon")
        _check_cap("default_epsilon", self.default_epsilon, self.epsilon, "epsilon")
        if most is not None:
            _check_cap("default_epsilon", self.default_epsilon, most, "max_epsilon_per_query")
        _check_cap("default_delta", self.default_delta, self.filter.mechanism_delta, self._delta_left)
        if self.smallest_interesting <= 0:
            raise wrong("budget.smallest_interesting", "must be greater than 0")
        if self.person is not None:
            self.person.check(self.accounting)
        if self.renewal is not None:
            self.renewal.check(self.total)
        for name in _LIMITS:
            _check_limit(name, getattr(self, name))
        if self.high_water == self.ledger:
            raise wrong(
                "budget.high_water", "is the ledger itself", "its mark is another file, best elsewhere"
            )
        for name in ("max_failures", "max_cancelled"):
            own, total = getattr(self, name), getattr(self, f"{name}_total")
            if own is not None and total is not None and total < own:
                raise wrong(
                    f"budget.{name}_total", f"is less than budget.{name}, which could never be reached"
                )

    @property
    def _delta_left(self) -> str:
        return "delta" if self.accounting == "pure" else "delta less budget.conversion_delta"


@dataclass(frozen=True, slots=True)
class AnalystPolicy:
    """One analyst's own cap beside the policy's total, which still binds.

    The name `*` means each analyst who is not listed. If analysts are listed and `*` is not, all others are
    refused. Names are compared exactly; dpsql does not verify who gives one.
    """

    name: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _read_numbers(self, "analysts", self.name)

    @property
    def charge(self) -> Charge:
        """The cap on what the analyst spends, as a charge."""
        return Charge(self.epsilon, self.delta)

    def check(self) -> None:
        """Raise `PolicyError` for an invalid name or cap."""
        if not self.name or len(self.name) > 200 or not self.name.isprintable():
            raise wrong(key_path("analysts", self.name), "an analyst's name is 1 to 200 printable characters")
        _check_pair(self, "analysts", self.name)


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """A cap on what several analysts spend together, beside their own caps and the policy's total."""

    name: str
    members: tuple[str, ...]
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _read_numbers(self, "groups", self.name)

    @property
    def charge(self) -> Charge:
        """The cap on what the group spends together, as a charge."""
        return Charge(self.epsilon, self.delta)

    def check(self, analysts: Mapping[str, AnalystPolicy]) -> None:
        """Raise `PolicyError` for an invalid name, member or cap."""
        if not self.name or len(self.name) > 200 or not self.name.isprintable():
            raise wrong(key_path("groups", self.name), "a group's name is 1 to 200 printable characters")
        place = key_path("groups", self.name, "members")
        if not self.members:
            raise wrong(place, "lists no analyst")
        for member in self.members:
            if member == "*":
                raise wrong(place, "members are named one by one", "the policy's total binds all analysts")
            if self.members.count(member) > 1:
                raise wrong(place, f"{member!r} is listed twice")
            if analysts and member not in analysts and "*" not in analysts:
                raise wrong(place, f"{member!r} is no analyst", suggest(member, analysts, "analysts"))
        _check_pair(self, "groups", self.name)


def _read_numbers(
    part: BudgetPolicy | RenewalPolicy | PersonBudget | AnalystPolicy | GroupPolicy, *key: str
) -> None:
    """Replace each number of a frozen part by an exact rational; raise `PolicyError` for an invalid one."""
    for name in _NUMBERS:
        value = getattr(part, name, None)
        if value is None:
            continue
        try:
            object.__setattr__(part, name, exact(value))
        except ValueError as problem:
            raise wrong(key_path(*key, name), str(problem)) from None


def _check_limit(name: str, value: object) -> None:
    if value is None and name not in ("max_failures", "max_uploads"):
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"budget.{name}", "expected an integer")
    if not 1 <= value <= 1_000_000:
        raise wrong(f"budget.{name}", "must be between 1 and 1000000")


def _check_pair(part: BudgetPolicy | PersonBudget | AnalystPolicy | GroupPolicy, *key: str) -> None:
    if part.epsilon <= 0:
        raise wrong(key_path(*key, "epsilon"), "must be greater than 0")
    if not 0 <= part.delta < 1:
        raise wrong(
            key_path(*key, "delta"), "must be at least 0 and less than 1", "values like 1e-6 are customary"
        )


def _check_cap(name: str, value: Fraction | None, cap: Fraction, capped_by: str) -> None:
    if value is None:
        return
    if value <= 0:
        raise wrong(f"budget.{name}", "must be greater than 0")
    if value > cap:
        raise wrong(f"budget.{name}", f"is more than budget.{capped_by}, so it could never be spent")


def _check_accounting(accounting: object, delta: Fraction, conversion_delta: Fraction | None) -> None:
    """Raise `PolicyError` for an unknown accounting, or one that does not fit the deltas."""
    if accounting not in get_args(Accounting):
        raise wrong(
            "budget.accounting",
            f"{str(accounting)[:40]!r} is no accounting",
            'write "pure" (epsilons add) or "zcdp" (more small statements for the same promise)',
        )
    if accounting == "pure":
        if conversion_delta is not None:
            raise wrong(
                "budget.conversion_delta",
                'is for accounting = "zcdp"',
                'leave it out, or write accounting = "zcdp"',
            )
        return
    if not delta:
        raise wrong(
            "budget.accounting",
            '"zcdp" needs a delta, as its promise holds but for that chance',
            'write delta = 1e-6, or accounting = "pure"',
        )
    if conversion_delta is not None and not 0 < conversion_delta <= delta:
        raise wrong("budget.conversion_delta", "must be above 0 and at most budget.delta")


def read_budget(top: Section, base: Path) -> BudgetPolicy:
    """Return the budget that the table `[budget]` of a policy declares."""
    section = Section(top.raw("budget"), ("budget",), KEYS["[budget]"])
    section.require("epsilon", "write the total that may ever be spent, for instance epsilon = 5.0")
    raw, person = section.raw("person"), None
    if raw is not None:
        own = Section(raw, ("budget", "person"), KEYS["[budget.person]"])
        own.require("epsilon", "write what one person may bear of a year, for instance epsilon = 20")
        person = PersonBudget(**own.values())
    raw, renewal = section.raw("renewal"), None
    if raw is not None:
        own = Section(raw, ("budget", "renewal"), KEYS["[budget.renewal]"])
        own.require("every", 'write every = "month"')
        own.require("lifetime_epsilon", 'write the most of all renewals together, such as 24, or "unlimited"')
        renewal = RenewalPolicy(**own.values())
    made = {"ledger": base / LEDGER, **section.values(base), "person": person, "renewal": renewal}
    return BudgetPolicy(**made)


def read_analysts(top: Section) -> dict[str, AnalystPolicy]:
    """Read `[analysts]`: the caps of single analysts, by name."""
    analysts = {}
    listed = top.optional("analysts", dict)
    if listed == {}:
        raise wrong(
            "analysts",
            "lists no analyst, so no statement could be run",
            'write [analysts.NAME], or [analysts."*"] for everybody',
        )
    for name, raw in (listed or {}).items():
        section = Section(raw, ("analysts", name), KEYS["[analysts.NAME]"])
        section.require("epsilon", "write the most this analyst may spend")
        analysts[name] = AnalystPolicy(name, **section.values())
    return analysts


def read_groups(top: Section) -> dict[str, GroupPolicy]:
    """Read `[groups]`: the caps on several analysts together, by the group's name."""
    groups = {}
    for name, raw in (top.optional("groups", dict) or {}).items():
        section = Section(raw, ("groups", name), KEYS["[groups.NAME]"])
        section.require("members", 'write members = ["ANALYST", "ANALYST"]')
        section.require("epsilon", "write the most that its members together may spend")
        groups[name] = GroupPolicy(name, **section.values())
    return groups
