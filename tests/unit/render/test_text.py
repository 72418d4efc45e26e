"""Answers as people read them: numbers, widths, frames, bars, the price below."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.kernel.loss import Charge
from dpsql.release import Release
from dpsql.render.figures import Estimate, at_unit, half_text, number, show_left, show_spent, unit_of
from dpsql.render.grid import Style, TextColumn, box, cut, escape_controls, fit, markdown, pad, width
from dpsql.render.plots import bars
from dpsql.render.readable import footer, price
from dpsql.render.table import as_markdown, as_table
from tests.narrow import present

TEN = Charge(Fraction(10), Fraction(1, 10**6))

# -- what EXPLAIN says is never cut


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_an_explanation_is_folded(columns: int) -> None:
    sql = "SELECT d0.v AS k0 FROM dpsql_domain.d2 AS d0 " * 5
    rows = pa.table({"property": ["epsilon", "compiled_sql"], "value": ["0.1", sql]})
    lines = as_table(rows, None, Style(columns)).splitlines()
    assert columns - 12 < len(lines[0]) <= columns
    assert {len(line) for line in lines} == {len(lines[0])}
    cells = [line.split("│")[1:3] for line in lines[3:-1]]
    assert " ".join(value.strip() for _, value in cells[1:]).split() == sql.split()
    assert [name.strip() for name, _ in cells].count("compiled_sql") == 1


# -- intervals are always seen


@pytest.mark.parametrize(
    ("low", "value", "high", "drawn"),
    [
        (999.0, 1000.0, 1001.0, "#" * 39 + "-"),
        (0.0, 500.0, 1001.0, "-" * 40),
        (500.5, 501.0, 525.525, "#" * 20 + "-"),
        (None, 500.5, None, "#" * 20),
        (None, 500.5, 505.0, "-" * 21),
        (500.4, 505.0, None, "#" * 19 + "--"),
        (-30.0, -10.0, 10.0, "-"),
    ],
)
def test_every_interval_is_shaded_however_small(
    low: float | None, value: float, high: float | None, drawn: str
) -> None:
    column = bars([Estimate(1000.0, None, 1001.0), Estimate(value, low, high)], 40, Style(encoding="ascii"))
    assert column is not None
    assert column.cells[1] == drawn


# -- numbers


@pytest.mark.parametrize(
    ("amount", "up", "down"),
    [
        ("0", "0", "0"),
        ("1", "1", "1"),
        ("0.7", "0.7", "0.7"),
        ("1/3", "0.3334", "0.3333"),
        ("2/3", "0.6667", "0.6666"),
        ("9.99999", "10", "9.999"),
        ("1/30000", "3.334e-5", "3.333e-5"),
        ("1e-9", "1e-9", "1e-9"),
        ("9.9999e-10", "1e-9", "9.999e-10"),
        ("12345.678", "12346", "12345"),
        ("0.0001", "0.0001", "0.0001"),
        ("1000", "1000", "1000"),
    ],
)
def test_budgets_are_rounded_against_the_analyst(amount: str, up: str, down: str) -> None:
    assert (show_spent(Fraction(amount)), show_left(Fraction(amount))) == (up, down)


@given(st.fractions(min_value=0, max_value=10**9, max_denominator=10**12))
def test_rounding_never_favours_the_analyst(amount: Fraction) -> None:
    up, down = Fraction(show_spent(amount)), Fraction(show_left(amount))
    assert down <= amount <= up
    assert up - down <= amount / 500


@pytest.mark.parametrize(
    ("half", "place"),
    [(41.3, 0), (9.7, -1), (412.0, 1), (0.021, -3), (99.5, 1), (1.0, -1), (100.0, 1), (99.0, 0)],
)
def test_the_noise_has_two_digits(half: float, place: int) -> None:
    assert unit_of(half) == place


@pytest.mark.parametrize(
    ("half", "digits"), [(5e-324, "50"), (1e-308, "10"), (2.3e-308, "23"), (9.95e-309, "10")]
)
def test_the_least_noise_is_written(half: float, digits: str) -> None:
    place = unit_of(half)
    assert place is not None
    assert half_text(half, place).replace("0.", "").lstrip("0") == digits


@pytest.mark.parametrize("half", [0.0, -1.0, float("nan"), float("inf")])
def test_no_noise_no_unit(half: float) -> None:
    assert unit_of(half) is None


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(1234.4, 1193.4, 1275.4), ("1,234", "± 41")),
        (Estimate(12347.0, 11935.0, 12759.0), ("12,350", "± 420")),
        (Estimate(3.14159, 3.12, 3.16318), ("3.142", "± 0.022")),
        (Estimate(-0.2, -41.2, 40.8), ("0", "± 41")),
        (Estimate(-57.9, -98.9, -16.9), ("-58", "± 41")),
        (Estimate(90.4, 80.6, None), ("90.4", "(≥ 80.6)")),
        (Estimate(90.0, None, 131.5), ("90", "(≤ 132, may be a false row)")),
        (Estimate(20.0, 0.0, 61.5), ("20", "(0 to 62)")),
        (Estimate(11172.0, 11153.2, 11190.1), ("11,172", "± 19")),
        (Estimate(7.0, 7.0, 9.0), ("7.0", "(7.0 to 9.0)")),
        (Estimate(7.0, None, None), ("7", "")),
        (Estimate(7.0, 7.0, 7.0), ("7", "± 0")),
        (Estimate(1234567.0, 1234526.0, 1234608.0), ("1,234,567", "± 41")),
    ],
)
def test_estimates_are_shown_to_the_precision_of_their_noise(
    estimate: Estimate, text: tuple[str, str]
) -> None:
    assert estimate.text() == text


def test_estimates_in_ascii() -> None:
    texts = [Estimate(90.0, low, high).text(pm="+/-")[1] for low, high in ((49, 131), (80, None), (None, 99))]
    assert texts == ["+/- 41", "(>= 80)", "(<= 99.0, may be a false row)"]


@given(st.floats(0.01, 1e6), st.floats(-1e9, 1e9))
def test_the_half_width_is_never_shown_smaller(half: float, value: float) -> None:
    shown = Estimate(value, value - half, value + half).text()[1]
    # The bounds themselves are floats: a few units in the last place of `value`, and of what is divided.
    assert float(shown.strip("± ").replace(",", "")) >= half * (1 - 1e-12) - abs(value) * 1e-15


def test_plain_numbers() -> None:
    assert [number(x) for x in (0.1 + 0.2, 20.0, -0.5, 123456.78901, 1e300, float("nan"))] == [
        "0.3",
        "20",
        "-0.5",
        "123456.789",
        "1e+300",
        "nan",
    ]
    assert at_unit(float("inf"), 0) == "inf"


# -- text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Ménière", "Ménière"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\nb\tc\rd\x00", r"a\nb\tc\rd\x00"),
        ("\x9b31m \x7f", r"\x9b31m \x7f"),
        ("abc\u202egpj.exe", r"abc\u202egpj.exe"),
        ("\u2028\u2029\ufeff\u200b", r"\u2028\u2029\ufeff\u200b"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d⚕️", "👩\u200d⚕️"),
    ],
)
def test_nothing_in_a_value_can_steer_the_terminal(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


@given(st.text())
def test_neutral_text_has_no_controls_and_can_be_encoded(text: str) -> None:
    for encoding in ("utf-8", "latin-1", "ascii", "cp1252"):
        shown = escape_controls(text, encoding)
        shown.encode(encoding)
        assert all(ord(char) >= 0x20 and not 0x7F <= ord(char) < 0xA0 for char in shown)
        assert "\u202e" not in shown


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("é", 1),
        ("e\u0301", 1),
        ("한국", 4),
        ("\u1112\u1161\u11ab", 2),
        ("！", 2),
    ],
)
def test_width(text: str, cells: int) -> None:
    assert width(text) == cells
    assert width(pad(text, 9)) == width(pad(text, 9, right=True)) == 9


def test_cutting() -> None:
    assert cut("Essential", 9) == "Essential"
    assert cut("Essential", 8) == "Essenti…"
    assert cut("Essential", 8, "...") == "Essen..."
    assert cut("Essential", 2, "...") == ".."
    assert cut("日本語", 5) == "日本…"
    assert cut("日本語", 4) == "日…"
    assert cut("e\u0301e\u0301e\u0301", 2) == "e\u0301…"


@given(st.text(max_size=30), st.integers(1, 20))
def test_cut_text_fits(text: str, cells: int) -> None:
    assert width(cut(escape_controls(text), cells)) <= cells


# -- the grid


@given(
    st.lists(st.tuples(st.text(max_size=30), st.text(max_size=60), st.booleans()), min_size=1, max_size=12),
    st.integers(30, 150),
)
def test_every_line_fits_and_all_are_equally_wide(cells: list[tuple[str, str, bool]], columns: int) -> None:
    made = [
        TextColumn(escape_controls(name), [escape_controls(cell)], right=right) for name, cell, right in cells
    ]
    for encoding in ("utf-8", "ascii"):
        style = Style(columns, encoding)
        lines = box(fit(made, style)[0], style).splitlines()
        assert len(lines) == 5
        assert len({width(line) for line in lines}) == 1
        assert width(lines[0]) <= columns


def test_numbers_are_never_cut_but_left_out() -> None:
    columns = [TextColumn(f"column{i}", ["123456789"], right=True, firm=True) for i in range(9)]
    fitted, left_out = fit(columns, Style(40))
    assert [column.cells[0] for column in fitted] == ["123456789", "123456789", "…"]
    assert left_out == 7
    assert fit(columns, Style(None)) == (columns, 0)


def test_the_widest_column_gives_way() -> None:
    columns = [TextColumn("a", ["x" * 50]), TextColumn("b", ["y" * 20]), TextColumn("c", ["z" * 3])]
    fitted, _ = fit(columns, Style(50))
    assert [column.width for column in fitted] == [18, 19, 3]


def test_markdown_escapes_what_markdown_would_read() -> None:
    text = markdown([TextColumn("a|b", ["<b>x</b> & *y* `z` [l](u) \\ _e_ snake_case ~s~"])])
    assert text.splitlines()[2] == (
        r"| &lt;b&gt;x&lt;/b&gt; &amp; \*y\* \`z\` \[l\](u) \\ \_e\_ snake_case \~s\~ |"
    )
    assert text.splitlines()[0].startswith(r"| a\|b ")


def test_style_finds_out_whether_frames_can_be_drawn() -> None:
    assert [
        Style(encoding=e).plain for e in ("utf-8", "utf-16", "ascii", "latin-1", "cp437", "nonsense")
    ] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]


# -- bars


def test_bars_are_solid_to_the_intervals_start_and_shaded_to_its_end() -> None:
    column = bars([Estimate(80.0, 60.0, 100.0), Estimate(30.0, 20.0, 40.0), None], 10, Style())
    assert column is not None
    assert column.cells == ["██████▒▒▒▒", "██▒▒", ""]
    assert column.name == "0      100"


def test_bars_without_intervals_and_with_half_of_one() -> None:
    column = bars([Estimate(80.0, None, None), Estimate(40.0, 20.0, None)], 10, Style(encoding="ascii"))
    assert column is not None
    assert column.cells == ["##########", "##---"]


def test_negative_counts_have_no_bar() -> None:
    column = bars([Estimate(50.0, 30.0, 70.0), Estimate(-10.0, -30.0, 10.0)], 14, Style())
    assert column is not None
    assert column.cells == ["██████▒▒▒▒▒▒▒▒", "▒▒"]
    assert bars([Estimate(-10.0, -20.0, 0.0)], 14, Style()) is None
    assert bars([], 14, Style()) is None
    assert bars([Estimate(1.0, 0.0, 2.0)], 9, Style()) is None


# -- the footer


def test_price() -> None:
    assert price(Charge(Fraction(1, 3)), TEN) == "epsilon 0.3334 of 10"
    assert price(Charge(Fraction(1), Fraction(1, 10**9)), TEN) == "epsilon 1 of 10, delta 1e-9 of 1e-6"
    assert price(Charge(Fraction(1), Fraction(1, 10**9))) == "epsilon 1, delta 1e-9"


def test_footer(fakes: SimpleNamespace) -> None:
    release = fakes.top_k()
    assert footer(release, TEN, Style()) == "epsilon 1 of 10 · noisy top-k with gap · 95% ± 41"
    assert footer(release, None, Style(40, "ascii")) == ("epsilon 1 - noisy top-k with gap\n95% +/- 41")


def test_footer_of_a_stored_answer(fakes: SimpleNamespace) -> None:
    release = changed(fakes.top_k(), reused=datetime(2026, 3, 4, 5, 6, tzinfo=UTC))
    assert footer(release, TEN, Style()).startswith(
        "asked before, on 2026-03-04 05:06: nothing spent · noisy"
    )


def test_footer_with_uneven_noise(fakes: SimpleNamespace) -> None:
    release = fakes.top_k()
    table = release.table.set_column(
        release.table.column_names.index("n_low"), "n_low", pa.array([1193.0, 900.0, None])
    ).set_column(release.table.column_names.index("n_high"), "n_high", pa.array([1275.8, 1074.2, 900.0]))
    assert footer(changed(release, table=table), TEN, Style()).endswith("with gap")
    even = table.set_column(table.column_names.index("n_low"), "n_low", pa.array([1193.0, 900.0, 706.0]))
    assert footer(changed(release, table=even), TEN, Style()).endswith("· 95% ± 42 to 97")


def test_footer_of_keys_alone_tells_the_noise_of_the_selection(fakes: SimpleNamespace) -> None:
    release = keys_only(fakes.top_k())
    assert footer(release, TEN, Style()) == "epsilon 1 of 10 · noisy top-k with gap · noise scale 10"


# -- whole answers


def changed(release: Release, **fields: Any) -> Release:
    from dataclasses import replace

    return replace(release, **fields)


def keys_only(release: Release) -> Release:
    keys = release.rows.select(["diagnosis"])
    table = release.table.select(["diagnosis", "gap"])
    return changed(release, rows=keys, table=table, counts=())


def test_keys_alone_have_their_gap(fakes: SimpleNamespace) -> None:
    release = keys_only(fakes.top_k())
    text = as_table(release.rows, release, Style(80), total=TEN)
    assert "│ Essential hypertension │ 247 │" in text
    assert "█" not in text


@pytest.mark.parametrize("name", ["gap", "lead"])
def test_a_gap_that_was_asked_for_is_not_shown_twice(fakes: SimpleNamespace, name: str) -> None:
    release = fakes.top_k()
    rows = release.rows.append_column(name, release.table.column("gap"))
    text = as_table(rows, changed(release, rows=rows), Style(80), total=TEN)
    assert text.count(" 247 ") == 1
    assert "247.3" not in text
    assert "NULL" in text.splitlines()[5]


def test_what_is_free_is_shown_to_the_precision_of_the_noise_when_asked_for(fakes: SimpleNamespace) -> None:
    release = fakes.top_k()
    rows = release.rows
    for column in ("n_low", "n_high", "n_stddev"):
        rows = rows.append_column(column[2:], release.table.column(column))
    rows = rows.append_column("share", pa.array([0.123456, 0.5, 0.25]))
    line = as_table(rows, changed(release, rows=rows), Style(120), total=TEN).splitlines()[3]
    assert [cell.strip() for cell in line.split("│")[2:8]] == [
        "1,234 ± 41",
        "1,194",
        "1,275",
        "21",
        "0.123456",
        "247",
    ]


def test_a_select_around_the_release_is_shown_as_it_is(fakes: SimpleNamespace) -> None:
    release = fakes.top_k()
    text = as_table(release.rows.slice(1, 1), release, Style(80), total=TEN)
    assert "│ Type 2 diabetes │ 987.1 │" in text
    assert "±" not in text.splitlines()[3]
    assert text.splitlines()[-1].startswith("epsilon 1 of 10")


def test_a_null_count_and_no_row_at_all(fakes: SimpleNamespace) -> None:
    release = fakes.top_k()
    table = release.table
    for name in ("n", "n_low", "n_high"):
        values = [None, *table.column(name).to_pylist()[1:]]
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.float64()))
    rows = table.select(["diagnosis", "n"])
    text = as_table(rows, changed(release, rows=rows, table=table), Style(80), total=TEN)
    assert "NULL" in text
    empty = changed(release, rows=rows.slice(0, 0), table=table.slice(0, 0))
    text = as_table(rows.slice(0, 0), empty, Style(80), total=TEN)
    assert text.splitlines()[-2:] == [
        "no rows",
        "epsilon 1 of 10 · noisy top-k with gap · noise scale 10",
    ]


def test_null_is_not_text_that_says_null() -> None:
    rows = pa.table({"a": ["NULL", None, ""]})
    assert [line.strip("│ ") for line in as_table(rows, None, Style(80)).splitlines()[3:6]] == [
        "'NULL'",
        "NULL",
        "",
    ]
    coloured = as_table(rows, None, Style(80, colour=True))
    assert "\x1b[2mNULL  \x1b[0m" in coloured
    assert "\x1b[2m'NULL'" not in coloured


def test_values_and_names_cannot_steer_the_terminal() -> None:
    rows = pa.table({"a\x1b]0;pwned\x07": ["\x1b[2J", "x\u202ey"], "b": [["\x1b[1m"], ["\n"]]})
    for text in (as_table(rows, None, Style(80)), as_markdown(rows, None, Style(80))):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text


def test_every_type_can_be_shown() -> None:
    relation = duckdb.sql(
        "SELECT true AS bo, 1::UTINYINT AS u, sum(2)::HUGEINT AS h, 1.50 AS de, 'nan'::DOUBLE AS x, "
        "DATE '2020-01-02' AS d, TIME '03:04:05' AS t, TIMESTAMP '2020-01-02 03:04:05' AS ts, "
        "TIMESTAMPTZ '2020-01-02 03:04:05+00' AS tz, DATE '20000-01-01' AS far, '\\xAA\\x00'::BLOB AS bl, "
        "[1, NULL] AS l, {'a': DATE '2020-01-01'} AS st, MAP {'k': 1} AS m, 'a'::ENUM('a') AS e, NULL AS n"
    )
    rows = present(relation).to_arrow_table()
    line = as_table(rows, None, Style(400)).splitlines()[3]
    assert [cell.strip() for cell in line.strip("│").split("│")] == [
        "true",
        "1",
        "2",
        "1.50",
        "nan",
        "2020-01-02",
        "03:04:05",
        "2020-01-02 03:04:05",
        "2020-01-02 03:04:05+00",
        "20000-01-01",
        r"\xAA\x00",
        "[1, null]",
        '{"a": "2020-01-01"}',
        '[["k", 1]]',
        "a",
        "NULL",
    ]


def test_columns_that_do_not_fit_are_told() -> None:
    rows = pa.table({f"number{i}": [1234567890] for i in range(20)})
    text = as_table(rows, None, Style(80))
    assert max(map(width, text.splitlines())) <= 80
    assert text.splitlines()[-1].startswith("15 of 20 columns are not shown")


def test_a_result_without_columns_is_nothing() -> None:
    assert as_table(pa.table({}), None, Style(80)) == as_markdown(pa.table({}), None, Style(80)) == ""


# -- numbers below zero


def drawn(*estimates: Estimate | None) -> list[str]:
    column = present(bars(list(estimates), 40, Style(encoding="ascii")))
    assert max(map(len, [column.name, *column.cells])) <= 40
    return [column.name, *column.cells]


def test_bars_of_both_signs_start_at_zero() -> None:
    axis, positive, negative, both, none = drawn(
        Estimate(100, 90, 110), Estimate(-50, -60, -40), Estimate(2, -8, 12), None
    )
    assert axis == "-60           0                      110"
    assert positive == " " * 14 + "#" * 21 + "-" * 5
    assert negative == "-" * 5 + "#" * 9
    assert both == " " * 12 + "-" * 5
    assert not none.strip()


def test_bars_of_negative_numbers_end_at_zero() -> None:
    axis, large, small = drawn(Estimate(-100, -110, -90), Estimate(-20, None, None))
    assert (axis.split(), axis.endswith("0")) == (["-110", "0"], True)
    assert large == "-" * 8 + "#" * 32
    assert small == " " * 33 + "#" * 7


def test_a_count_that_noise_puts_below_zero_has_no_axis_of_its_own() -> None:
    axis, _, below = drawn(Estimate(10, 5, 15), Estimate(-1, -6, 4))
    assert axis.startswith("0 ")
    assert below == "-" * 11


@given(
    st.lists(
        st.tuples(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9)).map(
            lambda pair: Estimate(pair[0], pair[0] - pair[1], pair[0] + pair[1])
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(10, 60),
)
def test_bars_never_leave_their_column(estimates: list[Estimate], space: int) -> None:
    column = bars(list(estimates), space, Style(encoding="ascii"), widest=60)
    if column is not None:
        assert max(map(len, [column.name, *column.cells])) <= space
        for estimate, cell in zip(estimates, column.cells, strict=True):
            if estimate.negative:
                assert "-" in cell or "#" in cell
