"""A stored answer with Gaussian noise and an analyst whose own budget has no delta."""

from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import BudgetExceeded
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss
from dpsql.ledger import Ledger, Request, Settled


def test_it_is_refused_without_an_epsilon(tmp_path: Path) -> None:
    loss, price = PrivacyLoss.gaussian(Fraction(1, 20000)), Charge(Fraction(1, 100))
    with Ledger.open(
        tmp_path / "l.sqlite",
        policy_id="p",
        total=Charge(Fraction(10), Fraction(1, 10**6)),
        filter_of=lambda budget: Filter.of(budget, "zcdp"),
        analysts={"ann": Charge(Fraction(5), Fraction(1, 10**7)), "bob": Charge(Fraction(2))},
    ) as ledger:
        held = ledger.reserve_all(
            analyst="ann", statement="s", requests=[Request("r", "m", price, loss=loss)]
        )
        ledger.settle_all(held, [Settled(loss, b"rows", "k")])
        with pytest.raises(BudgetExceeded, match="has Gaussian noise") as refused:
            ledger.share(["k"], "bob")
        assert refused.value.scope == "analyst bob"
        assert ledger.check() == []
