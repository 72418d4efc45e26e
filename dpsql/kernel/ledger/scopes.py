"""The scopes of a policy: what each has spent, and whether all of them admit one more loss."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.errors import OperationalError, PolicyError
from dpsql.kernel.ledger import part_totals, renewals
from dpsql.kernel.ledger.budget_errors import budget_error, gaussian_budget_error
from dpsql.kernel.ledger.caps import ANYBODY, Caps, GroupCap, order_of
from dpsql.kernel.ledger.renewal_rows import LIFETIME
from dpsql.kernel.ledger.totals import (
    POLICY,
    Stored,
    added_amounts,
    group_scope,
    keep_members,
    ladder_total,
    member,
    members_total,
    names_of,
    owner,
    policy_names,
    read_total,
    scope,
    shown,
    too_wide,
    total_at_order,
    write_total,
)
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, Totals
from dpsql.kernel.loss.charge import largest_epsilon
from dpsql.kernel.unit_parts import ALL_PARTS, PartSet
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ScopeBudget:
    """A scope: its name, what it admits, and its total so far: by parts, the largest of any."""

    name: str
    filter: Filter
    totals: Totals
    where: str = ""
    """The parts whose total it is, in words; empty: all parts'."""
    renews: str = ""
    """The day on which it starts anew; empty: it never does."""

    def admits(self, loss: PrivacyLoss) -> bool:
        """Return whether a statement with a privacy loss may run in the scope."""
        return self.filter.admits(self.totals, loss)

    @property
    def remaining(self) -> Charge:
        """The largest epsilon and the largest delta that a statement may still have."""
        admits, totals = self.filter, self.totals
        zero = Fraction(0)
        left = [zero]
        if totals.epsilon is not None:
            left.append(admits.epsilon - totals.epsilon)
        if admits.order_way is not None and totals.cost < admits.order_way.limit:
            left.append(largest_epsilon(admits.order_way.limit - totals.cost, admits.order_way.order))
        return Charge(max(left), max(admits.mechanism_delta - totals.delta, zero))

    @property
    def spent(self) -> Charge:
        """The epsilon that is proven to be spent by now, or else the whole budget's; and the spent delta.

        Under `zcdp` the part of delta that serves the conversion of costs counts as spent.
        """
        admits, totals = self.filter, self.totals
        epsilon = totals.epsilon
        if admits.conversion_delta:
            epsilon = admits.spent(totals)
        return Charge(admits.epsilon if epsilon is None else epsilon, totals.delta + admits.conversion_delta)


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope with a budget: what it admits, what was charged to all parts of units, and to some."""

    name: str
    filter: Filter
    whole: Totals
    """What was charged to all parts."""
    names: tuple[str, ...]
    """The stored scopes whose totals by parts add up to its own."""
    renews: str = ""
    """The day on which it starts anew; empty: it never does."""

    def budget(self, connection: sqlite3.Connection, parts: PartSet = ALL_PARTS) -> ScopeBudget:
        """Return the budget; by parts, with the largest total of any of some."""
        most = part_totals.largest(connection, self._scopes, parts)
        return self.budget_with(most)

    @property
    def _scopes(self) -> list[tuple[str, Fraction | None]]:
        return [(name, order_of(self.filter)) for name in self.names]

    def _totals(self, amounts: part_totals.Amounts) -> Totals:
        totals = amounts.totals
        return totals if self.filter.order_way is not None else replace(totals, cost=Fraction(0))

    def admit(
        self,
        connection: sqlite3.Connection,
        caps: Caps,
        loss: PrivacyLoss,
        price: Charge | None,
        parts: PartSet | None,
    ) -> None:
        """Raise `BudgetExceeded` unless each of some parts admits a loss, or all of them (None).

        Where the largest totals of all parts do not admit it, those of the parts decide, then each part: the
        sums of epsilons and of costs need not be largest in the same part.
        """
        read = ALL_PARTS if parts is None else parts
        if any(self.budget(connection, each).admits(loss) for each in dict.fromkeys((ALL_PARTS, read))):
            return
        found = part_totals.segments(connection, self._scopes, read)
        for low, high, amounts in found:
            where = ""
            if caps.parts is not None and (parts is not None or len(found) > 1):
                where = caps.parts.words(connection, PartSet(((low, high),)))
            admit(replace(self.budget_with(amounts), where=where), loss, price)

    def segments(self, connection: sqlite3.Connection) -> list[part_totals.Segment]:
        """Return what was charged to each part alone, in order; equal neighbours are one."""
        return part_totals.segments(connection, self._scopes)

    def budget_with(self, amounts: part_totals.Amounts) -> ScopeBudget:
        """Return the budget of a part to which some amounts were charged alone."""
        return ScopeBudget(self.name, self.filter, self.whole + self._totals(amounts), renews=self.renews)


def policy_scopes(connection: sqlite3.Connection, caps: Caps, *, shown_now: bool = False) -> list[Scope]:
    """Return the scopes that every charge is added to: the budget of the policy, and that of its lifetime.

    `shown_now`: as they are seen by a charge now, which starts the budget anew where a period has begun.
    """
    order = order_of(caps.filter)
    totals = total_at_order(connection, POLICY, order).totals
    found = renewals.find(connection)
    if found is None:
        return [Scope(POLICY, caps.filter, totals, (POLICY,))]
    if caps.renewal is None or found.every != caps.renewal.every:
        return [Scope(POLICY, caps.filter, totals, (POLICY,))]
    limit = caps.renewal.limit(caps.filter)
    anew = shown_now and found.is_over
    since = Totals() if anew else total_at_order(connection, found.scope, order).totals
    own = Scope(POLICY, caps.filter, since, (), found.next_start)
    return [own] if limit is None else [own, Scope(LIFETIME, limit, totals, ())]


def analyst_scope(connection: sqlite3.Connection, caps: Caps, analyst: str) -> Scope | None:
    """Return an analyst's own scope, with all kept ladders; None if there is no cap on it."""
    own = caps.own_filter(analyst)
    if own is None:
        return None
    name = scope(analyst)
    asked = total_at_order(connection, name, order_of(own)).totals
    return Scope(name, own, asked + ladder_total(connection, order_of(own)), (name,))


def scope_of_group(connection: sqlite3.Connection, caps: Caps, name: str, group: GroupCap) -> Scope:
    """Return the scope that the members of a group have together.

    It bounds what they learn when they put together all that each of them knows. A ladder is one release that
    all of them know: what they know together has it once, so its loss is added once, not once a member. What
    they have asked is added member by member, since each answer has noise of its own.
    """
    admits = caps.filter_of(group.cap)
    order = order_of(admits)
    asked = members_total(connection, name, group.members, order)
    names = [scope(each) if order is None else member(name, each) for each in group.members]
    return Scope(group_scope(name), admits, asked + ladder_total(connection, order), tuple(names))


def own_scopes(connection: sqlite3.Connection, caps: Caps, analyst: str) -> list[Scope]:
    """Return the scopes of an analyst's groups, then the analyst's own, if there is a cap on it."""
    groups = [scope_of_group(connection, caps, *named) for named in caps.groups_of(analyst)]
    own = analyst_scope(connection, caps, analyst)
    return groups if own is None else [*groups, own]


def policy_budget(connection: sqlite3.Connection, caps: Caps) -> ScopeBudget:
    """Return the budget of the scope of the whole policy."""
    return policy_scopes(connection, caps)[0].budget(connection)


def analyst_budget(connection: sqlite3.Connection, caps: Caps, analyst: str) -> ScopeBudget | None:
    """Return the budget of an analyst's own scope; None if there is no cap on it."""
    found = analyst_scope(connection, caps, analyst)
    return None if found is None else found.budget(connection)


def group_budget(connection: sqlite3.Connection, caps: Caps, name: str, group: GroupCap) -> ScopeBudget:
    """Return the budget that the members of a group have together."""
    return scope_of_group(connection, caps, name, group).budget(connection)


def all_budgets(connection: sqlite3.Connection, caps: Caps, *, shown_now: bool = False) -> list[ScopeBudget]:
    """Return the budgets of all scopes that have one: whatever is released to everybody counts in each.

    These are the policy's, those of the analysts whom the policy lists and of all others who have asked and
    have a cap, that of an analyst who has not asked yet (`*`), and those of the groups.
    """
    asked = connection.execute("SELECT name FROM total WHERE name >= 'analyst ' AND name < 'analyst!'")
    names, found = [name.removeprefix(scope("")) for (name,) in asked], list[ScopeBudget]()
    for own in caps.both:
        owned = [analyst_budget(connection, own, analyst) for analyst in sorted({*own.analysts, *names})]
        grouped = [group_budget(connection, own, *named) for named in own.groups.items()]
        whole = [each.budget(connection) for each in policy_scopes(connection, own, shown_now=shown_now)]
        found += [*whole, *(each for each in owned if each is not None), *grouped]
    return found


def check_ladders(connection: sqlite3.Connection, caps: Caps) -> None:
    """Raise `PolicyError` if a cap is less than what the kept ladders cost, which counts in every scope."""
    for key, admits in caps.filters.items():
        if key == "budget" and caps.renewal is not None:
            continue  # they were charged to its renewals, one after the other
        kept = ladder_total(connection, order_of(admits))
        if not admits.admits(kept, PrivacyLoss()):
            over = "delta" if kept.epsilon is not None and kept.epsilon <= admits.epsilon else "epsilon"
            cost = getattr(kept, over)
            costs = f"{over} {shown(cost, up=True)}" if cost is not None else "more than any epsilon"
            raise PolicyError(
                f"{key}: the kept ladders of this ledger cost {costs}, which counts in every budget, but this"
                f" one is {over} {shown(getattr(admits, over), up=False)}",
                hint="give it at least that: what `dpsql bounds` told everybody stays spent",
            )


def reorder(connection: sqlite3.Connection, caps: Caps) -> None:
    """Add up the costs of all scopes at the orders of the policy, from all entries."""
    for (name,) in connection.execute("SELECT name FROM total").fetchall():
        analyst = owner(name)  # None: the total and the ladders have the order of the policy
        if name.startswith(group_scope("")):
            connection.execute("DELETE FROM total WHERE name = ?", (name,))
            part_totals.forget_tree(connection, name)
            continue
        order = order_of(caps.filter if analyst is None else caps.own_filter(analyst))
        total = total_at_order(connection, name, order)
        if order is None:
            total = Stored(replace(total.totals, cost=Fraction(0)))
        write_total(connection, name, total)
        if part_totals.order_of_tree(connection, name)[0]:
            part_totals.forget_tree(connection, name)
            part_totals.keep_tree(connection, name, order)
    for name, group in caps.groups.items():
        order = order_of(caps.filter_of(group.cap))
        if order is not None:
            keep_members(connection, name, group.members, order)


def scope_words(name: str) -> str:
    """Return whose budget a scope is, for the owner.

    >>> scope_words("policy"), scope_words("analyst *"), scope_words("group guests")
    ("the policy's budget", 'each new analyst (*)', 'group guests')
    """
    if name == POLICY:
        return "the policy's budget"
    if name == LIFETIME:
        return "the lifetime of the policy's budget"
    return "each new analyst (*)" if name == scope(ANYBODY) else name


def spend_own(
    connection: sqlite3.Connection,
    caps: Caps,
    analyst: str,
    reserved: PrivacyLoss,
    charged: PrivacyLoss | None = None,
    *,
    price: Charge | None = None,
    parts: PartSet | None = None,
    entries: Sequence[PrivacyLoss] = (),
) -> None:
    """Add a loss to an analyst's total, if the analyst's own cap and the caps of all groups allow it.

    They have to allow the reserved loss also where another one is charged: else an outcome could be told from
    what is refused. It is added to the totals of some parts, or of all (None), and each of them has to allow
    it. Of several entries it is the sum, and each of them is rounded up by itself, as it is settled.
    """
    orders = {scope(analyst): order_of(caps.own_filter(analyst))}
    for name, group in caps.groups_of(analyst):
        order = order_of(caps.filter_of(group.cap))
        if order is not None:
            keep_members(connection, name, group.members, order)
            orders[member(name, analyst)] = order
    for each in caps.both:
        for limited in own_scopes(connection, each, analyst):
            limited.admit(connection, each, reserved, price, parts)
    paid = reserved if charged is None else charged
    for name in {*names_of(connection, analyst), *orders}:
        for asked, added in [(each, each) for each in entries] or [(reserved, paid)]:
            add_loss(connection, name, orders.get(name), asked, added, parts)


def spend_total(
    connection: sqlite3.Connection,
    caps: Caps,
    loss: PrivacyLoss,
    price: Charge,
    parts: PartSet | None = None,
    entries: Sequence[PrivacyLoss] = (),
) -> None:
    """Add a loss to the policy's total, of some parts or of all, if its budget allows it.

    Of several entries it is the sum, and each is rounded up by itself.
    """
    for own in caps.both:
        for limited in policy_scopes(connection, own):
            limited.admit(connection, own, loss, price, parts)
    for name in policy_names(connection):
        for each in entries or (loss,):
            add_loss(connection, name, order_of(caps.filter), each, each, parts)


def admit(budget: ScopeBudget, loss: PrivacyLoss, price: Charge | None) -> None:
    """Raise `BudgetExceeded` unless a scope admits a loss; without a price, the loss of a stored answer."""
    if budget.admits(loss):
        return
    if price is None and loss.epsilon is None:
        raise gaussian_budget_error(loss, budget.remaining, budget.name, budget.where)
    asked = loss.charge if price is None else price
    one = PrivacyLoss.of(asked.epsilon, asked.delta)
    other = price is not None and one != loss and budget.admits(one)
    raise budget_error(
        asked, budget.remaining, budget.name, other=other, where=budget.where, renews=budget.renews
    )


def add_loss(
    connection: sqlite3.Connection,
    name: str,
    order: Fraction | None,
    reserved: PrivacyLoss,
    charged: PrivacyLoss,
    parts: PartSet | None = None,
) -> None:
    """Add the part of a loss that is not written yet to the total of a scope: of some parts, or of all."""
    before = total_at_order(connection, name, order)
    if parts is not None:
        if read_total(connection, name) != before:
            write_total(connection, name, before)
        kept = part_totals.keep_tree(connection, name, before.order)
        part_totals.add(connection, name, parts, part_totals.Amounts.of(reserved, charged, kept))
        return
    more = added_amounts(reserved, charged, before.order)
    after = Stored(before.totals + more, before.order)
    if too_wide(after.totals, more):
        raise OperationalError("this epsilon or delta has too many digits: give it as a short decimal")
    write_total(connection, name, after)
