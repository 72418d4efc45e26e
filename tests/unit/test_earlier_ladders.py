"""A newer ladder does not end free repeats: an answer that is stored keeps the one it was made with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.database import Database
from dpsql.owner.ladder_releases import parse_measure, release_ladders
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from tests.narrow import present, private

POLICY = """
[budget]
epsilon = 1e6
ledger = "ledger.sqlite"
[tables.orders]
source = "orders.parquet"
unit = "user_id"
[tables.others]
source = "others.parquet"
unit = "user_id"
"""
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM orders"
TWO = (
    "WITH a AS (SELECT COUNT(*) AS n FROM orders), b AS (SELECT COUNT(*) AS m FROM others) "
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) n, m FROM a, b"
)


def write(folder: Path, more: int = 0) -> None:
    for name in ("orders", "others"):
        users = [u for u in range(200) for _ in range(u % 7 + 1)] + [1] * more
        pq.write_table(pa.table({"user_id": users}), folder / f"{name}.parquet")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Database]:
    write(tmp_path)
    (tmp_path / "dpsql.toml").write_text(POLICY)
    with closing(Database(load(tmp_path / "dpsql.toml"))) as made:
        yield made


def find(opened: Database, *names: str) -> None:
    release_ladders(opened, [parse_measure(opened, n) for n in names], Fraction(10), "dpsql bounds")


def asked(opened: Database, text: str = COUNT) -> Release:
    with closing(Session(opened, "alice")) as session:
        return present(session.run(text).release)


def bound_of(opened: Database, text: str = COUNT) -> list[object]:
    """Return the number of the ladder of a statement, and its price."""
    with closing(Session(opened, "alice")) as session:
        found = private(session.prepare(text))
        return [present(found.plan.left_out[0]).kept.ladder.number, found.price.epsilon]


def test_a_repeat_is_free_and_has_its_own_ladder(opened: Database) -> None:
    find(opened, "orders")
    first = asked(opened)
    for _ in range(3):
        find(opened, "orders")
    assert bound_of(opened) == [1, 0]
    again = asked(opened)
    assert again.table == first.table
    assert again.line == first.line
    assert again.reused is not None


def test_a_fresh_answer_and_another_question_have_the_newest(opened: Database) -> None:
    find(opened, "orders")
    asked(opened)
    find(opened, "orders", "others")
    assert bound_of(opened, COUNT.replace("= 1)", "= 1, fresh = TRUE)")) == [2, 1]
    assert bound_of(opened, COUNT.replace("= 1)", "= 2)")) == [2, 2]
    asked(opened, COUNT.replace("= 1)", "= 1, fresh = TRUE)"))
    assert bound_of(opened) == [2, 0], "the newest answer that is stored"


def test_an_answer_without_a_ladder_is_no_reason_to_go_without(opened: Database) -> None:
    asked(opened)
    find(opened, "orders")
    assert bound_of(opened) == [1, 1]


def test_other_data_end_free_repeats(opened: Database) -> None:
    find(opened, "orders")
    asked(opened)
    find(opened, "orders")
    write(present(opened.policy.path).parent, more=1)
    assert bound_of(opened) == [2, 1]


def test_each_release_of_a_statement_keeps_its_own(opened: Database) -> None:
    find(opened, "orders", "others")
    first = asked(opened, TWO)
    find(opened, "others")
    with closing(Session(opened, "alice")) as session:
        assert session.prepare(TWO).price.epsilon == 0
    assert asked(opened, TWO).table == first.table
