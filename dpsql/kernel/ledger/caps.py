"""The caps of a policy; and of two: that of a process, and that with which the ledger was opened last.

They say how units are divided into parts. No number of a listed value is ever given to another one. All
numbers without a value are one part, *outside*, which is charged for all of them. So the part of a value
that is listed later begins with what was charged to the units that have it, when they were *outside*. A value
that is listed no more keeps its number and its part.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpsql.errors import InternalError, PolicyError
from dpsql.kernel.ledger import events
from dpsql.kernel.ledger.limits import Limits
from dpsql.kernel.ledger.renewals import CAPS, RenewalTerms
from dpsql.kernel.ledger.totals import read, read_charge, write, write_charge
from dpsql.kernel.loss import Charge, Filter
from dpsql.kernel.unit_parts import Calendar, ListedValues, Numbering, PartSet, WholeNumbers
from dpsql.lazy_dataclass import dataclass

ANYBODY = "*"
"""Stands for every analyst whom the policy does not name."""


@dataclass(frozen=True, slots=True)
class GroupCap:
    """The cap on what the analysts of a group spend together."""

    members: tuple[str, ...]
    cap: Charge


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps of the policy: on the total, on each analyst, on groups of analysts, on one statement."""

    total: Charge
    per_query: Fraction | None
    analysts: Mapping[str, Charge]
    """Cap by name; `*` is that of each analyst not named. If there is any cap, other analysts are refused."""
    limits: Limits
    groups: Mapping[str, GroupCap] = field(default_factory=dict)
    filter_of: Callable[[Charge], Filter] = Filter.of
    """What a scope with a budget admits."""
    parts: PartBudgets | None = None
    """The parts of units that each have the whole of every budget; None: no kind of unit has parts."""
    person: Charge | None = None
    """What one person may bear of a year, where parts are periods of units; None: it is not limited."""
    renewal: RenewalTerms | None = None
    """How often the policy's budget starts anew over the same rows; None: never."""
    last: Caps | None = None
    """Those with which the ledger was opened last, if they are others: every charge is within both."""

    @property
    def both(self) -> tuple[Caps, ...]:
        """The caps within which every charge has to be: these, and those of the last policy."""
        return (self,) if self.last is None else (self, self.last)

    @property
    def filter(self) -> Filter:
        """The filter of the policy's scope: which losses it admits."""
        return self.filter_of(self.total)

    def own_filter(self, analyst: str) -> Filter | None:
        """Return what an analyst's own scope admits; None if there is no cap."""
        cap = self.of(analyst)
        return None if cap is None else self.filter_of(cap)

    @property
    def filters(self) -> dict[str, Filter]:
        """The filters of all budgets of the policy, by their keys in the policy's file."""
        return {
            "budget": self.filter,
            **{f"analysts.{_key(name)}": self.filter_of(cap) for name, cap in self.analysts.items()},
            **{f"groups.{_key(name)}": self.filter_of(group.cap) for name, group in self.groups.items()},
        }

    @property
    def content(self) -> dict[str, Any]:
        """The caps as the events of the audit log tell them."""
        return {
            "total": write_charge(self.total),
            "per_query": None if self.per_query is None else write(self.per_query),
            "analysts": {name: write_charge(cap) for name, cap in self.analysts.items()},
            "groups": {
                name: [*group.members, *write_charge(group.cap)] for name, group in self.groups.items()
            },
            "limits": astuple(self.limits),
            "conversion_delta": write(self.filter.conversion_delta),
            "alpha": None if (order := order_of(self.filter)) is None else write(order),
            **({} if self.parts is None else {"parts": self.parts.declared}),
            **({} if self.person is None else {"person": write_charge(self.person)}),
            **({} if self.renewal is None else {"renewal": self.renewal.content}),
        }

    def groups_of(self, analyst: str) -> list[tuple[str, GroupCap]]:
        """Return the groups that an analyst belongs to, by name."""
        return [(name, group) for name, group in self.groups.items() if analyst in group.members]

    def of(self, analyst: str) -> Charge | None:
        """Return an analyst's own cap; None if there is none."""
        return self.analysts.get(analyst, self.analysts.get(ANYBODY))

    def check_listed(self, analyst: str) -> None:
        """Refuse an analyst whom the policy does not list, if it lists any. Names are compared exactly."""
        if any(each.analysts and each.of(analyst) is None for each in self.both):
            raise PolicyError(
                f"the policy lists its analysts, and {analyst!r} is none of them",
                hint="give a name that it lists (analyst=..., --analyst NAME); for everybody else the owner"
                ' writes [analysts."*"]',
            )


def _key(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def order_of(each: Filter | None) -> Fraction | None:
    """Return the order of a scope's costs; None if it has none."""
    return None if each is None or each.order_way is None else each.order_way.order


class LastCaps:
    """The caps of a process, together with those with which the ledger was opened last.

    A process that opened the ledger before its policy was changed, such as a running server, has other caps.
    What it charges has to be within both. So the last policy admits all that any process charges, and the
    theorem of `Filter` holds as if every process had that policy.
    """

    def __init__(self, own: Caps) -> None:
        self.own, self._written = own, events.canonical(own.content)
        self._join = lru_cache(maxsize=2)(self._join_last)

    def find(self, connection: sqlite3.Connection) -> Caps:
        """Return the caps of the process, with the last ones if they are others."""
        row = connection.execute("SELECT value FROM setting WHERE name = ?", (CAPS,)).fetchone()
        return self.own if row is None or row[0] == self._written else self._join(row[0])

    def _join_last(self, text: str) -> Caps:
        own, last = self.own, _read_caps(self.own, json.loads(text))
        persons = [each for each in (own.person, last.person) if each is not None]
        ends = [(each.epsilon, each.delta) for each in persons]
        return replace(
            own,
            per_query=min(
                (each for each in (own.per_query, last.per_query) if each is not None), default=None
            ),
            limits=Limits(*map(min, astuple(own.limits), astuple(last.limits))),
            person=Charge(*map(min, *ends)) if len(ends) == 2 else persons[0] if persons else None,
            last=last,
        )


def _read_caps(own: Caps, told: Mapping[str, Any]) -> Caps:
    """Read `Caps.content` back; units are in the same parts as in those of a process."""
    total, spare = read_charge(*told["total"]), read(told["conversion_delta"])

    def limit(cap: Charge) -> Filter:
        return Filter.of(cap, "zcdp", spare / total.delta * cap.delta) if spare else Filter.of(cap)

    every, lifetime = told.get("renewal", (None, None))
    most = None if lifetime in (None, "unlimited") else read(lifetime)
    groups = told["groups"].items()
    return replace(
        own,
        total=total,
        per_query=None if told["per_query"] is None else read(told["per_query"]),
        analysts={name: read_charge(*cap) for name, cap in told["analysts"].items()},
        groups={name: GroupCap((*cap[:-2],), read_charge(*cap[-2:])) for name, cap in groups},
        limits=Limits(*told["limits"]),
        person=read_charge(*told["person"]) if "person" in told else None,
        renewal=None if every is None else RenewalTerms(every, most),
        filter_of=limit,
    )


_VALUES = "parts values "
"""What stands before a declaration of parts, in the name of the setting with its values."""

MOST_VALUES = 10_000
"""So many values have a number; all others are *outside*."""


@dataclass(frozen=True, slots=True)
class PartBudgets:
    """The budgets of the parts of a kind of units: what was asked of one part is not spent in another one."""

    kind: str
    periods_as: Calendar | None
    """How periods are numbered; None: each value of a column is a part."""
    declared: str
    """What the policy declares, as text: where it changes, parts are other ones."""
    periods: bool = False
    """Whether a unit is what one did in one period, which is its part."""
    column: str = ""
    """The column whose values are the parts, if they are no periods."""

    @property
    def calendar(self) -> Calendar:
        """How periods are numbered, which parts are."""
        if self.periods_as is None:
            raise InternalError("parts are no periods")
        return self.periods_as

    def number_in(self, connection: sqlite3.Connection) -> Numbering:
        """Return how parts are numbered: listed values as the ledger has them, else whole numbers."""
        if self.periods_as is not None:
            return self.periods_as
        listed = numbered_values(connection, self.declared)
        whole = all(type(value) is int for value, _ in listed)  # older ledgers have numbers of them
        return WholeNumbers() if whole else ListedValues(listed)

    def words(self, connection: sqlite3.Connection, parts: PartSet) -> str:
        """Name parts, with the period or the column before them: `week 2026-W48`."""
        named = self.number_in(connection).words(parts)
        if self.periods_as is None:
            return f"{self.column} {named}"
        return f"{self.periods_as.every} {named}" if named[:1].isdigit() else named


def numbered_values(connection: sqlite3.Connection, declared: str) -> tuple[tuple[str | bool, int], ...]:
    """Return the values with a number: all that were ever listed while the declaration was this one."""
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (_VALUES + declared,)).fetchone()
    listed = json.loads(row[0]) if row else []
    return tuple((value, number) for number, value in enumerate(listed))


def number_values(connection: sqlite3.Connection, declared: str, values: Iterable[str | bool]) -> None:
    """Give numbers to the values that have none."""
    before = [value for value, _ in numbered_values(connection, declared)]
    listed = list(dict.fromkeys((*before, *values)))[:MOST_VALUES]
    if listed != before:
        row = _VALUES + declared, events.canonical(listed)
        connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", row)
