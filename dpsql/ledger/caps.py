"""The caps of a policy: on the total, on each analyst, on groups of analysts, on one statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, field
from fractions import Fraction
from typing import Any

from dpsql.errors import PolicyError
from dpsql.kernel.loss import Charge, Filter
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger.amounts import write, write_charge
from dpsql.ledger.limits import Limits

ANYBODY = "*"
"""Stands for every analyst whom the policy does not name."""


@dataclass(frozen=True, slots=True)
class GroupCap:
    """The cap on what several analysts spend together."""

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

    @property
    def filter(self) -> Filter:
        """What the policy's scope admits."""
        return self.filter_of(self.total)

    def own_filter(self, analyst: str) -> Filter | None:
        """Return what an analyst's own scope admits; None if there is no cap."""
        cap = self.of(analyst)
        return None if cap is None else self.filter_of(cap)

    @property
    def filters(self) -> dict[str, Filter]:
        """What each budget of the policy admits, by its key in the policy's file."""
        return {
            "budget": self.filter,
            **{f"analysts.{_key(name)}": self.filter_of(cap) for name, cap in self.analysts.items()},
            **{f"groups.{_key(name)}": self.filter_of(group.cap) for name, group in self.groups.items()},
        }

    @property
    def content(self) -> dict[str, Any]:
        """The caps as an event tells them."""
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
        }

    def groups_of(self, analyst: str) -> list[tuple[str, GroupCap]]:
        """Return the groups that an analyst belongs to, by name."""
        return [(name, group) for name, group in self.groups.items() if analyst in group.members]

    def of(self, analyst: str) -> Charge | None:
        """Return an analyst's own cap; None if there is none."""
        return self.analysts.get(analyst, self.analysts.get(ANYBODY))

    def check_listed(self, analyst: str) -> None:
        """Refuse an analyst whom the policy does not list, if it lists any. Names are compared exactly."""
        if self.analysts and self.of(analyst) is None:
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
