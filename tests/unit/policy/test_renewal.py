"""`[budget.renewal]`: off by default, both keys are required, and neither parts nor periods go with it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import PolicyError
from dpsql.policy import Policy, load

TABLE = """
[tables.v]
source = "v.csv"
columns = { person = "BIGINT", page = "VARCHAR", day = "DATE" }
unit = "person"
unit_kind = "person"
"""
RENEWAL = '[budget.renewal]\nevery = "month"\nlifetime_epsilon = 24\n'


def read(
    folder: Path, budget: str = RENEWAL, more: str = "", of_table: str = "", *, first: str = "epsilon = 1"
) -> Policy:
    (folder / "v.csv").write_text("person,page,day\n1,a,2026-01-01\n")
    (folder / "dpsql.toml").write_text(f"[budget]\n{first}\n{budget}{TABLE}{of_table}{more}")
    return load(folder / "dpsql.toml")


def test_a_budget_does_not_start_anew_by_default(tmp_path: Path) -> None:
    assert read(tmp_path, "").budget.renewal is None
    found = read(tmp_path).budget.renewal
    assert found is not None
    assert (found.every, found.lifetime_epsilon) == ("month", Fraction(24))
    found = read(tmp_path, RENEWAL.replace("24", '"unlimited"')).budget.renewal
    assert found is not None
    assert found.lifetime_epsilon is None


@pytest.mark.parametrize(
    ("budget", "key", "says"),
    [
        ('[budget.renewal]\nevery = "month"\n', "lifetime_epsilon", '"unlimited"'),
        ("[budget.renewal]\nlifetime_epsilon = 2\n", "every", 'every = "month"'),
        (RENEWAL.replace("month", "hour"), "every", "day, week, month"),
        (RENEWAL.replace("24", "0.5"), "lifetime_epsilon", "less than budget.epsilon"),
        (RENEWAL.replace("24", '"much"'), "lifetime_epsilon", "much"),
        (RENEWAL.replace("24", "true"), "lifetime_epsilon", '"unlimited"'),
        (RENEWAL + "delta = 1e-6\n", "delta", "unknown key"),
    ],
)
def test_a_section_that_is_not_complete_is_refused(tmp_path: Path, budget: str, key: str, says: str) -> None:
    with pytest.raises(PolicyError) as raised:
        read(tmp_path, budget)
    assert f"budget.renewal.{key}" in str(raised.value)
    assert says in str(raised.value)


def test_a_lifetime_has_a_delta_below_1(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="delta of 1 or more"):
        read(tmp_path, first="epsilon = 1\ndelta = 0.05")


def test_neither_parts_nor_periods_go_with_renewals(tmp_path: Path) -> None:
    parts = '[parts.person]\ntable = "v"\ncolumn = "day"\nevery = "week"\n'
    with pytest.raises(PolicyError, match=r"budget.renewal: does not go with \[parts\]"):
        read(tmp_path, more=parts, of_table='unique = [["person"]]\n')
    period = 'unit_period = { column = "day", every = "week" }\n'
    with pytest.raises(PolicyError, match="does not go with unit_period"):
        read(tmp_path, of_table=period)


@pytest.mark.parametrize("key", ["resets", "window", "refresh"])
def test_other_keys_name_parts_periods_and_renewal_in_this_order(tmp_path: Path, key: str) -> None:
    with pytest.raises(PolicyError, match=f"budget.{key}: a budget is not renewed by this key") as raised:
        read(tmp_path, f'{key} = "month"\n')
    hint = str(raised.value.hint)
    assert 0 < hint.index("[parts.KIND]") < hint.index("unit_period") < hint.index("[budget.renewal]")
