"""The picture that fits an answer: which one it is, and that all drawers show what is released."""

from __future__ import annotations

import datetime
import itertools
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from importlib.machinery import ModuleSpec
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import ProgrammingError
from dpsql.kernel.loss import Charge
from dpsql.release import Release
from dpsql.render import plot_packages
from dpsql.render.drawing import WIDTHS, draw
from dpsql.render.grid import Style, width
from dpsql.render.html import release_html
from dpsql.render.picture_choice import picture_of
from dpsql.render.pictures import MOST, MOST_LINES, Kind, Picture, segments
from dpsql.render.svg_elements import ELEMENTS, write_markup
from dpsql.render.text_pictures import text_picture
from tests.narrow import present

SVG = "{http://www.w3.org/2000/svg}"
MONTHS = [datetime.date(2024, month, 1) for month in range(1, 13)]
WARDS = ["North", "South", "East", "West", "Hill", "Lake", "Mill", "Port"]


def released(
    keys: dict[str, list[Any]],
    numbers: dict[str, list[float | None]],
    *,
    half: float | None = 5.0,
    low: float | None = None,
    selection: str = "all groups",
    mechanism: str = "Laplace on every group",
    **more: Any,
) -> Release:
    """A release with these keys and numbers; `low` is how far intervals reach below, if not `half`."""
    rows = pa.table({**keys, **{name: pa.array(found, pa.float64()) for name, found in numbers.items()}})
    table = rows
    for name, found in numbers.items() if half is not None else ():
        wide = present(half)
        ends = [None if v is None else (v - (wide if low is None else low), v + wide) for v in found]
        table = table.append_column(f"{name}_stddev", pa.array([half] * len(found)))
        for i, end in enumerate(("low", "high")):
            column = pa.array([None if e is None else e[i] for e in ends], pa.float64())
            table = table.append_column(f"{name}_{end}", column)
    return Release(
        rows=rows,
        table=table,
        keys=tuple(keys),
        counts=tuple(numbers) if half is not None else (),
        selection=selection,
        mechanism=mechanism,
        guarantee="",
        charge=Charge(Fraction(1, 2)),
        scale=1.0,
        statement="",
        **more,
    )


def crossed(rows: list[Any], columns: list[Any], names: tuple[str, str] = ("a", "b"), **more: Any) -> Release:
    pairs = list(itertools.product(rows, columns))
    keys = {names[0]: [row for row, _ in pairs], names[1]: [column for _, column in pairs]}
    return released(keys, {"n": [100.0 + 3 * i for i in range(len(pairs))]}, **more)


def counted(size: int, **more: Any) -> Release:
    return released(
        {"k": [f"g{i}" for i in range(size)]}, {"n": [10.0 * (i + 1) for i in range(size)]}, **more
    )


def quantiles(keys: dict[str, list[Any]], size: int) -> Release:
    numbers: dict[str, list[float | None]] = {
        name: [k + 10.0] * size for k, name in enumerate(("p25", "med"))
    }
    return released(keys, numbers, half=None, mechanism="exponential mechanism over 120 cells")


CASES: dict[str, tuple[Kind, Release]] = {
    "one number": ("number", released({}, {"n": [1234.0]}, selection="count")),
    "several numbers": ("number", released({}, {"n": [1234.0], "m": [5.0]}, selection="count")),
    "a date": ("line", released({"month": MONTHS}, {"n": [100.0 + i for i in range(12)]})),
    "a text of months": (
        "line",
        released({"m": [f"2024-{i:02}" for i in range(1, 13)]}, {"n": [9.0 * i for i in range(12)]}),
    ),
    "a numbered year": ("line", released({"birth_year": [1990, 1991, 1992]}, {"n": [1.0, 2.0, 3.0]})),
    "numbered months": (
        "line",
        released({"m": [1, 2, 3]}, {"n": [1.0, 2.0, 3.0]}, properties={"domain": "the months"}),
    ),
    "numbers that are no time": ("bars", released({"rooms": [1, 2, 3]}, {"n": [1.0, 2.0, 3.0]})),
    "two dates": ("bars", released({"month": MONTHS[:2]}, {"n": [1.0, 2.0]})),
    "months of wards": ("lines", crossed(MONTHS, WARDS[:5], ("month", "ward"))),
    "months of more wards": ("panels", crossed(MONTHS, WARDS, ("month", "ward"))),
    "the largest months": (
        "bars",
        released({"month": MONTHS[:5]}, {"n": [5.0, 4.0, 3.0, 2.0, 1.0]}, selection="top-5"),
    ),
    "two short keys": ("grouped", crossed(WARDS[:4], ["F", "M"])),
    "two longer keys": ("cells", crossed(WARDS, ["a", "b", "c", "d", "e"])),
    "two keys with holes": (
        "bars",
        released({"a": list("abcdef"), "b": list("uvwxyz")}, {"n": [float(i) for i in range(6)]}),
    ),
    "groups": ("bars", counted(5)),
    "many groups": ("bars", counted(100)),
    "a threshold": ("bars", counted(4, selection="above threshold 15")),
    "quantiles": ("marks", quantiles({}, 1)),
    "quantiles of groups": ("marks", quantiles({"k": WARDS}, 8)),
    "no rows": ("bars", released({"k": []}, {"n": []})),
    "a negative number": ("bars", released({"k": ["a", "b"]}, {"n": [50.0, -40.0]})),
    "NULL": ("bars", released({"k": ["a", None]}, {"n": [50.0, None]})),
    "dates and NULL": ("line", released({"month": [*MONTHS, None]}, {"n": [float(i) for i in range(13)]})),
}


def chosen(name: str) -> Picture:
    return present(picture_of(CASES[name][1]))


@pytest.mark.parametrize("name", CASES)
def test_the_picture_fits(name: str) -> None:
    kind, release = CASES[name]
    picture = present(picture_of(release))
    assert picture.kind == kind
    assert present(picture_of(release)) == picture, "it is a function of the release"


@pytest.mark.parametrize("name", CASES)
def test_every_number_is_drawn_or_counted_as_folded(name: str) -> None:
    release, picture = CASES[name][1], chosen(name)
    names = release.counts or [c for c in release.rows.column_names if c not in release.keys]
    if picture.kind not in ("number", "marks"):
        names = names[:1]
    every = sorted(v for n in names for v in release.rows.column(n).to_pylist() if v is not None)
    shown = sorted(e.value for e in picture.every)
    assert shown == every or (picture.folded and set(shown) < set(every))


@pytest.mark.parametrize("name", CASES)
def test_a_drawing_stays_within_its_width(name: str) -> None:
    for wide in (*WIDTHS, 720, 200):
        check_width(name, wide)


def check_width(name: str, wide: int) -> None:
    root = ET.fromstring(write_markup(draw(chosen(name), wide)))
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= ELEMENTS
    for each in root.iter():
        for attribute in ("x", "x1", "x2", "y", "y1", "y2", "width", "height"):
            value = float(each.get(attribute, "0"))
            assert math.isfinite(value)
            if attribute in ("x", "x1", "x2"):
                assert -1 <= value <= wide + 1, (each.tag, attribute)
            if attribute in ("width", "height"):
                assert value >= 0
    for path in root.iter(f"{SVG}path"):
        assert "nan" not in path.get("d", "")
        assert "inf" not in path.get("d", "")


@pytest.mark.parametrize("name", CASES)
def test_a_picture_in_characters_fits_a_terminal(name: str) -> None:
    folded = chosen(name).folded
    for style in (Style(80), Style(80, "ascii"), Style(40)):
        text = text_picture(chosen(name), style)
        assert text.endswith("\n")
        text.encode(style.encoding)
        if style.columns == 80:
            assert max(map(width, text.splitlines())) <= 80
        assert not folded or folded.split(";")[0][:12] in text, style


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_in_words_what_is_seen(name: str) -> None:
    picture = chosen(name)
    root = ET.fromstring(write_markup(draw(picture)))
    assert root.get("role") == "img"
    assert root.get("aria-label") == present(root.find(f"{SVG}title")).text == picture.describe()
    numbers = picture.every
    if numbers:
        assert picture.text(max(numbers, key=lambda e: e.value)) in picture.describe()
    assert picture.folded in picture.describe()


def test_of_more_than_thirty_groups_the_largest_are_drawn_and_the_rest_is_said() -> None:
    picture = chosen("many groups")
    assert len(picture.labels) == MOST
    assert picture.labels[0] == "g70"
    assert picture.folded == "the 30 largest of 100 groups; the table has the other 70"
    lowest = present(picture_of(counted(40, selection="top-40 of the lowest")))
    assert lowest.labels[0] == "g0"
    assert lowest.folded.startswith("the 30 lowest of 40")
    wards = [f"w{i}" for i in range(40)]
    panels = present(picture_of(crossed(MONTHS[:3], wards, ("month", "ward"))))
    assert (panels.kind, len(panels.series)) == ("panels", MOST)
    assert "the 30 largest of 40 groups" in panels.folded


def test_of_very_many_rows_only_the_largest_are_read() -> None:
    size = 20_001
    picture = present(picture_of(counted(size)))
    assert (picture.kind, len(picture.labels)) == ("bars", MOST)
    assert picture.labels[-1] == f"g{size - 1}"
    assert picture.folded == "the 30 largest of 20,001 groups; the table has the other 19,971"


def test_sixty_numbers_of_months_and_wards_need_no_sixty_bars() -> None:
    picture = chosen("months of wards")
    assert len(picture.series) == MOST_LINES
    heights = [draw(picture, wide)[1]["height"] for wide in WIDTHS]
    assert max(heights) < 320


def test_a_line_breaks_where_a_month_is_missing() -> None:
    months = [*MONTHS[:4], *MONTHS[6:9], MONTHS[11]]
    values: list[float | None] = [float(i) for i in range(8)]
    values[1] = None
    picture = present(picture_of(released({"month": months}, {"n": values})))
    assert segments(picture, picture.series[0]) == [[0], [2, 3], [4, 5, 6], [7]]


def test_each_group_of_bars_has_its_name_though_its_first_bar_is_missing() -> None:
    keys = {"a": ["x", "x", "y", "y", "z"], "b": ["F", "M", "M", "O", "O"]}
    picture = present(picture_of(released(keys, {"n": [1.0, 2.0, 3.0, 4.0, 5.0]})))
    assert picture.kind == "grouped"
    for wide in WIDTHS:
        texts = [each.text for each in ET.fromstring(write_markup(draw(picture, wide))).iter(f"{SVG}text")]
        assert [text for text in texts if text in ("x", "y", "z")] == ["x", "y", "z"]


def test_what_stands_at_no_time_is_said() -> None:
    assert chosen("dates and NULL").folded == "not on the axis of month: NULL: 12.0 ± 5.0"


def bands(drawn: str) -> list[ET.Element]:
    return [e for e in ET.fromstring(drawn).iter() if "band" in (e.get("class") or "").split()]


def test_a_range_that_is_not_symmetric_looks_so() -> None:
    release = released({"k": ["a", "b"]}, {"n": [1000.0, 500.0]}, half=20.0, low=100.0)
    drawn = write_markup(draw(present(picture_of(release))))
    marks = [float(e.get("x1", "")) for e in ET.fromstring(drawn).iter() if e.get("class") == "mark"]
    for band, mark in zip(bands(drawn), marks, strict=True):
        left, wide = float(band.get("x", "")), float(band.get("width", ""))
        assert (mark - left) / (left + wide - mark) == pytest.approx(5, rel=0.05)
    line = released({"month": MONTHS}, {"n": [1000.0] * 12}, half=20.0, low=100.0)
    (band,) = bands(write_markup(draw(present(picture_of(line)))))
    ends = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", band.get("d", ""))]
    (curve,) = (e for e in ET.fromstring(line.to_svg()).iter() if (e.get("class") or "").startswith("line"))
    middle = float(re.findall(r"M[\d.]+ ([\d.]+)", curve.get("d", ""))[0])
    assert (max(ends) - middle) / (middle - min(ends)) == pytest.approx(5, rel=0.05)


def test_a_range_without_a_lower_end_has_none_in_the_picture() -> None:
    release = released({"k": ["a", "b"]}, {"n": [90.0, 80.0]}, half=10.0)
    place = release.table.column_names.index("n_low")
    table = release.table.set_column(place, "n_low", pa.array([None, 70.0], pa.float64()))
    picture = present(picture_of(replace(release, table=table)))
    first, second = (e for e in ET.fromstring(write_markup(draw(picture))).iter(f"{SVG}g") if len(e) > 3)
    ends = [sum(e.get("class") == "end" for e in bar) for bar in (first, second)]
    assert ends == [1, 2]
    assert "may be a false row" in text_picture(picture, Style(80))


def test_the_rule_of_a_threshold_crosses_all_bars() -> None:
    root = ET.fromstring(write_markup(draw(chosen("a threshold"))))
    (rule,) = (e for e in root.iter() if e.get("class") == "rule")
    bars = [e for e in root.iter() if (e.get("class") or "").startswith("bar")]
    assert float(rule.get("y1", "")) <= min(float(bar.get("y", "")) for bar in bars)
    assert float(rule.get("y2", "")) >= max(float(bar.get("y", "")) for bar in bars)
    assert "threshold 15" in text_picture(chosen("a threshold"), Style(80))
    assert chosen("groups").threshold is None
    assert present(picture_of(counted(3, selection="top-3 above 1,500.5"))).threshold == 1500.5


def test_gaps_are_drawn_where_they_were_asked_for() -> None:
    release = counted(3, selection="top-3")
    gaps = pa.array([20.0, 10.0, None])
    free = replace(release, table=release.table.append_column("gap", gaps))
    assert present(picture_of(free)).gaps == ()
    rows, table = (each.add_column(2, "gap", gaps) for each in (release.rows, release.table))
    asked = present(picture_of(replace(release, rows=rows, table=table)))
    assert [text.strip() for text in asked.gaps] == ["20.0", "10.0", ""]
    drawn = [text.text for text in ET.fromstring(write_markup(draw(asked))).iter(f"{SVG}text")]
    assert [text for text in drawn if text and "gap" in text] == ["↕ gap 20.0", "↕ gap 10.0"]


def test_quantiles_of_dates_are_dates() -> None:
    days = [datetime.date(2024, 1, 31)]
    release = replace(CASES["quantiles"][1], rows=pa.table({"d": days}), table=pa.table({"d": days}))
    picture = present(picture_of(release))
    assert (picture.kind, picture.dated) == ("marks", True)
    assert "2024-01-31" in picture.describe()
    assert "2024-01-31" in release.to_svg()


def test_an_axis_that_does_not_begin_at_zero_is_said() -> None:
    high = released({"month": MONTHS}, {"n": [1000.0 + i for i in range(12)]})
    for drawn in (high.to_svg(), text_picture(present(picture_of(high)), Style(80))):
        assert "the axis of numbers does not begin at 0" in drawn
    low = released({"month": MONTHS}, {"n": [100.0 * i for i in range(12)]})
    assert "does not begin at 0" not in low.to_svg()


def test_what_an_answer_leaves_out_stands_below_its_picture() -> None:
    release = counted(3, properties={"line.cut": "left out: rows beyond 5 (not in the range)"})
    for drawn in (release.to_svg(), text_picture(present(picture_of(release)), Style(80))):
        assert "left out: rows beyond 5" in drawn
        assert "epsilon 0.5" in drawn


def test_a_notebook_draws_bars_in_the_table_and_other_pictures_above() -> None:
    assert release_html(CASES["groups"][1]).count("<svg") == 5
    line = release_html(CASES["a date"][1])
    assert line.count("<svg") == 1
    assert line.index("<svg") < line.index("<table")
    assert "<details>" not in line
    long = release_html(CASES["months of wards"][1])
    assert "<details><summary>60 rows</summary><table>" in long


def test_there_is_nothing_to_draw_of_keys_alone() -> None:
    release = released({"k": ["a"]}, {}, half=None)
    assert picture_of(release) is None
    with pytest.raises(ProgrammingError, match="no noisy number to draw"):
        release.to_svg()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(texts, texts, st.floats(-1e15, 1e15), st.floats(0, 1e9)), min_size=1, max_size=40),
    st.sampled_from(WIDTHS),
)
def test_no_text_and_no_number_breaks_a_drawing(rows: list[tuple[str, str, float, float]], wide: int) -> None:
    first, second, numbers, halves = (list(column) for column in zip(*rows, strict=True))
    release = released({"a": first, "b": second}, {"n": numbers}, half=1.0)
    ends = [pa.array([n + s * h for n, h in zip(numbers, halves, strict=True)]) for s in (-1, 1)]
    table = release.table
    for name, end in zip(("n_low", "n_high"), ends, strict=True):
        table = table.set_column(table.column_names.index(name), name, end)
    picture = present(picture_of(replace(release, table=table)))
    drawn = write_markup(draw(picture, wide))
    root = ET.fromstring(drawn)
    assert "nan" not in drawn.lower().replace("".join(first + second).lower(), "") or any(
        "nan" in text.lower() for text in (*first, *second)
    )
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= ELEMENTS
    text_picture(picture, Style(80, "ascii")).encode("ascii")


@pytest.mark.parametrize("name", [name for name in CASES if name != "no rows"])
@pytest.mark.parametrize("package", ["matplotlib", "altair"])
@pytest.mark.sampled(5, rest="longer")
def test_the_packages_draw_every_kind(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(package)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(
        plot_packages, "find_spec", lambda known: ModuleSpec(known, None) if known == package else None
    )
    drawn = CASES[name][1].plot()
    if package == "altair":
        assert "value" in str(drawn.to_dict())
    else:
        from matplotlib import pyplot

        drawn.figure.canvas.draw()
        pyplot.close("all")
