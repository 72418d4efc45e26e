"""Charts of a release: SVG, matplotlib, Altair, and what has nothing to draw."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dpsql.errors import InterfaceError, ProgrammingError
from dpsql.places import NumberPlace, Places
from dpsql.release import Release
from dpsql.render import plot_packages
from dpsql.render.html import document

SVG = "{http://www.w3.org/2000/svg}"


def test_an_svg_has_a_bar_and_a_number_for_each_row(fakes: SimpleNamespace) -> None:
    root = ET.fromstring(fakes.top_k(3).to_svg())
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts == [
        "n by diagnosis, 95% intervals",
        *("Essential hypertension", "1,234 ± 41"),
        *("Type 2 diabetes", "987 ± 41"),
        *("Low back pain", "803 ± 41"),
        "epsilon 1 · noisy top-k with gap · 95% intervals",
    ]
    bars = [(float(bar.get("x", "")), float(bar.get("width", ""))) for bar in root.iter(f"{SVG}rect")]
    solid, pale = bars[::2], bars[1::2]
    ends = [x + wide for x, wide in pale]
    assert ends == sorted(ends, reverse=True)
    # The interval of 80.6 of 1274.7 is pale.
    assert pale[0][1] == pytest.approx((ends[0] - solid[0][0]) * 80.6 / 1274.7, abs=0.2)
    for (start, wide), (next_start, _) in zip(solid, pale, strict=True):
        assert start + wide == pytest.approx(next_start, abs=0.2)


def test_texts_are_escaped_in_charts_and_pages(fakes: SimpleNamespace) -> None:
    evil = "<script>\x1b[31m&\"'"
    release: Release = fakes.top_k(1)
    rows = pa.table({evil: [evil], "n": release.rows.column("n")})
    table = release.table.set_column(0, evil, rows.column(0))
    found = replace(release, rows=rows, table=table, keys=(evil,), mechanism=evil)
    for drawn in (found.to_svg(), document(evil, found.to_html())):
        assert "<script>" not in drawn
        assert "\x1b" not in drawn
    ET.fromstring(found.to_svg())


def test_a_number_is_named_or_the_first(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k(2)
    rows = release.rows.append_column("m", pa.array([5.0, None]))
    table = release.table.add_column(2, "m", rows.column("m"))
    found = replace(release, rows=rows, table=table, counts=("n", "m"))
    assert ">n by diagnosis, 95% intervals</text>" in found.to_svg()
    assert ">m by diagnosis</text>" in found.to_svg("m")
    assert len(list(ET.fromstring(found.to_svg("m")).iter(f"{SVG}rect"))) == 1, "there is no interval"
    assert ">NULL</text>" in found.to_svg("m")
    with pytest.raises(ProgrammingError, match="no noisy number 'x' to draw\nHint: it has n, m"):
        found.to_svg("x")


def test_of_two_numbers_with_one_name_the_place_tells(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k(2)
    rows = release.rows.append_column("n", pa.array([5.0, None]))
    table = release.table.add_column(2, "n", rows.column(2))
    places = Places((0,), (NumberPlace(1, 4, 5, 6), NumberPlace(2)))
    found = replace(release, rows=rows, table=table, counts=("n", "n"), places=places)
    with pytest.raises(ProgrammingError, match="called 'n'\nHint: give the place of one: 1, 2"):
        found.to_svg("n")
    assert len(list(ET.fromstring(found.to_svg(2)).iter(f"{SVG}rect"))) == 1
    assert found.to_svg(1) == found.to_svg()


def test_a_release_without_rows_or_keys(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k(1)
    empty = replace(release, rows=release.rows.slice(0, 0), table=release.table.slice(0, 0))
    assert "epsilon 1" in empty.to_svg()
    table = release.table.drop_columns(["diagnosis"])
    single = replace(release, rows=release.rows.select(["n"]), table=table, keys=())
    assert [text.text for text in ET.fromstring(single.to_svg()).iter(f"{SVG}text")][:3] == [
        "n, 95% interval",
        "1,234",
        "± 41",
    ]


def test_markdown_and_html_of_a_release(fakes: SimpleNamespace) -> None:
    text = fakes.top_k(2).to_markdown()
    assert "| Type 2 diabetes        |   987 ± 41 |" in text
    assert text.endswith("*epsilon 1 · noisy top-k with gap · 95% ± 41*\n")
    assert fakes.top_k(2).to_html() == fakes.top_k(2)._repr_html_()


# -- other packages, in place of which these record what they are told


class Recorder:
    """Takes any call, and remembers it by the name of the attribute."""

    def __init__(self, calls: dict[str, tuple[Any, ...]]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self._calls[name] = (*args, options)
            return (None, self) if name == "subplots" else self

        return call

    def __add__(self, other: Any) -> Any:
        return self


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The packages that are found."""
    names: set[str] = set()
    found = lambda name: ModuleSpec(name, None) if name in names else None  # noqa: E731
    monkeypatch.setattr(plot_packages, "find_spec", found)
    return names


def test_without_a_package_the_hint_says_what_needs_none(fakes: SimpleNamespace, installed: set[str]) -> None:
    with pytest.raises(InterfaceError, match=r"dpsql\[plot\].*to_svg"):
        fakes.top_k().plot()


def test_matplotlib_is_told_values_and_intervals(
    fakes: SimpleNamespace, installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed |= {"matplotlib", "altair"}
    calls: dict[str, tuple[Any, ...]] = {}
    monkeypatch.setitem(sys.modules, "matplotlib", SimpleNamespace(pyplot=Recorder(calls)))
    release: Release = fakes.top_k(2)
    names = pa.array(["$a$", "b"])
    rows, table = (each.set_column(0, "diagnosis", names) for each in (release.rows, release.table))
    axes = replace(release, rows=rows, table=table).plot()
    assert isinstance(axes, Recorder)
    assert calls["barh"][1] == [1234.4, 987.1]
    below, above = calls["errorbar"][2]["xerr"]
    assert below == pytest.approx([40.3, 40.3])
    assert above == pytest.approx([40.3, 40.3])
    assert calls["set_yticks"][1] == [r"\$a\$", "b"]


def test_altair_is_told_values_and_intervals(
    fakes: SimpleNamespace, installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.add("altair")
    calls: dict[str, tuple[Any, ...]] = {}
    monkeypatch.setitem(sys.modules, "altair", Recorder(calls))
    fakes.top_k(2).plot("n")
    rows = calls["Data"][0]["values"]
    assert [(row["label"], row["value"]) for row in rows] == [
        ("Essential hypertension", 1234.4),
        ("Type 2 diabetes", 987.1),
    ]
    assert rows[0]["low"] == pytest.approx(1194.1)
    assert rows[0]["high"] == pytest.approx(1274.7)
    assert calls["X2" if "X2" in calls else "X"][0] == "low:Q"


@pytest.mark.parametrize("package", ["matplotlib", "altair"])
@pytest.mark.sampled(2, rest="longer")
def test_real_packages_draw(
    fakes: SimpleNamespace, installed: set[str], monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    pytest.importorskip(package)
    monkeypatch.setenv("MPLBACKEND", "agg")
    installed.add(package)
    drawn = fakes.top_k(3).plot()
    if package == "altair":
        assert len(drawn.to_dict()["layer"]) == 2
    else:
        assert drawn.get_yticklabels()[0].get_text() == "Essential hypertension"
        drawn.figure.canvas.draw()
