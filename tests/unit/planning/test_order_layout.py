"""Statements that divide their cost at one order: what they run, cost and promise; others are as before."""

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.estimates import Combined
from dpsql.kernel.loss import BoundedRange, Charge, Gaussian, PureDP
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.support.exact import Answered, answer_of, exact_of

POLICY = """
[budget]
epsilon = 10
delta = 1e-6
{accounting}
ledger = "ledger.sqlite"
{analysts}
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.bounds]
amount = {{ from = 0, to = 100 }}
[tables.visits.domain]
page.values = [{pages}]
page.complete = true
site.values = [{sites}]
site.complete = true
"""
ZCDP = 'accounting = "zcdp"'
N = "COUNT(DISTINCT user_id)"
SITES = f"site, {N} AS n FROM visits GROUP BY site"
PAGES = f"page, {N} AS n FROM visits GROUP BY page"
BEST = f"{PAGES} ORDER BY n DESC LIMIT 10"
TEN = f"{', '.join(f'{N} FILTER (WHERE amount > {i})' for i in range(10))} FROM visits"
FREE = (
    f"free, {N} AS n, COUNT(*, contribution_bounds_per_group => (0, 3)) AS r, "
    "SUM(amount, contribution_bounds_per_group => (0, 300)) AS m, "
    "SUM(amount * 2, contribution_bounds_per_group => (0, 300)) AS d FROM visits GROUP BY free"
)


def opened(folder: Path, accounting: str = ZCDP, analysts: str = "") -> Session:
    folder.mkdir()
    i = np.arange(30_000)
    columns = {
        "user_id": i % 6000,
        "page": [f"p{math.isqrt(j) % 300}" for j in i],
        "site": [f"s{j % 50}" for j in i],
        "free": [f"f{j % 9}" for j in i],
        "amount": (i % 100).astype(float),
    }
    pq.write_table(pa.table(columns), folder / "visits.parquet")
    pages, sites = (", ".join(f'"{c}{k}"' for k in range(n)) for c, n in (("p", 300), ("s", 50)))
    text = POLICY.format(accounting=accounting, analysts=analysts, pages=pages, sites=sites)
    (folder / "dpsql.toml").write_text(text)
    return Session(load(folder / "dpsql.toml"))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    found = opened(tmp_path_factory.mktemp("order") / "zcdp")
    yield found
    found.close()


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    found = opened(tmp_path_factory.mktemp("order") / "pure", "")
    yield found
    found.close()


def prepared(session: Session, rest: str, options: str = "epsilon = 0.1") -> PreparedPrivate:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"
    return of_type(session.prepare(text), PreparedPrivate)


def ran(found: PreparedPrivate) -> Answered:
    return answer_of(found.method, found.plan, found.counting.count())


def explained(session: Session, rest: str, options: str = "epsilon = 0.1") -> dict[str, Any]:
    text = f"EXPLAIN (FORMAT JSON) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"
    return json.loads(session.run(text).table.column(0)[0].as_py())


RUNS = [
    (f"{N} AS n FROM visits", "", "Gaussian noise on one count", (Gaussian,)),
    (SITES, "", "Gaussian noise on every group", (Gaussian,)),
    (SITES, "noise = LAPLACE", "Laplace on every group", (PureDP,)),
    (PAGES, "noise = LAPLACE", "Laplace on every group", (PureDP,)),
    (
        f"{', '.join([N, *(f'{N} FILTER (WHERE amount > {i})' for i in range(9))])} FROM visits",
        "noise = LAPLACE",
        "Laplace",
        (PureDP,),
    ),
    (
        BEST,
        "noise = LAPLACE, measure = 0.5, measure_strategy = EACH",
        "peeled top-k with gap",
        (PureDP, PureDP),
    ),
    (FREE, "delta = 1e-7, max_groups_contributed = 2", "noisy numbers of units", (PureDP,) * 4),
    (SITES, "max_groups_contributed = 2", "Gaussian noise on every group", (Gaussian,)),
    (BEST, "", "Gumbel top-k", (BoundedRange, Gaussian)),
    (BEST.replace(f"{N} AS n", f"{N} AS n, DP_GAP() AS g"), "", "peeled top-k with gap", (PureDP, Gaussian)),
    (BEST, "noise = EXPONENTIAL", "peeled top-k with gap", (PureDP, Gaussian)),
    (BEST, "mechanism = NOISY_TOP_K", "noisy top-k with gap", (PureDP, Gaussian)),
    (BEST, "mechanism = JOINT", "joint exponential mechanism", (BoundedRange, Gaussian)),
    (f"page FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 5", "", "Gumbel top-k", (BoundedRange,)),
    (f"{PAGES} HAVING n >= 100 LIMIT 5", "base_hits = 5", "sparse vector by rounds with gap", (PureDP,)),
    (
        f"{PAGES} HAVING n >= 100 LIMIT 5",
        "base_hits = 5, measure = 0.5",
        "sparse vector by rounds with gap",
        (PureDP, Gaussian),
    ),
    (f"{PAGES} HAVING n >= 100 LIMIT 5", "", "Gaussian noise on every group", (Gaussian,)),
    (
        f"free, {N} AS n FROM visits GROUP BY free ORDER BY n DESC LIMIT 3",
        "delta = 1e-7",
        "limited-domain top-k with gap",
        (PureDP, Gaussian),
    ),
    (
        "MEDIAN(amount) AS m FROM visits",
        "max_rows_contributed = 5",
        "exponential mechanism",
        (BoundedRange,),
    ),
]


@pytest.mark.parametrize(("rest", "options", "mechanism", "parts"), RUNS)
@pytest.mark.sampled(3)
def test_what_runs_and_what_it_costs(
    session: Session, rest: str, options: str, mechanism: str, parts: tuple[type, ...]
) -> None:
    found = prepared(session, rest, f"epsilon = 0.1{', ' * bool(options)}{options}")
    layout, quote = found.plan.epsilon_division, found.method.quote
    assert layout.accounting == "order"
    assert layout.order is not None
    assert mechanism in quote.mechanism
    assert tuple(type(part) for part in quote.loss.parts) == parts
    # Its price is the epsilon, and nearly all of what that costs is used, never more.
    assert quote.charge.epsilon == found.price.epsilon == Fraction(1, 10)
    used = quote.loss.cost(layout.order) / layout.cost
    assert 1 - Fraction(1, 10**6) < used <= 1
    result = ran(found)
    assert result.loss.cost(layout.order) <= quote.loss.cost(layout.order)
    assert result.loss.delta <= quote.loss.delta
    assert layout.find_charge(result.loss).epsilon <= Fraction(1, 10)


def test_rounds_that_did_not_run_are_not_charged(session: Session) -> None:
    rest = f"{PAGES} HAVING n >= 100000 LIMIT 5"
    found = prepared(session, rest, "epsilon = 0.3, base_hits = 5")
    (part,) = found.method.quote.loss.parts
    assert part.times == 5
    result = ran(found)
    assert len(result.rows) == 0
    (left,) = result.loss.parts
    assert left.times == 1
    layout = found.plan.epsilon_division
    assert layout.find_charge(result.loss).epsilon < Fraction(2, 10)
    assert Fraction(3, 10) - layout.find_charge(found.method.quote.loss).epsilon < Fraction(1, 10**9)


def predicted(found: PreparedPrivate) -> float:
    return of_type(found.method.quote.predicted_stddev, float)


def test_fifty_groups_have_a_seventeenth_of_the_noise(session: Session, pure: Session) -> None:
    laplace = predicted(prepared(pure, SITES, "epsilon = 0.1, mechanism = LAPLACE"))
    assert laplace == pytest.approx(math.sqrt(2) * 50 / 0.1, rel=1e-3)
    found = predicted(prepared(session, f"{SITES} ORDER BY n DESC LIMIT 50"))
    assert found == pytest.approx(40.76, abs=0.05)
    assert laplace / found > 15


def test_a_measured_top_k_has_a_fifteenth_of_the_laplace_noise(session: Session, pure: Session) -> None:
    rest, options = BEST.replace("LIMIT 10", "LIMIT 50"), "epsilon = 0.1, measure = 0.5"
    laplace = prepared(pure, rest, f"{options}, measure_strategy = EACH, mechanism = JOINT")
    found = prepared(session, rest, options)
    assert found.method.quote.mechanism == "Gumbel top-k"
    assert predicted(laplace) / predicted(found) > 15


def test_laplace_noise_divides_the_cost(session: Session, pure: Session) -> None:
    """Of 50 groups a unit moves all: noise of sqrt(50) mechanisms, not of 50."""
    (box,) = {predicted(prepared(s, SITES, "epsilon = 0.1, mechanism = BOX")) for s in (session, pure)}
    found = prepared(session, SITES, "epsilon = 0.1, noise = LAPLACE")
    assert predicted(found) == pytest.approx(101, abs=0.1)
    assert predicted(found) < 0.6 * box
    least = prepared(session, SITES, "epsilon = 0.1, noise = LAPLACE, mechanism = LAPLACE")
    assert predicted(least) == predicted(found)
    measured = prepared(session, BEST.replace("10", "50"), "epsilon = 0.1, noise = LAPLACE, measure = 0.5")
    assert measured.method.quote.measured_by == "EACH"
    assert predicted(measured) == pytest.approx(101 * math.sqrt(2), rel=0.01)


def test_measured_groups_are_charged_and_others_are_not(session: Session) -> None:
    options = "epsilon = 0.1, noise = LAPLACE, measure = 0.5, mechanism = HYBRID_TOP_K"
    found = prepared(session, f"{PAGES} HAVING n >= 100000 LIMIT 50", options)
    assert [part.times for part in found.method.quote.loss.parts] == [1, 50]
    result = ran(found)
    assert len(result.rows) == 0
    assert [part.times for part in result.loss.parts] == [1]


def test_several_sums_of_undeclared_keys_are_settled_within_their_cost(session: Session) -> None:
    options = "epsilon = 0.3, delta = 1e-7, max_groups_contributed = 2"
    release = present(session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {FREE}").release)
    assert release.rows.num_rows == 9
    assert release.charge == Charge(Fraction(3, 10), Fraction(1, 10**7))


@pytest.mark.parametrize("options", ["epsilon = 0.1", "epsilon = 0.1, noise = LAPLACE"])
@pytest.mark.sampled(3, rest="longer")
def test_the_noise_that_runs_is_the_one_predicted(session: Session, options: str) -> None:
    found = prepared(session, SITES, options)
    exact = exact_of(found.counting.count()).n[0]
    width = found.method.quote.half_width or 0.0
    errors, inside = [], []
    for _ in range(60):
        counts = of_type(ran(found).counts[0], Combined)
        value, low, high = counts.value, counts.low, counts.high
        truth = exact[exact_of(found.counting.count()).in_order()]
        errors.append(value - truth)
        inside.append((low <= truth) & (truth <= high))
        assert np.allclose(high - low, 2 * width)
    # 60 draws of the shared part: 6 sigma.
    assert np.concatenate(errors).std() == pytest.approx(predicted(found), rel=0.35)
    assert np.concatenate(inside).mean() > 0.9


class TestLayout:
    def test_it_turns_where_epsilon_takes_the_smaller_part(self, session: Session) -> None:
        ways = [
            prepared(session, SITES, f"epsilon = {e}").plan.epsilon_division.accounting
            for e in ("0.368", "0.369")
        ]
        assert ways == ["order", "basic"]

    def test_the_statement_may_say_it(self, session: Session) -> None:
        basic = prepared(session, SITES, "epsilon = 0.1, layout = 'basic'")
        assert (basic.plan.epsilon_division.accounting, basic.method.quote.mechanism) == (
            "basic",
            "box noise on every group",
        )
        order = prepared(session, SITES, "epsilon = 2, layout = ORDER")
        assert (order.plan.epsilon_division.accounting, order.method.quote.mechanism) == (
            "order",
            "Gaussian noise on every group",
        )
        assert (
            prepared(session, SITES, "epsilon = 2, noise = GAUSSIAN").plan.epsilon_division.accounting
            == "order"
        )
        assert (
            prepared(session, BEST, "epsilon = 2, mechanism = PEELED_TOP_K").plan.epsilon_division.accounting
            == "order"
        )

    def test_two_layouts_are_two_questions(self, session: Session) -> None:
        keys = {prepared(session, SITES, f"epsilon = 0.1, layout = {way}").key for way in ("BASIC", "ORDER")}
        assert len(keys) == 2
        assert prepared(session, SITES).key in keys

    @pytest.mark.parametrize("option", ["layout = ORDER", "noise = GAUSSIAN", "mechanism = GUMBEL_TOP_K"])
    def test_it_is_refused_where_epsilons_add(self, pure: Session, option: str) -> None:
        with pytest.raises(QueryRefused, match="divides costs, and here epsilons add"):
            prepared(pure, BEST, f"epsilon = 0.1, {option}")

    def test_gaussian_noise_has_no_epsilon_to_divide(self, session: Session) -> None:
        with pytest.raises(QueryRefused, match="layout BASIC divides epsilon"):
            prepared(session, SITES, "epsilon = 0.1, layout = BASIC, noise = GAUSSIAN")

    def test_gumbel_has_no_gaps(self, session: Session) -> None:
        with pytest.raises(QueryRefused, match="Gumbel top-k has no gaps"):
            prepared(
                session,
                BEST.replace(" AS n", " AS n, DP_GAP() AS g"),
                "epsilon = 1, mechanism = GUMBEL_TOP_K",
            )

    def test_a_cap_without_delta_divides_epsilon(self, tmp_path: Path) -> None:
        found = opened(tmp_path / "capped", analysts='[analysts."*"]\nepsilon = 5\n')
        assert prepared(found, SITES).plan.epsilon_division.accounting == "basic"
        found.close()

    def test_partitions_divide_the_cost(self, session: Session) -> None:
        rest = (
            f"site, page, {N} AS n FROM visits GROUP BY site, page "
            f"QUALIFY ROW_NUMBER() OVER (PARTITION BY site ORDER BY {N} DESC) <= 2"
        )
        found = prepared(session, rest)
        layout, loss = found.plan.epsilon_division, found.method.quote.loss
        assert layout.order is not None
        assert [part.times for part in loss.parts] == [100, 50]
        assert 1 - Fraction(1, 1000) < loss.cost(layout.order) / layout.cost <= 1
        assert found.price.epsilon == Fraction(1, 10)


def several(session: Session, options: str) -> PreparedComposed:
    counts = " CROSS JOIN ".join(f"(SELECT {N} AS n{i} FROM visits WHERE page = 'p{i}')" for i in range(4))
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) * FROM {counts}"
    return of_type(session.prepare(text), PreparedComposed)


def test_releases_of_one_statement_divide_its_cost(session: Session, pure: Session) -> None:
    """Four counts have twice the standard deviation of one, and not four times as much."""
    found, one = several(session, "epsilon = 0.1"), prepared(session, f"{N} AS n FROM visits")
    layout = one.plan.epsilon_division
    assert layout.order is not None
    total = sum(part.method.quote.loss.cost(layout.order) for part in found.parts)
    assert 1 - Fraction(1, 10**6) < total / layout.cost <= 1
    assert found.price.epsilon == Fraction(1, 10)
    assert [part.price.epsilon for part in found.parts] == [Fraction(1, 40)] * 4
    assert predicted(found.parts[0]) / predicted(one) == pytest.approx(2, rel=0.01)
    for basic in (several(session, "epsilon = 2"), several(pure, "epsilon = 2")):
        assert [str(part.method.quote.loss) for part in basic.parts] == ["pure 1/2"] * 4
    assert {
        part.plan.epsilon_division.accounting
        for part in several(session, "epsilon = 0.1, layout = BASIC").parts
    } == {"basic"}


def test_pure_statements_are_as_before(pure: Session) -> None:
    for rest, options, mechanism, _ in RUNS:
        if "GAUSSIAN" in options:
            continue
        found = prepared(pure, rest, f"epsilon = 0.1{', ' * bool(options)}{options}")
        assert found.plan.epsilon_division.accounting == "basic"
        assert found.plan.filters == ()
        assert str(found.method.quote.loss).startswith("pure 1/10")
        assert (
            mechanism.split()[0] not in ("Gaussian", "Gumbel", "peeled")
            or found.method.quote.mechanism != mechanism
        )
        assert not any(isinstance(part, Gaussian) for part in ran(found).loss.parts)
    assert not {"layout", "cost", "rho", "share_of_budget"} & {*explained(pure, SITES)}


class TestExplain:
    def test_noise_without_an_epsilon(self, session: Session) -> None:
        found = explained(session, SITES)
        assert found["layout"] == "order: its cost at alpha 3.984 is divided"
        assert found["epsilon"] == 0.1
        assert (found["cost"], found["rho"]) == ("0.01953", "0.0049")
        assert found["share_of_budget"] == pytest.approx(1 / 301.7, rel=1e-3)
        assert found["guarantee"] == (
            "for adding or removing all rows of one unit, rho-zCDP with rho = 0.0049; "
            "alone (0.4405, 5e-07)-DP"
        )
        assert found["after_it"].endswith("noise = LAPLACE keeps it open")
        chosen, *others = found["considered"]
        assert (chosen["mechanism"], chosen["why"]) == ("GAUSSIAN", "chosen")
        assert [each["mechanism"] for each in others] == ["BOX", "LAPLACE"]

    def test_mechanisms_with_an_epsilon(self, session: Session) -> None:
        found = explained(session, f"page FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 10")
        assert found["guarantee"].endswith("by a factor of at most e^0.626097")
        assert found["after_it"] is None

    def test_a_basic_layout(self, session: Session) -> None:
        found = explained(session, f"{N} AS n FROM visits", "epsilon = 1")
        assert found["layout"] == "basic: its epsilon is divided"
        assert (found["cost"], found["share_of_budget"]) == ("0.8954", 0.1)


class TestErrorTargets:
    @pytest.mark.parametrize(
        ("rest", "error"), [(SITES, 50), (SITES, 20), (BEST, 40), (f"{N} AS n FROM visits", 10)]
    )
    @pytest.mark.sampled(3)
    def test_the_least_epsilon_of_either_layout(self, session: Session, rest: str, error: int) -> None:
        found = prepared(session, rest, f"error = {error}")
        epsilon = found.plan.epsilon
        assert (found.method.quote.half_width or math.inf) <= error
        less = prepared(session, rest, f"epsilon = {float(epsilon * Fraction(98, 100)):.6f}")
        assert (less.method.quote.half_width or 0) > error

    def test_it_is_far_cheaper_than_by_adding(self, session: Session, pure: Session) -> None:
        one, other = (prepared(each, SITES, "error = 50").plan.epsilon for each in (session, pure))
        assert (one, other) == (Fraction(163, 1000), Fraction(626, 1000))
