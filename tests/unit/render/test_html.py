"""A release in a notebook."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pyarrow as pa

from dpsql.kernel.loss import Charge
from dpsql.policy import Assumed
from dpsql.release import Release
from dpsql.render.html import release_html, tag

TEN = Charge(Fraction(10))


def parsed(html: str) -> ET.Element:
    return ET.fromstring(html)


def test_rows_counts_gaps_and_bars(fakes: SimpleNamespace) -> None:
    html = release_html(fakes.top_k(), TEN)
    rows = [["".join(cell.itertext()) for cell in row] for row in parsed(html).iter("tr")]
    assert rows == [
        ["diagnosis", "n", "gap", ""],
        ["Essential hypertension", "1,234 ± 41", "247", ""],
        ["Type 2 diabetes", "987 ± 41", "184", ""],
        ["Low back pain", "803 ± 41", "", ""],
    ]
    assert "epsilon 1 of 10 · noisy top-k with gap · 95% ± 41" in html


def test_bars_are_svg_with_the_interval(fakes: SimpleNamespace) -> None:
    first = next(parsed(release_html(fakes.top_k())).iter("svg"))
    solid, pale = (float(rect.get("width", "0")) for rect in first.iter("rect"))
    assert (solid, pale) == (187.4, 12.6)
    assert first.get("aria-label") == "1,234 ± 41"


def test_everything_is_escaped_and_there_is_no_script(fakes: SimpleNamespace) -> None:
    evil = "<script>alert(1)</script>&\"'"
    release: Release = fakes.top_k(1)
    rows = pa.table({evil: [evil], "n": release.rows.column("n")})
    table = rows.append_column("gap", pa.array([None], pa.float64()))
    html = release_html(
        replace(release, rows=rows, table=table, keys=(evil,), mechanism=evil, warnings=(evil,))
    )
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#x27;") == 4
    assert " on" not in "".join(parsed(html).itertext()).replace("epsilon", "")


def test_many_rows_nulls_and_keys_alone(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k(1)
    keys = pa.table({"k": [None, *range(999)]})
    many = replace(release, rows=keys, table=keys, counts=())
    html = release_html(many)
    assert len(list(parsed(html).iter("tr"))) == 201
    assert "800 more rows are not shown" in html
    assert "<i>NULL</i>" in html
    assert "<svg" not in html
    empty = replace(many, rows=keys.slice(0, 0), table=keys.slice(0, 0))
    assert len(list(parsed(release_html(empty)).iter("tr"))) == 1


def test_attributes_are_escaped() -> None:
    evil = "\"><script>alert('1')</script>"
    assert parsed(tag("p", "text", title=evil, aria_label=evil)).attrib == {"title": evil, "aria-label": evil}


def test_what_is_free_is_rounded_as_in_a_terminal(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k(1)
    rows = release.rows.append_column("low", release.table.column("n_low"))
    html = release_html(replace(release, rows=rows))
    assert [cell.text for cell in parsed(html).iter("td")][1:3] == ["1,234 ± 41", "1,194"]


def test_controls_cannot_turn_the_direction_of_text(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k(1)
    rows = release.rows.set_column(0, "diagnosis", pa.array(["x\u202ey"]))
    assert "x\\u202ey" in release_html(replace(release, rows=rows))


def test_what_the_policy_cuts_stands_below_the_answer(fakes: SimpleNamespace) -> None:
    cut = Assumed("values of cost outside 0 to 200 are cut", where="policy")
    release: Release = replace(fakes.top_k(1), assumed=(cut,))
    assert "assumed: values of cost outside 0 to 200 are cut (policy)" in release_html(release)
    assert repr(release).endswith("\nassumed: values of cost outside 0 to 200 are cut (policy)")


def test_bars_of_negative_numbers_are_drawn_from_zero(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k(2)
    values = pa.array([100.0, -50.0])
    rows = release.rows.set_column(1, "n", values)
    table = release.table.set_column(1, "n", values)
    for name, ends in (("n_low", [90.0, -60.0]), ("n_high", [110.0, -40.0])):
        table = table.set_column(table.column_names.index(name), name, pa.array(ends))
    html = release_html(replace(release, rows=rows, table=table))
    first, second = parsed(html).iter("svg")
    spans = [
        [(float(rect.get("x", "0")), float(rect.get("width", "0"))) for rect in svg.iter("rect")]
        for svg in (first, second)
    ]
    zero = round(60 / 170 * 200, 1)
    assert spans[0][0][0] == zero
    assert spans[0][1] == (round(150 / 170 * 200, 1), round(20 / 170 * 200, 1))
    assert spans[1][1] == (0.0, round(20 / 170 * 200, 1))
    assert sum(spans[1][0]) == zero
