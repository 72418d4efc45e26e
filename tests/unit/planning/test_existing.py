"""All groups of keys without a domain: which are shown, in what order, with what noise and at what price."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.errors import QueryRefused
from dpsql.kernel.counts import Counts
from dpsql.kernel.loss import Charge
from dpsql.planning.unknown_keys import GroupsByUnits, _share
from dpsql.session import Session
from tests.narrow import of_type, present, private
from tests.support.exact import answer_of, counts_of
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e6
delta = 0.5
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
"""
UNITS = "COUNT(DISTINCT user_id) AS u"
ROWS = "COUNT(*, contribution_bounds_per_group => (0, 2)) AS r"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Groups `g0` to `g9` of 1, 101, .. 901 units with two rows each, in a row."""
    groups = [(u, f"g{g}") for g in range(10) for u in range(100 * g + 1) for _ in range(2)]
    columns = {"user_id": [u for u, _ in groups], "page": [g for _, g in groups]}
    with open_world(tmp_path_factory.mktemp("existing"), POLICY, visits=columns) as made:
        yield made


def statement(rest: str, options: str = "epsilon = 20, delta = 1e-6, max_groups_contributed = 10") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"


def method(session: Session, text: str) -> GroupsByUnits:
    return of_type(private(session.prepare(text)).method, GroupsByUnits)


def test_groups_of_many_units_are_shown_sorted_by_key(session: Session) -> None:
    """At epsilon 10 and 10 groups the threshold is 16.4 units: all but the first group are far above."""
    result = session.run(statement(f"page, {UNITS}, {ROWS} FROM visits GROUP BY page"))
    release = present(result.release)
    assert result.table.column("page").to_pylist() == [f"g{g}" for g in range(1, 10)]
    expected = 100 * np.arange(1, 10) + 1
    assert np.abs(result.table.column("u").to_numpy() - expected).max() < 30
    assert np.abs(result.table.column("r").to_numpy() - 2 * expected).max() < 60
    assert release.charge == Charge(Fraction(20), Fraction(1, 10**6))


def test_the_order_and_limit_are_of_what_is_shown(session: Session) -> None:
    text = statement(f"page, {UNITS} FROM visits GROUP BY page ORDER BY page DESC LIMIT 3")
    assert session.run(text).table.column("page").to_pylist() == ["g9", "g8", "g7"]


def test_existence_never_depends_on_rows(session: Session) -> None:
    """A unit with very many rows is one unit: the threshold is that of units, and their number decides."""
    made = method(session, statement(f"page, {ROWS} FROM visits GROUP BY page"))
    units = present(made.plan.existence)
    assert made.plan.counts[units].bound == 1
    assert made.existing.groups_per_unit == 10
    assert float(made.existing.threshold) == pytest.approx(1 + math.log(10 / 2e-6), rel=0.01)
    keys = pa.table({"k0": ["few units", "many units"]})
    n = [np.array([10**9, 1], dtype=np.int64) for _ in made.plan.counts]
    n[units] = np.array([1, 10**6], dtype=np.int64)
    found = answer_of(made, made.plan, counts_of(made.plan, keys, n))
    assert found.rows.tolist() == [1]


def test_the_number_of_units_alone_has_all_of_epsilon(session: Session) -> None:
    alone = method(session, statement(f"page, {UNITS} FROM visits GROUP BY page"))
    assert alone.existing.loss.charge.epsilon == 20
    both = method(session, statement(f"page, {UNITS}, {ROWS} FROM visits GROUP BY page"))
    assert both.existing.loss.charge.epsilon == 10
    laws = [block.noise(1) for block in both.blocks]
    assert [law.loss.charge.epsilon for law in laws] == [10]
    assert [law.scale for law in laws] == [Fraction(10 * 2, 10)]


def test_measured_rows_have_the_predicted_deviation(session: Session) -> None:
    """500 answers of 9 groups: the deviation has a standard error of 1.7%; 10% fail once in 1e8."""
    made = method(session, statement(f"page, {ROWS} FROM visits GROUP BY page"))
    keys = pa.table({"k0": [f"g{i}" for i in range(9)]})
    counts = counts_of(made.plan, keys, [np.full(9, 10**6, dtype=np.int64) for _ in made.plan.counts])
    place = next(o.of for o in made.plan.outputs if o.kind == "count")
    errors = [present(answer_of(made, made.plan, counts).counts[place]).value - 10**6 for _ in range(500)]
    assert np.std(errors) == pytest.approx(made.quote.predicted_stddev, rel=0.1)


@pytest.mark.parametrize(
    ("options", "message", "rewritten"),
    [
        ("epsilon = 1, delta = 1e-6, mechanism = LAPLACE", "say in how many groups a user_id", False),
        ("epsilon = 1, max_groups_contributed = 2", "needs a public domain", True),
        (
            "epsilon = 1, delta = 1e-6, max_groups_contributed = 2, mechanism = BOX",
            "cannot answer this",
            False,
        ),
        (
            "epsilon = 1, delta = 1e-6, max_groups_contributed = 2, intervals = SIMULTANEOUS",
            "one noise for all counts",
            False,
        ),
    ],
)
def test_what_is_missing_is_said(session: Session, options: str, message: str, rewritten: bool) -> None:
    with pytest.raises(QueryRefused, match=message) as caught:
        session.prepare(statement(f"page, {UNITS} FROM visits GROUP BY page", options))
    assert (caught.value.rewrite is not None) == rewritten


def test_nothing_shown_is_an_answer(session: Session) -> None:
    made = method(session, statement(f"page, {UNITS}, {ROWS} FROM visits GROUP BY page"))
    empty = replace_counts(made, 0)
    found = answer_of(made, made.plan, empty)
    assert not len(found.rows)
    assert found.charge.epsilon <= 20


def replace_counts(made: GroupsByUnits, size: int) -> Counts:
    keys = pa.table({"k0": pa.array([f"g{i}" for i in range(size)], pa.string())})
    return counts_of(made.plan, keys, [np.zeros(size, dtype=np.int64) for _ in made.plan.counts])


@pytest.fixture(scope="module")
def defaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Groups `g0` to `g9` of 10, 20, .. 100 units; unit 0 has 50 rows in each, and 200 groups of its own."""
    folder = tmp_path_factory.mktemp("defaults")
    rows = [(u, f"g{g}") for g in range(10) for u in range(10 * g + 10)]
    rows += [(0, f"g{g % 10}") for g in range(490)] + [(0, f"own{g}") for g in range(200)]
    columns = {"user_id": [u for u, _ in rows], "page": [g for _, g in rows]}
    pq.write_table(pa.table(columns), folder / "visits.parquet")
    bounds = "[defaults]\nrows_per_unit = 1000\ngroups = 4\n"
    with open_world(folder, POLICY + bounds) as made:
        yield made


TOP = "page, COUNT(*) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
HUGE = "epsilon = 1e5, delta = 1e-6"


def test_the_largest_by_rows_are_of_groups_with_enough_units(defaults: Session) -> None:
    """A bound on groups decides about existence alone: no row is cut, and no group of one unit is shown."""
    found = defaults.run(statement(TOP, HUGE))
    assert found.table.column("page").to_pylist() == ["g9", "g8", "g7"]
    assert np.abs(found.table.column("n").to_numpy() - [149, 139, 129]).max() < 2
    every = defaults.run(statement("page, COUNT(*) AS n FROM visits GROUP BY page", HUGE))
    assert sorted(every.table.column("page").to_pylist()) == [f"g{g}" for g in range(10)]


@pytest.mark.parametrize(
    ("number", "values"), [("COUNT(*)", [150, 140, 130]), ("COUNT(DISTINCT seen)", [149, 139, 129])]
)
@pytest.mark.parametrize("partition", ["", "PARTITION BY half "])
def test_the_largest_of_partitions_are_of_groups_with_enough_units(
    tmp_path: Path, number: str, values: list[int], partition: str
) -> None:
    """One user may have 1,000 of each number, so a partition alone would show no group."""
    policy = f"""{POLICY}
[tables.visits.domain]
half = [0, 1]
[defaults]
rows_per_unit = 1000
groups = 4
"""
    groups = "SELECT 1000 * g + u AS u, g, 1 AS n FROM range(10) a(g), range(100) b(u) WHERE u < 10 * g + 10"
    rows = f"""SELECT u AS user_id, 'g' || g AS page, g % 2 AS half, 100 * u + c AS seen
        FROM ({groups} UNION ALL SELECT 1000 * g, g, 50 FROM range(10) a(g)) z, range(n) r(c)"""
    ranked = f"ROW_NUMBER() OVER ({partition}ORDER BY {number} DESC) AS r FROM visits GROUP BY page, half"
    text = f"SELECT * FROM (SELECT page, half, {number} AS n, {ranked}) z WHERE r <= 3"
    with open_world(tmp_path / "world", policy, visits=rows) as session:
        table = session.run(
            text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({HUGE})", 1)
        ).table
        found = {(row["page"], row["r"]): row["n"] for row in table.to_pylist()}
    if partition:
        assert set(found) == {(f"g{9 - i}", i // 2 + 1) for i in range(6)}
    else:
        assert set(found) == {("g9", 1), ("g8", 2), ("g7", 3)}
    for (page, rank), n in found.items():
        assert abs(n - values[9 - int(page[1])] if int(page[1]) > 6 else 0) < 2, (page, rank)


def test_weighted_rows_have_the_share_of_their_number(tmp_path: Path) -> None:
    """Beside a declared key rows are weighted in small steps, of which a unit moves many more than rows."""
    bounds = 'domain.half = ["h0", "h1", "h2"]\n[defaults]\nrows_per_unit = 20\ngroups = 10\n'
    rows = "SELECT i % 500 AS user_id, 'g' || i % 5 AS page, 'h' || i % 7 AS half FROM range(9000) t(i)"
    with open_world(tmp_path / "world", POLICY + bounds, visits=rows) as session:
        made = [
            method(
                session,
                statement(f"{keys}, COUNT(*) AS n FROM visits GROUP BY ALL", "epsilon = 1, delta = 1e-4"),
            )
            for keys in ("page", "page, half")
        ]
    assert [each.existing.loss.charge.epsilon for each in made] == [Fraction(1, 2)] * 2


def test_the_largest_by_units_that_are_not_shown(tmp_path: Path) -> None:
    """COUNT(*) of units with one row each is the number of units, which is measured if it is compared."""
    policy = """
[budget]
epsilon = 1e6
delta = 0.1
default_epsilon = 100
default_delta = 1e-3
[tables.planes]
source = "planes.parquet"
unit = "id"
unique = [["id"]]
bounds.seats = { from = 0, to = 300 }
"""
    makers = "['a', 'b', 'b', 'c', 'c', 'c'][i % 6 + 1] AS maker"
    rows = f"SELECT i AS id, {makers}, i % 300 AS seats FROM range(600) t(i)"
    with open_world(tmp_path / "world", policy, planes=rows) as session:
        for number in ("AVG(seats)", "SUM(seats)"):
            select = f"SELECT WITH DIFFERENTIAL_PRIVACY maker, {number} AS s FROM planes"
            table = session.run(f"{select} GROUP BY maker ORDER BY COUNT(*) DESC LIMIT 2").table
            assert table.column("maker").to_pylist() == ["c", "b"]


def test_what_needs_the_order_of_all_groups_has_the_limited_domain(defaults: Session) -> None:
    for text in (TOP.replace(" AS n", " AS n, DP_GAP()"), TOP):
        options = HUGE if "GAP" in text else f"{HUGE}, mechanism = LIMITED_DOMAIN"
        assert private(defaults.prepare(statement(text, options))).plan.existence is None


def test_intervals_hold_for_groups_that_their_noise_selected(defaults: Session) -> None:
    """40 equal groups, 300 answers of 3 rows: the worst case of selecting by the noise that is shown."""
    made = method(defaults, statement(TOP, "epsilon = 2, delta = 1e-6"))
    assert made.quote.half_width is None
    keys = pa.table({"k0": [f"g{i:02}" for i in range(40)]})
    counts = counts_of(made.plan, keys, [np.full(40, 10**6, dtype=np.int64) for _ in made.plan.counts])
    held = 0
    for _ in range(300):
        shown = present(answer_of(made, made.plan, counts).counts[made.plan.selection.count])  # type: ignore[union-attr]  # a top-k
        held += bool(((shown.low <= 10**6) & (shown.high >= 10**6)).all())
    assert held >= 265  # nominal 285 of 300; fewer than 265 come once in 1e6


def test_intervals_of_many_groups_have_the_largest_level_that_there_is(defaults: Session) -> None:
    made = method(defaults, statement(TOP, "epsilon = 2, delta = 1e-6, confidence = 0.999999999"))
    keys = pa.table({"k0": [f"g{i:02}" for i in range(40)]})
    counts = counts_of(made.plan, keys, [np.full(40, 10**6, dtype=np.int64) for _ in made.plan.counts])
    shown = present(answer_of(made, made.plan, counts).counts[made.plan.selection.count])  # type: ignore[union-attr]  # a top-k
    assert np.isfinite(shown.high - shown.low).all()


@pytest.mark.parametrize(("m", "total"), [(4, 1000), (64, 10_000), (16, 20), (1, 1)])
def test_deciding_has_at_most_half_of_epsilon(m: int, total: int) -> None:
    share = _share(m, Fraction(1, 10**6), total)
    assert Fraction(1, 2) <= share <= Fraction(63, 64)


def test_a_bound_on_groups_cuts_no_rows_where_noise_is_not_seen(session: Session) -> None:
    text = "page, COUNT(DISTINCT user_id) AS u FROM visits WHERE page IN ('g1', 'g2', 'g3') GROUP BY page"
    kept = [
        private(
            session.prepare(statement(text, f"epsilon = {e}, max_groups_contributed = 1"))
        ).plan.groups_kept
        for e in (1, 1000)
    ]
    assert kept == [1, None]


def test_an_option_that_leaves_nothing_for_the_rows_is_refused(session: Session) -> None:
    options = "epsilon = 20, delta = 1e-6, max_groups_contributed = 10, measure = 0"
    with pytest.raises(QueryRefused, match="measure = 0 leaves no epsilon"):
        session.prepare(statement(f"page, {ROWS} FROM visits GROUP BY page", options))
    made = method(session, statement(f"page, {UNITS} FROM visits GROUP BY page", options))
    assert made.existing.loss.charge.epsilon == 20
