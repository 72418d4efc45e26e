"""What releases of DuckDB changed in meaning has no effect on dpsql: each of it beside plain DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import PolicyError
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of
from tests.support.exact import exact_of

POLICY = """
[budget]
epsilon = 10
default_epsilon = 1
ledger = "ledger.sqlite"
[database]
path = "own.duckdb"
[tables.t]
source = "t"
unit = "id"
"""
TABLE = """
CREATE TYPE mood AS ENUM ('z', 'b', 'a');
CREATE TABLE t AS SELECT i AS id, (['z', 'b', 'a'])[i % 3 + 1]::mood AS e, i % 7 - 3 AS x,
    (i % 5)::DOUBLE AS y, DATE '2024-01-01' + (i % 100)::INTEGER AS d,
    ['abc', 'b', 'xby', NULL][i % 4 + 1] AS s FROM range(400) r(i);
"""
PLAIN = (
    # Division by zero is NULL, or infinite: no setting and no release decides whether a statement fails.
    "x // (x - x) IS NULL",
    "10 // x > 2",
    "10 % x = 1",
    "y / 0 > 1",
    # A regular expression matches a part of a text by ~ and the whole by SIMILAR TO.
    "s ~ 'b'",
    "regexp_matches(s, 'b')",
    "s SIMILAR TO 'b'",
    # The type of NULL.
    "coalesce(NULL, x) > 1",
    "x = NULL OR y > 2",
    "CASE WHEN x > 1 THEN NULL ELSE x END IS NULL",
    # Weeks are whole periods of seven days.
    "date_diff('week', DATE '2024-01-03', d) = 2",
    "date_diff('week', d, DATE '2024-02-10') >= 3",
    # A value of an ENUM beside a text is compared as text, not by the order of the type.
    "e < 'b'",
    "e < 'c'",
    "e BETWEEN 'a' AND 'b'",
    "e >= 'b' OR e = 'a'",
    "'b' > e",
    "e || '' < 'b'",
    "length(e) = 1",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("meaning")
    with duckdb.connect(str(folder / "own.duckdb")) as made:
        made.execute(TABLE)
    (folder / "dpsql.toml").write_text(POLICY)
    return Session(load(folder / "dpsql.toml"))


@pytest.mark.parametrize("where", PLAIN)
@pytest.mark.sampled(3)
def test_counted_as_plain_duckdb_counts(session: Session, where: str) -> None:
    prepared = session.prepare(f"SELECT COUNT(DISTINCT id) AS n FROM t WHERE {where}")
    assert isinstance(prepared, PreparedPrivate)
    counted = exact_of(engine_of(session).count(prepared.counting.plan.compiled)).n[0].tolist()
    with duckdb.connect() as plain:
        plain.execute("SET error_on_division_by_zero = false")
        plain.execute(TABLE)
        assert counted == [*plain.execute(f"SELECT COUNT(DISTINCT id) FROM t WHERE {where}").fetchall()[0]]


def test_a_variant_is_no_column(tmp_path: Path) -> None:
    """Sums of VARIANT convert or fail by what each row holds, so no statement reads one."""
    with duckdb.connect(str(tmp_path / "own.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS id, 2::VARIANT AS v")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    with pytest.raises(PolicyError, match="VARIANT"):
        Session(load(tmp_path / "dpsql.toml")).run("SELECT SUM(v) AS n FROM t")


def test_types_of_a_csv_do_not_follow_from_its_later_rows(tmp_path: Path) -> None:
    """The engine's own reader would call x a number, after as many rows as it looks at."""
    lines = [*(f"{i},{i}" for i in range(30_000)), "30000,text"]
    (tmp_path / "t.csv").write_text("\n".join(["id,x", *lines, ""]))
    text = POLICY.replace('[database]\npath = "own.duckdb"\n', "").replace('"t"', '"t.csv"')
    counted = []
    for kind in ("VARCHAR", "BIGINT"):
        (tmp_path / "dpsql.toml").write_text(f'{text}columns = {{ id = "BIGINT", x = "{kind}" }}\n')
        session = Session(load(tmp_path / "dpsql.toml"))
        prepared = session.prepare("SELECT COUNT(DISTINCT id) AS n FROM t WHERE x IS NOT NULL")
        assert isinstance(prepared, PreparedPrivate)
        counted.append(exact_of(engine_of(session).count(prepared.counting.plan.compiled)).n[0].tolist())
        session.close()
    assert counted == [[30_001], [30_000]]
