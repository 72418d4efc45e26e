"""The ledger against a model of it in a few lines, under any sequence of what a session may do."""

import shutil
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dpsql.errors import BudgetExceeded, OperationalError
from dpsql.ledger import GroupCap, Ledger, Request, Reservation, Settled
from dpsql.privacy import Charge

ANALYSTS = st.sampled_from(["ann", "bob", "cem"])
KEYS = st.sampled_from(["k1", "k2", None])
EPSILONS = st.fractions(min_value=Fraction(1, 50), max_value=2, max_denominator=60)
DELTAS = st.sampled_from([Fraction(0), Fraction(1, 1000), Fraction(1, 300), Fraction(1, 77)])
SHARES = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(99, 100), Fraction(1)])
TOTALS = st.tuples(
    st.fractions(min_value=1, max_value=8, max_denominator=7), st.sampled_from([Fraction(0), Fraction(1, 50)])
)


MEMBERS = st.sampled_from([("ann", "bob"), ("bob", "cem"), ("ann", "bob", "cem"), ("dan",)])
NO_CAP = (Fraction(10**6), Fraction(999, 1000))


@dataclass
class Model:
    """What the ledger should hold."""

    total: Charge = field(default_factory=Charge)
    caps: dict[str, Charge] = field(default_factory=dict)
    group: GroupCap = field(default_factory=lambda: GroupCap(("dan",), Charge()))
    per_query: Fraction | None = None
    spent: Charge = field(default_factory=Charge)
    own: dict[str, Charge] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    cancelled: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    releases: list[tuple[str, str | None, bytes | None, Charge, Charge]] = field(default_factory=list)
    """Whose they are, key, content, realised and reserved charge."""
    entries: int = 0

    def scope(self, charge: Charge, analyst: str) -> str | None:
        """Return the cap that refuses a charge."""
        if self.per_query is not None and charge.epsilon > self.per_query:
            return "query"
        if (refused := self.own_scope(charge, analyst)) is not None:
            return refused
        return None if (self.spent + charge).fits(self.total) else "policy"

    def own_scope(self, charge: Charge, analyst: str) -> str | None:
        """Return the cap of the analyst, or of the group, that refuses a charge."""
        if analyst in self.group.members and not (self.together() + charge).fits(self.group.cap):
            return "group team"
        if analyst in self.caps and not (self.own.get(analyst, Charge()) + charge).fits(self.caps[analyst]):
            return f"analyst {analyst}"
        return None

    def together(self) -> Charge:
        return sum((self.own.get(member, Charge()) for member in self.group.members), Charge())

    def add(self, charge: Charge, analyst: str, *, shared: bool = False) -> None:
        self.own[analyst] = self.own.get(analyst, Charge()) + charge
        if not shared:
            self.spent = self.spent + charge

    def refund(self, less: Charge, analyst: str) -> None:
        self.own[analyst] = Charge(
            self.own[analyst].epsilon - less.epsilon, self.own[analyst].delta - less.delta
        )
        self.spent = Charge(self.spent.epsilon - less.epsilon, self.spent.delta - less.delta)

    def full(self, who: str) -> bool:
        """Whether all that runs, were it to fail or be cancelled, would reach a limit."""
        own, running = self.running.get(who, 0), sum(self.running.values())
        return (
            own + self.failed.get(who, 0) >= MOST_FAILURES
            or own + self.cancelled.get(who, 0) >= MOST_CANCELLED
            or running + sum(self.failed.values()) >= MOST_FAILURES_TOTAL
            or running + sum(self.cancelled.values()) >= MOST_CANCELLED_TOTAL
        )


MOST_FAILURES, MOST_FAILURES_TOTAL, MOST_CANCELLED, MOST_CANCELLED_TOTAL = 3, 5, 4, 6


class LedgerMachine(RuleBasedStateMachine):
    """Two handles on one file, as two processes would have them, and the model."""

    reservations: Bundle[tuple[Reservation, str]] = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.model = Model()
        self.handles: list[Ledger] = []

    def teardown(self) -> None:
        for handle in self.handles:
            handle.close()
        shutil.rmtree(self.folder)

    @initialize(
        total=TOTALS,
        cap=TOTALS,
        members=MEMBERS,
        together=TOTALS,
        per_query=st.sampled_from([None, Fraction(3, 2)]),
    )
    def open(
        self,
        total: tuple[Fraction, Fraction],
        cap: tuple[Fraction, Fraction],
        members: tuple[str, ...],
        together: tuple[Fraction, Fraction],
        per_query: Fraction | None,
    ) -> None:
        self.model.group = GroupCap(members, Charge(*together))
        # More than can ever be spent stands for no cap: who is not listed at all is refused.
        self.model.total, self.model.caps = Charge(*total), {"bob": Charge(*cap), "*": Charge(*NO_CAP)}
        self.model.per_query = per_query
        self.handles = [self.handle(), self.handle()]

    def handle(self) -> Ledger:
        return Ledger.open(
            self.folder / "ledger.sqlite",
            policy_id="p",
            total=self.model.total,
            per_query=self.model.per_query,
            analysts=self.model.caps,
            max_failures=MOST_FAILURES,
            max_failures_total=MOST_FAILURES_TOTAL,
            max_cancelled=MOST_CANCELLED,
            max_cancelled_total=MOST_CANCELLED_TOTAL,
            groups={"team": self.model.group},
        )

    @rule(total=TOTALS)
    def reopen_with_another_total(self, total: tuple[Fraction, Fraction]) -> None:
        for handle in self.handles:
            handle.close()
        self.model.total = Charge(*total)
        self.handles = [self.handle(), self.handle()]

    @rule(members=MEMBERS, together=TOTALS)
    def reopen_with_another_group(
        self, members: tuple[str, ...], together: tuple[Fraction, Fraction]
    ) -> None:
        for handle in self.handles:
            handle.close()
        self.model.group = GroupCap(members, Charge(*together))
        self.handles = [self.handle(), self.handle()]

    @rule(
        target=reservations,
        who=ANALYSTS,
        epsilon=EPSILONS,
        delta=DELTAS,
        at=st.integers(0, 1),
        parts=st.integers(1, 3),
    )
    def reserve(
        self, who: str, epsilon: Fraction, delta: Fraction, at: int, parts: int
    ) -> Any:  # hypothesis takes one value or `multiple()`
        charge = Charge(epsilon, delta)
        part = Charge(epsilon / parts, delta / parts)
        requests = [Request("r", "m", part, place=i, places=parts) for i in range(1, parts + 1)]
        expected: str | None = self.model.scope(charge, who)
        if self.model.full(who):
            expected = "failures"
        try:
            reservation = self.handles[at].reserve_all(analyst=who, statement="s", requests=requests)
        except BudgetExceeded as error:
            found: tuple[str | None, object] = error.scope, error.requested
        except OperationalError:
            found = "failures", (epsilon, delta)
        else:
            found = None, (epsilon, delta)
        assert found == (expected, (epsilon, delta))
        if expected is not None:
            return multiple()
        self.model.add(charge, who)
        self.model.entries += parts
        self.model.running[who] = self.model.running.get(who, 0) + 1
        return reservation, who

    @rule(
        held=consumes(reservations),
        share=SHARES,
        key=KEYS,
        payload=st.binary(max_size=3),
        at=st.integers(0, 1),
    )
    def settle(
        self, held: tuple[Reservation, str], share: Fraction, key: str | None, payload: bytes, at: int
    ) -> None:
        reservation, who = held
        stored = payload or None
        settled = []
        for _, reserved in reservation.entries:
            most = reserved.charge
            realised = Charge(most.epsilon * share, most.delta * share)
            settled.append(Settled(realised, stored, key))
            self.model.refund(most - realised, who)
            self.model.releases.append((who, key, stored, realised, most))
        numbers, _ = self.handles[at].settle_all(reservation, settled)
        self.model.running[who] -= 1
        assert [*numbers] == [*range(len(self.model.releases) + 1)][-len(settled) :]

    @rule(held=consumes(reservations), at=st.integers(0, 1))
    def fail(self, held: tuple[Reservation, str], at: int) -> None:
        self.handles[at].fail(held[0])
        self.model.failed[held[1]] = self.model.failed.get(held[1], 0) + 1
        self.model.running[held[1]] -= 1

    @rule(held=consumes(reservations), at=st.integers(0, 1))
    def cancel(self, held: tuple[Reservation, str], at: int) -> None:
        self.handles[at].cancel(held[0])
        self.model.cancelled[held[1]] = self.model.cancelled.get(held[1], 0) + 1
        self.model.running[held[1]] -= 1

    @rule(who=st.one_of(st.none(), ANALYSTS), at=st.integers(0, 1))
    def clear_failures(self, who: str | None, at: int) -> None:
        self.handles[at].clear_failures(who)
        for ended in (self.model.failed, self.model.cancelled):
            for analyst in [who] if who is not None else list(ended):
                ended[analyst] = 0

    @rule(who=ANALYSTS, key=st.sampled_from(["k1", "k2"]), at=st.integers(0, 1))
    def find(self, who: str, key: str, at: int) -> None:
        found = self.handles[at].find(key, who)
        mine = [
            (number, payload)
            for number, (owner, its, payload, *_) in enumerate(self.model.releases, 1)
            if (owner, its) == (who, key) and payload is not None
        ]
        assert (found and (found.number, found.payload)) == (mine[-1] if mine else None)

    @rule(who=ANALYSTS, key=st.sampled_from(["k1", "k2"]), at=st.integers(0, 1))
    def share(self, who: str, key: str, at: int) -> None:
        paid = [r for r in self.model.releases if r[1] == key and r[2] is not None]
        if any(release[0] == who for release in paid):
            self.handles[at].share([key], who)
            self.find(who, key, at)
            return
        charge = paid[-1][3] if paid else Charge()
        # It is refused by what was reserved, which no outcome decides.
        refused = self.model.own_scope(paid[-1][4] if paid else Charge(), who)
        if paid and refused is not None:
            with pytest.raises(BudgetExceeded) as caught:
                self.handles[at].share([key], who)
            assert caught.value.scope == refused
            return
        self.handles[at].share([key], who)
        found = self.handles[at].find(key, who)
        if not paid:
            assert found is None
            return
        assert found is not None
        assert found.payload == paid[-1][2]
        self.model.add(charge, who, shared=True)
        self.model.entries += 1
        self.model.releases.append((who, key, *paid[-1][2:]))

    @precondition(lambda self: self.handles)
    @invariant()
    def the_sums_are_exact(self) -> None:
        ledger, model = self.handles[0], self.model
        whole = ledger.budget()
        assert (whole.total, whole.spent) == (model.total, model.spent)
        assert whole.remaining == model.total - model.spent
        bob = ledger.budget("bob")
        left = [model.caps["bob"] - model.own.get("bob", Charge()), model.total - model.spent]
        if "bob" in model.group.members:
            left.append(model.group.cap - model.together())
        smallest = Charge(min(each.epsilon for each in left), min(each.delta for each in left))
        assert bob.remaining == smallest
        assert bob.spent == model.own.get("bob", Charge())
        assert len(ledger.entries()) == model.entries
        assert {who: ledger.failures(who) for who in model.failed} == model.failed
        assert {who: ledger.cancelled(who) for who in model.cancelled} == model.cancelled
        assert ledger.check() == []


def test_the_ledger_follows_its_model() -> None:
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=20, stateful_step_count=25, deadline=None)
    )


@pytest.mark.slow
def test_the_ledger_follows_its_model_at_length() -> None:
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=1000, stateful_step_count=60, deadline=None)
    )
