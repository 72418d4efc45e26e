"""Bounds that are found privately: what is counted for them, their price, and what follows from any."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.analysis.cut_contributions import find_excesses
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.kernel.loss import is_within
from dpsql.kernel.mechanisms import FULL, excess_scores
from dpsql.planning.bound_search import BoundSearches
from dpsql.planning.result_table import build_rows
from dpsql.policy import load
from dpsql.render.readable import line, sentences
from dpsql.session import Session
from tests.narrow import of_type, present, private
from tests.support.exact import ample, answer_with, exact_of, known_of, runs_of, scores_of
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e6
ledger = "ledger.sqlite"
[tables.orders]
source = "orders.parquet"
unit = "user_id"
not_null = ["region"]
[tables.orders.domain]
region = ["a", "b", "c"]
"""
USERS = 300


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """User u has u % 7 + 1 rows; amounts are whole numbers from -3 to 96, ratios are halves of them."""
    folder = tmp_path_factory.mktemp("search")
    made = [
        (u, "abd"[(u + i) % 3], (u * 31 + i * 17) % 100 - 3) for u in range(USERS) for i in range(u % 7 + 1)
    ]
    users, regions, amounts = zip(*made, strict=True)
    columns = {"user_id": users, "region": regions, "amount": amounts, "ratio": [a / 2 for a in amounts]}
    with open_world(folder, POLICY, orders={name: list(c) for name, c in columns.items()}) as opened:
        yield opened


def statement(rest: str, epsilon: str = "1") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) {rest}"


def prepared(session: Session, text: str) -> tuple[PreparedPrivate, BoundSearches]:
    found = private(session.prepare(text))
    return found, of_type(found.method, BoundSearches)


def rows_of(session: Session) -> list[tuple[int, str, int]]:
    path = session.policy.path
    assert path is not None
    table = pq.read_table(path.parent / "orders.parquet")
    return list(zip(*(table.column(n).to_pylist() for n in ("user_id", "region", "amount")), strict=True))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.sampled(3, rest="longer")
def test_the_scores_of_each_bound(session: Session, grouped: bool) -> None:
    """By how much units exceed a bound: in groups also the rows in none (d), and absolute values of rows."""
    group = " GROUP BY region" if grouped else ""
    key = "region, " if grouped else ""
    found, _ = prepared(
        session, statement(f"{key}SUM(amount) AS s, VARIANCE(amount) AS a FROM orders{group}")
    )
    rows = rows_of(session)
    of_units: dict[str, list[int]] = {"total": [], "highest": [], "lowest": [], "rows": []}
    for _, mine in itertools.groupby(sorted(rows), key=lambda row: row[0]):
        own = [amount for _, _, amount in mine]
        of_units["total"].append(sum(map(abs, own)) if grouped else abs(sum(own)))
        of_units["highest"].append(max(*own, 0, 0))
        of_units["lowest"].append(max(*(-amount for amount in own), 0, 0))
        of_units["rows"].append(len(own))
    assert sorted(search.ladder.of.value for search in found.plan.ladders) == sorted(of_units)
    for search in found.plan.ladders:
        kind, bounds = search.ladder.of.value, search.ladder.bounds
        scores = excess_scores(of_units[kind], bounds)
        if kind in ("highest", "lowest"):
            scores = [FULL * sum(value > bound for value in of_units[kind]) for bound in bounds]
        counts = found.counting.count(search.compiled)
        assert scores_of(counts, len(bounds)).tolist() == [*scores[:-1], 0]
        assert search.ladder.wide is (kind != "rows")


def test_a_search_groups_units_alone(session: Session) -> None:
    """One grouping by unit, whatever the groups are; where all rows count, no domain is read."""
    text = statement("region, SUM(amount) AS s, COUNT(*) AS n FROM orders GROUP BY region")
    found, _ = prepared(session, text)
    for search in found.plan.ladders:
        assert search.compiled.sql.count("GROUP BY") == 2
        assert "GROUP BY s.u)" in search.compiled.sql
        assert "d_" not in search.compiled.sql
        assert search.compiled.order is None


@pytest.mark.parametrize(
    ("rest", "searched"),
    [
        ("SUM(amount) AS s, COUNT(*) AS n FROM orders", True),
        ("SUM(-amount) FILTER (amount > 50) AS s FROM orders WHERE region <> 'a'", True),
        ("COUNT(amount) FILTER (region = 'd') AS n FROM orders", True),
        ("SUM(amount) AS s, COUNT(DISTINCT user_id) AS u FROM orders", False),
        ("VARIANCE(amount) AS a FROM orders", False),
        ("region, SUM(amount) AS s FROM orders GROUP BY region", False),
    ],
)
@pytest.mark.sampled(3)
def test_one_group_is_answered_from_what_the_searches_count(
    session: Session, rest: str, searched: bool
) -> None:
    """For every bound, the numbers are those that the query of the answer counts."""
    found, method = prepared(session, statement(rest))
    counts = [found.counting.count(search.compiled) for search in found.plan.ladders]
    for place in range(0, 40, 3):
        places = tuple(min(place, len(search.ladder.bounds) - 1) for search in found.plan.ladders)
        bounded = found.counting.with_bounds(places)
        known = known_of(method, bounded.plan, places, counts)
        assert (known is not None) is searched
        if known is not None:
            assert [n.tolist() for n in known.n] == [n.tolist() for n in exact_of(bounded.count()).n]
    assert present(session.run(statement(rest, "1000")).release).charge.epsilon == 1000


@pytest.mark.parametrize(
    "rest", ["SUM(ratio * 1e8) AS s FROM orders", "SUM(abs(ratio) * 1e15) AS s FROM orders"]
)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.sampled(3, rest="longer")
def test_a_total_of_a_double_is_answered_from_its_search_where_steps_are_as_fine(
    session: Session, rest: str, *, every: bool
) -> None:
    """A bound of 2^32 steps of the search or more; rows of whole numbers have no other rounding either."""
    found, method = prepared(session, statement(rest))
    counts = [found.counting.count(search.compiled) for search in found.plan.ladders]
    for place in range(84) if every else (0, 20, 31, 32, 40, 52, 53, 60, 83):
        bounded = found.counting.with_bounds((place,))
        known = known_of(method, bounded.plan, (place,), counts)
        assert (known is not None) is (place >= 32)
        if known is None:
            continue
        ((number,),), ((counted,),) = (each.n for each in (known, exact_of(bounded.count())))
        # Beyond, rows are rounded to more than 1, each by half a step at most.
        assert number == counted if place <= 52 and "1e8" in rest else abs(number - counted) <= 4 * USERS


def test_a_bound_in_coarser_steps_is_counted_again(session: Session) -> None:
    found, method = prepared(session, statement("SUM(amount) FROM orders"))
    counts = [found.counting.count(search.compiled) for search in found.plan.ladders]
    assert known_of(method, found.counting.with_bounds((60,)).plan, (60,), counts) is None


def test_totals_in_groups_are_those_of_each_unit(session: Session) -> None:
    """A unit beyond the bound counts each of its totals in part, by its absolute totals, others in full."""
    found, _ = prepared(session, statement("region, SUM(amount - 40) AS s FROM orders GROUP BY region"))
    rows, groups = rows_of(session), ["a", "b", "c", ""]
    totals: dict[int, dict[str, int]] = {}
    for user, region, amount in rows:
        own = totals.setdefault(user, dict.fromkeys(groups, 0))
        own[region if region in groups else ""] += amount - 40
    for place in range(11):
        bounded, most = found.counting.with_bounds((place,)), 1 << place
        wanted = dict.fromkeys(groups, 0)
        for own in totals.values():
            whole = max(sum(map(abs, own.values())), 1)
            for region, total in own.items():
                share = abs(total) * most // whole if whole > most else abs(total)
                wanted[region] += share if total > 0 else -share
        counts = bounded.count()
        keys = [key or "" for key in exact_of(counts).keys.column("k0").to_pylist()]
        assert dict(zip(keys, exact_of(counts).n[0].tolist(), strict=True)) == wanted
        assert "OVER (PARTITION BY v.u)" in bounded.plan.compiled.sql
        assert " AS h ON " in bounded.plan.compiled.sql


def test_the_price_is_that_of_the_statement(session: Session) -> None:
    text = statement("SUM(amount), VARIANCE(amount), COUNT(DISTINCT user_id) FROM orders", "0.7")
    found, method = prepared(session, text)
    assert found.price.epsilon == Fraction(7, 10)
    assert method.epsilon * len(found.plan.ladders) == Fraction(7, 50)
    release = present(session.run(text).release)
    assert release.charge.epsilon == Fraction(7, 10)
    assert not any("found privately" in warning for warning in release.warnings)
    assert "rows of a unit beyond" in line(release)


@pytest.mark.parametrize(
    "rest",
    [
        "SUM(amount), VARIANCE(amount) FROM orders",
        "SUM(ratio) FROM orders",
        "region, SUM(ratio) AS s, VARIANCE(ratio) AS a FROM orders GROUP BY region",
        "region, COUNT(ratio, contribution_bounds => AUTO) AS n FROM orders GROUP BY region",
        "region, SUM(amount) AS s FROM orders GROUP BY region ORDER BY s DESC LIMIT 2",
        "region, SUM(amount) AS s FROM orders GROUP BY region HAVING SUM(amount) >= 100",
        "STDDEV(ratio), COUNT(*, contribution_bounds => AUTO) FROM orders",
        "MEDIAN(ratio) FROM orders",
        "MAX(amount) FROM orders",
        "amount, COUNT(DISTINCT user_id) AS u, COUNT(ratio, contribution_bounds => AUTO) AS n FROM orders "
        "WHERE amount BETWEEN 1 AND 96 GROUP BY amount",
    ],
)
@pytest.mark.parametrize("epsilon", ["0.001", pytest.param("1", marks=pytest.mark.slow), "10000"])
@pytest.mark.sampled(5)
def test_any_bounds_can_be_answered_with(session: Session, rest: str, epsilon: str) -> None:
    """Which bounds are found depends on the data: no choice of them may make the statement fail."""
    found, method = prepared(session, statement(rest, epsilon))
    sizes = [len(search.ladder.bounds) for search in found.plan.ladders]
    steps = [sorted({0, 1, size // 2, size - 2, size - 1}) for size in sizes]
    searched = [found.counting.count(search.compiled) for search in found.plan.ladders]
    for places in itertools.product(*steps) if len(sizes) <= 2 else zip(*steps, strict=False):
        bounded = found.counting.with_bounds(tuple(places))
        counts = bounded.count()
        answer = answer_with(method, bounded.plan, places, searched, counts)
        assert answer.loss.charge.epsilon == method.first_epsilon
        build_rows(bounded.plan, answer.result, answer.run)  # its values have a type


def test_the_choice_is_of_the_least_cost(session: Session) -> None:
    """At a large epsilon no unit exceeds the bound, and few bounds lie below it that none exceeds."""
    text = statement("SUM(amount), VARIANCE(amount) FROM orders", "100000")
    found, method = prepared(session, text)
    counts = [found.counting.count(search.compiled) for search in found.plan.ladders]
    spending = ample()
    places = method.find(runs_of(counts, spending))
    assert spending.loss.charge.epsilon == method.epsilon * len(places)
    for number, place in enumerate(places):
        scores = scores_of(counts[number], len(found.plan.ladders[number].ladder.bounds)).tolist()
        # One bound more costs 2.5 times the scale of the noise: false alarm below 1e-5.
        assert scores.index(0) <= place <= scores.index(0) + 5


def test_a_large_penalty_cuts_few_units(session: Session) -> None:
    """At epsilon 1 the bound found lies at most a factor of 4 above the largest, in all of 60 runs."""
    found, method = prepared(session, statement("SUM(amount) FROM orders"))
    (search,) = found.plan.ladders
    counts = found.counting.count(search.compiled)
    scores = scores_of(counts, len(search.ladder.bounds))
    chosen = [method.find(runs_of([counts]))[0] for _ in range(60)]
    # The next bound costs 12.5 units more: false alarm of one run at most e^(-.2 (12.5 * 3)) = 6e-4.
    assert max(chosen) <= int(np.argmax(scores == 0)) + 3
    assert all(scores[place] <= FULL * USERS / 2 for place in chosen)


def test_what_is_told_of_units_beyond_the_bound(session: Session) -> None:
    """At most so many units as it says have 9/8 to twice the bound, in at least 95% of runs."""
    found, method = prepared(session, statement("SUM(amount) FROM orders", "0.5"))
    (note,) = (each for each in method.compute_quote().notes if "found privately" in each)
    most = int(present(re.search(r"up to about (\d+) units may have 9/8 to 2 times as much", note))[1])
    (search,) = found.plan.ladders
    totals: dict[int, int] = {}
    for user, _, amount in rows_of(session):
        totals[user] = totals.get(user, 0) + amount
    counts, missed = found.counting.count(search.compiled), 0
    for _ in range(200):
        bound = search.ladder.bounds[method.find(runs_of([counts]))[0]]
        missed += (
            sum(9 * bound <= 8 * abs(total) and abs(total) <= 2 * bound for total in totals.values()) > most
        )
    # It misses in fewer than 5%: false alarm of 23 of 200 below 1e-4.
    assert missed < 23


def test_a_policy_may_forbid_it(session: Session) -> None:
    assert session.policy.path is not None
    path = session.policy.path.parent / "strict.toml"
    strict = "[defaults]\nauto_bounds = false\n[tables.orders]"
    path.write_text(POLICY.replace("ledger.sqlite", "strict.sqlite").replace("[tables.orders]", strict, 1))
    opened = Session(load(path))
    auto = "contribution_bounds => AUTO"
    for call in ("SUM(amount)", f"SUM(amount, {auto})", f"COUNT(*, {auto})", "MEDIAN(amount)"):
        with pytest.raises(QueryRefused):
            opened.prepare(statement(f"{call} FROM orders"))
    opened.close()


def test_the_share_of_the_searches_can_be_chosen(session: Session) -> None:
    asked = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, bound_share = 0.5) "
    _, method = prepared(session, f"{asked}SUM(amount) FROM orders")
    assert method.epsilon == method.first_epsilon == Fraction(1, 2)
    with pytest.raises(QueryRefused, match="no bound is searched"):
        session.prepare(f"{asked}COUNT(DISTINCT user_id) FROM orders")


EXTREMES = {
    "i8": ("TINYINT", "-128", "127"),
    "i64": ("BIGINT", "-9223372036854775808", "9223372036854775807"),
    "u64": ("UBIGINT", "0", "18446744073709551615"),
    "d": ("DECIMAL(18,2)", "-9999999999999999.99", "9999999999999999.99"),
    "f": ("DOUBLE", "-1e15", "1e15"),
    "far": ("DOUBLE", "-1e300", "1e300"),
}
"""Columns with their type and their two values."""


@pytest.fixture(scope="module")
def extremes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("extremes")
    cells = ", ".join(
        f"CASE WHEN i % 2 = 0 THEN '{low}' ELSE '{high}' END::{kind} AS {name}"
        for name, (kind, low, high) in EXTREMES.items()
    )
    with open_world(
        folder,
        '[budget]\nepsilon = 1e9\nledger = "ledger.sqlite"\n'
        '[tables.t]\nsource = "t.parquet"\nunit = "user_id"\n',
        t=f"SELECT i // 2 AS user_id, {cells} FROM range(4000) AS r(i)",
    ) as opened:
        yield opened


@pytest.mark.parametrize("column", EXTREMES)
@pytest.mark.sampled(4)
def test_totals_of_extremes_are_found_or_said_to_be_cut(extremes: Session, column: str) -> None:
    """Within 1% of the truth at a large epsilon; only what is beyond the largest bound is not."""
    high = EXTREMES[column][2]
    found = extremes.run(statement(f"SUM(abs({column})) AS s, MAX({column}) AS m FROM t", "1e6"))
    release, truth = present(found.release), Fraction(high) * (2000 if column == "u64" else 4000)
    unknown = [said for said in sentences(release) if "how much is not known" in said]
    ((total,), (largest,)) = (found.table.column(name).to_pylist() for name in ("s", "m"))
    if column == "far":
        assert any("of a unit beyond" in said for said in unknown)
        return
    assert abs(Fraction(total) - truth) < truth / 100
    if column == "u64":  # beyond BIGINT, which MAX returns
        assert largest == (1 << 63) - 1
        assert any("values above" in said and "is not known" in said for said in sentences(release))
    else:
        assert abs(Fraction(largest) - Fraction(high)) < Fraction(high) / 100


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("SUM(i8)", [("total", 28, False)]),
        ("SUM(i64)", [("total", 84, False)]),
        ("SUM(i64 * i64)", [("total", 84, False)]),
        ("VARIANCE(i64)", [("highest", 65, True), ("lowest", 65, True), ("rows", 21, False)]),
        ("MAX(u64)", [("highest", 65, False)]),
        ("MAX(d)", [("highest", 62, True), ("lowest", 62, True)]),
        ("SUM(f)", [("total", 84, False)]),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_the_bounds_reach_as_far_as_the_type(
    extremes: Session, call: str, expected: list[tuple[str, int, bool]]
) -> None:
    """Nothing is cut at the largest bound of values; of totals, a unit may have more rows than 2^20."""
    found, _ = prepared(extremes, statement(f"{call} FROM t"))
    ladders = [search.ladder for search in found.plan.ladders]
    assert [(each.of.value, len(each.bounds), each.ends) for each in ladders] == expected


def test_declared_bounds_do_not_make_a_sum_monotone_whose_values_they_do_not_cut(tmp_path: Path) -> None:
    """A unit may have values below the declared bounds: then it lowers the sum."""
    pq.write_table(
        pa.table({"user_id": [1, 2], "region": ["a", "a"], "amount": [5, -7]}), tmp_path / "orders.parquet"
    )
    bounds = "[tables.orders.bounds]\namount = { from = 0, to = 10 }\n"
    (tmp_path / "dpsql.toml").write_text(POLICY + bounds)
    with closing(Session(load(tmp_path / "dpsql.toml"))) as opened:
        text = statement("region, SUM(amount, contribution_bounds => AUTO) AS s FROM orders GROUP BY region")
        made, _ = prepared(opened, f"{text} HAVING s > 1")
        low, high = made.plan.counts[0].unit_change
        found = exact_of(made.counting.with_bounds((5,)).count()).n[0].tolist()
        assert sorted(found) == [-2, 0, 0]
        assert low <= -7 < 5 <= high
        assert not made.plan.counts[0].monotone


@pytest.mark.parametrize("places", [2, pytest.param(3, marks=pytest.mark.longer)])
def test_what_answers_with_bounds_that_were_found_costs_no_more_than_was_quoted(
    session: Session, tmp_path: Path, places: int
) -> None:
    """Part by part: a cost is divided by what a unit changes, so among other parts for other bounds."""
    path = session.policy.path
    assert path is not None
    text = POLICY.replace("[budget]", '[budget]\naccounting = "zcdp"\ndelta = 1e-6')
    text = text.replace("orders.parquet", str(path.parent / "orders.parquet"))
    (tmp_path / "dpsql.toml").write_text(text)
    asked = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, mechanism = LAPLACE) region, "
        "AVG(CASE WHEN amount > 20 THEN 1 ELSE 0 END) AS a, MAX(amount) AS m, SUM(ratio) AS s "
        "FROM orders GROUP BY region"
    )
    with closing(Session(load(tmp_path / "dpsql.toml"))) as own:
        less = 0
        for found in of_type(own.prepare(asked), PreparedComposed).parts:
            method, ladders = of_type(found.method, BoundSearches), found.plan.ladders
            quoted = method.first.quote.loss
            last = (len(each.ladder.bounds) - 1 for each in ladders)
            ends = [(0, most, most // 2)[:places] for most in last]
            for bounds in itertools.product(*ends):
                plan = found.counting.with_bounds(bounds).plan
                answers = method.within_quote(plan, find_excesses(plan, ladders, bounds))
                assert is_within(answers.quote.loss, quoted), bounds
                less += answers.quote.loss != quoted
        assert less, "some are divided in another way"
