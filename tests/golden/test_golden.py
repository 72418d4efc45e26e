"""Compiled SQL, prices, predictions and outputs of mechanisms are those recorded.

A difference that is meant is recorded by `python -m tests.golden.record`, which says what changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from dpsql.audit.detector import AUDITED
from dpsql.noise import SeededEntropy
from tests.golden import outputs
from tests.golden.answers import answers
from tests.golden.record import ALL, ANSWERS, FIXTURES, OUTPUTS, RANDOM, changes, read, recorded
from tests.golden.texts import COLUMNS, REFUSED
from tests.golden.worlds import (
    Golden,
    answered_statements,
    fixture_statements,
    fixtures,
    random_statements,
)

DAILY, PART = 6, 200
"""Random statements of every day, and of each part of the others."""


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_fixtures_compile_to_what_was_recorded(every: int) -> None:
    with fixture_statements() as statements:
        before = dict(list(read(FIXTURES).items())[::every])
        assert list(changes(before, recorded(statements[::every]))) == []


def test_the_fixtures_are_those_that_were_recorded() -> None:
    assert [*read(FIXTURES)] == [fixture.name.split()[1] for fixture in fixtures()]


@pytest.mark.parametrize(
    "numbers",
    [
        (*range(DAILY), *range(ALL - 5, ALL)),  # each depends on its seed alone
        *(
            pytest.param(tuple(range(first, min(first + PART, ALL))), marks=pytest.mark.slow)
            for first in range(DAILY, ALL, PART)
        ),
    ],
    ids=lambda numbers: f"{numbers[0]} to {numbers[-1]}",
)
def test_random_statements_compile_to_what_was_recorded(numbers: Sequence[int]) -> None:
    with random_statements(numbers) as statements:
        names = {golden.name for golden in statements}
        before = {name: hashes for name, hashes in read(RANDOM).items() if name in names}
        assert list(changes(before, recorded(statements))) == []


@pytest.mark.parametrize("every", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_statements_answer_and_cost_what_was_recorded(every: int) -> None:
    with answered_statements(every) as statements:
        names = {golden.name for golden in statements}
        before = {name: hashes for name, hashes in read(ANSWERS).items() if name in names}
        assert list(changes(before, answers(statements))) == []


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_mechanisms_give_what_was_recorded(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every day of every third mechanism, and of all samplers, which all mechanisms draw from."""
    monkeypatch.setattr("tests.golden.outputs.AUDITED", AUDITED[::every])
    left_out = {outputs.named(case.name) for case in AUDITED} - {
        outputs.named(case.name) for case in AUDITED[::every]
    }
    before = {name: hashes for name, hashes in read(OUTPUTS).items() if name not in left_out}
    assert list(changes(before, outputs.outputs())) == []


def test_most_statements_are_recorded_for_all_engines() -> None:
    for path, least in ((FIXTURES, 0.88), (RANDOM, 0.6)):
        found = read(path)
        assert len(found) >= (ALL if path == RANDOM else 300)
        for place, column in enumerate(COLUMNS):
            refused = [name for name, hashes in found.items() if hashes[place] == REFUSED]
            assert len(refused) <= (1 - least) * len(found), column


# -- what is noticed


TEXT = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2"
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) "
NOTICED = [
    ("SELECT ", OPTIONS, "price, explain"),
    ("LIMIT 2", "LIMIT 3", "explain"),
    ("visits", "visits WHERE ms > 3", "duckdb, postgres, spark"),
    ("LIMIT 2", "LIMIT none", ", ".join(f"{column} is refused now" for column in COLUMNS[1:])),
]


@pytest.fixture(scope="module")
def one() -> Iterator[Golden]:
    with fixture_statements() as statements:
        yield Golden("one", TEXT, statements[0].session)


@pytest.mark.parametrize(("old", "new", "columns"), NOTICED)
def test_another_statement_is_noticed(one: Golden, old: str, new: str, columns: str) -> None:
    other = Golden("one", TEXT.replace(old, new, 1), one.session)
    assert list(changes(recorded([one]), recorded([other]))) == [f"one: text, {columns}"]


def test_other_random_words_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the samplers, and of every sixth mechanism: what is noticed is the words, not the mechanism."""
    monkeypatch.setattr("tests.golden.outputs.SeededEntropy", lambda seed: SeededEntropy(seed + 1))
    monkeypatch.setattr("tests.golden.outputs.AUDITED", AUDITED[::6])
    before, after = read(OUTPUTS), outputs.outputs()
    assert len(after) > len(AUDITED) // 6
    assert {name for name in after if before[name] == after[name]} == set()


def test_what_changed_is_said_by_statement() -> None:
    one, other = ["a"] * len(COLUMNS), ["a", REFUSED, *"b" * (len(COLUMNS) - 2)]
    assert list(changes({"x": one, "y": one}, {"y": other, "z": one})) == [
        "x: gone",
        "y: duckdb is refused now, postgres, spark, price, explain",
        "z: new",
    ]
    (said,) = changes({"y": other}, {"y": one})
    assert said.startswith("y: duckdb was refused, postgres, ")
