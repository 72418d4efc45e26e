"""Whether a statement fails depends on no value: every form, in every place, over hostile private values.

The forms are total one by one (`test_functions`); here they run through compiled statements, where the
optimizer rewrites them, and where TRY stands around whatever computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fuzz.mutant import without_second_guard
from fuzz.totality import PLACES, Hostile, Place, syntax, texts

from dpsql.analysis import scalar_functions
from dpsql.engines.duckdb import duckdb_settings
from dpsql.errors import QueryRefused
from dpsql.kernel.tree import Form, listed_forms
from tests.support.claimed import certify_claims

BY_NAME = {place.name: place for place in PLACES}
WHERE = BY_NAME["WHERE"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    made = Hostile(tmp_path_factory.mktemp("hostile"), 60)
    yield made
    made.close()


def test_a_sample_of_forms_fails_on_no_value_in_any_place(hostile: Hostile) -> None:
    every = [*texts(), *syntax()]
    found = []
    for i, place in enumerate(PLACES):
        found += hostile.failing(every[7 * i :: 150 if place.together > 1 else 400], place)
    assert not found, "\n".join(found[:5])
    assert set(hostile.ran) == set(BY_NAME)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.name)
def test_no_form_fails_on_any_value(
    tmp_path: Path, place: Place, record_property: Callable[[str, object], None]
) -> None:
    hostile = Hostile(tmp_path, 300, seed=len(place.name))
    try:
        found = hostile.failing([*texts(), *syntax()], place)
    finally:
        hostile.close()
    record_property("pairs", hostile.pairs)
    print(f"{place.name}: {hostile.pairs:,} pairs, {hostile.refused} expressions refused")
    assert not found, "\n".join(found[:5])
    assert hostile.pairs > 200_000


RAISING = 'chr("INTEGER 0")'


def unguarded(patch: pytest.MonkeyPatch) -> None:
    certify_claims(patch)
    patch.setitem(listed_forms(), "chr", (Form("chr", "Y", ("INTEGER",), "chr({0})"),))


@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.name)
def test_a_form_without_its_guard_stands_behind_the_wall(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    unguarded(monkeypatch)
    before = hostile.ran.get(place.name, 0)
    assert not hostile.failing([RAISING], place)
    assert hostile.ran[place.name] == before + 1


@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.name)
@pytest.mark.sampled(4)
def test_a_form_without_guard_and_wall_is_noticed(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    unguarded(monkeypatch)
    without_second_guard(monkeypatch)
    assert hostile.failing([RAISING], place)


PARTS = [RAISING, f"upper({RAISING})", f"lower({RAISING})"]


def test_what_two_expressions_share_stays_behind_the_wall(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine would compute a common part once, before both: outside of any TRY."""
    unguarded(monkeypatch)
    assert not hostile.failing(PARTS, BY_NAME["FILTER"])


def test_an_engine_that_shares_parts_of_expressions_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB 2.0.0 shares what may fail; later versions do not, as this shows for each that is tested."""
    unguarded(monkeypatch)
    monkeypatch.setattr(duckdb_settings, "_UNSAFE_OPTIMIZERS", ("type_pushdown",))
    hostile = Hostile(tmp_path, 60)
    try:
        shares = duckdb_settings.installed_version() == "2.0.0"
        assert bool(hostile.failing(PARTS, BY_NAME["FILTER"])) == shares
    finally:
        hostile.close()


SPLITTING = [
    "regexp_extract(\"VARCHAR 0\", '\\C')",
    "regexp_extract(\"VARCHAR 0\", 'secret\\C')",
    "regexp_extract_all(\"VARCHAR 0\", '\\C')",
    "regexp_replace(\"VARCHAR 0\", '\\C', '')",
    "string_split_regex(\"VARCHAR 0\", '\\C')",
    "string_split_regex(\"VARCHAR 0\", '\\B')",
]


@pytest.mark.parametrize("text", SPLITTING)
def test_a_pattern_that_splits_characters_is_refused(hostile: Hostile, text: str) -> None:
    with pytest.raises(QueryRefused, match="does not take"):
        hostile.runs(WHERE.write([text]))


@pytest.mark.parametrize("text", SPLITTING)
@pytest.mark.sampled(4)
def test_a_pattern_that_splits_characters_stands_behind_the_wall(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(scalar_functions, "is_splitting_characters", lambda pattern: False)
    monkeypatch.setattr(scalar_functions, "is_failing_on_samples", lambda *given: False)
    for place in (WHERE, BY_NAME["key"], BY_NAME["window"]):
        assert not hostile.failing([text], place)
