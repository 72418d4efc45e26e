"""Values that Python does not have come as text, in every format: nothing fails after a charge."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import dpsql
from dpsql.dbapi.rows import data_frame
from dpsql.engines.public_queries import with_one_zero
from dpsql.render import data
from dpsql.render.column_values import python_values, values
from tests.narrow import present

ODD = """
SELECT * FROM (VALUES
    (DATE '2024-01-31', TIMESTAMP '2024-01-31 01:02:03.5', TIME '12:30:00'),
    (DATE '10000-01-01', TIMESTAMP '10000-01-01 00:00:00', TIME '24:00:00'),
    ('infinity'::DATE, 'infinity'::TIMESTAMP, NULL),
    ('-infinity'::DATE, '-infinity'::TIMESTAMP, NULL),
    (DATE '0044-03-15 (BC)', TIMESTAMP '0044-03-15 (BC) 01:00:00.5', NULL),
    (NULL, NULL, NULL)
) AS t(d, ts, tm)
"""
DATES = [datetime.date(2024, 1, 31), "10000-01-01", "infinity", "-infinity", "0044-03-15 (BC)", None]
TIMES = [
    datetime.datetime(2024, 1, 31, 1, 2, 3, 500_000),
    "10000-01-01 00:00:00",
    "infinity",
    "-infinity",
    "0044-03-15 (BC) 01:00:00.5",
    None,
]


def rows_of(sql: str) -> pa.Table:
    return present(duckdb.sql(sql)).to_arrow_table()


@pytest.fixture(scope="module")
def odd() -> pa.Table:
    return rows_of(ODD)


def test_what_python_has_not_is_text(odd: pa.Table) -> None:
    assert python_values(odd.column("d")) == values(odd.column("d")) == DATES
    assert python_values(odd.column("ts")) == TIMES
    assert python_values(odd.column("tm")) == [datetime.time(12, 30), "24:00:00", *[None] * 4]
    nested = rows_of("SELECT [DATE '10000-01-01', DATE '2024-01-31'] AS l, {'a': 'infinity'::DATE} AS s")
    table = nested
    assert python_values(table.column("l")) == [["10000-01-01", datetime.date(2024, 1, 31)]]
    assert python_values(table.column("s")) == [{"a": "infinity"}]


def test_the_text_is_that_of_duckdb() -> None:
    made = rows_of(
        "SELECT d, d::VARCHAR AS s, d + i * INTERVAL 1 SECOND AS t, "
        "(d + i * INTERVAL 1 SECOND)::VARCHAR AS u "
        "FROM (SELECT DATE '1970-01-01' + ((hash(i) % 200000000)::BIGINT - 100000000)::INTEGER AS d, "
        "i * 997 % 86400 AS i FROM range(2000) AS r(i))"
    )
    for found, text in (("d", "s"), ("t", "u")):
        assert [str(v) for v in python_values(made.column(found))] == made.column(text).to_pylist()


def test_every_format_writes_them(odd: pa.Table) -> None:
    out = io.BytesIO()
    data.write_csv(odd, out)
    assert out.getvalue().decode().split("\r\n")[2] == "10000-01-01,10000-01-01 00:00:00,24:00:00"
    out = io.BytesIO()
    data.write_json(odd, out)
    assert [row["d"] for row in json.loads(out.getvalue())] == ["2024-01-31", *DATES[1:]]


def test_pandas_gets_objects(odd: pa.Table) -> None:
    pytest.importorskip("pandas")
    frame = data_frame(odd)
    assert frame["d"].tolist() == DATES
    assert frame["ts"].tolist() == TIMES
    plain = data_frame(odd.slice(0, 1))
    assert str(plain["ts"].dtype).startswith("datetime64")


POLICY = """
[budget]
epsilon = 1000
delta = 0.001
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "user_id"
unique = [["user_id"]]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("late")
    duckdb.sql(
        "COPY (SELECT i AS user_id, DATE '10000-01-01' + (i % 2)::INTEGER AS d FROM range(100) AS r(i)) "
        f"TO '{made}/t.parquet'"
    )
    (made / "dpsql.toml").write_text(POLICY, "utf-8")
    return made


def test_an_answer_with_a_late_key_is_fetched(folder: Path) -> None:
    with dpsql.connect(folder / "dpsql.toml") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100, delta = 0.0001) d, COUNT(*) AS n "
            "FROM t GROUP BY d ORDER BY n DESC LIMIT 2"
        )
        rows = cursor.fetchall()
        assert {row[0] for row in rows} == {"10000-01-01", "10000-01-02"}
        pytest.importorskip("pandas")
        assert cursor.df()["d"].tolist() == [row[0] for row in rows]


def test_no_zero_is_negative() -> None:
    table = rows_of("SELECT -0.0::DOUBLE AS a, 1 AS b UNION ALL SELECT NULL, 2")
    made = with_one_zero(table)
    assert str(made.column("a").to_pylist()) == "[0.0, None]"
    assert with_one_zero(made) is made
