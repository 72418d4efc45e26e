"""A policy with two sums, from SQL: as many statements as it promises, and what is shown of it."""

from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.kernel.loss import Charge
from dpsql.ledger import Ledger, Request
from dpsql.policy import load

POLICY = """
[budget]
epsilon = 10
delta = 1e-6
accounting = "{accounting}"
max_failures = 1000
[tables.visits]
source = "visits.csv"
unit = "person"
columns = {{ person = "BIGINT" }}
"""
OPTIONS = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1, fresh = TRUE)"
ASKED = f"SELECT {OPTIONS} COUNT(DISTINCT person) AS n FROM visits"
TENTH = Charge(Fraction(1, 10))


def policy_of(folder: Path, accounting: str) -> Path:
    (folder / "visits.csv").write_text("person\n1\n2\n3\n")
    path = folder / "dpsql.toml"
    path.write_text(POLICY.format(accounting=accounting))
    return path


@pytest.mark.parametrize(("accounting", "most"), [("pure", 100), ("zcdp", 301)])
def test_the_last_statement_that_fits_is_answered_and_the_next_refused(
    tmp_path: Path, accounting: str, most: int
) -> None:
    path = policy_of(tmp_path, accounting)
    with Ledger.of(load(path)) as ledger:
        before = [Request("r", "m", TENTH, place=i + 1, places=most - 2) for i in range(most - 2)]
        ledger.reserve_all(analyst="analyst", statement="s", requests=before)
    with dpsql.connect(path) as con:
        assert con.budget().more("0.1") == 2
        for left in (1, 0):
            con.execute(ASKED)
            assert con.budget().more(0.1) == left
        with pytest.raises(dpsql.BudgetExceeded, match="but only"):
            con.execute(ASKED)
        assert con.budget().accounting == accounting


@pytest.mark.slow
@pytest.mark.parametrize(("accounting", "most"), [("pure", 100), ("zcdp", 301)])
def test_every_statement_that_fits_is_answered(tmp_path: Path, accounting: str, most: int) -> None:
    with dpsql.connect(policy_of(tmp_path, accounting)) as con:
        for _ in range(most):
            con.execute(ASKED)
        with pytest.raises(dpsql.BudgetExceeded):
            con.execute(ASKED)


def test_show_has_both_sums(tmp_path: Path) -> None:
    """Gaussian noise has no epsilon, so after it the first sum admits nothing more."""
    with dpsql.connect(policy_of(tmp_path, "zcdp")) as con:
        con.execute(ASKED.replace("fresh", "noise = LAPLACE, fresh"))
        rows = con.execute("SHOW PRIVACY BUDGET").fetchall()
        assert [tuple(row) for row in rows] == [
            ("epsilon", "10", "0.1", "300 more of 0.1"),
            ("delta", "1e-6", "5e-7 conversion, 0 unknown domains", "5e-7"),
            ("basic way", "10", "0.1", "99 more of 0.1"),
            ("order way", "5.89065", "0.0195234", "300 more of 0.1 (alpha 3.98437)"),
        ]
        budget = con.budget()
        assert (budget.alpha, budget.spent.epsilon) == (Fraction(255, 64), Fraction(1, 10))
        assert budget.cost is not None
        assert budget.limit is not None
        assert 0 < budget.cost < budget.limit < budget.total.epsilon
        con.execute(ASKED)
        rows = con.execute("SHOW PRIVACY BUDGET").fetchall()
        assert [tuple(row) for row in rows if row[0] != "delta"] == [
            ("epsilon", "10", "4.90059", "299 more of 0.1"),
            ("basic way", "10", "none", "0 more of 0.1"),
            ("order way", "5.89065", "0.0390467", "299 more of 0.1 (alpha 3.98437)"),
        ]


def test_show_is_as_before_where_epsilons_add(tmp_path: Path) -> None:
    with dpsql.connect(policy_of(tmp_path, "pure")) as con:
        con.execute(ASKED)
        rows = con.execute("SHOW PRIVACY BUDGET").fetchall()
        assert [tuple(row) for row in rows] == [
            ("epsilon", "10", "0.1", "9.9"),
            ("delta", "1e-06", "0", "1e-06"),
        ]
        assert con.budget().cost is None
