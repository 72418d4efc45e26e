"""An interval is written with ± if it is symmetric within a tenth, by its two ends otherwise."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.kernel.loss import Charge
from dpsql.release import Release
from dpsql.render.figures import Estimate
from dpsql.render.grid import Style, fit, width
from dpsql.render.html import release_html
from dpsql.render.readable import certainty
from dpsql.render.table import as_markdown, as_table, release_columns, release_text

Row = tuple[float, float | None, float | None]


@pytest.mark.parametrize(
    ("estimate", "spread"),
    [
        # The longer side is 1.1 times the shorter one, above and below; then a hair more.
        (Estimate(1000.0, 900.0, 1110.0), "± 110"),
        (Estimate(1000.0, 890.0, 1100.0), "± 110"),
        (Estimate(1000.0, 900.0, 1110.001), "(900 to 1,120)"),
        (Estimate(1000.0, 889.999, 1100.0), "(880 to 1,100)"),
        # Floats that are 1.1 times another but for their last place.
        (Estimate(1.0, 0.9, 1.11), "± 0.11"),
        (Estimate(1e9, 1e9 - 0.1, 1e9 + 0.11), "± 0.12"),
        (Estimate(1e9, 1e9 - 0.1, 1e9 + 0.12), "(999,999,999.90 to 1,000,000,000.12)"),
        (Estimate(0.0, -1e-9, 1.1e-9), "± 0.0000000011"),
        (Estimate(0.0, -1e-9, 1.2e-9), "(-0.0000000010 to 0.0000000012)"),
        # What was written with ± while twice as far was near enough.
        (Estimate(990.0, 914.0, 1150.0), "(910 to 1,150)"),
        (Estimate(11172.0, 11153.2, 11186.1), "(11,153 to 11,187)"),
        # The ends are rounded outwards to the digit of the longer side; ± is the longer side, rounded up.
        (Estimate(1000.0, 901.0, 1149.5), "(900 to 1,150)"),
        (Estimate(1000.0, 900.4, 1104.1), "± 110"),
        (Estimate(5.0, 0.0, 10.4), "± 5.4"),
        (Estimate(5.0, 0.0, 10.6), "(0.0 to 10.6)"),
        (Estimate(-1000.0, -1110.0, -900.0), "± 110"),
        # A value at its end, or beyond it.
        (Estimate(5.0, 5.0, 9.0), "(5.0 to 9.0)"),
        (Estimate(4.0, 5.0, 9.0), "(5.0 to 9.0)"),
    ],
)
def test_a_tenth_decides_between_a_half_width_and_two_ends(estimate: Estimate, spread: str) -> None:
    assert estimate.text()[1] == spread


@settings(deadline=None)
@given(st.floats(-1e9, 1e9), st.floats(0.01, 1e6), st.floats(0.01, 1e6))
def test_what_is_written_covers_the_interval(value: float, below: float, above: float) -> None:
    estimate = Estimate(value, value - below, value + above)
    assert estimate.low is not None
    assert estimate.high is not None
    written, spread = estimate.text()
    ends = [Fraction(n.replace(",", "")) for n in re.findall(r"-?[\d,]+(?:\.\d+)?", spread)]
    # What floats do to the difference of two large numbers.
    slack = Fraction(8 * math.ulp(max(abs(value), abs(estimate.low), abs(estimate.high))))
    if len(ends) == 1:
        assert max(below, above) <= 1.1 * min(below, above) + slack
        assert ends[0] * (1 + Fraction(1, 10**11)) >= Fraction(max(below, above)) - slack
        return
    assert max(below, above) > 1.1 * min(below, above) - slack
    low, high = ends
    assert low <= Fraction(repr(estimate.low))
    assert high >= Fraction(repr(estimate.high))
    assert low <= Fraction(written.replace(",", "")) <= high


@pytest.mark.parametrize(("low", "high"), [(None, 7.0), (7.0, None), (None, None)])
def test_an_interval_without_an_end_has_no_half_width(low: float | None, high: float | None) -> None:
    assert Estimate(5.0, low, high).half is None


# -- columns of both kinds

COUNTS: list[Row] = [(28600.0, 27300.0, 31400.0), (9600.0, 8600.0, 10650.0), (830.0, 760.0, 900.0)]
SUMS: list[Row] = [(1.47e6, 1.43e6, 1.57e6), (1e6, 0.93e6, 1.07e6), (4.3e5, 3.9e5, 4.9e5)]
MEANS: list[Row] = [(17.4, 12.4, 22.4), (19.5, 13.3, 27.0), (17.0, 2.0, 32.0)]
CLINICS = ["Coast Road", "Lighthouse", "Ferry Landing"]


def released(clinics: list[str] = CLINICS, **columns: list[Row]) -> Release:
    rows = pa.table({"clinic": clinics, **{n: [row[0] for row in found] for n, found in columns.items()}})
    table = rows
    for name, found in columns.items():
        for i, end in ((1, "low"), (2, "high")):
            table = table.append_column(f"{name}_{end}", pa.array([row[i] for row in found], pa.float64()))
    fields: dict[str, Any] = {"keys": ("clinic",), "counts": tuple(columns), "charge": Charge(Fraction(1))}
    return Release(
        rows=rows,
        table=table,
        selection="all groups",
        mechanism="Laplace",
        guarantee="",
        scale=1.0,
        statement="",
        **fields,
    )


def test_a_column_of_both_kinds_is_aligned() -> None:
    release = released(n=COUNTS)
    assert as_table(release.rows, release, Style(80)) == (
        "┌───────────────┬───────────────────────────┬──────────────────────────────────┐\n"
        "│ clinic        │                         n │ 0                         31,400 │\n"
        "├───────────────┼───────────────────────────┼──────────────────────────────────┤\n"
        "│ Coast Road    │ 28,600 (27,300 to 31,400) │ ███████████████████████████▒▒▒▒▒ │\n"
        "│ Lighthouse    │  9,600 ± 1,100            │ ████████▒▒▒                      │\n"
        "│ Ferry Landing │    830    ± 70            │ ▒                                │\n"
        "└───────────────┴───────────────────────────┴──────────────────────────────────┘\n"
        "epsilon 1 · Laplace · 95% intervals\n"
    )
    assert "| Lighthouse    |  9,600 ± 1,100            |\n" in as_markdown(release.rows, release, Style(80))
    assert "\nLighthouse      9,600 ± 1,100\n" in release_text(release)
    html = release_html(release)
    assert ">28,600 (27,300 to 31,400)<" in html
    assert ">830    ± 70<" in html


def test_ranges_go_below_their_numbers_where_a_column_would_be_left_out() -> None:
    release = released(n=COUNTS, revenue=SUMS, m=MEANS)
    assert as_table(release.rows, release, Style(80)) == (
        "┌────────────┬────────────────────┬──────────────────────────┬────────────────┐\n"
        "│ clinic     │                  n │                  revenue │              m │\n"
        "├────────────┼────────────────────┼──────────────────────────┼────────────────┤\n"
        "│ Coast Road │             28,600 │                1,470,000 │           17.4 │\n"
        "│            │ (27,300 to 31,400) │ (1,430,000 to 1,570,000) │          ± 5.0 │\n"
        "│ Lighthouse │              9,600 │                1,000,000 │           19.5 │\n"
        "│            │            ± 1,100 │                 ± 70,000 │ (13.3 to 27.0) │\n"
        "│ Ferry      │                830 │                  430,000 │             17 │\n"
        "│ Landing    │               ± 70 │     (390,000 to 490,000) │           ± 15 │\n"
        "└────────────┴────────────────────┴──────────────────────────┴────────────────┘\n"
        "epsilon 1 · Laplace · 95% intervals\n"
    )
    assert "│ Coast Road    │ 28,600 (27,300 to 31,400) │" in as_table(release.rows, release, Style(120))


def test_a_short_column_keeps_its_half_widths_beside_numbers_in_two_lines() -> None:
    even: list[Row] = [(10.0, 5.0, 15.0)]
    nothing: list[Row] = [(7.0, None, None)]
    release = released(["a"], n=COUNTS[:1], s=SUMS[:1], m=even, k=nothing)
    lines = as_table(release.rows, release, Style(80)).splitlines()
    assert lines[3] == "│ a      │             28,600 │                1,470,000 │ 10.0 ± 5.0 │ 7 │"
    assert lines[4] == "│        │ (27,300 to 31,400) │ (1,430,000 to 1,570,000) │            │   │"


def test_null_is_null_in_two_lines_too() -> None:
    release = released(["a", "b"], n=[*COUNTS[:1], COUNTS[0]], s=[*SUMS[:1], SUMS[0]], m=MEANS[:2])
    table = release.table.set_column(1, "n", pa.array([28600.0, None]))
    rows = release.rows.set_column(1, "n", pa.array([28600.0, None]))
    found = replace(release, table=table, rows=rows)
    text = as_table(rows, found, Style(72, colour=True))
    assert "\x1b[2m              NULL\x1b[0m" in text
    assert text.count("\x1b[2m") == 2, "NULL, and the line below"


@settings(deadline=None)
@given(st.integers(20, 130))
def test_two_lines_are_taken_only_where_they_show_more(columns: int) -> None:
    release = released(n=COUNTS, revenue=SUMS, m=MEANS)
    lines = as_table(release.rows, release, Style(columns)).splitlines()
    box = lines[: next(i for i, line in enumerate(lines) if line.startswith("└")) + 1]
    assert len({width(line) for line in box}) == 1
    alone = [replace(each, lines=()) for each in release_columns(release, Style(columns), none="")]
    left_out = fit(alone, Style(columns))[1]
    missing = [int(found[1]) for line in lines if (found := re.match(r"(\d) of 4 columns", line))]
    first = next((line for line in box if "28,600" in line), None)
    if first is not None:
        assert ("(27,300" in first) == (sum(missing) >= left_out)


# -- the line below


def test_the_line_below_says_the_level_where_there_are_ranges() -> None:
    assert certainty(released(n=COUNTS)) == "95% intervals"
    assert certainty(released(CLINICS[1:], n=COUNTS[1:])) == "95% ± 70 to 1,100"
    one_end: list[Row] = [*COUNTS[:2], (830.0, 760.0, None)]
    assert certainty(released(n=one_end)) == "", "an end that is missing is written beside the number"
