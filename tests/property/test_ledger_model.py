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

from dpsql.errors import BudgetExceeded, OperationalError, PolicyError
from dpsql.kernel.facts import ByColumn, ByRow, Facts, TableFacts
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.ledger import GroupCap, LadderRequest, LadderReservation, Ledger, Request, Reservation, Settled
from dpsql.types import BIGINT
from tests.kept_ladders import newest_of

ANALYSTS = st.sampled_from(["ann", "bob", "cem", "dan", "eve"])
KEYS = st.sampled_from(["k1", "k2", None])
EPSILONS = st.fractions(min_value=Fraction(1, 50), max_value=2, max_denominator=60)
DELTAS = st.sampled_from([Fraction(0), Fraction(1, 1000), Fraction(1, 300), Fraction(1, 77)])
SHARES = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(99, 100), Fraction(1)])
TOTALS = st.tuples(
    st.fractions(min_value=1, max_value=8, max_denominator=7), st.sampled_from([Fraction(0), Fraction(1, 50)])
)


FACTS = st.sampled_from(
    [
        None,
        *(
            Facts((TableFacts("visits", unit, (("patient", BIGINT),), kind="patient"),))
            for unit in (ByRow(), ByColumn("patient"))
        ),
    ]
)
MEMBERS = st.sampled_from([("ann", "bob"), ("bob", "cem"), ("ann", "bob", "cem"), ("dan",)])
NO_CAP = (Fraction(10**6), Fraction(999, 1000))
CAPS = st.dictionaries(st.sampled_from(["ann", "bob", "dan", "*"]), TOTALS, max_size=3)
"""Caps of analysts; where none is drawn for `*`, more than can ever be spent stands for no cap."""


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
    ladders: Charge = field(default_factory=Charge)
    """What all kept ladders cost; it counts in every scope."""
    kept: dict[int, tuple[str, bytes | None]] = field(default_factory=dict)
    """Of each ladder by number: its measure, and what was measured."""
    facts: str | None = None
    """The hash of the facts that the newest charge rests on."""

    def cap(self, analyst: str) -> Charge:
        return self.caps.get(analyst, self.caps["*"])

    def known(self, analyst: str) -> Charge:
        """What an analyst has asked for, and all ladders."""
        return self.own.get(analyst, Charge()) + self.ladders

    def refuses_ladder(self, charge: Charge) -> str | None:
        """Return the first scope that refuses a ladder."""
        if not (self.spent + charge).fits(self.total):
            return "policy"
        for analyst in sorted({*self.caps, *self.own}):
            if not (self.known(analyst) + charge).fits(self.cap(analyst)):
                return f"analyst {analyst}"
        return None if (self.together() + charge).fits(self.group.cap) else "group team"

    def is_an_error(self) -> bool:
        """Whether a cap is below what the ladders cost."""
        caps = [self.total, self.group.cap, *self.caps.values()]
        return any(self.ladders.epsilon > cap.epsilon for cap in caps)

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
        if not (self.known(analyst) + charge).fits(self.cap(analyst)):
            return f"analyst {analyst}"
        return None

    def together(self) -> Charge:
        """What the members of the group know together: each ladder is one release, known once."""
        return sum((self.own.get(member, Charge()) for member in self.group.members), self.ladders)

    def rest_on(self, facts: Facts | None) -> None:
        self.facts = self.facts if facts is None else facts.digest

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
    measuring: Bundle[LadderReservation] = Bundle("measuring")

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

    def reopen(self, **changed: Any) -> None:
        """Open the ledger with another policy, or with the one before if a cap of this one is too low."""
        for handle in self.handles:
            handle.close()
        before = {name: getattr(self.model, name) for name in changed}
        vars(self.model).update(changed)
        facts = self.model.facts if before == changed else None
        if self.model.is_an_error():
            with pytest.raises(PolicyError, match="kept ladders"):
                self.handle()
            vars(self.model).update(before)
            facts = self.model.facts
        self.model.facts = facts
        self.handles = [self.handle(), self.handle()]

    @rule(total=TOTALS)
    def reopen_with_another_total(self, total: tuple[Fraction, Fraction]) -> None:
        self.reopen(total=Charge(*total))

    @rule(members=MEMBERS, together=TOTALS)
    def reopen_with_another_group(
        self, members: tuple[str, ...], together: tuple[Fraction, Fraction]
    ) -> None:
        self.reopen(group=GroupCap(members, Charge(*together)))

    @rule(caps=CAPS)
    def reopen_with_other_analysts(self, caps: dict[str, tuple[Fraction, Fraction]]) -> None:
        self.reopen(caps={name: Charge(*cap) for name, cap in {"*": NO_CAP, **caps}.items()})

    @rule(
        target=measuring,
        measures=st.lists(st.sampled_from(["rows", "cost"]), min_size=1, max_size=2),
        epsilon=st.fractions(min_value=Fraction(1, 50), max_value=1, max_denominator=60),
        at=st.integers(0, 1),
        facts=FACTS,
    )
    def reserve_ladders(self, measures: list[str], epsilon: Fraction, at: int, facts: Facts | None) -> Any:
        loss = PrivacyLoss.of(epsilon / 2, times=2)
        charge = Charge(epsilon * len(measures))
        expected = self.model.refuses_ladder(charge)
        try:
            held = self.handles[at].reserve_ladders(
                [LadderRequest("visits", measure, "v", "s", loss) for measure in measures], facts
            )
        except BudgetExceeded as error:
            found: tuple[str | None, object] = error.scope, error.requested
        else:
            found = None, (charge.epsilon, charge.delta)
        assert found == (expected, (charge.epsilon, charge.delta))
        if expected is not None:
            return multiple()
        self.model.rest_on(facts)
        self.model.ladders, self.model.spent = self.model.ladders + charge, self.model.spent + charge
        for one, measure in zip(held, measures, strict=True):
            assert one.number == len(self.model.kept) + 1
            self.model.kept[one.number] = measure, None
        return multiple(*held)

    @rule(held=consumes(measuring), payload=st.binary(min_size=1, max_size=3), at=st.integers(0, 1))
    def settle_ladder(self, held: LadderReservation, payload: bytes, at: int) -> None:
        assert self.handles[at].settle_ladder(held, payload).number == held.number
        self.model.kept[held.number] = held.request.measure, payload

    @rule(held=consumes(measuring), at=st.integers(0, 1))
    def fail_ladder(self, held: LadderReservation, at: int) -> None:
        self.handles[at].fail_ladder(held)

    @rule(
        target=reservations,
        who=ANALYSTS,
        epsilon=EPSILONS,
        delta=DELTAS,
        at=st.integers(0, 1),
        parts=st.integers(1, 3),
        facts=FACTS,
    )
    def reserve(
        self, who: str, epsilon: Fraction, delta: Fraction, at: int, parts: int, facts: Facts | None
    ) -> Any:  # hypothesis takes one value or `multiple()`
        charge = Charge(epsilon, delta)
        part = Charge(epsilon / parts, delta / parts)
        requests = [Request("r", "m", part, place=i, places=parts) for i in range(1, parts + 1)]
        expected: str | None = self.model.scope(charge, who)
        if self.model.full(who):
            expected = "failures"
        try:
            reservation = self.handles[at].reserve_all(
                analyst=who, statement="s", requests=requests, facts=facts
            )
        except BudgetExceeded as error:
            found: tuple[str | None, object] = error.scope, error.requested
        except OperationalError:
            found = "failures", (epsilon, delta)
        else:
            found = None, (epsilon, delta)
        assert found == (expected, (epsilon, delta))
        if expected is not None:
            return multiple()
        self.model.rest_on(facts)
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
        for who in ("ann", "bob", "dan", "new"):
            budget = ledger.budget(who)
            left = [model.cap(who) - model.known(who), model.total - model.spent]
            if who in model.group.members:
                left.append(model.group.cap - model.together())
            smallest = Charge(min(each.epsilon for each in left), min(each.delta for each in left))
            assert (budget.remaining, budget.spent) == (smallest, model.known(who))
        measured = [(n, *kept) for n, kept in model.kept.items() if kept[1] is not None]
        assert [(each.number, each.measure, each.payload) for each in ledger.ladders()] == measured
        for measure in ("rows", "cost"):
            newest = newest_of(ledger, "visits", measure)
            expected = [number for number, its, _ in measured if its == measure]
            assert (newest and newest.number) == (expected[-1] if expected else None)
        assert len(ledger.ladder_charges()) == len(model.kept)
        assert len(ledger.entries()) == model.entries
        assert ledger.facts == model.facts
        assert {who: ledger.count_failures(who) for who in model.failed} == model.failed
        assert {who: ledger.count_cancelled(who) for who in model.cancelled} == model.cancelled
        assert ledger.check() == []


def test_the_ledger_follows_its_model() -> None:
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=4, stateful_step_count=25, deadline=None)
    )


@pytest.mark.slow
def test_the_ledger_follows_its_model_at_length() -> None:
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=1000, stateful_step_count=60, deadline=None)
    )
