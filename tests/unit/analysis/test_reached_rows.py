"""Keys of public tables: candidates are the rows that a join can reach; very many of them are warned of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.cli import main
from tests.narrow import private
from tests.nearly_exact import NearlyExact, nearly_exact

DATA = """
CREATE TABLE concept AS SELECT i AS concept_id, 'name ' || i AS concept_name FROM range(27) AS r(i);
CREATE TABLE person AS
SELECT i AS person_id, i % 2 AS gender, i % 9 AS place, i * 100000 AS far, 1950 + i % 50 AS born
FROM range(100) AS r(i);
CREATE TABLE drug AS
SELECT i AS id, i % 100 AS person_id, 5 + i // 3 % 2 AS concept_id, DATE '2010-01-01' + (i % 1000)::INT AS day
FROM range(500) AS r(i);
"""
POLICY = """
[defaults]
rows_per_unit = 20
groups = 16
[tables.concept]
source = "concept"
public = true
unique = [["concept_id"]]
[tables.person]
source = "person"
unit = "person_id"
unique = [["person_id"]]
[tables.person.domain]
gender = [0, 1]
place = { from = 0, to = 8 }
far = { from = 0, to = 20000000 }
born = { from = 1900, to = 2020 }
[tables.drug]
source = "drug"
unit = "person_id"
[tables.drug.domain]
concept_id = { table = "concept", column = "concept_id" }
day = { from = 2005-01-01, to = 2020-12-31 }
"""
DRUGS = "FROM drug AS d JOIN person AS p ON d.person_id = p.person_id JOIN concept AS c USING (concept_id)"
JOIN = f"{DRUGS} JOIN concept AS g ON g.concept_id = p.gender"
NAMES = "SELECT g.concept_name, COUNT(*) FROM person AS p JOIN concept AS g ON g.concept_id = p"
BOTH = f"SELECT c.concept_name, g.concept_name AS x, COUNT(DISTINCT id) {JOIN}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small")


@pytest.fixture(scope="module")
def small(folder: Path) -> Iterator[NearlyExact]:
    found = nearly_exact(folder, DATA, POLICY)
    yield found
    found.private.close()


@pytest.mark.parametrize(
    ("statement", "size"),
    [
        (f"{NAMES}.gender GROUP BY 1", 3),
        (f"{NAMES}.place GROUP BY 1", 10),
        (f"{NAMES}.place WHERE p.place > 6 GROUP BY 1", 3),
        (f"{NAMES}.far GROUP BY 1", 27),
        (f"SELECT g.concept_name, COUNT(*) {JOIN} GROUP BY 1", 3),
        (f"{BOTH} GROUP BY 1, 2", 55),
        (f"{BOTH} WHERE d.concept_id IN (5, 6) GROUP BY 1, 2", 5),
        (
            f"SELECT name, COUNT(*) FROM (SELECT d.person_id, g.concept_name AS name {JOIN}) AS x GROUP BY 1",
            3,
        ),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_candidates_are_what_the_join_can_reach(statement: str, size: int, small: NearlyExact) -> None:
    # One more is for rows of values that are not declared; no other row of `concept` can be reached by `far`.
    assert private(small.private._session.prepare(statement)).plan.domain_size == size


def test_no_row_with_declared_values_is_lost(small: NearlyExact) -> None:
    small.agrees(f"{NAMES}.gender GROUP BY 1")
    small.agrees(f"{BOTH} WHERE d.concept_id IN (5, 6) GROUP BY ALL")


MANY = (
    "SELECT born, day, COUNT(*) FROM drug JOIN person USING (person_id) WHERE day < '2007-01-01' GROUP BY ALL"
)
WARNING = "the declared keys have 89,061 groups, and those with fewer rows than the noise"


def test_many_groups_are_warned_of_before_they_are_charged_and_with_the_answer(
    small: NearlyExact, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert WARNING in dict(small.rows(f"EXPLAIN {MANY}"))["warnings"]
    main(["--policy", str(folder / "dpsql.toml"), "--analyst", "anna", "--dry-run", "-c", MANY])
    assert f"warning: statement 1: {WARNING}" in " ".join(capsys.readouterr().err.split())
    assert any(note.startswith(WARNING) for note in small.notes(MANY))
    assert any(note.startswith(WARNING) for note in small.notes(f"{MANY} LIMIT 10")), "the first that exist"


@pytest.mark.parametrize(
    "statement",
    [
        MANY.replace("GROUP BY ALL", "GROUP BY ALL ORDER BY COUNT(*) DESC LIMIT 10"),
        "SELECT born, COUNT(*) FROM person GROUP BY born",
    ],
)
def test_few_groups_are_not(statement: str, small: NearlyExact) -> None:
    assert "the declared keys have" not in (dict(small.rows(f"EXPLAIN {statement}")).get("warnings") or "")


LARGE = """
CREATE TABLE area AS SELECT i AS area_id, i % 1100 AS zone_id, 'area ' || i AS area FROM range(1100) AS r(i);
CREATE TABLE zone AS SELECT i AS zone_id, 'zone ' || i AS zone FROM range(1100) AS r(i);
CREATE TABLE visit AS SELECT i AS person_id, i % 5 AS area_id FROM range(100) AS r(i);
"""
LARGE_POLICY = """
[tables.area]
source = "area"
public = true
unique = [["area_id"]]
[tables.zone]
source = "zone"
public = true
unique = [["zone_id"]]
[tables.visit]
source = "visit"
unit = "person_id"
unique = [["person_id"]]
"""


def test_keys_of_two_large_public_tables_are_their_joined_rows(tmp_path: Path) -> None:
    """Their combinations are more than a million, the rows that meet the join are not."""
    found = nearly_exact(tmp_path, LARGE, LARGE_POLICY)
    try:
        text = (
            "SELECT a.area, z.zone, COUNT(*) FROM visit AS v JOIN area AS a ON v.area_id = a.area_id "
            "JOIN zone AS z ON a.zone_id = z.zone_id GROUP BY 1, 2"
        )
        plan = private(found.private._session.prepare(text)).plan
        assert plan.domain_size == 1100
        rows = {(area, zone): round(n) for area, zone, n in found.rows(text)}
        assert {key: n for key, n in rows.items() if n} == {(f"area {i}", f"zone {i}"): 20 for i in range(5)}
    finally:
        found.private.close()
