"""Which mechanism answers a statement: by public figures alone, which EXPLAIN shows.

Noise is seeded, so that no run differs from another; for fresh seeds the bounds stated would fail once in
1e6 runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import InternalError, QueryRefused
from dpsql.kernel.counts import Counts
from dpsql.planning.all_groups import EveryCount, WholeDomain
from dpsql.policy import load
from dpsql.session import Session
from tests.given_noise import seeded
from tests.narrow import engine_of, of_type, present, private
from tests.support.exact import answer_of, exact_of, with_exact
from tests.unit.planning.test_predictions import explained

POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = [{pages}]
page.complete = true
site.values = [{sites}]
site.complete = true
[tables.logs]
source = "visits.parquet"
unit = "ROW"
columns = {{ site = "VARCHAR" }}
[tables.logs.domain]
site.values = [{sites}]
site.complete = true
"""
N = "COUNT(DISTINCT user_id)"
SITES = f"site, {N} AS n FROM visits GROUP BY site"
PAGES = f"page, {N} AS n FROM visits GROUP BY page"


def opened(folder: Path, rows: pa.Table) -> Session:
    folder.mkdir()
    pq.write_table(rows, folder / "visits.parquet")
    names = [", ".join(f'"{letter}{i}"' for i in range(n)) for letter, n in (("p", 300), ("s", 12))]
    (folder / "dpsql.toml").write_text(POLICY.format(pages=names[0], sites=names[1]))
    return Session(load(folder / "dpsql.toml"))


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    """One policy over two databases: three rows, and five thousand others."""
    folder = tmp_path_factory.mktemp("choose")
    few = pa.table({"user_id": [1, 2, 2], "page": ["p0", "p1", "p1"], "site": ["s0"] * 3, "free": ["x"] * 3})
    i = np.arange(5000)
    many = {
        "user_id": i % 700,
        "page": [f"p{j % 300}" for j in i],
        "site": [f"s{j % 12}" for j in i],
        "free": [f"f{j % 90}" for j in i],
    }
    made = [opened(folder / "few", few), opened(folder / "many", pa.table(many))]
    yield made
    for session in made:
        session.close()


def text_of(rest: str, options: str = "") -> str:
    given = f"OPTIONS ({options}) " if options else ""
    return f"SELECT WITH DIFFERENTIAL_PRIVACY {given}{rest}"


def filtered(n: int) -> str:
    return ", ".join(f"{N} FILTER (WHERE length(free) > {i}) AS n{i}" for i in range(n))


CHOSEN = [
    (f"{N} AS n FROM visits", "", "LAPLACE"),
    (f"{filtered(4)} FROM visits", "", "BOX"),
    (f"{N} - {N} FILTER (WHERE site = 's0') AS d, {filtered(2)} FROM visits", "", "BOX"),
    (SITES, "", "BOX"),
    (SITES, "max_groups_contributed = 2", "LAPLACE"),
    (SITES, "max_groups_contributed = 5", "BOX"),
    (SITES, "max_groups_contributed = 5, mechanism = LAPLACE", "LAPLACE"),
    ("site, COUNT(*) AS n FROM logs GROUP BY site", "", "LAPLACE"),
    (f"{PAGES} ORDER BY n DESC LIMIT 75", "", "BOX"),
    (f"{PAGES} ORDER BY n DESC LIMIT 74", "", "NOISY_TOP_K + BOX"),
    (f"{PAGES} ORDER BY n LIMIT 75", "", "BOX"),
    (f"{PAGES} ORDER BY n DESC LIMIT 75", "measure = 0.4", "NOISY_TOP_K + BOX"),
    (f"{PAGES} ORDER BY n DESC LIMIT 75", "measure_strategy = ANCHOR", "NOISY_TOP_K + ANCHOR"),
    (f"{PAGES} ORDER BY n DESC LIMIT 75", "noise = GEOMETRIC", "NOISY_TOP_K + BOX"),
    (f"{PAGES.replace('page,', 'page, DP_GAP() AS g,')} ORDER BY n DESC LIMIT 75", "", "NOISY_TOP_K + BOX"),
    (f"page, {filtered(2)} FROM visits GROUP BY page ORDER BY n0 DESC LIMIT 75", "", "NOISY_TOP_K + BOX"),
    (f"page, {filtered(2)} FROM visits GROUP BY page ORDER BY n0 DESC LIMIT 150", "", "BOX"),
    (f"page FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 95", "", "BOX"),
    (f"page FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 90", "", "NOISY_TOP_K"),
    (f"page FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 90", "mechanism = JOINT", "JOINT"),
    (f"{SITES} ORDER BY n DESC LIMIT 1", "", "NOISY_TOP_K + BOX"),
    (f"{PAGES} HAVING n >= 50 LIMIT 40", "", "HYBRID_TOP_K + BOX"),
    (f"{PAGES} HAVING n >= 50 LIMIT 45", "", "BOX"),
    (f"{PAGES} HAVING n >= 50 ORDER BY n DESC LIMIT 45", "", "BOX"),
    (f"{PAGES} HAVING n >= 50 ORDER BY page LIMIT 5", "", "BOX"),
    (f"{PAGES} HAVING n >= 50", "", "BOX"),
    (f"{PAGES} HAVING n >= 50", "base_hits = 9", "ADAPTIVE_SPARSE_VECTOR"),
    (f"{PAGES} HAVING n >= 50 LIMIT 5", "measure = 0", "ADAPTIVE_SPARSE_VECTOR"),
]


@pytest.mark.parametrize(("rest", "options", "name"), CHOSEN)
@pytest.mark.sampled(3, rest="longer")
def test_the_chosen_mechanism_and_its_figures_stand_first(
    sessions: list[Session], rest: str, options: str, name: str
) -> None:
    facts = explained(sessions[0], text_of(rest, options))
    first, *others = facts["considered"]
    assert (first["mechanism"], first["why"]) == (name, "chosen")
    shown = {"tells_apart": "tells_apart", "stddev": "predicted_stddev", "half_width": "half_width"}
    told = {a: max(facts[b]) if isinstance(facts[b], list) else facts[b] for a, b in shown.items()}
    assert {a: first[a] for a in shown} == told
    assert first["epsilon"] == facts["epsilon"]
    assert others
    assert all(each["why"] for each in others)
    assert len({each["mechanism"] for each in facts["considered"]}) == 1 + len(others)


@pytest.mark.parametrize(("rest", "options"), [case[:2] for case in CHOSEN])
@pytest.mark.sampled(3)
def test_explain_is_the_same_on_any_two_databases_of_one_policy(
    sessions: list[Session], rest: str, options: str
) -> None:
    one, other = (explained(session, text_of(rest, options)) for session in sessions)
    assert one == other


def test_nothing_is_counted_to_choose(sessions: list[Session], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(engine_of(sessions[1])), "count", None)
    for rest, options, _ in CHOSEN:
        assert explained(sessions[1], text_of(rest, f"epsilon = 0.7{', ' + options if options else ''}"))


def test_explain_over_unknown_keys_is_the_same_and_names_the_choice(sessions: list[Session]) -> None:
    rest = f"free, {N} AS n FROM visits GROUP BY free ORDER BY n DESC LIMIT 3"
    one, other = (explained(session, text_of(rest, "delta = 1e-6")) for session in sessions)
    assert one == other
    chosen, other, *_ = one["considered"]
    assert (chosen["mechanism"], chosen["why"]) == ("LIMITED_DOMAIN + BOX", "chosen")
    assert other["why"].startswith("bar")


@pytest.mark.parametrize("name", ["NOISY_TOP_K", "BOX"])
def test_a_candidates_figures_are_those_it_has_when_it_is_named(sessions: list[Session], name: str) -> None:
    rest = f"{PAGES} ORDER BY n DESC LIMIT 10"
    listed = {
        each["mechanism"].partition(" ")[0]: each
        for each in explained(sessions[0], text_of(rest))["considered"]
    }
    named = explained(sessions[0], text_of(rest, f"mechanism = {name}"))
    assert listed[name]["stddev"] == named["predicted_stddev"]
    assert listed[name]["half_width"] == named["half_width"]
    assert listed[name]["tells_apart"] == named["tells_apart"]


def test_the_table_of_explain_lists_the_candidates(sessions: list[Session]) -> None:
    columns = sessions[0].run(f"EXPLAIN {text_of(f'{PAGES} ORDER BY n DESC LIMIT 10')}").table.columns
    found = dict(zip(*(c.to_pylist() for c in columns), strict=True))
    assert found["considered 1"].startswith("NOISY_TOP_K + BOX (chosen): tells apart ")
    assert found["considered 2"].endswith("; not chosen: 300 counts are more than 4 x 10 rows")


def method(session: Session, rest: str, options: str = "") -> PreparedPrivate:
    return private(session.prepare(text_of(rest, options)))


def test_units_are_bounded_exactly_where_the_noise_relies_on_it(sessions: list[Session]) -> None:
    """The second database has 700 users, each in at most 8 of 12 sites."""
    whole = 0
    for options, most in (
        ("", None),
        ("max_groups_contributed = 5", None),
        ("max_groups_contributed = 2", 2),
        ("max_groups_contributed = 5, mechanism = LAPLACE", 5),
    ):
        made = method(sessions[1], SITES, options)
        assert made.plan.groups_per_unit == most
        assert isinstance(made.method, WholeDomain if most is None else EveryCount)
        pairs = int(exact_of(engine_of(sessions[1]).count(made.plan.compiled)).n[0].sum())
        whole = whole or pairs
        assert pairs == whole if most is None else pairs == min(most * 700, whole)


def test_laplace_noise_never_runs_on_counts_without_its_bound(sessions: list[Session]) -> None:
    made = method(sessions[1], SITES, "max_groups_contributed = 2")
    counts = engine_of(sessions[1]).count(made.plan.compiled)
    wrong = of_type(made.method, EveryCount)
    assert answer_of(wrong, made.plan, counts).loss == made.method.quote.loss
    for most in (None, 3):
        (change,) = exact_of(counts).changes.numbers
        changes = replace(exact_of(counts).changes, numbers=(replace(present(change), total=most),))
        with pytest.raises(InternalError, match="less than one unit is known to change"):
            answer_of(wrong, made.plan, with_exact(counts, changes=changes))


@pytest.mark.parametrize(
    ("rest", "options", "message"),
    [
        (f"{PAGES} ORDER BY n DESC LIMIT 9", "mechanism = BOX, measure = 0.5", "has no option measure"),
        (f"{PAGES} ORDER BY n DESC LIMIT 9", "mechanism = BOX, noise = LAPLACE", "has no option noise"),
        (f"{PAGES} HAVING n > 3", "mechanism = BOX, base_hits = 3", "has no option base_hits"),
        (
            f"{PAGES} HAVING n > 3 LIMIT 2",
            "mechanism = HYBRID_TOP_K, base_hits = 3",
            "has no option base_hits",
        ),
        (f"{PAGES} HAVING n > 3", "measure = 0.5", "which has no option measure"),
        (f"{PAGES} HAVING n > 3", "mechanism = HYBRID_TOP_K", "HYBRID_TOP_K needs LIMIT k"),
        (f"{N} AS n FROM visits", "mechanism = LAPLACE, intervals = SIMULTANEOUS", "need one noise"),
    ],
)
def test_what_a_mechanism_does_not_have_is_refused(
    sessions: list[Session], rest: str, options: str, message: str
) -> None:
    with pytest.raises(QueryRefused, match=message) as caught:
        sessions[0].prepare(text_of(rest, options))
    assert caught.value.hint


def test_noise_too_large_to_draw_is_refused_where_auto_compares(sessions: list[Session]) -> None:
    """One noise for 57,600 counts whose bounds have 6,651,216 as their least common multiple."""
    bounds = [(9, 11, 13, 16, 17, 19)[i % 6] for i in range(16)]
    shown = ", ".join(
        f"COUNT(*, contribution_bounds_per_group => (0, {c})) FILTER (WHERE length(free) > {i}) AS n{i}"
        for i, c in enumerate(bounds)
    )
    text = text_of(
        f"page, site, {shown} FROM visits GROUP BY page, site HAVING n0 >= 5 LIMIT 9", "epsilon = 1e-6"
    )
    with pytest.raises(QueryRefused, match="the noise's scale is too large for so many counts"):
        sessions[0].prepare(text)


def errors(made: PreparedPrivate, counts: Counts, runs: int) -> NDArray[np.float64]:
    """Errors of every count of every row, of so many runs, and whether each interval covers."""
    found = []
    for _ in range(runs):
        answer = answer_of(made.method, made.plan, counts)
        for place, estimate in enumerate(answer.counts):
            assert estimate is not None
            true = exact_of(counts).n[place][answer.rows]
            covered = (estimate.low <= true) & (true <= estimate.high)
            found.append(np.stack([estimate.value - true, covered]))
    return np.array(found).reshape(runs, len(answer.counts), 2, -1)


LIMITS = [
    (f"{filtered(2)} FROM visits", 1.83),
    (f"{filtered(4)} FROM visits", 2.65),
    (f"{filtered(2)}, {N} - {N} FILTER (WHERE length(free) > 0) AS d FROM visits", 2.59),
    (f"{N} AS n, {filtered(1)}, {N} - {N} FILTER (WHERE length(free) > 0) AS d FROM visits", 1.83),
    (SITES, 5.43),
]


@pytest.mark.parametrize(
    ("rows", "runs"),
    [
        ("ORDER BY n DESC LIMIT 3", 700),
        *(
            pytest.param(f"ORDER BY n{order} LIMIT 3", 2000, marks=pytest.mark.slow)
            for order in (" DESC", "")
        ),
    ],
)
def test_intervals_hold_for_rows_that_their_noise_selected(
    sessions: list[Session], monkeypatch: pytest.MonkeyPatch, rows: str, runs: int
) -> None:
    """Twelve equal counts; in 2,000 runs a share has a standard error of .005 at level .95."""
    made = method(sessions[1], f"{SITES} {rows}", "mechanism = BOX")
    alone = method(sessions[1], f"{SITES} {rows}", "mechanism = BOX, intervals = SINGLE")
    counts = engine_of(sessions[1]).count(made.plan.compiled)
    tied = with_exact(counts, n=tuple(np.full_like(n, 30) for n in exact_of(counts).n))
    seeded(monkeypatch, 11)
    shares = []
    for prepared in (made, alone):
        held = shown = 0
        for _ in range(runs):
            (estimate,) = answer_of(prepared.method, prepared.plan, tied).counts
            assert estimate is not None
            held += int(((estimate.low <= 30) & (estimate.high >= 30)).sum())
            shown += len(estimate.value)
        shares.append(held / shown)
    assert shares[0] > 0.945
    assert shares[1] < 0.935


@pytest.mark.parametrize(("rest", "stddev"), LIMITS)
@pytest.mark.parametrize(
    ("confidence", "runs"),
    [("0.8", 600), *(pytest.param(level, 2000, marks=pytest.mark.slow) for level in ("0.8", "0.95", "0.99"))],
)
@pytest.mark.parametrize("intervals", ["SINGLE", "SIMULTANEOUS"])
@pytest.mark.sampled(5)
def test_errors_and_intervals_are_as_predicted(
    sessions: list[Session],
    monkeypatch: pytest.MonkeyPatch,
    rest: str,
    stddev: float,
    confidence: str,
    runs: int,
    intervals: str,
) -> None:
    """Of 2,000 runs the deviation has a standard error of 2.6% at most, a coverage one of .009 at most.

    Those of 600 runs are nearly twice as large, and still well within what is allowed.
    """
    made = method(sessions[1], rest, f"confidence = {confidence}, intervals = {intervals}")
    counts = engine_of(sessions[1]).count(made.plan.compiled)
    seeded(monkeypatch, 7)
    found = errors(made, counts, runs)
    deviation = float(np.sqrt((found[:, :, 0] ** 2).mean(axis=0)).max())
    assert deviation == pytest.approx(stddev, rel=0.13)
    assert present(made.method.quote.predicted_stddev) == pytest.approx(stddev, abs=0.01)
    covered = found[:, :, 1].astype(bool)
    share = covered.all(axis=(1, 2)).mean() if intervals == "SIMULTANEOUS" else covered.mean()
    assert share == pytest.approx(float(confidence), abs=0.045)
