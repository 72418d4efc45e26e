"""A release at Python's prompt, and which count orders it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa

from dpsql.release import Release, from_bytes, to_bytes
from dpsql.render.grid import Style
from dpsql.render.picture_choice import picture_of
from dpsql.render.readable import ordering_estimates, ordering_number
from dpsql.render.table import as_table
from dpsql.render.text_pictures import text_picture
from tests.narrow import present


def test_a_release_says_what_it_is(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k()
    assert repr(release) == str(release)
    assert repr(release).splitlines() == [
        "<Release: top-k>",
        "diagnosis                        n  gap",
        "Essential hypertension  1,234 ± 41  247",
        "Type 2 diabetes           987 ± 41  184",
        "Low back pain             803 ± 41",
        "epsilon 1 · noisy top-k with gap · 95% ± 41",
    ]


def test_a_long_release_is_cut_and_cannot_steer_the_terminal(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k(1)
    keys = pa.table({"k": ["\x1b[31m" + "x" * 100, None, *map(str, range(40))]})
    lines = repr(replace(release, rows=keys, table=keys, counts=())).splitlines()
    assert len(lines) == 1 + 1 + 20 + 1 + 1
    assert lines[2].startswith("\\x1b[31mxxx")
    assert lines[2].endswith("…")
    assert lines[3] == "NULL"
    assert lines[-2] == "(22 more rows)"
    empty = replace(release, rows=keys.slice(0, 0), table=keys.slice(0, 0), counts=())
    assert "(no rows)" in repr(empty)


def test_a_notebook_gets_bars_from_the_release_itself(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k()
    assert release._repr_html_().count("<svg") == 3
    assert from_bytes(to_bytes(release))._repr_html_() == release._repr_html_()


def test_the_bars_are_those_of_the_count_that_orders(fakes: SimpleNamespace) -> None:
    release: Release = fakes.top_k()
    more = pa.array([5.0, 7.0, 9.0])

    def wider(table: pa.Table) -> pa.Table:
        return table.add_column(1, "other", more)

    both = replace(
        release, rows=wider(release.rows), table=wider(release.table), counts=("other", "n"), properties={}
    )
    assert present(ordering_number(both)).place == 1
    named = replace(both, properties={"ordering": "n"})
    assert present(ordering_number(named)).place == 2
    assert [e.value for e in ordering_estimates(named) if e is not None] == release.rows["n"].to_pylist()
    assert "1,234 ± 41" in named._repr_html_().partition("<svg")[2]
    assert "1,275" in as_table(named.rows, named, Style(100))
    assert "1,234" in text_picture(present(picture_of(named)), Style(100))
    # A name that is no count of the release (one from a later version, say) changes nothing.
    assert present(ordering_number(replace(both, properties={"ordering": "gone"}))).place == 1
    assert ordering_number(replace(release, counts=())) is None
