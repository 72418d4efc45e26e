"""Statements over all rows of a table with a kept ladder: their bounds, intervals, lines and keys."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.analysis import LeftOut, Plan
from dpsql.database import Database
from dpsql.errors import BudgetExceeded, ProgrammingError
from dpsql.estimates import KeptLadder
from dpsql.kernel.mechanisms.ladder import ladder_loss, thresholds
from dpsql.ledger import LadderRequest
from dpsql.owner.ladder_releases import find_kept, parse_measure, release_ladders
from dpsql.policy import load
from dpsql.release.kept_ladders import kept_at, known_versions, version_of
from dpsql.session import Session
from tests.daily import daily
from tests.kept_ladders import reserve_one
from tests.narrow import present, private
from tests.support.exact import exact_of

POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
ledger = "ledger.sqlite"
[analysts.alice]
epsilon = 1e9
delta = 0.5
[defaults]
rows_per_unit = 2
[tables.orders]
source = "orders.parquet"
unit = "user_id"
unit_kind = "user"
not_null = ["number"]
[tables.orders.domain]
region = { values = ["a", "b", "c"], complete = true }
[tables.orders.bounds]
amount = { from = 0, to = 50 }
[tables.users]
source = "users.parquet"
unit = "ROW"
[tables.names]
source = "names.parquet"
public = true
unique = [["region"]]
[tables.doubled]
source = "doubled.parquet"
public = true
unique = [["region"]]
[views.every_order]
sql = "SELECT * FROM orders"
"""
USERS = 400


def rows_of_user(user: int) -> int:
    """Return how many rows a user has: 1 to 8, and 40 of each hundredth."""
    return 40 if user % 100 == 0 else user % 8 + 1


def write(folder: Path, more: int = 0) -> None:
    """Write the tables: amounts are DECIMAL, ratios DOUBLE, debts of either sign."""
    made = [
        (u, "abc"[(u + i) % 3], Decimal(f"{(u * 31 + i * 17) % 90}.25"), i - 2)
        for u in range(USERS)
        for i in range(rows_of_user(u))
    ] + [(1, "a", Decimal("1.00"), 0)] * more
    users, regions, amounts, debts = zip(*made, strict=True)
    columns = {
        "user_id": pa.array(users),
        "region": pa.array(regions),
        "amount": pa.array(amounts, pa.decimal128(8, 2)),
        "ratio": pa.array([float(a) / 4 for a in amounts]),
        "debt": pa.array(debts, pa.int64()),
        "number": pa.array(range(len(users)), pa.int64()),
    }
    pq.write_table(pa.table(columns), folder / "orders.parquet")
    pq.write_table(pa.table({"age": [1, 2, 3]}), folder / "users.parquet")
    pq.write_table(pa.table({"region": ["a", "b", "c"], "number": [1, 2, 3]}), folder / "names.parquet")
    pq.write_table(pa.table({"region": ["a", "b", "b"], "number": [1, 2, 3]}), folder / "doubled.parquet")
    (folder / "dpsql.toml").write_text(POLICY)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A policy's database with ladders that have hardly any noise."""
    folder = tmp_path_factory.mktemp("kept")
    write(folder)
    with closing(Database(load(folder / "dpsql.toml"))) as opened:
        names = ("orders", "orders.amount", "orders.ratio", "orders.debt")
        release_ladders(opened, [parse_measure(opened, n) for n in names], Fraction(10**6), "dpsql bounds")
        yield opened


@pytest.fixture(scope="module")
def session(database: Database) -> Iterator[Session]:
    with closing(Session(database, "alice")) as opened:
        yield opened


def statement(rest: str, options: str = "epsilon = 1000, confidence = 0.9999999") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"


def plan_of(session: Session, rest: str, options: str = "epsilon = 1000, confidence = 0.9999999") -> Plan:
    return private(session.prepare(statement(rest, options))).plan


def left_of(
    session: Session, rest: str, options: str = "epsilon = 1000, confidence = 0.9999999"
) -> list[LeftOut | None]:
    return list(plan_of(session, rest, options).left_out)


def test_a_ladder_has_the_units_of_each_bin(database: Database) -> None:
    ladders = present(database.engines().schema_database.kept_ladders)
    kept = present(ladders.find("orders", "rows"))
    sizes = [rows_of_user(u) for u in range(USERS)]
    assert kept.current
    assert kept.ladder.most >= 40
    assert sum(kept.ladder.bins) == USERS
    ends = [1, 2, 4, 5, 8]
    below = [sum(size <= end for size in sizes) for end in ends]
    own = kept.ladder.bins
    places = [thresholds(kept.ladder.most).index(end) for end in ends]
    assert [sum(own[: place + 1]) for place in places] == below


WHOLE = [
    "COUNT(*) AS n FROM orders",
    "region, COUNT(*) AS n FROM orders GROUP BY region",
    "region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n DESC LIMIT 1",
    "region, COUNT(*) AS n FROM orders GROUP BY region HAVING n > 5",
    "SUM(amount) AS s FROM orders",
    "SUM(o.amount) AS s FROM orders AS o",
    "region, SUM(ratio) AS s FROM orders GROUP BY 1",
    "SUM(debt) AS s FROM orders",
    "AVG(amount) AS a FROM orders",
    "STDDEV(amount) AS a FROM orders",
    "SUM(amount * 2) AS s FROM orders",
    "SUM(amount, contribution_bounds_per_row => (0, 100)) AS s FROM orders",
    "COUNT(*) AS n FROM orders WHERE TRUE",
    "COUNT(*) AS n FROM (SELECT * FROM orders) AS t",
    "SUM(t.amount) AS s FROM (SELECT * FROM orders) AS t",
    "AVG(t.b) AS a FROM (SELECT region, amount AS b, user_id FROM orders) AS t",
    "COUNT(*) AS n FROM (SELECT * FROM (SELECT * FROM orders WHERE TRUE) AS s) AS t",
    "COUNT(*) AS n FROM every_order",
    "COUNT(*) AS n FROM orders LEFT JOIN names USING (region)",
    "names.number, COUNT(*) AS n FROM orders LEFT JOIN names ON orders.region = names.region GROUP BY 1",
    "COUNT(o.number) AS n FROM orders AS o",
    "COUNT(number) AS n FROM (SELECT * FROM orders) AS t",
]
NOT_WHOLE = [
    "COUNT(*) AS n FROM orders WHERE region = 'a'",
    "COUNT(*) FILTER (WHERE region = 'a') AS n FROM orders",
    "COUNT(*) AS n FROM orders JOIN names USING (region)",
    "COUNT(*) AS n FROM (SELECT * FROM orders WHERE amount > 3) AS t",
    "COUNT(*) AS n FROM (SELECT * FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id) = 1) AS t",
    "COUNT(*) AS n FROM (SELECT DISTINCT user_id, region FROM orders) AS t",
    "COUNT(*) AS n FROM (SELECT * FROM orders UNION ALL SELECT * FROM orders) AS t",
    "COUNT(*) AS n FROM orders LEFT JOIN doubled ON doubled.region = orders.region",
    "COUNT(*) AS n FROM orders LEFT JOIN names ON names.number = orders.debt",
    "COUNT(*) AS n FROM orders LEFT JOIN names ON names.region >= orders.region",
    "COUNT(*) AS n FROM orders WHERE FALSE",
    "COUNT(DISTINCT user_id) AS n FROM orders",
    "COUNT(amount) AS n FROM orders",
    "COUNT(*) AS n FROM users",
]


@pytest.mark.parametrize("rest", WHOLE)
@pytest.mark.sampled(4, rest="longer")
def test_all_rows_of_a_table_have_the_bound_of_its_ladder(session: Session, rest: str) -> None:
    found = [present(each) for each in left_of(session, rest)]
    plan = plan_of(session, rest)
    assert found
    assert all(each.kept.current and each.bound >= 8 for each in found)
    assert not any("policy" in each.where and "rows" in each.what for each in plan.assumed)


@pytest.mark.parametrize("rest", NOT_WHOLE)
@pytest.mark.sampled(3, rest="longer")
def test_other_statements_have_none(session: Session, rest: str) -> None:
    assert not any(left_of(session, rest))


@pytest.mark.parametrize(
    ("of", "measure"),
    [
        ("SUM(t.amount) AS s FROM (SELECT * FROM orders) AS t", "total of amount"),
        ("SUM(t.amount) AS s FROM (SELECT debt, amount, user_id FROM orders) AS t", "rows"),
        ("SUM(orders.amount) AS s FROM orders LEFT JOIN names USING (region)", "rows"),
    ],
)
def test_a_column_keeps_its_ladder_where_it_keeps_its_place(session: Session, of: str, measure: str) -> None:
    (left,) = left_of(session, of)
    assert present(left).kept.ladder.measure == measure


def test_a_table_in_a_common_table_expression_of_its_name_is_another(session: Session) -> None:
    text = "WITH orders AS (SELECT * FROM orders WHERE region = 'a') " + statement(
        "COUNT(*) AS n FROM orders"
    )
    assert not any(private(session.prepare(text)).plan.left_out)


def test_a_bound_that_the_statement_writes_is_taken_and_what_it_cuts_is_known(session: Session) -> None:
    options = "epsilon = 1000, confidence = 0.9999999, max_rows_contributed = 3"
    (left,) = left_of(session, "COUNT(*) AS n FROM orders", options)
    assert present(left).bound == 3
    release = present(session.run(statement("COUNT(*) AS n FROM orders", options)).release)
    value, low, high = (release.table.column(name)[0].as_py() for name in ("n", "n_low", "n_high"))
    whole, kept = sum(map(rows_of_user, range(USERS))), sum(min(rows_of_user(u), 3) for u in range(USERS))
    assert abs(value - kept) < 1
    assert low < kept + 1
    assert low < whole < high
    assert "left out: rows of a user beyond 3 in orders" in release.line
    assert "(in the range)" in release.line


@pytest.mark.parametrize(("of", "signed"), [("amount", False), ("ratio", True), ("debt", True)])
def test_sums_are_what_sql_says_and_signed_ones_widen_on_both_sides(
    session: Session, of: str, signed: bool
) -> None:
    (left,) = left_of(session, f"SUM({of}) AS s FROM orders")
    assert present(left).signed == signed
    release = present(session.run(statement(f"SUM({of}) AS s FROM orders")).release)
    path = present(session.policy.path).parent / "orders.parquet"
    truth = sum(pq.read_table(path).column(of).to_pylist())
    low, high = (release.table.column(name)[0].as_py() for name in ("s_low", "s_high"))
    assert low < truth < high


def test_groups_get_back_what_is_left_out_by_their_shares(session: Session) -> None:
    options = "epsilon = 100000, max_rows_contributed = 4"
    release = present(
        session.run(statement("region, COUNT(*) AS n FROM orders GROUP BY region", options)).release
    )
    whole = sum(map(rows_of_user, range(USERS)))
    found = release.table.column("n").to_pylist()
    ladder = present(present(plan_of(session, "COUNT(*) FROM orders").left_out[0])).kept.ladder
    kept = sum(min(rows_of_user(u), 4) for u in range(USERS))
    assert abs(sum(found) - kept - ladder.cut(4)) < 1
    assert abs(sum(found) - whole) < 0.1 * whole


def shown(session: Session, rest: str, options: str) -> tuple[list[dict[str, float]], str]:
    """Answer a statement; return its rows with their details, and the line below."""
    release = present(session.run(statement(rest, options)).release)
    return release.table.to_pylist(), release.line


def exact(session: Session, rest: str) -> list[tuple[object, ...]]:
    """Return what plain SQL says on the same rows."""
    path = present(session.policy.path).parent / "orders.parquet"
    return present(duckdb.sql(f"SELECT {rest}".replace("FROM orders", f"FROM '{path}'"))).fetchall()


def test_the_largest_groups_get_back_half_of_their_shares_of_the_whole(session: Session) -> None:
    options = "epsilon = 100000, max_rows_contributed = 4"
    by = "region, COUNT(*) AS n FROM orders GROUP BY region"
    largest, _ = shown(session, f"{by} ORDER BY n DESC LIMIT 2", options)
    ladder = present(left_of(session, by)[0]).kept.ladder
    cut, counted = ladder.cut(4), sum(min(rows_of_user(u), 4) for u in range(USERS))
    assert ladder.total - cut == pytest.approx(counted, rel=0.1)
    for row in largest:
        share = row["n_low"] / (ladder.total - cut)
        assert row["n"] == pytest.approx(row["n_low"] + cut * share / 2, rel=0.01)


@pytest.mark.parametrize(
    "rest",
    [
        "AVG(amount, contribution_bounds_per_row => (0, 100)) AS a FROM orders",
        "SUM(debt, contribution_bounds_per_row => (-2, 38)) AS a FROM orders",
        "SUM(amount * 2, contribution_bounds_per_row => (0, 200)) AS a FROM orders",
        "region, SUM(amount, contribution_bounds_per_row => (0, 100)) AS a FROM orders GROUP BY region",
        "SUM(amount, contribution_bounds_per_row => (0, 100)) AS a, AVG(amount, contribution_bounds_per_row "
        "=> (0, 100)) AS b FROM orders",
    ],
)
def test_rows_that_a_written_bound_cuts_are_in_the_intervals_of_sums_and_averages(
    session: Session, rest: str
) -> None:
    found, line = shown(session, rest, "epsilon = 100000, max_rows_contributed = 6")
    plain = re.sub(r", contribution_bounds_per_row => \(.*?\)", "", rest)
    true = {
        row[0] if "region" in rest else None: row[-2 if ", AVG" in rest else -1]
        for row in exact(session, plain)
    }
    for row in found:
        assert row["a_low"] < float(str(true[row.get("region")])) < row["a_high"]
        assert row["a_high"] - row["a_low"] > 100 * row["a_stddev"]
    assert "left out: rows of a user beyond 6 in orders" in line
    assert "(in the range)" in line


def test_a_written_bound_on_rows_is_that_of_a_sum_as_well(session: Session) -> None:
    (left,) = left_of(session, "SUM(amount) AS s FROM orders", "epsilon = 1000, max_rows_contributed = 4")
    assert present(left).bound == 4
    assert present(left).kept.ladder.measure == "rows"
    assert present(left).lowest == 0
    assert present(left).highest == 50


def test_a_number_whose_interval_lacks_what_is_cut_is_named(session: Session) -> None:
    options = "epsilon = 1000, max_rows_contributed = 4"
    _, line = shown(session, "COUNT(*) AS n, STDDEV(amount) AS d FROM orders", options)
    assert "(not in the range of d)" in line


def test_a_search_of_values_needs_none_of_rows_where_a_ladder_has_their_bound(session: Session) -> None:
    plan = plan_of(session, "VARIANCE(ratio) AS a FROM orders")
    assert present(plan.left_out[0]).bound >= 8
    assert len(plan.ladders) == 2


def test_an_error_that_is_asked_for_has_a_bound_that_cuts_little_of_it(session: Session) -> None:
    (small,) = left_of(session, "COUNT(*) AS n FROM orders", "error = 2")
    (large,) = left_of(session, "COUNT(*) AS n FROM orders", "error = 400")
    ladder = present(large).kept.ladder
    assert ladder.cut(present(small).bound) <= 1
    assert 100 < ladder.cut(present(large).bound) <= 200
    (total,) = left_of(session, "SUM(amount) AS s FROM orders", "error = 4000")
    assert 100 < present(total).kept.ladder.cut(present(total).bound) <= 2_000


def test_an_error_of_the_connection_is_one_of_counts_for_a_total_as_well(database: Database) -> None:
    with closing(Session(database, "alice")) as asked:
        asked.run("SET dp_error = 100")
        plan = private(asked.prepare("SELECT SUM(amount) AS s FROM orders")).plan
    assert plan.options.error == 100 * 50
    left = present(plan.left_out[0])
    assert left.kept.ladder.cut(left.bound) <= 2_500


def test_groups_of_undeclared_keys_are_not_taken_for_all_rows(session: Session) -> None:
    """Only groups above a bar are shown: what is left out is not divided among them alone."""
    rest = "debt, COUNT(*) AS n FROM orders GROUP BY debt"
    options = "epsilon = 1000, delta = 0.001, max_groups_contributed = 8"
    found, _ = shown(session, rest, options)
    left = next(each for each in left_of(session, rest, options) if each is not None)
    ladder, bound = left.kept.ladder, left.bound
    factor = 1 + ladder.cut(bound) / (ladder.total - ladder.cut(bound)) / 2
    assert 0 < len(found) < 48
    for row in found:
        assert row["n"] == pytest.approx(row["n_low"] * factor, abs=2)


def test_statements_price_and_explain_what_is_left_out(session: Session) -> None:
    rows = session.run("EXPLAIN " + statement("COUNT(*) AS n FROM orders")).table.to_pylist()
    found = {row["property"]: row["value"] for row in rows}
    assert found["left_out"].startswith("left out: rows of a user beyond ")
    assert found["assumes"].startswith("no user has more than ")
    assert found["epsilon"] == "1000"


def test_other_data_leave_the_bound_and_end_what_is_known(tmp_path: Path) -> None:
    write(tmp_path)
    with (
        closing(Database(load(tmp_path / "dpsql.toml"))) as opened,
        closing(Session(opened, "alice")) as asked,
    ):
        release_ladders(opened, [parse_measure(opened, "orders")], Fraction(10**6), "dpsql bounds")
        before = plan_of(asked, "COUNT(*) AS n FROM orders").left_out[0]
        write(tmp_path, more=1)
        after = plan_of(asked, "COUNT(*) AS n FROM orders").left_out[0]
        assert present(before).kept.current
        assert not present(after).kept.current
        assert present(after).bound == present(before).bound
        release = present(asked.run(statement("COUNT(*) AS n FROM orders")).release)
        assert "how much is not known since the data changed" in release.line
        assert find_kept(opened, parse_measure(opened, "orders")) is None


def test_a_ladder_of_another_unit_is_not_used(tmp_path: Path) -> None:
    write(tmp_path)
    with closing(Database(load(tmp_path / "dpsql.toml"))) as opened:
        release_ladders(opened, [parse_measure(opened, "orders")], Fraction(10**6), "dpsql bounds")
    (tmp_path / "dpsql.toml").write_text(POLICY.replace('unit = "user_id"', 'unit = "debt"'))
    with (
        closing(Database(load(tmp_path / "dpsql.toml"))) as opened,
        closing(Session(opened, "alice")) as asked,
    ):
        assert not any(left_of(asked, "COUNT(*) AS n FROM orders"))


def test_a_session_that_is_open_uses_a_ladder_that_comes(tmp_path: Path) -> None:
    write(tmp_path)
    with (
        closing(Database(load(tmp_path / "dpsql.toml"))) as opened,
        closing(Session(opened, "alice")) as asked,
    ):
        first = private(asked.prepare(statement("COUNT(*) AS n FROM orders")))
        with closing(Database(load(tmp_path / "dpsql.toml"))) as owner:
            release_ladders(owner, [parse_measure(owner, "orders")], Fraction(10**6), "dpsql bounds")
        second = private(asked.prepare(statement("COUNT(*) AS n FROM orders")))
        assert not any(first.plan.left_out)
        assert all(second.plan.left_out)
        assert first.key != second.key


def test_the_charge_is_everybodys_and_durable_before_a_row_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    with closing(Database(load(tmp_path / "dpsql.toml"))) as opened:
        measure = parse_measure(opened, "orders")
        monkeypatch.setattr("dpsql.owner.ladder_releases._measure_ladder", _fails)
        with pytest.raises(Exception, match="its charge is kept"):
            release_ladders(opened, [measure], Fraction(5), "dpsql bounds")
        assert opened.ledger.budget("alice").spent.epsilon == 5
        assert opened.ledger.budget(None).spent.epsilon == 5
        assert not opened.ledger.ladders()


def _fails(*given: object) -> None:
    raise ValueError("12345 rows")


def test_a_ladder_that_a_scope_does_not_admit_is_refused_uncharged(tmp_path: Path) -> None:
    write(tmp_path)
    with closing(Database(load(tmp_path / "dpsql.toml"))) as opened:
        with pytest.raises(BudgetExceeded, match="alice"):
            release_ladders(opened, [parse_measure(opened, "orders")], Fraction(2 * 10**9), "dpsql bounds")
        assert opened.ledger.budget(None).spent.epsilon == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "there is no table nothing"),
        ("names", "names is public"),
        ("users", "each row of users is a unit"),
        ("orders.region", "no column region with numbers"),
        ("orders.USER_ID", "orders.USER_ID says whose a row is: which user, and no number to add up"),
        ("orders.nothing", "no column nothing with numbers"),
    ],
)
def test_what_has_no_measure_is_refused(database: Database, name: str, message: str) -> None:
    with pytest.raises(ProgrammingError, match=message):
        parse_measure(database, name)


def test_a_ladder_has_totals_at_the_ends_of_64_bits(tmp_path: Path) -> None:
    least = -(2**63)
    rows = {"user_id": [1, 1, 2, 3, 4, None], "x": [least, least, 2**63 - 1, None, 5, least]}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in rows.items()})
    pq.write_table(table, tmp_path / "orders.parquet")
    policy, _, _ = POLICY.partition("not_null")
    (tmp_path / "dpsql.toml").write_text(policy)
    with closing(Database(load(tmp_path / "dpsql.toml"))) as opened:
        (ladder,) = release_ladders(
            opened, [parse_measure(opened, "orders.x")], Fraction(10**6), "dpsql bounds"
        )
    ends = (*thresholds(ladder.most), 2 * ladder.most)
    found = [end for end, number in zip(ends, ladder.bins, strict=True) if number]
    assert [5 <= found[0] < 10, 2**63 - 1 <= found[1] < 2**64, found[2] >= 2**64] == [True] * 3


def _kept_with(database: Database, name: str, most: int) -> None:
    """Keep a ladder whose best bound is a size that is no power of two."""
    measure = parse_measure(database, name)
    policy, engines = database.policy, database.engines()
    version = version_of(policy, policy.tables[measure.table], engines.versions)
    request = LadderRequest(measure.table, measure.text, version, "test", ladder_loss(Fraction(1)))
    reservation = reserve_one(database.ledger, request)
    bins = (*(1000 for _ in thresholds(most)), 0)
    now = datetime.datetime.now(datetime.UTC)
    ladder = KeptLadder(
        reservation.number, measure.table, measure.text, measure.step, version, now, Fraction(1), most, bins
    )
    database.ledger.settle_ladder(reservation, ladder.to_json().encode())


@pytest.mark.parametrize(
    ("of", "most"),
    daily(product(("amount", "ratio", "debt"), (7, 100, 1_000_003, 3 * 2**41 + 5, 5 * 2**60 + 1)), 2),
)
@pytest.mark.sampled(3, rest="longer")
def test_no_unit_moves_a_sum_beyond_any_bound_of_a_ladder(tmp_path: Path, of: str, most: int) -> None:
    """Every unit is removed in turn: the exact numbers move by no more than the plan says."""
    write(tmp_path)
    with closing(Database(load(tmp_path / "dpsql.toml"))) as opened:
        _kept_with(opened, f"orders.{of}", most)
        path = tmp_path / "orders.parquet"
        table = pq.read_table(path)
        with closing(Session(opened, "alice")) as asked:
            whole = private(asked.prepare(statement(f"SUM({of}) AS s FROM orders", "epsilon = 0.01")))
            count, left = whole.plan.counts[0], present(whole.plan.left_out[0])
            full = int(exact_of(whole.counting.count()).n[0][0])
            ladder = left.kept.ladder
            assert count.bound * count.step <= most * ladder.step
            assert left.bound <= most
        for user in (0, 7, 100):
            mask = [u != user for u in table.column("user_id").to_pylist()]
            pq.write_table(table.filter(pa.array(mask)), path)
            with closing(Session(opened, "alice")) as asked:
                fewer = private(asked.prepare(statement(f"SUM({of}) AS s FROM orders", "epsilon = 0.01")))
                assert replace(fewer.plan.counts[0].parts[0]) == whole.plan.counts[0].parts[0]
                low, high = count.unit_change
                assert low <= full - int(exact_of(fewer.counting.count()).n[0][0]) <= high
            pq.write_table(table, path)


def test_the_ladder_of_a_column_is_found_whatever_from_calls_it(session: Session) -> None:
    (own,) = left_of(session, "SUM(amount) AS s FROM orders")
    (renamed,) = left_of(session, "SUM(t.b) AS s FROM orders AS t(u, r, b, c, d)")
    assert present(renamed).kept.ladder.measure == "total of amount"
    assert present(renamed).bound == present(own).bound
    assert (
        present(
            left_of(session, "SUM(t.amount) AS s FROM orders AS t(u, r, b, c, amount)")[0]
        ).kept.ladder.measure
        == "total of debt"
    )


TYPES = """[tables.orders.columns]
user_id = "BIGINT"
region = "VARCHAR"
amount = "DOUBLE"
ratio = "DOUBLE"
debt = "BIGINT"
number = "BIGINT"
[tables.orders.domain]"""


@pytest.mark.parametrize(
    ("before", "after"),
    [('"orders.parquet"', '"others.parquet"'), ("[tables.orders.domain]", TYPES)],
    ids=["source", "types"],
)
@pytest.mark.sampled(2, rest="longer")
def test_a_ladder_of_other_rows_or_types_knows_nothing_of_these(
    tmp_path: Path, before: str, after: str
) -> None:
    write(tmp_path)
    (tmp_path / "others.parquet").write_bytes((tmp_path / "orders.parquet").read_bytes())
    with closing(Database(load(tmp_path / "dpsql.toml"))) as opened:
        names = ("orders", "orders.amount")
        release_ladders(opened, [parse_measure(opened, n) for n in names], Fraction(10**6), "dpsql bounds")
    (tmp_path / "dpsql.toml").write_text(POLICY.replace(before, after))
    with (
        closing(Database(load(tmp_path / "dpsql.toml"))) as opened,
        closing(Session(opened, "alice")) as asked,
    ):
        (left,) = left_of(asked, "COUNT(*) AS n FROM orders")
        assert not present(left).kept.current
        (total,) = left_of(asked, "SUM(amount) AS s FROM orders")
        assert total is None or not total.kept.current
        assert total is not None or "DOUBLE" in after


@pytest.mark.parametrize(
    "rest",
    [
        "SUM(amount) / COUNT(*) AS a FROM orders",
        "COUNT(*) > 100 AS many FROM orders",
        "region FROM orders GROUP BY region ORDER BY COUNT(*) DESC LIMIT 1",
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_a_range_that_is_not_shown_is_not_named(session: Session, rest: str) -> None:
    release = present(session.run(statement(rest)).release)
    assert "left out: " in release.line
    assert ("(in the range)" in release.line) == release.has_intervals


def test_quantiles_have_what_is_left_out_in_the_error_of_their_rank(session: Session) -> None:
    rest = "MEDIAN(amount) AS m FROM orders"
    options = "epsilon = 1000, max_rows_contributed = 6"
    (left,) = left_of(session, rest, options)
    ladder, bound = present(left).kept.ladder, present(left).bound
    assert bound == 6
    most = ladder.most_cut(6)
    found = {
        cut: session.run("EXPLAIN (FORMAT JSON) " + statement(rest, f"{options}, cut = {cut}")).table
        for cut in ("SHARED", "NOISE_ONLY")
    }
    errors = {cut: json.loads(table.column(0)[0].as_py())["rank_error"] for cut, table in found.items()}
    assert errors["SHARED"] == pytest.approx(errors["NOISE_ONLY"] + most / 2)
    _, line = shown(session, rest, options)
    assert line.startswith("left out: rows of a user beyond 6 in orders")
    assert "(in the error of the rank)" in line
    _, line = shown(session, "region, MEDIAN(amount) AS m FROM orders GROUP BY region", options)
    assert "at 95% (in the error of the rank)" in line
    assert "added to groups" not in line
    numbers = json.loads(
        session.run("EXPLAIN (FORMAT JSON) " + statement(f"region, {rest} GROUP BY region", options))
        .table.column(0)[0]
        .as_py()
    )["numbers"]
    share = 2 * most / ladder.total
    assert f"and by {share:.2%} of the rows of its group" in str(numbers[0])


def test_no_unit_has_more_rows_in_cells_than_the_ladder_says(tmp_path: Path) -> None:
    write(tmp_path)
    path, rest = tmp_path / "orders.parquet", "region, MEDIAN(amount) AS m FROM orders GROUP BY region"
    table = pq.read_table(path)

    def cells(asked: Session) -> dict[tuple[object, ...], int]:
        counting = private(asked.prepare(statement(rest, "epsilon = 0.2"))).counting
        assert present(counting.plan.left_out[0]).bound == most
        found = counting.count()
        keys = exact_of(found).keys.column(0).to_pylist()
        return {
            (k, c): n
            for k, c, n in zip(
                keys, exact_of(found).n[0].tolist(), exact_of(found).n[1].tolist(), strict=True
            )
        }

    with (
        closing(Database(load(tmp_path / "dpsql.toml"))) as opened,
        closing(Session(opened, "alice")) as asked,
    ):
        _kept_with(opened, "orders", 7)
        most = present(plan_of(asked, rest, "epsilon = 0.2").left_out[0]).bound
        every = cells(asked)
        for user in (0, 3, 100, 255):
            mask = [u != user for u in table.column("user_id").to_pylist()]
            pq.write_table(table.filter(pa.array(mask)), path)
            fewer = cells(asked)
            assert 0 < sum(n - fewer.get(key, 0) for key, n in every.items()) <= most < 8
            assert all(n <= every.get(key, 0) for key, n in fewer.items())


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("HAVING COUNT(*) > 5", "groups are compared with the threshold by what is within the bound"),
        ("ORDER BY n DESC LIMIT 2", "groups are chosen by what is within the bound"),
        ("", ""),
    ],
)
def test_what_a_selection_compares_is_said(session: Session, rest: str, said: str) -> None:
    text = f"region, COUNT(*) AS n FROM orders GROUP BY region {rest}"
    rows = session.run("EXPLAIN " + statement(text, "epsilon = 1")).table.to_pylist()
    explained = next(row["value"] for row in rows if row["property"] == "left_out")
    _, line = shown(session, text, "epsilon = 1")
    assert said in line
    assert said in explained
    assert ("groups are" in line) == bool(said)


def test_lookup_tables_of_other_columns_leave_a_ladder_what_it_is(tmp_path: Path) -> None:
    """A domain that a public table lists changes nothing that is measured; nor does that table."""
    write(tmp_path)
    with closing(Database(load(tmp_path / "dpsql.toml"))) as opened:
        release_ladders(opened, [parse_measure(opened, "orders")], Fraction(10**6), "dpsql bounds")
    listed = 'region = { table = "names", column = "region", complete = true }'
    policy = POLICY.replace('region = { values = ["a", "b", "c"], complete = true }', listed)
    found = tmp_path / "dpsql.toml"
    found.write_text(policy)
    with closing(Database(load(found))) as opened, closing(Session(opened, "alice")) as asked:
        (left,) = left_of(asked, "COUNT(*) AS n FROM orders")
        assert present(left).kept.current
        names = ("orders.amount", "orders by region")
        release_ladders(opened, [parse_measure(opened, n) for n in names], Fraction(10**6), "dpsql bounds")
        pq.write_table(pa.table({"region": ["a", "b", "c", "d"]}), tmp_path / "names.parquet")
        (left,) = left_of(asked, "COUNT(*) AS n FROM orders")
        assert present(left).kept.current
        assert find_kept(opened, parse_measure(opened, "orders.amount")) is not None
        assert find_kept(opened, parse_measure(opened, "orders by region")) is None


def test_a_version_with_all_lookup_tables_as_written_before_is_known(tmp_path: Path) -> None:
    write(tmp_path)
    listed = 'region = { table = "names", column = "region", complete = true }'
    policy = POLICY.replace('region = { values = ["a", "b", "c"], complete = true }', listed)
    found = tmp_path / "dpsql.toml"
    found.write_text(policy)
    with closing(Database(load(found))) as opened:
        table, versions = opened.policy.tables["orders"], opened.engines().versions
        now, before = known_versions(opened.policy, table, versions)
        assert now != before
        assert version_of(opened.policy, table, versions) == now
        made = datetime.datetime.now(datetime.UTC)
        for version in (now, before):
            ladder = KeptLadder(1, "orders", "rows", Fraction(1), version, made, Fraction(1), 1, (1, 0))
            assert present(kept_at(ladder, (now, before))).current
        other = KeptLadder(1, "orders", "rows", Fraction(1), "a.b", made, Fraction(1), 1, (1, 0))
        assert kept_at(other, (now, before)) is None
        elsewhere = replace(other, version=f"{now.partition('.')[0]}.b")
        assert not present(kept_at(elsewhere, (now, before))).current
