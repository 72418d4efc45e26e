"""What is asked is what is answered: random statements at epsilon 10^6 against plain DuckDB, in every form.

1 to 5 keys x 1 to 6 numbers of all kinds, with and without names, equal names, outer SQL of five forms around
them; NULL, NaN, infinities and the ends of 64 bits. Nothing is wrong, nothing is missing, no error is raised
that is not dpsql's own; and what is stored opens again.

A campaign of one's own: `python -m tests.property.statement_fuzz 0 2000`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from fuzz.answered import Figures, campaign, compare
from fuzz.asked import EPSILON, UNITS, Asked, Number, write_data

from dpsql import places
from dpsql.dbapi import Connection, connect
from dpsql.errors import DataError, Error, OperationalError
from dpsql.places import Places
from dpsql.planning import divided_methods
from dpsql.release import describe_opening

SMALL, PARTS, OF_PART = 24, 20, 1_000
"""Statements of every day; parts of the full size, which run beside each other, and statements of each."""


def told(found: Figures) -> str:
    """Write what a campaign found, one statement of each kind."""
    shown = {what[:40]: f"{what}\n  seed {seed}: {text}" for what, text, seed in found.failures[::-1]}
    return "\n".join([*(f"{n} times: {kind}" for kind, n in found.kinds().items()), *shown.values()])


def test_what_is_asked_is_what_is_answered() -> None:
    found = campaign(range(SMALL), every=20, forms=2)
    assert not found.failures, told(found)
    assert found.compared > 0.9 * SMALL, found.refusals
    kinds = {"count", "sum", "ratio", "moment", "quantile", "equal names"}
    sizes = {*(f"keys {n}" for n in range(6)), *(f"numbers {n}" for n in range(1, 7))}
    assert {*kinds, *sizes, *(f"outer {n}" for n in range(6))} <= {*found.features}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_asked_is_what_is_answered_in_full(part: int) -> None:
    first = SMALL + part * OF_PART
    found = campaign(range(first, first + OF_PART))
    assert not found.failures, told(found)
    assert found.compared > 0.9 * OF_PART, found.refusals


# -- what the comparison notices


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("fuzz")
    write_data(made, Random(1), sparse=False)
    return made


@pytest.fixture
def connection(folder: Path) -> Iterator[Connection]:
    with connect(folder / "dpsql.toml", analyst="ana") as made:
        yield made


def plain(folder: Path, sql: str) -> pa.Table:
    with duckdb.connect() as own:
        own.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet('{folder / 't.parquet'}')")
        return own.sql(sql).to_arrow_table()


COUNTS = "SELECT g, COUNT(*) FROM t GROUP BY g"
NOTICED = [
    (COUNTS, "SELECT g, COUNT(*) + 1 FROM t GROUP BY g", 1, "count differs"),
    (
        "SELECT g, COUNT(*) FROM t WHERE g <> 'a' OR g IS NULL GROUP BY g",
        COUNTS,
        1,
        "missing in group ('a',)",
    ),
    ("SELECT COUNT(*) FROM t", "SELECT NULL FROM t LIMIT 1", 0, "count NULL"),
    (COUNTS, "SELECT 'z', COUNT(*) FROM t", 1, "missing in group ('z',)"),
    (COUNTS, "SELECT g, COUNT(*) FROM t WHERE g = 'a' GROUP BY g", 1, "not there"),
    (COUNTS, "SELECT g FROM t GROUP BY g", 1, "2 columns for 1"),
]


@pytest.mark.parametrize(("text", "known", "keys", "words"), NOTICED)
def test_a_wrong_answer_is_noticed(
    connection: Connection, folder: Path, text: str, known: str, keys: int, words: str
) -> None:
    made = Asked(text, known, keys, (Number("COUNT(*)", "COUNT(*)", "count"),))
    assert words in compare(made, connection.execute(text), plain(folder, known))


def wrong_users(plan: object) -> dict[int, set[int]]:
    """Look keys up among the numbers, by their place among the keys."""
    found: dict[int, set[int]] = {-1: set()}
    for i, output in enumerate(plan.outputs):  # type: ignore[attr-defined]  # a plan
        used = [plan.equal[p] for p in output.uses or (output.of,) if p >= 0]  # type: ignore[attr-defined]
        for number in (-1,) if output.kind == "key" else used:
            found.setdefault(number, set()).add(i)
    return found


MISTAKES: list[tuple[str, Callable[[pytest.MonkeyPatch], None], str, range, int]] = [
    (
        "numbers by their place among the keys",
        lambda patch: patch.setattr(divided_methods, "_users_of", wrong_users),
        "IndexError",
        range(85, 86),  # 5 keys and 2 numbers that are measured apart
        0,
    ),
    (
        "equal names of what is added",
        lambda patch: patch.setattr(places, "_free", lambda name, *_, **__: name),
        "have one name",
        range(12),
        100,
    ),
    (
        "no places of a stored release",
        lambda patch: patch.setattr(Places, "of_facts", classmethod(lambda cls, _: cls((), ()))),
        "form stored",
        range(2),
        100,
    ),
]


SLOW = "equal names of what is added"
"""Its statements take two seconds."""
CASES = [pytest.param(*m[1:], marks=[pytest.mark.slow] * (m[0] == SLOW)) for m in MISTAKES]


@pytest.mark.parametrize(("mistake", "words", "seeds", "forms"), CASES, ids=[m[0] for m in MISTAKES])
def test_a_column_at_a_wrong_place_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None],
    words: str,
    seeds: range,
    forms: int,
) -> None:
    mistake(monkeypatch)
    found = campaign(seeds, forms=forms)
    assert [what for what, _, _ in found.failures if words in what], told(found)


# -- what fails after an answer is stored


def test_what_fails_behind_the_release_says_how_it_is_opened(connection: Connection) -> None:
    with pytest.raises(OperationalError, match="stored as release") as caught:
        connection.execute("SELECT CAST(n AS TINYINT) FROM (SELECT COUNT(*) AS n FROM t)")
    number = int(str(caught.value).partition("SHOW RELEASE ")[2].split()[0])
    spent = connection.budget().spent
    assert round(connection.release(number).rows.column(0)[0].as_py()) == UNITS
    assert connection.execute(f"SHOW RELEASE {number}").fetchall()
    assert connection.budget().spent == spent


def test_what_python_cannot_hold_says_how_it_is_opened(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = connection.execute("SELECT COUNT(*) AS n FROM t")
    assert cursor.release is not None
    hint = f"\nHint: {describe_opening(cursor.release)}"
    assert hint.endswith(f"SHOW RELEASE {cursor.release.number} opens it, free")
    for broken in (ValueError("a secret"), KeyError("n"), DataError("no form")):

        def fails(*_: object, error: Exception = broken, **__: object) -> None:
            raise error

        monkeypatch.setattr("dpsql.dbapi.rows._values", fails)
        monkeypatch.setattr("dpsql.render.table.show", fails)
        monkeypatch.setattr("dpsql.render.html.release_html", fails)
        for call in (cursor.fetchall, cursor.show, cursor._repr_html_):
            with pytest.raises(Error) as caught:
                call()
            assert str(caught.value).endswith(hint)
            assert "secret" not in str(caught.value)
        cursor = connection.execute("SELECT COUNT(*) AS n FROM t")


def test_epsilon_is_large_enough_to_compare() -> None:
    assert EPSILON >= 10**6
