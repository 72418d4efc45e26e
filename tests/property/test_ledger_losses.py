"""The ledger's two sums against a model: any losses, two scopes and a group, policies that change."""

import shutil
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

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

from dpsql.errors import BudgetExceeded
from dpsql.kernel.loss import BoundedRange, Charge, Filter, Gaussian, PrivacyLoss, PureDP, Totals, settle
from dpsql.kernel.loss.privacy_loss import Part
from dpsql.ledger import GroupCap, Ledger, Request, Reservation, Settled
from dpsql.policy import BudgetPolicy

ANALYSTS = st.sampled_from(["ann", "bob", "cem"])
SIZES = st.sampled_from([Fraction(n, 100) for n in (1, 5, 10, 30, 60, 100)])
TIMES = st.integers(1, 4)
PARTS = st.one_of(
    st.builds(PureDP, SIZES, TIMES),
    st.builds(BoundedRange, SIZES, TIMES),
    st.builds(lambda size: Gaussian(size * size / 2), SIZES),
)
LOSSES = st.lists(PARTS, min_size=1, max_size=3).map(tuple)
DELTAS = st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 10**8), Fraction(1, 10**6)])
CAPS = st.tuples(
    st.sampled_from([Fraction(1), Fraction(2), Fraction(5), Fraction(10)]),
    st.sampled_from([Fraction(1, 10**6), Fraction(1, 10**3)]),
)
OWN = st.one_of(CAPS, st.tuples(st.just(Fraction(2)), st.just(Fraction(0))))
MOST = Charge(Fraction(10**6), Fraction(1, 2))
ACCOUNTING = st.sampled_from(["zcdp", "zcdp", "pure"])


@dataclass
class Asked:
    """One entry."""

    analyst: str
    reserved: PrivacyLoss
    charged: PrivacyLoss
    shared: bool = False


class LossMachine(RuleBasedStateMachine):
    """Two handles on one file, whose policy changes for both, and the list of what was asked."""

    reservations: Bundle[tuple[Reservation, Asked]] = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.asked: list[Asked] = []
        self.stored: list[Asked] = []
        self.handles: list[Ledger] = []

    def teardown(self) -> None:
        self.close()
        shutil.rmtree(self.folder)

    def close(self) -> None:
        for handle in self.handles:
            handle.close()

    @initialize(total=CAPS, own=OWN, group=CAPS, accounting=ACCOUNTING)
    def first(
        self,
        total: tuple[Fraction, Fraction],
        own: tuple[Fraction, Fraction],
        group: tuple[Fraction, Fraction],
        accounting: str,
    ) -> None:
        self.reopen(total, own, group, accounting)

    @rule(total=CAPS, own=OWN, group=CAPS, accounting=ACCOUNTING)
    def reopen(
        self,
        total: tuple[Fraction, Fraction],
        own: tuple[Fraction, Fraction],
        group: tuple[Fraction, Fraction],
        accounting: str,
    ) -> None:
        self.close()
        self.total, self.own, self.group = Charge(*total), Charge(*own), Charge(*group)
        self.budget = BudgetPolicy(*total, accounting=accounting)  # type: ignore[arg-type]
        self.handles = [
            Ledger.open(
                self.folder / "ledger.sqlite",
                policy_id="p",
                total=self.total,
                analysts={"bob": self.own, "*": MOST},
                groups={"team": GroupCap(("bob", "cem"), self.group)},
                max_failures=10**6,
                filter_of=self.budget.filter_of,
                high_water=False,
            )
            for _ in range(2)
        ]

    def sums(self, admits: Filter, *analysts: str) -> Totals:
        """Add up the entries of some analysts, or all that are not shared."""
        found = Totals()
        for each in self.asked:
            if each.analyst in analysts if analysts else not each.shared:
                amounts = admits.amounts(each.charged)
                if each.reserved.epsilon is None:
                    amounts = Totals(None, amounts.delta, amounts.cost)
                found += amounts
        return found

    def refusing(self, loss: PrivacyLoss, analyst: str, *, shared: bool = False) -> str | None:
        scopes: list[tuple[str, Filter, tuple[str, ...]]] = []
        if not shared:
            scopes.append(("policy", self.budget.filter, ()))
        own = self.own if analyst == "bob" else MOST
        scopes.insert(0, (f"analyst {analyst}", self.budget.filter_of(own), (analyst,)))
        if analyst != "ann":
            scopes.insert(0, ("group team", self.budget.filter_of(self.group), ("bob", "cem")))
        for name, admits, analysts in scopes:
            if not admits.admits(self.sums(admits, *analysts), loss):
                return name
        return None

    @rule(target=reservations, who=ANALYSTS, parts=LOSSES, delta=DELTAS, at=st.integers(0, 1))
    def reserve(self, who: str, parts: tuple[Part, ...], delta: Fraction, at: int):  # type: ignore[no-untyped-def]  # noqa: ANN201  hypothesis takes one value or `multiple()`
        loss = PrivacyLoss(parts, delta)
        request = Request("r", "m", Charge(Fraction(1, 10), delta), loss=loss)
        expected = self.refusing(loss, who)
        try:
            held = self.handles[at].reserve_all(analyst=who, statement="s", requests=[request])
        except BudgetExceeded as error:
            found: str | None = error.scope
        else:
            found = None
        assert found == expected
        if found is not None:
            return multiple()
        self.asked.append(Asked(who, loss, loss))
        return held, self.asked[-1]

    @rule(
        held=consumes(reservations),
        drop=st.integers(0, 2),
        share=st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 100)]),
        at=st.integers(0, 1),
        keep=st.booleans(),
    )
    def settle(
        self, held: tuple[Reservation, Asked], drop: int, share: Fraction, at: int, keep: bool
    ) -> None:
        reservation, asked = held
        parts: list[Part] = []
        for part in asked.reserved.parts[: max(1, len(asked.reserved.parts) - drop)]:
            one = PrivacyLoss((part,))
            if isinstance(part, PureDP):
                realised = PureDP(part.epsilon * share, part.times)
                one = settle(one, PrivacyLoss((realised,)))
            parts += one.parts
        asked.charged = PrivacyLoss(tuple(parts), asked.reserved.delta)
        key = "k" if keep else None
        self.handles[at].settle_all(reservation, [Settled(asked.charged, b"x", key)])
        if keep:
            self.stored.append(asked)

    @rule(held=consumes(reservations), at=st.integers(0, 1))
    def fail(self, held: tuple[Reservation, Asked], at: int) -> None:
        self.handles[at].fail(held[0])

    @precondition(lambda self: self.stored)
    @rule(who=ANALYSTS, at=st.integers(0, 1))
    def share(self, who: str, at: int) -> None:
        if any(each.analyst == who for each in self.stored):
            return
        first = self.stored[-1]
        expected = self.refusing(first.reserved, who, shared=True)
        if expected is not None:
            with pytest.raises(BudgetExceeded) as caught:
                self.handles[at].share(["k"], who)
            assert caught.value.scope == expected
            return
        self.handles[at].share(["k"], who)
        self.asked.append(Asked(who, first.reserved, first.charged, shared=True))
        self.stored.append(self.asked[-1])

    @precondition(lambda self: self.handles)
    @invariant()
    def the_totals_are_those_of_the_entries(self) -> None:
        ledger = self.handles[0]
        for who in ("ann", "bob", "cem"):
            for scope in ledger.budget(who).scopes:
                members = {"policy": (), "group team": ("bob", "cem")}.get(scope.name, (who,))
                sums = self.sums(scope.filter, *members)
                cost = scope.totals.cost if scope.filter.order_way is not None else Fraction(0)
                assert Totals(scope.totals.epsilon, scope.totals.delta, cost) == sums
        assert ledger.check() == []


def test_the_ledger_follows_its_model_of_losses() -> None:
    run_state_machine_as_test(
        LossMachine, settings=settings(max_examples=5, stateful_step_count=15, deadline=None)
    )


@pytest.mark.slow
def test_the_ledger_follows_its_model_of_losses_at_length() -> None:
    run_state_machine_as_test(
        LossMachine, settings=settings(max_examples=600, stateful_step_count=50, deadline=None)
    )
