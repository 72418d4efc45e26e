"""`--error` and `--epsilon-total`: one error for all statements of a batch, and what it costs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import click
import pyarrow as pa
import pytest

from dpsql.cli import main
from dpsql.cli.batch import LARGEST, ErrorTarget, least_error, round_digits, write_decimal
from dpsql.cli.narrate import ExitCode
from dpsql.policy import load
from dpsql.session import Session
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 10
delta = 0.01
max_epsilon_per_query = 4
smallest_interesting = 200
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 4
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = ["home", "about", "cart", "help", "shop", "news", "jobs", "faq", "blog", "team",
  "map", "log", "end"]
page.complete = true
[tables.visits.bounds]
ms = { from = 0, to = 50 }
"""
N = "COUNT(DISTINCT user_id) AS n"
COUNT = f"SELECT {N} FROM visits"
TOP = f"SELECT page, {N} FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
ALL = f"SELECT page, {N} FROM visits GROUP BY page"
ROWS = "SELECT COUNT(*) AS n FROM visits"
SUM = "SELECT SUM(ms) AS n FROM visits"
TWO = f"SELECT (SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > 3) AS a, {N} FROM visits WHERE ms > 5"
AVERAGE = "SELECT AVG(ms) AS n FROM visits"
PRICED = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3) {N} FROM visits WHERE ms > 1"

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = pa.table({"user_id": [1, 2, 2], "page": ["home", "cart", "cart"], "ms": [1, 20, 3]})
    write_world(tmp_path, POLICY, visits=rows)
    return tmp_path


@pytest.fixture
def ask(folder: Path, capfd: pytest.CaptureFixture[str]) -> Ask:
    def run(*args: str) -> tuple[int, str, str]:
        code = main(["-p", str(folder / "dpsql.toml"), *args])
        out, err = capfd.readouterr()
        return code, out, err

    return run


def prices(out: str) -> list[Fraction]:
    return [Fraction(row["epsilon"]) for row in csv.DictReader(io.StringIO(out))]


def widths(folder: Path, error: Fraction, statements: list[str]) -> list[float]:
    """Half the widths of the statements' intervals, as EXPLAIN predicts them at a default error."""
    session = Session(load(folder / "dpsql.toml"))
    session.run(f"SET dp_error = {write_decimal(error)}")
    found = []
    for text in statements:
        facts = json.loads(session.run(f"EXPLAIN (FORMAT JSON) {text}").table.column(0)[0].as_py())
        found += [each["half_width"] for each in facts.get("releases", [facts])]
    session.close()
    return found


EVEN = [COUNT, TOP, ALL, ROWS, TWO]


@pytest.mark.parametrize("total", ["0.05", "1", "3.7"])
@pytest.mark.sampled(3)
def test_a_total_is_divided_so_that_predicted_errors_are_even(folder: Path, ask: Ask, total: str) -> None:
    code, out, err = ask("--dry-run", "--epsilon-total", total, "-c", ";".join(EVEN))
    assert code == ExitCode.OK, err
    assert Fraction(total) * Fraction(98, 100) < sum(prices(out)) <= Fraction(total)
    error = Fraction(err.split("an error of at most ")[1].split()[0])
    found = widths(folder, error, EVEN)
    assert len(found) == len(EVEN) + 1  # one statement has two releases
    assert max(found) <= error
    assert min(found) > Fraction(96, 100) * error


def test_an_error_is_that_of_each_statement(folder: Path, ask: Ask) -> None:
    code, out, err = ask("--dry-run", "--error", "50", "-c", ";".join(EVEN))
    assert code == ExitCode.OK, err
    assert prices(out)[0] == Fraction("0.06")
    assert max(widths(folder, Fraction(50), EVEN)) <= 50


def test_a_percentage_is_one_of_the_policys_smallest_interesting_count(ask: Ask) -> None:
    """25% of 200 are 50."""
    ask("--dry-run", "--error", "50", "-c", COUNT)  # which announces the new ledger
    in_counts = ask("--dry-run", "--error", "50", "-c", ";".join(EVEN))
    assert ask("--dry-run", "--error", "25%", "-c", ";".join(EVEN)) == in_counts


def test_the_error_of_a_sum_is_in_rows_of_its_largest_value(folder: Path, ask: Ask) -> None:
    out = ask("--dry-run", "--error", "40", "-c", f"{ROWS}; {SUM}")[1]
    rows, total = prices(out)
    assert rows == total
    assert widths(folder, Fraction(40), [ROWS, SUM])[1] == pytest.approx(40 * 50, rel=0.02)


def test_statements_that_name_their_price_keep_it(ask: Ask) -> None:
    later = f"SET dp_epsilon = 0.2; {COUNT} WHERE ms > 2"
    own_error = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 500) {N} FROM visits WHERE ms > 3"
    batch = f"{COUNT}; {PRICED}; SELECT 1; {own_error}; SHOW TABLES; {later}"
    code, out, err = ask("--dry-run", "--epsilon-total", "1", "-c", batch)
    assert code == ExitCode.OK, err
    found = prices(out)
    assert found[1:] == [Fraction("0.3"), 0, Fraction("0.006"), 0, 0, Fraction("0.2")]
    assert Fraction("0.48") < found[0] <= 1 - sum(found[1:])


def test_an_error_that_is_not_predicted_costs_the_default_epsilon(folder: Path, ask: Ask) -> None:
    code, out, err = ask("--dry-run", "--epsilon-total", "1", "-c", f"{COUNT}; {AVERAGE}")
    assert (code, out) == (ExitCode.REFUSED, "")
    assert "the error of this answer cannot be predicted" in err
    assert "Hint: give epsilon" in err
    policy = (folder / "dpsql.toml").read_text().replace("[defaults]", "default_epsilon = 0.25\n[defaults]")
    (folder / "dpsql.toml").write_text(policy)
    found = prices(ask("--dry-run", "--epsilon-total", "1", "-c", f"{COUNT}; {AVERAGE}")[1])
    assert found[1] == Fraction("0.25")
    assert Fraction("0.74") <= found[0] <= Fraction("0.75")


def test_what_names_its_price_may_cost_more_than_the_total(ask: Ask) -> None:
    code, out, err = ask("--epsilon-total", "0.2", "-c", f"{COUNT}; {PRICED}")
    assert (code, out) == (ExitCode.BUDGET_EXCEEDED, "")
    assert "ask for 0.3" in err
    assert "nothing was run" in err


def test_nothing_depends_on_the_total(ask: Ask) -> None:
    code, out, err = ask("--dry-run", "--epsilon-total", "1", "-c", f"{PRICED}; SELECT 1")
    assert (code, prices(out)) == (ExitCode.OK, [Fraction("0.3"), 0])
    assert "no statement's epsilon follows from --epsilon-total" in err


def test_asking_again_finds_the_stored_answers(ask: Ask) -> None:
    """What is stored costs nothing, and the errors are divided as if it did."""
    first = ask("--epsilon-total", "1", "-c", f"{COUNT}; {TOP}")
    assert first[0] == ExitCode.OK
    again = ask("--epsilon-total", "1", "-c", f"{COUNT}; {TOP}")
    assert again[1] == first[1]
    left = [line for line in again[2].splitlines() if " left" in line]
    assert left == [line for line in first[2].splitlines() if " left" in line]
    assert prices(ask("--dry-run", "--epsilon-total", "1", "-c", f"{COUNT}; {TOP}")[1]) == [0, 0]


def test_a_batch_is_charged_what_it_was_priced(ask: Ask) -> None:
    priced = sum(prices(ask("--dry-run", "--epsilon-total", "2", "-c", ";".join(EVEN))[1]))
    code, _, err = ask("--epsilon-total", "2", "-c", ";".join(EVEN))
    assert code == ExitCode.OK
    left = Fraction(err.split("epsilon ")[-1].split(" of ")[0])
    assert left == 10 - priced


def test_a_cap_bounds_what_one_statement_gets(ask: Ask) -> None:
    """The policy allows 4 a statement: a larger total gives it no more."""
    found = prices(ask("--dry-run", "--epsilon-total", "9", "-c", COUNT)[1])
    assert Fraction("3.9") < found[0] <= 4
    code, _, err = ask("--dry-run", "--error", "0.1", "-c", f"SELECT 1;\n{COUNT}")
    assert code == ExitCode.REFUSED
    assert "may cost at most 4" in err
    assert "nothing was run" in err


def test_a_statement_that_is_refused_ends_the_batch_or_is_left_out(ask: Ask) -> None:
    wrong = "SELECT user_id FROM visits"
    code, out, err = ask("--dry-run", "--epsilon-total", "1", "-c", f"{wrong}; {COUNT}")
    assert (code, out, err.count("dpsql: error")) == (ExitCode.REFUSED, "", 1)
    code, out, err = ask(
        "--dry-run", "--on-error", "continue", "--epsilon-total", "1", "-c", f"{wrong}; {COUNT}"
    )
    assert (code, err.count("dpsql: error")) == (ExitCode.REFUSED, 1)
    assert Fraction("0.98") < prices(out)[0] <= 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--error", "5", "--epsilon-total", "1"), "exclude each other"),
        (("--error", "0"), "--error takes a positive number, or a percentage"),
        (("--error", "x%"), "--error takes a positive number, or a percentage"),
        (("--epsilon-total", "-1"), "--epsilon-total takes a positive number"),
        (("--epsilon-total", "5%"), "--epsilon-total takes a positive number"),
    ],
)
def test_wrong_values(ask: Ask, args: tuple[str, ...], words: str) -> None:
    code, out, err = ask(*args, "-c", COUNT)
    assert (code, out) == (ExitCode.USAGE, "")
    assert words in err


@pytest.mark.parametrize("option", ["--error", "--epsilon-total"])
def test_they_go_with_statements(ask: Ask, option: str) -> None:
    assert ask(option, "1")[0] == ExitCode.USAGE
    assert ask(option, "1", "budget")[0] == ExitCode.USAGE


def test_on_a_server_a_percentage_is_refused() -> None:
    with pytest.raises(click.UsageError, match=r"needs the policy's smallest_interesting"):
        ErrorTarget(error=Fraction(5), percent=True).error_in_counts(None)
    assert ErrorTarget(error=Fraction(5)).error_in_counts(None) == 5
    assert ErrorTarget(total=Fraction(5)).error_in_counts(None) is None


@pytest.mark.parametrize("fixed", [Fraction(0), Fraction(1, 2)])
@pytest.mark.parametrize("weight", [Fraction(1, 1000), Fraction(3), Fraction(10**7)])
def test_the_search_ends_close_to_the_total(fixed: Fraction, weight: Fraction) -> None:
    asked: list[Fraction] = []

    def cost(error: Fraction) -> Fraction:
        asked.append(error)
        return fixed + weight / error

    error = least_error(cost, cost(LARGEST), Fraction(2))
    assert Fraction("1.97") < cost(error) <= 2
    assert error == round_digits(error)
    assert len(asked) < 12


def test_the_search_ends_at_a_cap_and_at_jumps() -> None:
    def capped(error: Fraction) -> Fraction | None:
        return None if error < 7 else 3 / error

    assert least_error(capped, Fraction(0), Fraction(2)) == 7

    def jumping(error: Fraction) -> Fraction:
        return (3 if error < 20 else 1) / error

    for total in (Fraction(1, 100), Fraction(1, 10), Fraction(1)):
        error = least_error(jumping, Fraction(0), total)
        assert jumping(error) <= total
        assert jumping(error - round_digits(error / 500)) > total * Fraction(97, 100) or error == 20
