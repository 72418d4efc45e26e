# ruff: noqa: E501  statements are broken where they read well
"""Statements that moved many counts by one unit's rows, under rules that look right: refused now, or sound.

Random databases are too small for most of them: they need unequal tables (the engine then joins the other
way round), more than one row group, or one particular value.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from fuzz.check import counts
from fuzz.mutants import MUTANTS

from dpsql.analysis import Plan, analyse
from dpsql.engines.declared_domains import Domains
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import Reader, _write_cell
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import QueryRefused
from dpsql.language import Options, Query, parse
from dpsql.policy import (
    BudgetPolicy,
    Defaults,
    ParquetSource,
    Policy,
    RangeDomain,
    Table,
    UnitColumn,
    ValuesDomain,
)
from dpsql.types import column_type

TABLES: dict[str, dict[str, str]] = {
    "visits": {
        "user_id": "BIGINT",
        "page": "VARCHAR",
        "ms": "BIGINT",
        "pid": "BIGINT",
        "day": "DATE",
        "xs": "DOUBLE[]",
    },
    "buys": {"user_id": "BIGINT", "q": "BIGINT", "price": "DOUBLE"},
    "users": {"user_id": "BIGINT", "age": "BIGINT"},
    "bills": {"user_id": "UBIGINT", "due": "DATE"},
    "pages": {"pid": "BIGINT", "cat": "BIGINT", "page": "VARCHAR"},
}
UNIT = 999_999
"""The unit that is removed."""

PAGES = "INSERT INTO pages SELECT i, i % 7, chr((97 + i % 4)::INTEGER) FROM range(300000) r(i)"

TWO = """
    INSERT INTO raw.visits SELECT i // 4, 'p' || i % 4, i % 4, NULL, NULL, [CASE WHEN i % 4 < 2 THEN 0.0 ELSE -0.0::DOUBLE END] FROM range(4000) r(i);
    INSERT INTO raw.buys SELECT i // 4, i % 4, (i % 4) / 10 FROM range(4000) r(i);
    INSERT INTO raw.buys SELECT 999999, i, i / 10 FROM range(5000) r(i);
"""
"""A thousand units with four rows in each of two tables, and one with more in one table than all of them."""

PAIRS = """
    INSERT INTO raw.visits SELECT i // 2, 'p', 1, NULL, NULL, NULL FROM range(2000) r(i);
    INSERT INTO raw.visits SELECT 999999, 'p', 1, NULL, NULL, NULL FROM range(5000) r(i);
"""
"""A thousand units with two identical rows each, and one with more than all of them."""

FAR = """
    INSERT INTO raw.visits SELECT 1 + i % 1000, NULL, 0, 290000 + i // 1000, NULL, NULL FROM range(7000) r(i);
    INSERT INTO raw.visits VALUES (999999, NULL, 0, 5, NULL, NULL);
"""
"""Visits at one end of a large public table; the unit's one row is at the other."""

FEW = """
    INSERT INTO raw.visits VALUES (999999, 'a', 1, 0, NULL, NULL), (2, 'b', 2, 1, NULL, NULL), (3, 'c', 3, 2, NULL, NULL);
    INSERT INTO raw.users SELECT i, i % 5 FROM range(10, 30) r(i);
    INSERT INTO raw.users VALUES (999999, 1);
"""
WIDE = """
    INSERT INTO raw.visits VALUES (9007199254740992, 'a', 1, 0, NULL, NULL), (9007199254740993, 'a', 1, 0, NULL, NULL);
    INSERT INTO raw.bills VALUES (9007199254740992, NULL), (9007199254740993, NULL);
    INSERT INTO raw.users VALUES (9007199254740992, 1);
"""
EDGE = """
    INSERT INTO raw.visits VALUES (1, 'a', 1, 0, DATE '2020-01-01', NULL), (999999, 'a', 1, 0, DATE '5877642-06-25 (BC)', NULL);
    INSERT INTO raw.bills VALUES (1, DATE '2020-01-01'), (999999, DATE '5877642-06-25 (BC)');
"""
JOINED = "visits v JOIN buys b ON v.user_id = b.user_id"
TOP = " ORDER BY n DESC LIMIT 2"


def grouped(value: str, source: str = JOINED) -> str:
    """Count the values that an aggregate takes per unit."""
    return (
        f"SELECT f, COUNT(*) AS n FROM (SELECT v.user_id, {value} AS f FROM {source} GROUP BY v.user_id) AS s "
        f"GROUP BY f{TOP}"
    )


def deduplicated(value: str, source: str = JOINED) -> str:
    """Count the bits of a double that DISTINCT has chosen among equal ones."""
    return (
        f"SELECT signbit(x) AS s, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT v.user_id, {value} AS x "
        f"FROM {source}) AS t GROUP BY s{TOP}"
    )


ZEROS = "CASE WHEN v.ms < b.q THEN 0e0 ELSE -(0e0) END"
FIRST_ZERO = (
    "(SELECT user_id, FIRST_VALUE(CASE WHEN ms < 2 THEN 0e0 ELSE -(0e0) END) OVER (PARTITION BY user_id, ms "
    "ORDER BY page) AS w FROM visits) v JOIN buys b ON v.user_id = b.user_id"
)
PICKED = "(SELECT DISTINCT ON (cat) cat, pid FROM pages ORDER BY cat)"
LIMITED = "(SELECT pid, cat FROM pages WHERE pid >= 290000 ORDER BY cat LIMIT 7)"
BY_PAGE = f"SELECT p.cat, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN {{}} p ON p.pid = v.pid GROUP BY p.cat{TOP}"

SOUND = {
    # The order of rows within a unit depends on everybody's rows.
    "first": (TWO, grouped("FIRST(v.page || CAST(b.q AS VARCHAR) ORDER BY v.ms)")),
    "list": (TWO, grouped("array_to_string(LIST(v.page ORDER BY b.q))")),
    "arg_max": (TWO, grouped("ARG_MAX(v.page, b.q)")),
    "any_value": (TWO, grouped("ANY_VALUE(b.q)")),
    "sum": (TWO, grouped("SUM((v.ms * 4 + b.q + 1) / 10)")),
    "avg": (TWO, grouped("AVG((v.ms * 4 + b.q + 1) / 10) > 85e-2")),
    "sum distinct": (TWO, grouped("SUM(DISTINCT v.ms / 10 + b.price)")),
    "median": (TWO, grouped("MEDIAN(v.ms * b.q)")),
    "row_number": (
        TWO,
        "SELECT q, COUNT(DISTINCT user_id) AS n FROM (SELECT v.user_id, b.q, v.page, ROW_NUMBER() OVER (PARTITION BY v.user_id "
        f"ORDER BY v.ms) AS r FROM {JOINED}) AS s WHERE r = 1 AND q IN (0, 1, 2, 3) GROUP BY q{TOP}",
    ),
    "lag": (
        TWO,
        "SELECT d, COUNT(DISTINCT user_id) AS n FROM (SELECT v.user_id, LAG(b.q) OVER (PARTITION BY v.user_id "
        f"ORDER BY v.ms) AS d FROM {JOINED}) AS s WHERE d IN (0, 1, 2, 3) GROUP BY d{TOP}",
    ),
    "two windows": (
        PAIRS,
        "SELECT COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY "
        "ms) AS a, ROW_NUMBER() OVER (PARTITION BY user_id, page ORDER BY pid DESC) AS b FROM visits) AS s WHERE a = b",
    ),
    # Equal doubles that are not identical.
    "windowed zeros": (
        TWO,
        "SELECT signbit(m) AS s, COUNT(DISTINCT user_id) AS n FROM (SELECT v.user_id, MIN(CASE WHEN (v.ms + b.q) % 2 "
        f"= 0 THEN -(0e0) ELSE 0e0 END) OVER (PARTITION BY v.user_id) AS m FROM {JOINED}) AS t GROUP BY s{TOP}",
    ),
    "distinct of zeros": (TWO, deduplicated(ZEROS)),
    "distinct of windows": (TWO, deduplicated("v.w", FIRST_ZERO)),
    "group of zeros": (
        TWO,
        f"SELECT signbit(x) AS s, COUNT(DISTINCT user_id) AS n FROM (SELECT v.user_id, {ZEROS} AS x, COUNT(*) AS c "
        f"FROM {JOINED} GROUP BY 1, 2) AS t GROUP BY s{TOP}",
    ),
    # What of a public relation is read must not depend on private rows.
    "public distinct on": (FAR, BY_PAGE.format(PICKED)),
    "public limit": (FAR, BY_PAGE.format(LIMITED)),
    "in public distinct on": (
        FAR,
        "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE pid IN (SELECT pid FROM (SELECT DISTINCT ON (cat) "
        "cat, pid FROM pages WHERE pid >= 290000 ORDER BY cat, pid) AS p)",
    ),
    # A NULL among other units' rows must not make NOT IN unknown.
    "not in": (
        FEW,
        "SELECT COUNT(DISTINCT u.user_id) AS n FROM users u WHERE u.user_id NOT IN (SELECT v.user_id FROM "
        "(SELECT page FROM pages WHERE pid < 3) p LEFT JOIN visits v ON p.page = v.page)",
    ),
    "full join": (
        FEW,
        "SELECT n, COUNT(*, contribution_bounds_per_group => (0, 1)) AS m FROM (SELECT u.user_id, COUNT(*) OVER "
        "(PARTITION BY u.user_id) AS n FROM users u LEFT JOIN visits v ON u.user_id = v.user_id) AS s "
        "WHERE n IN (1, 2, 3) GROUP BY n ORDER BY m DESC LIMIT 2",
    ),
    # Units of different integer types are compared as what they are.
    "converted units": (
        WIDE,
        "SELECT COUNT(DISTINCT x.user_id) AS n FROM (SELECT user_id FROM visits UNION ALL SELECT user_id FROM users) "
        "x WHERE x.user_id IN (SELECT user_id FROM users)",
    ),
    "converted joins": (
        WIDE,
        "SELECT COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN bills c ON v.user_id = c.user_id JOIN users u "
        "ON u.user_id = c.user_id",
    ),
    # The optimizer must not compute functions of a column's extremes.
    "week of the first day": (EDGE, "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE week(day) = 1"),
    "year of the first day": (
        EDGE,
        "SELECT COUNT(DISTINCT user_id) AS n FROM bills WHERE isoyear(due) > 2000",
    ),
}

REFUSED = {
    "elements of equal lists": "SELECT signbit(x[1]) AS s, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT "
    f"v.user_id, v.xs AS x FROM {JOINED}) AS t GROUP BY s{TOP}",
    "text of equal lists": "SELECT s, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, CAST(x AS VARCHAR) AS s FROM "
    f"(SELECT DISTINCT v.user_id, v.xs AS x FROM {JOINED}) AS t) AS w GROUP BY s{TOP}",
    "hash of equal lists": "SELECT s, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, hash(x) AS s FROM "
    f"(SELECT DISTINCT v.user_id, v.xs AS x FROM {JOINED}) AS t) AS w GROUP BY s{TOP}",
    "first without order": grouped("FIRST(v.page)"),
    "mode": grouped("MODE(v.page)"),
    "histogram": grouped("HISTOGRAM(v.ms)"),
    "reservoir": grouped("reservoir_quantile(v.ms, 0.5e0)"),
    "windowed double": "SELECT COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, SUM(price) OVER (PARTITION BY "
    "user_id ORDER BY q) AS s FROM buys) AS t WHERE s > 1e0",
    "swapped except": "SELECT COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, ms FROM visits EXCEPT SELECT ms, "
    "user_id FROM visits) AS t",
    "swapped union": "SELECT COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, ms FROM visits UNION ALL SELECT ms, "
    "user_id FROM visits) AS t",
    "public except owned": "SELECT COUNT(DISTINCT u) AS n FROM (SELECT pid AS u FROM pages EXCEPT SELECT user_id "
    "FROM visits) AS t",
    "counting repeated rows": "SELECT p.cat, COUNT(*) AS n FROM (SELECT DISTINCT user_id, pid FROM visits) v JOIN "
    f"pages p ON p.cat = v.pid GROUP BY p.cat{TOP}",
    "counting by an expression": "SELECT page > 'a' AS k, COUNT(*) AS n FROM (SELECT DISTINCT user_id, page FROM "
    f"visits) AS v GROUP BY k{TOP}",
    "several rows": "SELECT COUNT(DISTINCT user_id) AS n FROM visits v WHERE (SELECT cat FROM pages p WHERE "
    "p.pid <> v.pid) = 1",
    "correlation that filters nothing": "SELECT COUNT(DISTINCT o.user_id) AS n FROM users o WHERE EXISTS (SELECT 1 "
    "FROM visits w LEFT JOIN users u ON w.user_id = o.user_id AND u.user_id = o.user_id)",
    "correlation with itself": "SELECT COUNT(DISTINCT o.user_id) AS n FROM users o WHERE EXISTS (SELECT 1 FROM "
    "visits w WHERE w.user_id = w.user_id)",
    "correlation under OR": "SELECT COUNT(DISTINCT o.user_id) AS n FROM users o WHERE EXISTS (SELECT 1 FROM visits "
    "w WHERE w.user_id = o.user_id OR w.ms > 100)",
    "average of everybody": "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > (SELECT AVG(ms) FROM visits)",
    "another unit's name": "SELECT COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN buys b ON v.user_id = b.q",
    "converted units": "SELECT COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE v.user_id IN (SELECT user_id FROM "
    "users UNION ALL SELECT user_id FROM bills)",
    "row position": "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE rowid < 5",
}


class Databases:
    """The tables, the shell that compiles, and a connection per number of threads."""

    def __init__(self) -> None:
        tables = {
            name: Table(
                name=name,
                source=ParquetSource(Path(f"{name}.parquet")),
                public=name == "pages",
                unit=None if name == "pages" else UnitColumn("user_id"),
                columns={c: column_type(t) for c, t in columns.items()},
                domain={"page": ValuesDomain(("a", "b", "c")), "pid": RangeDomain(0, 299_999)}
                if name == "visits"
                else {},
            )
            for name, columns in TABLES.items()
        }
        defaults = Defaults(auto_bounds=False)
        self.policy = Policy(budget=BudgetPolicy(epsilon=Fraction(1)), tables=tables, defaults=defaults)
        readers = {n: Reader(t, tuple((t.columns or {}).items()), "", ()) for n, t in tables.items()}
        self.connections = [duckdb_settings.connect(), duckdb_settings.connect()]
        for threads, connection in zip((1, 2), self.connections, strict=True):
            connection.execute(f"SET threads = {threads}")
            connection.execute("CREATE SCHEMA raw")
            for name, columns in TABLES.items():
                listed = ", ".join(f"{c} {t}" for c, t in columns.items())
                cells = (
                    f"{_write_cell(c, t, column_type(t), collated=False)} AS {c}" for c, t in columns.items()
                )
                if name == "pages":
                    connection.execute(f"CREATE TABLE main.pages ({listed})")
                else:
                    connection.execute(f"CREATE TABLE raw.{name} ({listed})")
                    connection.execute(
                        f"CREATE VIEW main.{name} AS SELECT {', '.join(cells)} FROM raw.{name}"
                    )
            connection.execute(PAGES)
        pages = self.connections[0].sql("SELECT * FROM pages").to_arrow_table()
        domains = Domains(self.policy, readers)
        for connection in self.connections:
            domains.create(connection)
        self.schema_database = SchemaDatabase(readers, {"pages": pages}, domains)

    def close(self) -> None:
        self.schema_database.close()
        for connection in self.connections:
            connection.close()

    def compiled(self, text: str) -> Plan:
        query = parse(text)
        assert isinstance(query, Query)
        self.schema_database.relations.clear()  # a rule may have been made wrong meanwhile
        return analyse(query, self.policy, self.schema_database, Options(epsilon=Fraction(1)))


@pytest.fixture(scope="module")
def databases() -> Iterator[Databases]:
    made = Databases()
    yield made
    made.close()


def moved(databases: Databases, name: str) -> list[str]:
    """Run an attack with and without the unit, on one thread and two; say what must not be."""
    data, text = SOUND[name]
    plan = databases.compiled(text)
    unit = {WIDE: 9007199254740992}.get(data, UNIT)
    wrong: list[str] = []
    results = []
    for connection in databases.connections:
        private = [table for table in TABLES if table != "pages"]
        for table in private:
            connection.execute(f"CREATE OR REPLACE TABLE raw.{table} AS FROM raw.{table} LIMIT 0")
        connection.execute(data)
        whole = counts(connection, plan)
        for table in private:  # made anew: the engine's estimate of a table counts deleted rows
            rest = f"SELECT * FROM raw.{table} WHERE user_id <> {unit}"
            connection.execute(f"CREATE OR REPLACE TABLE raw.{table} AS {rest}")
        without = counts(connection, plan)
        for group in whole.keys() | without.keys():
            nothing = (0,) * len(plan.counts)
            before, after = whole.get(group, nothing), without.get(group, nothing)
            if not all(0 <= n - m <= c.bound for c, n, m in zip(plan.counts, before, after, strict=True)):
                wrong.append(f"group {group} goes from {before} to {after}")
        if not any(n for row in whole.values() for n in row):
            wrong.append("nothing is counted")
        results.append((whole, without))
    return wrong if results[0] == results[1] else [*wrong, "two threads count otherwise"]


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.sampled(5)
def test_one_unit_moves_each_count_by_its_bound_at_most(databases: Databases, name: str) -> None:
    assert not moved(databases, name)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("ties in FIRST and LIST lie as they come", "first"),
        ("ties in ARG_MAX lie as they come", "arg_max"),
        ("floating-point sums add up as they come", "sum"),
        ("ties in a window lie as they come", "row_number"),
        ("equal doubles keep their bits", "distinct of zeros"),
        ("NOT IN sees rows without a unit", "not in"),
        ("identical rows are not told apart", "two windows"),
    ],
)
@pytest.mark.sampled(3)
def test_an_attack_succeeds_where_its_rule_is_wrong(databases: Databases, rule: str, name: str) -> None:
    """The data does what it is there for: the engine joins the other way round without the unit."""
    mutant = next(m for m in MUTANTS if m.name == rule)
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        assert moved(databases, name)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_made_sound_is_refused(databases: Databases, name: str) -> None:
    with pytest.raises(QueryRefused):
        databases.compiled(REFUSED[name])


def unguarded(databases: Databases) -> list[str]:
    """Find private tables that are read with their rows that have no unit."""
    found = []
    for _, text in SOUND.values():
        sql = databases.compiled(text).compiled.sql
        for table in TABLES:
            if table != "pages":
                read = sql.count(f'main."{table}" AS b')
                found += [table] * (read - sql.count(f'main."{table}" AS b WHERE b."user_id" IS NOT NULL'))
    return found


def test_rows_without_a_unit_are_dropped_where_they_are_read(databases: Databases) -> None:
    """No other rule needs them gone today; each that forgot them would let one unit's rows move others'."""
    assert not unguarded(databases)
    mutant = next(m for m in MUTANTS if m.name == "rows without a unit are read")
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        assert unguarded(databases)
