"""A table of instants, statements over it with all kinds of literals, and their answers by plain DuckDB."""

from __future__ import annotations

import datetime

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session

ROWS = """
SELECT i AS uid, i % 7 AS kind,
  CASE WHEN i % 97 = 0 THEN NULL
  ELSE make_timestamptz(1672531200000000 + (i * 7919 % (3 * 365 * 24 * 12)) * 300000000 + i % 3) END AS seen
FROM range(4000) AS r(i)
"""
"""Instants of 2023 to 2025, some of them NULL."""

PREDICATES = (
    "seen >= '2024-07-02 00:00:00+02:00'",
    "seen >= '2024-07-02 00:00:00+0200'",
    "seen < '2024-07-02T00:00:00Z'",
    "seen < '2024-07-02 00:00:00 UTC'",
    "seen >= '2024-07-02 00:00:00+02'",
    "seen <= '2024-03-31 02:30:00-05:30'",
    "seen > '2024-10-27 12:30:00 Europe/Berlin'",
    "seen >= '2024-07-02 00:00:00'",
    "seen >= '2024-07-02'",
    "seen < DATE '2024-07-02'",
    "seen < TIMESTAMP '2024-07-02 10:30:00'",
    "seen < TIMESTAMPTZ '2024-07-02 10:30:00'",
    "seen < TIMESTAMP WITH TIME ZONE '2024-07-02 10:30:00-03:00'",
    "'2024-07-02 00:00:00+02:00' <= seen",
    "seen BETWEEN '2024-01-01 00:00:00+01:00' AND '2024-12-31 23:59:59.999999+01:00'",
    "seen BETWEEN DATE '2024-01-01' AND TIMESTAMPTZ '2024-02-01 00:00:00+00'",
    "seen NOT BETWEEN '2024-01-01' AND '2025-01-01'",
    "seen IN ('2023-01-01 00:00:00+00', '2023-01-01 01:00:00.000002+01:00', '2024-01-01')",
    "seen = CAST('2023-01-01 00:00:00+00:00' AS TIMESTAMPTZ)",
    "seen::TIMESTAMPTZ <> '2023-01-01 02:00:00+02:00'::TIMESTAMPTZ",
    "seen IS DISTINCT FROM TIMESTAMPTZ '2023-01-01 00:00:00+00'",
    "seen >= TIMESTAMP '2024-07-02 00:00:00' AT TIME ZONE 'Europe/Berlin'",
    "seen >= timezone('America/New_York', TIMESTAMP '2024-07-02 00:00:00')",
    "seen > TIMESTAMPTZ '2024-07-02 00:00:00+02:00' - INTERVAL 36 HOUR",
    "seen + INTERVAL 1 MONTH > '2024-07-02 00:00:00+02:00'",
    "seen - INTERVAL 90 MINUTE <= '2024-03-31 02:00:00+01:00'",
    "date_trunc('month', seen) = '2024-02-01 00:00:00+00'",
    "date_trunc('day', seen) < TIMESTAMPTZ '2024-02-01 02:00:00+02'",
    "EXTRACT(HOUR FROM seen) = 13",
    "year(seen) = 2024 AND month(seen) = 2",
    "seen::DATE = DATE '2024-02-29'",
    "strftime(seen, '%Y-%m') = '2024-02'",
    "CAST(seen AS VARCHAR) < '2024-02'",
    "seen AT TIME ZONE 'Europe/Berlin' >= TIMESTAMP '2024-07-02 00:00:00'",
    "EXTRACT(HOUR FROM seen AT TIME ZONE 'America/New_York') = 2",
    "(seen AT TIME ZONE 'Asia/Kolkata')::DATE = DATE '2024-02-29'",
    "(seen AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'Europe/London' < '2024-07-02 00:00:00+02:00'",
    "CASE WHEN kind = 1 THEN seen ELSE TIMESTAMPTZ '2024-01-01 00:00:00Z' END > '2024-01-01 00:30:00+01:00'",
    "COALESCE(seen, '2024-07-02 00:00:00+02:00') >= '2024-07-01 22:00:00+00:00'",
    "date_diff('day', TIMESTAMPTZ '2024-01-01 00:00:00+00', seen) = 59",
    "seen > now() - INTERVAL 1 DAY",
    "seen IS NULL",
)
GROUPED = (
    "SELECT date_trunc('month', seen) AS m, COUNT(*) AS n FROM ev GROUP BY m",
    "SELECT EXTRACT(HOUR FROM seen AT TIME ZONE 'Europe/Berlin') AS h, COUNT(*) AS n FROM ev GROUP BY h",
    "SELECT date_trunc('month', seen AT TIME ZONE 'Asia/Kathmandu') AS m, COUNT(*) AS n FROM ev GROUP BY m",
    "SELECT CAST(seen AS DATE) AS d, COUNT(*) AS n FROM ev WHERE seen < '2023-02-01' GROUP BY d",
    "SELECT date_trunc('hour', seen AT TIME ZONE 'America/St_Johns') AS h, COUNT(*) AS n FROM ev "
    "WHERE seen >= '2024-03-10 00:00:00+00' AND seen < '2024-03-11 00:00:00+00' GROUP BY h",
)
NAIVE = "(SELECT uid, kind, seen, seen AT TIME ZONE 'Asia/Kolkata' AS local FROM ev) AS e"
"""A source whose column `local` has no zone."""
MIXED = (
    *(
        (
            f"local {mixed}",
            "leave the offset out, or say in which zone the column is: local AT TIME ZONE 'UTC'",
            f"local {without}",
            f"local AT TIME ZONE 'UTC' {mixed}",
        )
        for mixed, without in (
            (">= '2024-07-02 00:00:00+02:00'", ">= '2024-07-02 00:00:00'"),
            ("> '2024-07-02 00:00:00 Europe/Berlin'", "> '2024-07-02 00:00:00'"),
            ("BETWEEN '2024-01-01 00:00:00Z' AND '2024-07-02'", "BETWEEN '2024-01-01' AND '2024-07-02'"),
            ("NOT IN ('2024-07-02 00:00:00Z', '2024-07-03')", "NOT IN ('2024-07-02', '2024-07-03')"),
        )
    ),
    *(
        (
            f"local {word} {other}",
            "local AT TIME ZONE 'UTC', if the TIMESTAMP is of that zone; "
            f"or {name} AT TIME ZONE 'UTC', the time in it",
            f"local AT TIME ZONE 'UTC' {word} {other}",
            f"local {word} {other} AT TIME ZONE 'UTC'",
        )
        for word, other, name in (
            (">", "seen", "seen"),
            ("IS DISTINCT FROM", "seen", "seen"),
            (">=", "TIMESTAMPTZ '2024-07-02 00:00:00+02:00'", "x"),
        )
    ),
)
"""Predicates that mix instants and times without a zone, what the hint says, and two repaired predicates."""
PARAMETERS = (
    datetime.datetime(2024, 7, 2, tzinfo=datetime.UTC),
    datetime.datetime(2024, 7, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    datetime.datetime(
        2024, 7, 2, 5, 45, 0, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-5, minutes=-45))
    ),
    datetime.datetime(2024, 7, 2),
    datetime.date(2024, 7, 2),
    "2024-07-02 00:00:00+02:00",
)
POLICY = """
{more}
[budget]
epsilon = 1e9
default_epsilon = 1e5
ledger = "ledger.sqlite"
high_water = false
[tables.ev]
source = "{source}"
unit = "uid"
unique = [["uid"]]
rows_per_unit = 1
columns = {{ uid = "BIGINT", kind = "BIGINT", seen = "TIMESTAMPTZ" }}
[tables.ev.domain]
seen = {{ from = 2023-01-01, to = 2025-12-31 }}
"""


def own_rows() -> duckdb.DuckDBPyConnection:
    """Return a database with the table `ev`, in whose session times without an offset are of UTC."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE ev AS {ROWS}")
    return connection


def rounded(
    session: Session, statement: str, parameters: list[object] | None = None
) -> list[tuple[object, ...]]:
    """Return the rows of an answer with whole counts; groups without rows are left out."""
    found = session.run(statement, parameters).table
    rows = zip(
        *(column.to_pylist() for column in found.select(found.column_names[: 1 + (" BY " in statement)])),
        strict=True,
    )
    made = [(*row[:-1], round(row[-1])) for row in rows]
    return sorted((row for row in made if len(row) == 1 or row[-1]), key=repr)


def exact(plain: duckdb.DuckDBPyConnection, statement: str) -> list[tuple[object, ...]]:
    found = plain.sql(statement).to_arrow_table()
    rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
    return sorted(rows, key=repr)


def check_repairs(
    session: Session, plain: duckdb.DuckDBPyConnection, predicate: tuple[str, str, str, str]
) -> None:
    """Check that a mixed predicate is refused with its hint, and that both repairs mean what SQL means."""
    refused, hint, *repaired = predicate
    counted = f"SELECT COUNT(*) FROM {NAIVE} WHERE "
    with pytest.raises(QueryRefused) as caught:
        session.run(counted + refused)
    offered, told, condition = (caught.value.hint or "").partition(" -- the same if ")
    if told:  # a statement, where the offset can be left out of the text
        assert condition == "times are of that zone"
        assert rounded(session, offered) == exact(plain, counted + repaired[0])
    else:
        assert offered == hint
    for one in repaired:
        assert rounded(session, counted + one) == exact(plain, counted + one) != [(0,)]
