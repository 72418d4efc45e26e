# ruff: noqa: E501  statements read better unbroken
"""Public statements and outer queries compute no long texts: a short statement could fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import OperationalError
from dpsql.kernel.tree.forms import LONGEST
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
[tables.visits.domain]
city = ["Bonn", "Kiel"]
[tables.cities]
source = "cities.parquet"
public = true
"""
X = f"lpad('x', {LONGEST - 1}, 'x')"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("lengths")
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT i AS user_id, 'Bonn' AS city FROM range(50) t(i)) TO '{folder / 'visits.parquet'}'"
        )
        connection.execute(
            f"COPY (SELECT * FROM (VALUES ('Bonn', 'NW', 3), ('Kiel', NULL, 2)) v(city, land, n)) TO '{folder / 'cities.parquet'}'"
        )
    (folder / "p.toml").write_text(POLICY)
    opened = Session(folder / "p.toml")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "call",
    [
        "lpad('x', 2000000000, 'y')",
        "rpad('x', 2000000000, 'y')",
        "lpad('x', 100000 * n, 'y')",
        "lpad('x', 99999999999, 'y')",
        "lpad('x', 40000, '€')",
        "rpad('x', 40000 + n, '€')",
        "regexp_escape(rpad('x', 20000, chr(0)))",
        f"{X} || city",
        f"city || {X}",
        f"concat({X}, city)",
        f"concat_ws({X}, city, city, city)",
        f"replace({X}, 'x', {X})",
        f"replace({X}, 'x', 'xx')",
        f"regexp_replace({X}, 'x', 'yy', 'g')",
        f"array_to_string(string_split({X}, 'x'), '{'-' * 1000}')",
        f"CAST(string_split({X}, '') AS VARCHAR)",
        f"TRY_CAST(string_split({X}, '') AS VARCHAR)",
        f"hex({X})",
        f"url_encode({X})",
        f"translate({X}, 'x', '€')",
        f"upper({X} || 'ŉ')",
    ],
)
@pytest.mark.sampled(4, rest="longer")
def test_a_call_whose_result_could_be_too_long_is_null(session: Session, call: str) -> None:
    rows = session.run(f"SELECT {call} AS x FROM cities WHERE city = 'Bonn'").table
    assert rows.column("x").to_pylist() == [None]


@pytest.mark.parametrize("call", ["upper('{}')", "strftime(DATE '2020-01-01', '{}')", "upper('' || '{}')"])
def test_a_constant_may_be_long_and_its_result_may_not(session: Session, call: str) -> None:
    for size, found in ((1000, 1000), (30_000, None)):
        text = f"SELECT length({call.format('x' * size)}) AS n"
        assert session.run(text).table.column("n").to_pylist() == [found]


def test_each_call_within_another_has_its_own_limit(session: Session) -> None:
    text = "SELECT concat(city, lpad('x', 70000, 'y')) AS x FROM cities WHERE n = 3"
    assert session.run(text).table.column("x").to_pylist() == ["Bonn"]


def test_a_text_cannot_be_doubled_again_and_again(session: Session) -> None:
    doubled = f"SELECT {X} AS t"
    for _ in range(12):
        doubled = f"SELECT t || t AS t FROM ({doubled})"
    assert session.run(f"SELECT length(t) AS n FROM ({doubled})").table.column("n").to_pylist() == [None]


def test_an_outer_query_over_released_rows_has_the_limit_too(session: Session) -> None:
    counted = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) city, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY city"
    text = f"SELECT city || '!' AS c, length(replace(lpad(city, 60000, 'x'), 'x', lpad(city, 60000, 'y'))) AS n FROM ({counted}) ORDER BY c"
    assert session.run(text).table.to_pylist() == [
        {"c": "Bonn!", "n": None},
        {"c": "Kiel!", "n": None},
        {"c": None, "n": None},
    ]


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT city || ', ' || land AS x FROM cities ORDER BY 1", ["Bonn, NW", None]),
        ("SELECT concat(city, land, 1) AS x FROM cities ORDER BY 1", ["BonnNW1", "Kiel1"]),
        ("SELECT concat_ws('-', city, land, n) AS x FROM cities ORDER BY 1", ["Bonn-NW-3", "Kiel-2"]),
        ("SELECT replace(city, 'o', 'ooo') AS x FROM cities ORDER BY 1", ["Booonn", "Kiel"]),
        ("SELECT regexp_replace(city, '[on]', '_', 'g') AS x FROM cities ORDER BY 1", ["B___", "Kiel"]),
        ("SELECT lpad(city, n + 3, '.') AS x FROM cities ORDER BY 1", ["..Bonn", ".Kiel"]),
        ("SELECT upper(city) AS x FROM cities ORDER BY 1", ["BONN", "KIEL"]),
        ("SELECT n::VARCHAR || 'x' AS x FROM cities ORDER BY 1", ["2x", "3x"]),
        ("SELECT CAST(string_split(city, 'o') AS VARCHAR) AS x FROM cities ORDER BY 1", ["[B, nn]", "[Kiel]"]),
        ("SELECT string_split(city, 'o') || string_split('a b', ' ') AS x FROM cities ORDER BY 1 LIMIT 1", [["B", "nn", "a", "b"]]),
        ("SELECT strftime(DATE '2020-01-02', '%d' || '.%m') AS x", ["02.01"]),
        ("SELECT x.city || '!' AS x FROM cities AS x ORDER BY x.city || '!' DESC", ["Kiel!", "Bonn!"]),
        ("SELECT left(city, 1) || '.' AS x FROM cities GROUP BY left(city, 1) || '.' HAVING max(city) || '' > 'C'", ["K."]),
        ("SELECT MAX(city || '!') OVER (ORDER BY city || '') AS x FROM cities ORDER BY 1", ["Bonn!", "Kiel!"]),
        ("SELECT string_agg(city || '!', ',' ORDER BY city || '?') AS x FROM cities", ["Bonn!,Kiel!"]),
        ("SELECT (SELECT MAX(c.city || d.city) FROM cities c) AS x FROM cities d ORDER BY 1", ["KielBonn", "KielKiel"]),
        ("SELECT city AS x FROM cities WHERE city || '' IN (SELECT 'Ki' || lower('EL'))", ["Kiel"]),
        ("SELECT " + "city || " * 600 + "'' AS x FROM cities WHERE n = 3", ["Bonn" * 600]),
        ("SELECT lpad(city, 6, ' ') AS x FROM cities ORDER BY 1", ["  Bonn", "  Kiel"]),
    ],
)  # fmt: skip
@pytest.mark.sampled(3)
def test_short_texts_are_as_they_were(session: Session, statement: str, rows: list[object]) -> None:
    assert session.run(statement).table.column("x").to_pylist() == rows


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("city || land", "city || land"),
        ("city || ', ' || land", "city || ', ' || land"),
        ("upper(city)", "upper(city)"),
        ("lpad(city, n, 'x')", "lpad(city, n, 'x')"),
        ("city", "city"),
        ("(city || land)", "(city || land)"),
    ],
)
def test_a_column_without_a_name_has_its_text(session: Session, item: str, name: str) -> None:
    assert session.run(f"SELECT {item} FROM cities").table.column_names == [name]


def test_memory_that_runs_out_is_not_described(session: Session) -> None:
    database = session.database.engines().schema_database

    def fails(_: duckdb.DuckDBPyConnection) -> None:
        raise duckdb.OutOfMemoryException("could not allocate block (2.3 GiB/2.4 GiB used)")

    with pytest.raises(OperationalError, match="it needs too much memory") as caught:
        database._run_over({}, {}, ("SELECT 1",), fails)
    assert "GiB" not in str(caught.value)
