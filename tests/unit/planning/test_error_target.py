"""A requested error: the epsilon found reaches it by EXPLAIN's own prediction, and no smaller one would."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from dpsql.analysis import Plan
from dpsql.dbapi.named_streams import open_unnamed
from dpsql.errors import QueryRefused
from dpsql.planning import choose, least_epsilon
from dpsql.planning.mechanism_choice import predict_error
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.world import open_world

GROUPS = 50
POLICY = f"""
[budget]
epsilon = 1e9
delta = 0.5
default_epsilon = 0.7
max_epsilon_per_query = 300
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = [{", ".join(f'"p{i}"' for i in range(GROUPS))}]
page.complete = true
"""
N = "COUNT(DISTINCT user_id)"
BY = f"page, {N} AS n FROM visits GROUP BY page"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("targets")
    yield from opened(folder, POLICY)


def opened(folder: Path, policy: str) -> Iterator[Session]:
    rows = pa.table({"user_id": [1, 2, 2], "page": ["p0", "p1", "p1"], "ms": [1, 20, 3], "free": ["x"] * 3})
    with open_world(folder, policy, visits=rows) as made:
        yield made


def asking(options: str, rest: str) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"


ANSWERS = {
    "one count": f"{N} AS n FROM visits",
    "three counts": f"{N}, {N} FILTER (WHERE ms > 3), {N} FILTER (WHERE ms > 10) FROM visits",
    "a difference": f"{N} - {N} FILTER (WHERE ms > 3) AS d FROM visits",
    "one page": f"page, {N} AS n FROM visits WHERE page = 'p3' GROUP BY page ORDER BY n DESC LIMIT 4",
    "top-k": f"{BY} ORDER BY n DESC LIMIT 4",
    "two counts of groups": f"page, {N} AS n, {N} FILTER (WHERE ms > 3) AS m FROM visits GROUP BY page "
    "ORDER BY n DESC LIMIT 4",
    "keys": f"page FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 4",
    "hybrid top-k": f"{BY} HAVING n >= 3 ORDER BY n DESC LIMIT 4",
    "keys above": f"page FROM visits GROUP BY page HAVING {N} >= 3 LIMIT 4",
    "unknown domain": f"free, {N} AS n FROM visits GROUP BY free ORDER BY n DESC LIMIT 4",
}
OPTIONS = {
    "all groups": ("max_groups_contributed = 3", BY),
    "measured above": ("measure = 0.5", f"{BY} HAVING n >= 3 LIMIT 4"),
    "each": (
        "measure_strategy = EACH",
        f"page, {N} AS n, {N} FILTER (WHERE ms > 3) AS m FROM visits GROUP BY page ORDER BY n DESC LIMIT 4",
    ),
    "geometric": ("noise = GEOMETRIC", f"{BY} ORDER BY n DESC LIMIT 4"),
    **{name: ("delta = 1e-6", rest) for name, rest in ANSWERS.items()},
}


def planned(session: Session, options: str, rest: str) -> Plan:
    return private(session.prepare(asking(f"error = 100, {options}", rest))).plan


@pytest.mark.parametrize("draws", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_targets_are_reached_by_the_least_epsilon(session: Session, draws: int) -> None:
    plans = [planned(session, options, rest) for options, rest in OPTIONS.values()]
    weights = [1 if "above" in name else 6 for name in OPTIONS]  # a sparse vector takes long to plan
    drawn = random.Random(5)
    for _ in range(draws):
        (plan,) = drawn.choices(plans, weights)
        error = Fraction(f"{10 ** drawn.uniform(0.2, 5):.4g}")
        wanted = replace(
            plan,
            options=replace(
                plan.options, error=error, confidence=Fraction(drawn.choice((60, 80, 90, 95, 99)), 100)
            ),
        )
        epsilon = least_epsilon(wanted)
        assert present(predict_error(wanted, epsilon)) <= error
        assert present(predict_error(wanted, epsilon / Fraction("1.01"))) > error, (
            plan.query.source,
            error,
        )
        digits = f"{float(epsilon):.2e}"
        assert Fraction(digits) == epsilon, "three significant digits"


def test_the_error_is_that_of_the_answer_and_stands_in_explain(session: Session) -> None:
    text = asking("error = 50", ANSWERS["one count"])
    facts = json.loads(session.run(f"EXPLAIN (FORMAT JSON) {text}").table.column(0)[0].as_py())
    assert (facts["epsilon"], facts["error"]) == (0.06, 50)
    assert facts["half_width"] == pytest.approx(49.92, abs=0.01)
    release = present(session.run(text).release)
    low, high = (release.table.column(f"n_{side}")[0].as_py() for side in ("low", "high"))
    assert (high - low) / 2 == pytest.approx(facts["half_width"])
    assert release.charge.epsilon == Fraction("0.06")


def test_the_same_question_with_its_epsilon_is_the_stored_release(session: Session) -> None:
    first = present(session.run(asking("error = 37, confidence = 0.9", ANSWERS["top-k"])).release)
    again = present(
        session.run(
            asking(f"epsilon = {float(first.charge.epsilon)}, confidence = 0.9", ANSWERS["top-k"])
        ).release
    )
    assert again.reused is not None
    assert again.number == first.number


def test_a_default_epsilon_is_overridden(session: Session) -> None:
    prepared = private(session.prepare(asking("error = 5", ANSWERS["one count"])))
    assert prepared.plan.epsilon == prepared.price.epsilon == Fraction("0.6")


@pytest.mark.parametrize("name", ["one count", "top-k", "keys above"])
def test_too_small_an_error_is_refused_with_its_price_and_the_least_that_is_allowed(
    session: Session, name: str
) -> None:
    with pytest.raises(
        QueryRefused, match=r"costs epsilon [\d.]+, and one statement may cost at most 300"
    ) as e:
        session.prepare(asking("error = 0.001, delta = 1e-6", ANSWERS[name]))
    assert e.value.col == asking("error", "").index("error") + 1
    allowed = private(session.prepare(asking(f"{e.value.hint}, delta = 1e-6", ANSWERS[name])))
    assert 290 < allowed.plan.epsilon <= 300


@pytest.mark.parametrize("error", ["1e-7", "1e-99"])
def test_an_error_below_the_grid_is_refused(session: Session, error: str) -> None:
    with pytest.raises(QueryRefused, match="no epsilon reaches this error"):
        session.prepare(asking(f"error = {error}", ANSWERS["one count"]))


def test_a_mechanism_that_changes_with_epsilon_is_quoted_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prediction jumps at epsilon 0.31, up or down; the epsilon found still reaches the error."""
    plan = planned(session, "delta = 1e-6", ANSWERS["top-k"])
    for below, above in ((900, 1), (20, 40)):

        def jumping(plan: Plan, below: int = below, above: int = above) -> object:
            method = choose(plan)
            factor = below if plan.epsilon < Fraction("0.31") else above
            return replace(method, quote=replace(method.quote, half_width=factor / float(plan.epsilon)))  # type: ignore[type-var]  # every method is a dataclass

        monkeypatch.setattr("dpsql.planning.mechanism_choice.choose", jumping)
        epsilon = least_epsilon(plan)
        assert present(predict_error(plan, epsilon)) <= 100
        assert present(predict_error(plan, epsilon - Fraction("0.001"))) > 100


@pytest.mark.parametrize("strategy", ["BOX", "EACH"])
def test_of_several_counts_the_widest_reaches_the_error(session: Session, strategy: str) -> None:
    """The second count may change by 3 with one unit, so its interval is wider than the ordering count's."""
    rest = (
        f"page, {N} AS n, COUNT(*, contribution_bounds_per_group => (0, 3)) AS m FROM visits GROUP BY page "
        "ORDER BY n DESC LIMIT 4"
    )
    release = present(session.run(asking(f"error = 60, measure_strategy = {strategy}", rest)).release)
    widths = [
        (high - low) / 2
        for name in ("n", "m")
        for low, high in zip(
            *(release.table.column(f"{name}_{side}").to_pylist() for side in ("low", "high")), strict=True
        )
    ]
    assert 59 < max(widths) <= 60
    assert min(widths) < 45, "a count that moves less has less noise"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Session]:
    """A session of its own, without a default epsilon, where sums have bounds."""
    policy = POLICY.replace("default_epsilon = 0.7\n", "")
    yield from opened(tmp_path, policy + "[tables.visits.bounds]\nms = { from = -20, to = 30 }\n")


ONE = f"SELECT {N} AS n FROM visits"


def test_a_default_error_is_for_statements_that_name_no_price(session: Session) -> None:
    """It comes before the default epsilon of the policy, and ends where another epsilon is set."""
    try:
        session.run("SET dp_error = 50")
        prices = [
            private(session.prepare(text)).full_price.epsilon
            for text in (
                ONE,
                asking("epsilon = 0.3", ANSWERS["one count"]),
                asking("error = 5", ANSWERS["one count"]),
            )
        ]
        assert prices == [Fraction("0.06"), Fraction("0.3"), Fraction("0.6")]
        facts = json.loads(session.run(f"EXPLAIN (FORMAT JSON) {ONE}").table.column(0)[0].as_py())
        assert (facts["epsilon"], facts["error"]) == (0.06, 50)
        session.run("SET dp_epsilon = 0.4")
        assert private(session.prepare(ONE)).price.epsilon == Fraction("0.4")
    finally:
        session.defaults = replace(session.defaults, error=None, epsilon=Fraction("0.7"))


def test_a_default_error_is_that_of_each_release(other: Session) -> None:
    other.run("SET dp_error = 50")
    both = other.prepare(f"SELECT (SELECT {N} FROM visits WHERE ms > 3) AS a, {N} AS b FROM visits")
    assert both.price.epsilon == 2 * Fraction("0.06")
    text = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) (SELECT {N} FROM visits WHERE ms > 3) AS a, "
    )
    assert other.prepare(f"{text}{N} AS b FROM visits").price.epsilon == 1


def test_a_default_error_of_a_sum_is_in_multiples_of_its_largest_value(other: Session) -> None:
    """Values are cut to -20 .. 30, so that 50 rows are 1,500."""
    total = "SUM(ms, contribution_bounds_per_row => (-20, 30)) AS s FROM visits"
    other.run("SET dp_error = 50")
    other.defaults = replace(other.defaults, max_rows_contributed=4)
    price = private(other.prepare(f"SELECT {total}")).price
    assert price == private(other.prepare(asking("error = 1500", total))).price
    # A count that is shown as well has the error of counts.
    counted = private(other.prepare(f"SELECT {total.replace(' FROM', f', {N} AS n FROM')}"))
    assert counted.price == private(other.prepare(asking("error = 50", f"{N} AS n, {total}"))).price
    assert present(counted.method.quote.half_width) <= 50


def test_a_default_error_that_is_not_predicted_is_the_default_epsilon(
    session: Session, other: Session
) -> None:
    average = "SELECT AVG(ms, contribution_bounds_per_row => (0, 30)) AS a FROM visits"
    for each in (session, other):
        each.defaults = replace(each.defaults, error=Fraction(50), max_rows_contributed=4)
    try:
        assert private(session.prepare(average)).price.epsilon == Fraction("0.7")
        with pytest.raises(QueryRefused, match="cannot be predicted"):
            other.prepare(average)
    finally:
        session.defaults = replace(session.defaults, error=None, max_rows_contributed=None)


def test_streams_and_refinements_do_not_take_a_default_error(other: Session) -> None:
    other.run("SET dp_error = 50")
    first = present(other.run(ONE).release)
    assert first.charge.epsilon == Fraction("0.06")
    refined = present(other.run(f"REFINE RELEASE {first.number} TO 0.2").release)
    assert refined.charge.epsilon == Fraction("0.14")
    with open_unnamed(other, 1, 1, {"tolerance": 100}) as stream:
        assert stream.count(ONE, guess=0).value is not None


BOUNDED = "bound what one unit counts: OPTIONS (max_rows_contributed = 16, ..); or give epsilon"


@pytest.mark.parametrize(
    ("rest", "hint"),
    [
        ("COUNT(*) AS n FROM visits", BOUNDED),
        ("SUM(ms) AS s FROM visits", "give epsilon"),
        ("page, COUNT(*) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3", BOUNDED),
        ("AVG(ms) AS a FROM visits", "give epsilon"),
        ("MEDIAN(ms) AS m FROM visits", "give epsilon"),
        ("COUNT(DISTINCT page) AS n FROM visits", "give epsilon"),
    ],
)
def test_what_makes_an_error_predictable_is_accepted(other: Session, rest: str, hint: str) -> None:
    with pytest.raises(QueryRefused, match="cannot be predicted") as refused:
        other.prepare(asking("error = 50", rest))
    assert refused.value.hint == hint
    offered = ["epsilon = 1", *(["error = 50, max_rows_contributed = 16"] if hint == BOUNDED else [])]
    for options in offered:
        assert private(other.prepare(asking(options, rest))).price.epsilon
