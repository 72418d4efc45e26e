"""How a policy accounts its budget: the keys, their mistakes, and what the scopes admit."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import PolicyError
from dpsql.kernel.loss import Charge, PrivacyLoss, Totals
from dpsql.policy import BudgetPolicy, Policy, load

Write = Callable[[str], Policy]
TABLE = """
[tables.v]
source = "v.csv"
unit = "person"
columns = { person = "BIGINT", page = "VARCHAR" }
"""
MILLIONTH = Fraction(1, 10**6)
TENTH = PrivacyLoss.of(Fraction(1, 10))


@pytest.fixture
def read(tmp_path: Path) -> Write:
    (tmp_path / "v.csv").write_text("person,page\n1,a\n")

    def write(budget: str) -> Policy:
        (tmp_path / "dpsql.toml").write_text(f"[budget]\n{budget}\n{TABLE}")
        return load(tmp_path / "dpsql.toml")

    return write


def test_left_out_epsilons_add(read: Write) -> None:
    budget = read("epsilon = 10\ndelta = 1e-6").budget
    assert budget.accounting == "pure"
    assert budget.filter.order_way is None
    assert budget.filter.mechanism_delta == Fraction(1, 10**6)
    assert budget.filter.more(Totals(), TENTH) == 100


def test_zcdp_admits_three_times_as_many(read: Write) -> None:
    budget = read('epsilon = 10\ndelta = 1e-6\naccounting = "zcdp"').budget
    assert budget.filter.more(Totals(), TENTH) == 301
    assert budget.filter.mechanism_delta == Fraction(5, 10**7)


def test_all_of_delta_may_serve_the_conversion(read: Write) -> None:
    budget = read('epsilon = 10\ndelta = 1e-6\naccounting = "zcdp"\nconversion_delta = 1e-6').budget
    assert budget.filter.more(Totals(), TENTH) == 313
    assert budget.filter.mechanism_delta == 0


def test_caps_divide_their_delta_in_the_policys_ratio() -> None:
    budget = BudgetPolicy(Fraction(10), MILLIONTH, accounting="zcdp", conversion_delta=MILLIONTH / 10)
    cap = budget.filter_of(Charge(Fraction(5), Fraction(1, 10**7)))
    assert cap.conversion_delta == Fraction(1, 10**8)
    assert budget.filter_of(Charge(Fraction(5))).order_way is None
    assert (
        BudgetPolicy(Fraction(10), MILLIONTH).filter_of(Charge(Fraction(5), Fraction(1, 10**7))).order_way
        is None
    )


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ('accounting = "rdp"\ndelta = 1e-6', "budget.accounting", '"zcdp"'),
        ("accounting = 1\ndelta = 1e-6", "budget.accounting", "expected text"),
        ('accounting = "zcdp"', "budget.accounting", "delta = 1e-6"),
        ('accounting = "zcdp"\ndelta = 1e-6\nconversion_delta = 0', "budget.conversion_delta", "above 0"),
        ('accounting = "zcdp"\ndelta = 1e-6\nconversion_delta = 2e-6', "budget.conversion_delta", "at most"),
        ("delta = 1e-6\nconversion_delta = 1e-7", "budget.conversion_delta", "zcdp"),
        (
            'accounting = "zcdp"\ndelta = 1e-6\ndefault_delta = 6e-7',
            "budget.default_delta",
            "budget.conversion_delta",
        ),
        ('resets = "monthly"', "budget.resets", "n times epsilon"),
        ("window = 3", "budget.window", "after n times"),
        ("refresh = true", "budget.refresh", "after n times"),
        ('unit_period = { column = "at" }', "budget.unit_period", "after n times"),
    ],
)
def test_mistakes_name_their_key(read: Write, text: str, key: str, says: str) -> None:
    with pytest.raises(PolicyError) as raised:
        read(f"epsilon = 10\n{text}")
    assert f"{key}:" in raised.value.message
    assert says in str(raised.value)


def test_a_table_has_no_period_either(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("person,page\n1,a\n")
    text = f'[budget]\nepsilon = 1\n{TABLE}unit_period = {{ column = "at", every = "month" }}\n'
    (tmp_path / "dpsql.toml").write_text(text)
    with pytest.raises(PolicyError, match=r"tables\.v\.unit_period"):
        load(tmp_path / "dpsql.toml")
