"""The papers' figures: one short run of all of them, and whether their claims can fail."""

import csv
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.estimates import from_top_k, p_value
from dpsql.kernel.loss import Number
from dpsql.noise import SeededEntropy

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))

# The example is run as a folder, so it is no part of what is installed.
from reproduce import (  # noqa: E402 -- found by the line above
    boards,
    command,
    coverage,
    error_reduction,
    hybrids,
    models,
    one_noise,
    over_threshold,
    peer,
    significance,
    stable,
    sums,
    svg,
    thresholds,
    unknown,
)
from reproduce.baskets import basket_counts  # noqa: E402 -- the same
from reproduce.order_lines import order_lines  # noqa: E402 -- the same
from reproduce.reduction import Measured  # noqa: E402 -- the same
from reproduce.sets import DataSet, made  # noqa: E402 -- the same
from reproduce.trials import measured  # noqa: E402 -- the same

VOID = {"meta"}


class Balanced(HTMLParser):
    """Checks that every element is closed, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduce")
    counts = (20_000 / np.arange(1, 301)).astype(np.int64)
    items = np.random.default_rng(0).permutation(300)
    table = pa.table({"item": pa.array(items), "n": pa.array(counts)})
    pq.write_table(table, folder / "t40i10d100k_counts.parquet")
    pq.write_table(table, folder / "brightkite_sepgcn_counts.parquet")
    command = [sys.executable, str(ROOT / "examples" / "reproduce"), "--quick", "--trials", "2"]
    done = subprocess.run(
        [*command, "--data", str(folder), "--out", str(folder / "report.html")],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder / "report.html"


@pytest.mark.slow  # the whole report; its parts are tested every day
def test_the_page_stands_alone_and_is_well_formed(report: Path) -> None:
    text = report.read_text("utf-8")
    page = Balanced()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.seen
    assert not re.search(r"(src|href)\s*=\s*['\"](https?:|/)", text)
    assert page.seen.count("h2") == 13


@pytest.mark.slow  # the whole report; its parts are tested every day
def test_every_figure_has_its_axes_labelled_and_something_in_it(report: Path) -> None:
    panels = re.findall(r"<svg viewBox.*?</svg>", report.read_text("utf-8"), flags=re.DOTALL)
    assert len(panels) >= 21
    for panel in panels:
        assert re.search(r'aria-label="\S.*: .* over ', panel)
        assert len(re.findall('class="label">[^<]', panel)) == 2
        assert "nan" not in panel
        assert re.search(r'<path d="M[\d.]+ [\d.]+L|<circle|fill-opacity', panel)


@pytest.mark.slow  # the whole report; its parts are tested every day
def test_it_says_which_data_are_the_papers_and_claims_something_beside_every_figure(report: Path) -> None:
    text = report.read_text("utf-8")
    assert "the free-gap papers&#x27; T40I10D100K, complete" in text
    assert "a filtered subset of the Top Stable paper&#x27;s BrightKite" in text
    figures = text.split("<figure>")[1:]
    assert len(figures) == 22
    assert all("class='mark" in figure.split("</figure>")[0] for figure in figures)


@pytest.mark.slow  # the whole report; its parts are tested every day
def test_every_table_is_a_file_too(report: Path) -> None:
    folder = report.with_name("report-tables")
    linked = set(re.findall(r"href='report-tables/(\w+\.csv)'", report.read_text("utf-8")))
    assert linked == {path.name for path in folder.iterdir()}
    assert len(linked) == 19
    for path in folder.iterdir():
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        assert rows
        assert {len(row) for row in rows} == {len(head)}


def test_without_data_there_are_some_that_say_so() -> None:
    sets = made(1, baskets=5000)
    assert {one.unknown for one in sets} == {False, True}
    for one in sets:
        assert one.role.startswith("made on the spot; stands in for")
        assert 0 <= one.counts.min() <= one.counts.max() <= one.units
        # A stream asked for in order of the counts would be found at once.
        assert np.any(np.diff(one.counts) > 0)
        assert one.counts.max() > 20 * np.median(one.counts)


def test_baskets_are_the_same_for_the_same_seed() -> None:
    one, same, other = (basket_counts(np.random.default_rng(s), baskets=2000) for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_a_folder_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--data", "no-such-folder"])
    assert "no folder" in capsys.readouterr().err


# What every claim is computed from: a short run of each section, in this process.

CLAIMS = [
    (error_reduction, "claims_over_k"),
    (error_reduction, "claims_over_epsilon"),
    (one_noise, "claims"),
    (over_threshold, "claims"),
    (thresholds, "claims_answers"),
    (thresholds, "claims_quality"),
    (thresholds, "claims_left"),
    (hybrids, "claims_left"),
    (hybrids, "claims_mean"),
    (significance, "claims_mechanism"),
    (significance, "claims_winner"),
    (unknown, "claims_cells"),
    (unknown, "claims_curves"),
    (coverage, "claims_apart"),
    (coverage, "claims_tied"),
    (coverage, "claims_hits"),
    (boards, "claims"),
    (models, "claims"),
    (stable, "claims_first"),
    (stable, "claims_stream"),
]


def small_sets() -> list[DataSet]:
    rng = np.random.default_rng(0)
    known = (60_000 / np.arange(1, 401) ** 0.6).astype(np.int64)
    unknown_ones = (6000 / np.arange(1, 3002) ** 0.8).astype(np.int64)
    return [
        DataSet("a", rng.permutation(known), 100_000, "made"),
        DataSet("b", rng.permutation(unknown_ones), 30_000, "made", unknown=True),
    ]


# The arguments of each call of a function of a module: rows of that module's kind, and what comes with them.
Calls = dict[tuple[ModuleType, str], list[tuple[Any, ...]]]


def noted(
    calls: Calls, key: tuple[ModuleType, str], function: Callable[..., object], *arguments: object
) -> object:
    calls.setdefault(key, []).append(arguments)
    return function(*arguments)


@pytest.fixture(scope="module")
def seen() -> Calls:
    """What each claims function was called with, by module and name."""
    calls: Calls = {}
    with pytest.MonkeyPatch.context() as patch:
        for module, name in CLAIMS:
            patch.setattr(module, name, partial(noted, calls, (module, name), getattr(module, name)))
        for one in command.experiments(small_sets(), 10, 1, command.Peer()):
            one.run(lambda: None)
    assert calls.keys() == set(CLAIMS)
    return calls


def moved(measured: Measured, way: int) -> Measured:
    return replace(measured, percent=measured.theory + way * (measured.allowed + 1))


def shifted(box: one_noise.Box95, way: int) -> one_noise.Box95:
    return replace(box, reduction=moved(box.reduction, way))


def at(values: tuple[float, ...], place: int, value: float) -> tuple[float, ...]:
    return (*values[:place], value, *values[place + 1 :])


def only(name: str, **changes: Any) -> Callable[..., object]:
    """Change the rows of one mechanism: a number is a factor, a function is applied to the row."""
    return lambda r: replace(r, **{k: f(r) for k, f in changes.items()}) if r.mechanism == name else r


def returned(name: str, change: Callable[..., object]) -> Callable[..., Any]:
    """Change what one mechanism returned in a cell."""
    return lambda s: {**s, name: change(s)}


PLAIN, ADAPTIVE, LADDER = thresholds.NAMES
AS_PRINTED, ONE_SIDED, LIMITED = "TS as printed", "TS one-sided", "limited domain"

STREAMS: list[tuple[ModuleType, str, int, Callable[..., Any]]] = [
    (models, "claims", 0, lambda r: replace(r, answered=50.0)),
    (models, "claims", 0, lambda r: replace(r, lost=0.1)),
    (models, "claims", 1, lambda r: replace(r, error=300.0)),
    (models, "claims", 2, lambda r: replace(r, over=1)),
    (stable, "claims_first", 0, lambda r: replace(r, passed=0.85)),
    (stable, "claims_first", 0, lambda r: replace(r, half=r.half + 2)),
    (stable, "claims_first", 1, lambda r: replace(r, unstable=1.3)),
    (stable, "claims_first", 1, lambda r: replace(r, uncorrected=1.0)),
    (stable, "claims_stream", 0, lambda r: replace(r, passed=0.85)),
    (stable, "claims_stream", 1, lambda r: replace(r, published=r.lead)),
    (stable, "claims_stream", 2, lambda r: replace(r, absolute=r.published)),
]
"""Of the systems that answer questions one after the other: claims, and figures that deny them."""

BREAKS = [
    (error_reduction, "claims_over_k", 0, lambda r: replace(r, each=moved(r.each, -1))),
    (error_reduction, "claims_over_k", 0, lambda r: replace(r, each=moved(r.each, 1))),
    (error_reduction, "claims_over_k", 1, lambda r: replace(r, anchor=moved(r.anchor, -1))),
    (error_reduction, "claims_over_k", 2, lambda r: replace(r, anchor=r.each, each=r.anchor)),
    (
        error_reduction,
        "claims_over_k",
        3,
        lambda r: replace(r, noise="laplace" if r.noise == "exponential" else "exponential"),
    ),
    (error_reduction, "claims_over_epsilon", 0, lambda r: replace(r, each=moved(r.each, -1))),
    (error_reduction, "claims_over_epsilon", 1, lambda r: replace(r, anchor=moved(r.anchor, 1))),
    (one_noise, "claims", 0, lambda r: replace(r, box=shifted(r.box, -1))),
    (one_noise, "claims", 0, lambda r: replace(r, half=shifted(r.half, 1))),
    (one_noise, "claims", 1, lambda r: replace(r, anchor=r.box.reduction.percent)),
    (one_noise, "claims", 2, lambda r: replace(r, box=r.half, half=r.box)),
    (one_noise, "claims", 3, lambda r: replace(r, box=replace(r.box, covered=50.0))),
    (over_threshold, "claims", 0, lambda r: replace(r, found=moved(r.found, -1))),
    (over_threshold, "claims", 2, lambda r: replace(r, found=moved(r.found, 1))),
    (thresholds, "claims_answers", 0, only(ADAPTIVE, answers=lambda r: r.answers / 2)),
    (thresholds, "claims_answers", 1, only(ADAPTIVE, far=lambda r: r.far / 4)),
    (thresholds, "claims_answers", 2, only(LADDER, answers=lambda r: r.answers / 2)),
    (thresholds, "claims_quality", 0, only(LADDER, precision=lambda r: r.precision - 0.05)),
    (thresholds, "claims_quality", 1, only(ADAPTIVE, f_measure=lambda r: 0.6 * r.f_measure)),
    (thresholds, "claims_quality", 2, only(LADDER, f_measure=lambda r: 0.6 * r.f_measure)),
    (thresholds, "claims_left", 0, only(ADAPTIVE, left=lambda r: r.left / 2)),
    (thresholds, "claims_left", 1, only(LADDER, left=lambda r: r.left / 3)),
    (hybrids, "claims_left", 0, lambda r: replace(r, left=at(r.left, 2, 5.0))),
    (hybrids, "claims_left", 2, lambda r: replace(r, left=at(r.left, 3, r.left[3] + 5))),
    (hybrids, "claims_mean", 0, lambda r: replace(r, mean=at(r.mean, 0, r.mean[3]))),
    (hybrids, "claims_mean", 1, lambda r: replace(r, mean=at(r.mean, 1, r.mean[2]))),
    (significance, "claims_mechanism", 0, lambda r: replace(r, sure=(0.5, r.sure[1]))),
    (significance, "claims_winner", 0, lambda r: replace(r, sure=(r.sure[0], 0.5))),
    (unknown, "claims_cells", 0, returned(ONE_SIDED, lambda s: s[AS_PRINTED])),
    (unknown, "claims_cells", 2, returned("AUTO", lambda s: (0.5 * s["AUTO"][0], 0.5))),
    (unknown, "claims_cells", 3, returned("AUTO", lambda s: (0.5 * s["AUTO"][0], 0.5))),
    (unknown, "claims_cells", 4, returned("AUTO", lambda s: (1.0, 1.0))),
    (unknown, "claims_curves", 0, returned(LIMITED, lambda s: (1.0, 1.0))),
    (unknown, "claims_curves", 1, returned(ONE_SIDED, lambda s: s[AS_PRINTED])),
    (coverage, "claims_apart", 0, lambda r: replace(r, covered=85.0)),
    (coverage, "claims_tied", 0, lambda r: replace(r, covered=85.0)),
    (coverage, "claims_hits", 0, lambda r: replace(r, covered=85.0)),
    (boards, "claims", 0, lambda r: replace(r, board=r.plain / 6)),
    (boards, "claims", 1, lambda r: replace(r, board_regret=0.01)),
    (boards, "claims", 2, lambda r: replace(r, least_regret=0.0)),
    *STREAMS,
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "place", "broken"),
    BREAKS,
    ids=[f"{module.__name__.split('.')[-1]}-{name}-{place}" for module, name, place, _ in BREAKS],
)
def test_a_claim_fails_where_the_figures_deny_it(
    seen: Calls, module: ModuleType, name: str, place: int, broken: Callable[..., object]
) -> None:
    rows, *rest = seen[module, name][-1]
    assert getattr(module, name)(rows, *rest)[place].holds
    if isinstance(rows, dict):
        other: object = {key: broken(value) for key, value in rows.items()}
    else:
        other = [broken(row) for row in rows]
    assert not getattr(module, name)(other, *rest)[place].holds


@pytest.mark.slow
def test_claims_that_do_not_hold_would_if_the_figures_said_so(seen: Calls) -> None:
    rows = seen[hybrids, "claims_left"][0][0]
    assert not hybrids.claims_left(rows)[1].holds
    assert hybrids.claims_left([replace(r, left=at(r.left, 0, 99.0)) for r in rows])[1].holds
    cells = seen[unknown, "claims_cells"][0][0]
    assert not unknown.claims_cells(cells)[1].holds
    better = returned("LD as published", lambda s: (0.0, 0.0))
    assert unknown.claims_cells({c: better(s) for c, s in cells.items()})[1].holds


def test_what_models_and_stable_answers_claim_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short run of both, as every day: each claim holds, and fails where its figures deny it."""
    calls: Calls = {}
    for module, name in ((models, "claims"), (stable, "claims_first"), (stable, "claims_stream")):
        monkeypatch.setattr(module, name, partial(noted, calls, (module, name), getattr(module, name)))
    models.guessed(6, 1, SeededEntropy(1), lambda: None)
    stable.stable(1000, SeededEntropy(1), lambda: None)
    for (module, name), ((rows, *rest),) in calls.items():
        claims = getattr(module, name)(rows, *rest)
        assert [claim.words for claim in claims if not claim.holds] == []
        mine = [(place, broken) for at, of, place, broken in STREAMS if (at, of) == (module, name)]
        assert {place for place, _ in mine} == {*range(len(claims))}
        for place, broken in mine:
            assert not getattr(module, name)([broken(row) for row in rows], *rest)[place].holds


def scaled(function: Callable[..., object], factor: Number) -> Callable[..., object]:
    """The function with its scale, the second argument, off by a factor."""
    return lambda first, scale, *rest: function(first, scale * factor, *rest)


@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)])
def test_measurements_with_the_wrong_noise_are_noticed(
    monkeypatch: pytest.MonkeyPatch, factor: Fraction
) -> None:
    monkeypatch.setattr(error_reduction, "KS", (10, 25))
    monkeypatch.setattr(error_reduction, "measured", scaled(measured, factor))
    section = error_reduction.over_k(small_sets()[:1], 400, SeededEntropy(1), lambda: None)
    assert not section.claims[0].holds


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_p_values_of_the_wrong_noise_are_noticed(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    monkeypatch.setattr(significance, "p_value", scaled(p_value, factor))
    section = significance.p_values(small_sets()[:1], 3000, SeededEntropy(1), lambda: None)
    assert [claim.holds for claim in section.claims] == [True, False]


def test_p_values_of_the_exponential_mechanism_at_half_its_scale_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "exponential_mechanism_p_value"
    monkeypatch.setattr(significance, name, scaled(getattr(significance, name), 0.5))
    section = significance.p_values(small_sets()[:1], 3000, SeededEntropy(1), lambda: None)
    assert [claim.holds for claim in section.claims] == [False, True]


def test_intervals_of_another_level_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "KS", (3,))
    for confidence, holds in ((0.95, True), (0.9, False)):
        with monkeypatch.context() as patch:
            patch.setattr(coverage, "from_top_k", partial(from_top_k, confidence=confidence))
            section = coverage.interval_coverage(1500, SeededEntropy(1), lambda: None)
            assert section.claims[0].holds == holds


def test_the_rival_keeps_its_budget_and_finds_what_stands_out() -> None:
    for picks in (2, 4, 51):
        each = peer.pick_epsilon(1.0, 1e-5, picks)
        assert 1 / picks <= each <= 1
    counts = np.concatenate([np.full(5, 100_000), np.full(100, 10)])
    released = peer.limited_domain_as_published(counts, 5, 1.0, 1e-5, 20, np.random.default_rng(0))
    assert released[:, :5].all()
    assert not released[:, 5:].any()


def test_the_grid_and_whiskers_of_a_chart_stay_inside_it() -> None:
    drawn = svg.Series("", (1, 2), (0.5, 0.9), "points", error=(0.1, 5.0))
    chart = svg.panel("t", "x", "y", [drawn], y_range=(0, 1))
    ends = [float(y) for pair in re.findall(r'd="M[\d.]+ ([\d.]+)V([\d.]+)" stroke', chart) for y in pair]
    assert len(ends) == 4
    assert all(svg.TOP <= y <= svg.HEIGHT - svg.BOTTOM for y in ends)


# Sums and averages: claims about cells that are written down, and what is run where SmartNoise is not there.


def cells(**ratios: float) -> list[sums.Cell]:
    """Every cell of the statements, as if SmartNoise's error were 1,000, and ours as its part."""
    found = []
    for asked, ratio in zip(sums.ASKED, ("many", "total", "average", "deviation"), strict=True):
        for group in ("A F", "N F", "N O", "R F") if asked.keyed else ("all",):
            for kind, column in asked.measures:
                part = ratios.get(ratio, 0.2)
                rows = 1000 if group == "N F" else 2 * sums.LARGE
                found.append(
                    sums.Cell(asked.name, group, rows, f"{kind}({column})", 1000 * part, 95.0, 1000.0)
                )
    return found


RUNS = sums.Runs(2000, 2000)


def test_claims_of_sums_hold_where_the_errors_are_as_promised() -> None:
    held = sums.claims(cells(many=0.5, total=1.0), RUNS)
    assert len(held) == 5
    assert all(claim.holds for claim in held)


@pytest.mark.parametrize(
    ("place", "ratios"),
    [
        (1, {"many": 0.7}),
        (2, {"average": 0.8}),
        (3, {"deviation": 0.35}),
        (4, {"total": 1.3}),
        (4, {"total": 0.7}),
    ],
)
def test_claims_of_sums_fail_where_the_errors_deny_them(place: int, ratios: dict[str, float]) -> None:
    held = [claim.holds for claim in sums.claims(cells(**{"total": 1.0, **ratios}), RUNS)]
    assert held == [i != place for i in range(5)]


def test_one_cell_above_the_other_system_or_short_intervals_are_noticed() -> None:
    one_above = cells(many=0.4, total=1.0)
    one_above[5] = replace(one_above[5], here=1300.0)
    assert not sums.claims(one_above, RUNS)[1].holds
    short = [replace(cell, covered=90.0) for cell in cells(total=1.0)]
    assert not sums.claims(short, RUNS)[0].holds


def test_promises_of_the_benchmarks_scale_are_claimed_there_alone() -> None:
    others = [
        sums.Cell(asked.name, "all", 1000, "SUM(x)", 9000 * asked.within, 95.0, None)
        for asked in sums.OTHERS
        if asked.within
    ]
    found = cells(total=1.0) + others
    assert len(sums.claims(found, RUNS)) == len(sums.claims(found, RUNS, sums.SCALE_1)) - 5
    assert all(claim.holds for claim in sums.claims(found, RUNS, sums.SCALE_1))
    worse = cells(total=1.0) + [replace(cell, here=1.2 * cell.here) for cell in others]
    assert [c.holds for c in sums.claims(worse, RUNS, sums.SCALE_1)][-4:] == [False] * 4
    small, large = (
        [replace(c, here=2500.0) if c.group == group else c for c in found] for group in ("N F", "N O")
    )
    assert [sums.claims(one, RUNS, sums.SCALE_1)[-5].holds for one in (small, large)] == [True, False]


@pytest.mark.slow
def test_without_smartnoise_the_report_says_so_and_claims_nothing_of_it() -> None:
    section = sums.beside_smartnoise(None, sums.Runs(20, 20), 1, sys.executable, lambda: None, customers=600)
    assert "SmartNoise SQL was not run" in section.text
    assert "No module named" in section.text
    assert len(section.claims) == 1
    (table,) = section.tables
    assert len(table.rows) == 4 * 6 + 3 + 4 * 2 + 4
    assert all(row[-2:] == (None, None) for row in table.rows)


def test_lines_are_made_as_tpch_says_or_taken_from_its_tables(tmp_path: Path) -> None:
    made_ones = order_lines(None, tmp_path / "made.parquet", 1, customers=300)
    assert "stands in for" in made_ones.role
    with duckdb.connect() as connection:
        flags = f"SELECT DISTINCT l_returnflag || l_linestatus FROM '{made_ones.path}' ORDER BY ALL"
        assert connection.sql(flags).fetchall() == [("AF",), ("NF",), ("NO",), ("RF",)]
        columns = "l_orderkey, * EXCLUDE (l_custkey)"
        numbered = f"SELECT row_number() OVER () AS l_orderkey, * FROM '{made_ones.path}'"
        connection.execute(f"COPY (SELECT {columns} FROM ({numbered})) TO '{tmp_path}/lineitem.parquet'")
        orders = f"SELECT l_orderkey AS o_orderkey, l_custkey AS o_custkey FROM ({numbered})"
        connection.execute(f"COPY ({orders}) TO '{tmp_path}/orders.parquet'")
    taken = order_lines(tmp_path, tmp_path / "taken.parquet", 1)
    assert taken.role.startswith("TPC-H's lineitem")
    assert (taken.rows, taken.customers, taken.most) == (made_ones.rows, made_ones.customers, made_ones.most)


@pytest.mark.slow
def test_a_board_is_as_sharp_as_was_expected_of_it() -> None:
    """Error and regret of the best of 200 submissions at epsilon 1 are as computed beforehand, or less."""
    rows = boards.boards(400, 1, SeededEntropy(1), lambda: None).tables[0].rows
    found = {int(str(row[0])): float(str(row[1])) for row in rows}
    for n, expected in {5_000: 0.013, 20_000: 0.0037, 50_000: 0.0025}.items():
        assert found[n] < expected
    apart = {int(str(row[0])): float(str(row[5])) for row in rows}  # regret, of clearly worse submissions
    for n, most in {5_000: 0.002, 20_000: 0.0005, 50_000: 0.0004}.items():
        assert apart[n] < most
    least = {int(str(row[0])): float(str(row[6])) for row in rows}
    for n, expected in {5_000: 0.003, 20_000: 0.0005, 50_000: 0.0008}.items():
        assert least[n] > 1.2 * expected  # so that was of submissions that are not nearly as good as the best
