"""Where a search finds too low a bound, for there are few units, the answer says what its range lacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from dpsql.cli.bounds import draw_ladders
from dpsql.database import Database
from dpsql.estimates import figure
from dpsql.owner.ladder_listing import describe_ladder
from dpsql.owner.ladder_releases import parse_measure, release_ladders
from dpsql.policy import load
from dpsql.release import Release
from dpsql.render.grid import Style
from dpsql.session import Session
from tests.narrow import present
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 1000
ledger = "ledger.sqlite"
[tables.orders]
source = "orders.parquet"
unit = "user_id"
unit_kind = "user"
"""
NOT_KNOWN = "not known (not in the range)"

Opened = Callable[[int], Database]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Open orders of so many users: each has 40, of 200 to 700."""
    made: list[Database] = []

    def write(users: int) -> Database:
        of = [user for user in range(users) for _ in range(40)]
        amounts = pa.array([Decimal(200 + row % 500) for row in range(len(of))], pa.decimal128(9, 2))
        write_world(tmp_path, POLICY, orders={"user_id": of, "amount": amounts})
        made.append(Database(load(tmp_path / "dpsql.toml")))
        return made[-1]

    yield write
    for each in made:
        each.close()


def asked(database: Database, what: str, epsilon: str) -> Release:
    with closing(Session(database, "alice")) as session:
        options = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon})"
        return present(session.run(f"SELECT {options} {what} FROM orders").release)


def test_a_kept_ladder_tells_of_units_above_the_largest_size_that_it_found(opened: Opened) -> None:
    """150 users are too few to reach totals of 18,000 from a cent, at this price."""
    database = opened(150)
    measures = [parse_measure(database, "orders.amount")]
    (ladder,) = release_ladders(database, measures, Fraction(1, 2), "dpsql bounds")
    assert 100 < present(ladder.units_above) < 200
    most, twice = (figure(times * ladder.most * float(ladder.step)) for times in (1, 2))
    line = asked(database, "SUM(amount) AS s", "1").line
    assert f"users are above {most}, what they have beyond {twice} is {NOT_KNOWN}" in line
    shown = draw_ladders([describe_ladder(database, ladder)], Style())
    assert f"users are above {most}, so few that a larger size was not found" in " ".join(shown.split())


def test_a_ladder_that_found_the_largest_size_tells_of_none(opened: Opened) -> None:
    database = opened(150)
    measures = [parse_measure(database, "orders.amount")]
    (ladder,) = release_ladders(database, measures, Fraction(50), "dpsql bounds")
    assert ladder.units_above is None
    assert NOT_KNOWN not in asked(database, "SUM(amount) AS s", "1").line


def test_a_search_in_a_statement_tells_of_too_many_units_above_its_bound(opened: Opened) -> None:
    database = opened(1000)
    line = asked(database, "SUM(amount) AS s", "0.02").line
    assert "how much is not known: many users " in line
    assert "(not in the range)" in line
    line = asked(database, "SUM(amount) AS s", "0.25").line
    assert "many users are above" not in line, "rungs below do not outvote a thousand users"
    line = asked(database, "SUM(amount) AS s", "50").line
    assert "many users are above" not in line


@pytest.mark.parametrize("epsilon", ["0.05", "0.1"])
def test_a_search_tells_that_most_units_are_above_its_bound(opened: Opened, epsilon: str) -> None:
    """400 users are fewer than noise lets the search leave, and most of them have more than is counted."""
    line = asked(opened(400), "COUNT(*) AS n", epsilon).line
    assert re.search("how much is not known: many users (are|may be) above", line)


SIGNED = "SUM(amount - 450) AS s"


@pytest.mark.parametrize("what", [SIGNED, "SUM(amount) AS s", "COUNT(*) AS n"])
@pytest.mark.sampled(2, rest="longer")
def test_a_range_covers_the_exact_answer_of_few_users_or_the_line_says_what_it_lacks(
    opened: Opened, what: str
) -> None:
    """100 users have sums from -10,000 to 10,000 and more, and a search finds the smallest bound for them."""
    database, users = opened(100), range(100 * 40)
    amounts = [200 + row % 500 for row in users]
    exact = {SIGNED: sum(amounts) - 450 * len(users), "COUNT(*) AS n": len(users)}.get(what, sum(amounts))
    for turn in range(10):
        release = asked(database, what, f"0.05{turn}")
        (row,) = release.table.to_pylist()
        name = what[-1]
        covered = row[f"{name}_low"] <= exact <= row[f"{name}_high"]
        assert covered or re.search("how much is not known: many users (are|may be) above", release.line)


@pytest.mark.parametrize("what", [SIGNED, "SUM(amount) AS s", "COUNT(*) AS n"])
@pytest.mark.sampled(2, rest="longer")
def test_of_enough_users_the_line_says_for_which_sums_the_range_holds(opened: Opened, what: str) -> None:
    line = asked(opened(1000), what, "5").line
    assert "how much is not known" not in line
    assert re.search(r"\(in the range\) if (no user is beyond [\d,]+|beyond [\d,]+ are at most [\d,]+)", line)
