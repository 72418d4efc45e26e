"""NULL is a group: where it is a candidate, what says that it is none, and what one more group changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.analysis.facts_of_values import never_null
from dpsql.analysis.row_conditions import find_not_null
from dpsql.errors import OperationalError, PolicyError
from dpsql.kernel.tree import (
    Apply,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Expr,
    Form,
    IsNull,
    Not,
    Paren,
    Try,
    relations,
)
from dpsql.owner.verifying import verify
from dpsql.policy import load
from dpsql.session import Session
from dpsql.types import BIGINT, NULL
from tests.narrow import engine_of, private
from tests.support.exact import exact_of
from tests.support.world import open_world, write_world

POLICY = """
[budget]
epsilon = 1e9
delta = 0.1
default_delta = 1e-6
ledger = "ledger.sqlite"
{database}
[tables.t]
source = "{source}"
unit = "u"
{more}
[tables.t.domain]
k = ["a", "b"]
n = {{ from = 0, to = 3 }}
day = {{ from = 2024-01-30, to = 2024-02-02 }}
[tables.lookup]
source = "lookup.parquet"
public = true
"""
ROWS = """
SELECT i AS u, ['a', 'b', NULL][1 + i % 3] AS k, [0, 1, 2, 3, NULL][1 + i % 5]::INTEGER AS n,
  ['x', 'y', NULL, NULL][1 + i % 4] AS w,
  CASE WHEN i % 7 > 0 THEN DATE '2024-01-30' + (i % 4)::INTEGER END AS day, i % 4 AS whole, i % 2 = 0 AS even
FROM range(420) r(i)
"""
LOOKUP = "SELECT 'a' AS k, 'one' AS name"
EXACT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e5, fresh = true"
"""Noise of at most a thousandth of a count."""


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Session]:
    def make(more: str = "", rows: str = ROWS) -> Session:
        return Session(load(write_world(tmp_path, policy(more), t=rows, lookup=LOOKUP)))

    return make


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session that the tests share."""
    text = policy() + "[engine]\nkeep = 0  # each count is the engine's\n"
    with open_world(tmp_path_factory.mktemp("nulls"), text, t=ROWS, lookup=LOOKUP) as made:
        yield made


def policy(more: str = "") -> str:
    return POLICY.format(source="t.parquet", more=more, database="")


def answer(session: Session, rest: str, options: str = "") -> dict[Any, int]:
    """The rows of a statement with almost no noise: the keys, and the last number rounded."""
    rows = [tuple(row.values()) for row in session.run(f"{EXACT}{options}) {rest}").table.to_pylist()]
    return {row[0] if len(row) == 2 else row[:-1]: round(row[-1]) for row in rows}


N = "COUNT(DISTINCT u) AS c FROM t"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("k", {"a": 140, "b": 140, None: 140}),
        ("CASE WHEN n > 1 THEN 'high' END", {"high": 168, None: 252}),
        ("nullif(k, 'a')", {"b": 140, None: 280}),
        ("TRY_CAST(k AS INTEGER)", {None: 420}),
        ("n > 1", {False: 168, True: 168, None: 84}),
        ("even", {False: 210, True: 210, None: 0}),
        ("n // 0", {None: 420}),
        ("COALESCE(k, 'none')", {"a": 140, "b": 140, "none": 140}),
        ("k IS NULL", {False: 280, True: 140}),
        ("whole IS DISTINCT FROM 2", {False: 105, True: 315}),
        ("EXTRACT(MONTH FROM day)", {1: 180, 2: 180, None: 60}),
    ],
)
@pytest.mark.sampled(3)
def test_null_is_a_candidate_where_the_key_can_be_null(
    session: Session, key: str, expected: dict[Any, int]
) -> None:
    assert answer(session, f"{key} AS g, {N} GROUP BY g") == expected


def test_months_of_a_time_that_can_be_null(session: Session) -> None:
    found = answer(session, f"CAST(date_trunc('month', day) AS VARCHAR) AS m, {N} GROUP BY m")
    assert found == {"2024-01-01": 180, "2024-02-01": 180, None: 60}


@pytest.mark.parametrize(
    "where",
    ["k = 'a'", "k IN ('a', 'b')", "k IS NOT NULL", "k > 'a'", "NOT k IS NULL", "k BETWEEN 'a' AND 'b'"],
)
def test_a_condition_on_the_key_leaves_null_out(session: Session, where: str) -> None:
    assert None not in answer(session, f"k, {N} WHERE {where} GROUP BY k")


def test_the_largest_group_may_be_that_of_null(session: Session) -> None:
    joined = "name, COUNT(DISTINCT u) AS c FROM t LEFT JOIN lookup USING (k) GROUP BY name"
    assert answer(session, f"{joined} ORDER BY c DESC LIMIT 1") == {None: 280}
    assert answer(session, f"{joined} ORDER BY c LIMIT 1") == {"one": 140}
    assert answer(session, f"{joined} HAVING c >= 200 ORDER BY c DESC LIMIT 5") == {None: 280}
    assert answer(session, joined) == {None: 280, "one": 140}


def test_null_takes_part_in_each_partition_and_is_one(session: Session) -> None:
    rows = (
        f"k, COALESCE(n, 9) AS m, {N} GROUP BY ALL "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY c DESC) = 1"
    )
    found = answer(session, rows)
    assert {key[0] for key in found} == {"a", "b", None}
    found = answer(session, rows.replace("BY k ORDER", "BY m ORDER"))
    assert {key[1] for key in found} == {0, 1, 2, 3, 9}


def test_null_of_an_undeclared_key_is_one_more_value(session: Session) -> None:
    more = ", delta = 1e-6, max_groups_contributed = 1"
    expected = {"x": 105, "y": 105, None: 210}
    assert answer(session, f"w, {N} GROUP BY w", more) == expected
    assert answer(session, f"w, {N} GROUP BY w ORDER BY c DESC LIMIT 1", ", delta = 1e-6") == {None: 210}
    assert list(answer(session, f"w, {N} GROUP BY w ORDER BY w DESC", more)) == ["y", "x", None]


@pytest.mark.parametrize("direction", ["", " DESC"])
def test_null_is_the_last_in_either_direction(session: Session, direction: str) -> None:
    for key in ("k", "n", "upper(k)", "day"):
        rest = f"{key} AS g, {N} GROUP BY g HAVING c >= 1 ORDER BY g{direction} LIMIT 99"
        found = list(answer(session, rest))
        assert found[-1] is None
        assert found[:-1] == sorted(found[:-1], reverse=bool(direction))


# -- what declares that there is none


@pytest.mark.parametrize("key", ["whole > 0", "even"])
def test_not_null_leaves_the_group_out(opened: Callable[..., Session], key: str) -> None:
    session = opened('not_null = ["whole", "even"]')
    assert None not in answer(session, f"{key} AS g, {N} GROUP BY g")


def test_the_unit_is_never_null(session: Session) -> None:
    assert answer(session, f"u > 7 AS g, {N} GROUP BY g") == {False: 8, True: 412}


def test_not_null_is_tested_for_each_version_of_the_data(
    opened: Callable[..., Session], tmp_path: Path
) -> None:
    session = opened('not_null = ["k"]')
    with pytest.raises(OperationalError, match="cannot be read as declared"):
        answer(session, f"k, {N} GROUP BY k")
    found = [each for each in verify(load(tmp_path / "dpsql.toml")).findings if "not_null" in each.place]
    assert [each.level for each in found] == ["wrong"]
    assert "k is NULL in 140 rows that have a unit" in found[0].text


def test_a_null_of_rows_without_a_unit_is_none(opened: Callable[..., Session]) -> None:
    rows = f"{ROWS} WHERE i % 3 < 2 UNION ALL SELECT NULL, NULL, 0, 'x', DATE '2024-01-30', 1, TRUE"
    assert answer(opened('not_null = ["k"]', rows), f"k, {N} GROUP BY k") == {"a": 140, "b": 140}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('not_null = "k"', "expected a list"),
        ("not_null = [1]", "expected a list of columns"),
        ('not_null = ["k", "K"]', "names K twice"),
        ('not_null = ["nothing"]', "there is no column nothing"),
    ],
)
def test_a_wrong_not_null_is_refused(opened: Callable[..., Session], more: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        opened(more)


def of_a_database(folder: Path, more: str = "") -> Session:
    with duckdb.connect(str(folder / "own.duckdb")) as connection:
        connection.execute("CREATE TABLE t (u BIGINT, k VARCHAR NOT NULL, n INTEGER, day DATE NOT NULL)")
        connection.execute("INSERT INTO t SELECT i, 'ab'[1 + i % 2], 1, '2024-01-30' FROM range(60) r(i)")
    duckdb.sql(f"COPY (SELECT 'a' AS k, 'one' AS name) TO '{folder}/lookup.parquet'")
    text = POLICY.format(source="t", more=more, database='[database]\npath = "own.duckdb"')
    (folder / "dpsql.toml").write_text(text)
    return Session(load(folder / "dpsql.toml"))


def test_not_null_of_the_source_needs_no_mention(tmp_path: Path) -> None:
    session = of_a_database(tmp_path)
    assert answer(session, f"day, {N} GROUP BY day")[date(2024, 1, 30)] == 60
    assert None not in answer(session, f"day, {N} GROUP BY day")
    assert None in answer(session, f"n, {N} GROUP BY n")
    outer = "t.day, COUNT(DISTINCT s.u) AS c FROM t s LEFT JOIN t ON s.u = t.u AND t.n > 1 GROUP BY t.day"
    assert answer(session, outer)[None] == 60  # an outer join makes NULL of it


def test_a_text_that_can_be_too_long_has_a_group_of_null(tmp_path: Path) -> None:
    """NOT NULL says nothing of values that are longer than the policy reads: they are read as NULL."""
    session = of_a_database(tmp_path)
    assert answer(session, f"k, {N} GROUP BY k") == {"a": 30, "b": 30, None: 0}
    session.close()
    with duckdb.connect(str(tmp_path / "own.duckdb")) as connection:
        long = "INSERT INTO t SELECT 60 + i, repeat('a', 65537), 1, '2024-01-30' FROM range(9) r(i)"
        connection.execute(long)
    session = Session(load(tmp_path / "dpsql.toml"))
    assert answer(session, f"k, {N} GROUP BY k") == {"a": 30, "b": 30, None: 9}


def test_the_owner_says_that_no_text_is_too_long(tmp_path: Path) -> None:
    assert answer(of_a_database(tmp_path, 'not_null = ["k"]'), f"k, {N} GROUP BY k") == {"a": 30, "b": 30}


# -- one more group of the same partition


def exact(session: Session, rest: str, options: str = "") -> dict[Any, int]:
    """The exact counts of all candidates."""
    statement = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1{options}) {rest}"
    plan = private(session.prepare(statement)).plan
    counts = engine_of(session).count(plan.compiled)
    keys, rows = exact_of(counts).keys.column(0).to_pylist(), exact_of(counts).in_order().tolist()
    return {keys[i]: int(exact_of(counts).n[0][i]) for i in (rows[:-1] if plan.outside else rows)}


MANY = (
    "SELECT i // 6 AS u, ['a', 'b', NULL][1 + i % 3] AS k, 1 AS n, 'x' AS w, DATE '2024-01-30' AS day "
    "FROM range(600) r(i)"
)


@pytest.mark.parametrize("most", [1, 2])
def test_a_unit_is_kept_to_m_of_all_groups_that_of_null_among_them(
    opened: Callable[..., Session], most: int
) -> None:
    session = opened(rows=MANY)
    options = f", mechanism = LAPLACE, max_groups_contributed = {most}"
    found = exact(session, "k, COUNT(DISTINCT u) AS c FROM t GROUP BY k", options)
    assert found.keys() == {"a", "b", None}
    assert sum(found.values()) == 100 * most
    assert all(found.values())  # which groups a unit keeps is drawn for each unit


def test_what_bounds_all_groups_together_bounds_that_of_null(opened: Callable[..., Session]) -> None:
    text = "k, COUNT(*) AS c, COUNT(DISTINCT u) AS d FROM t GROUP BY k"  # beside units, rows are whole
    assert sum(exact(opened(rows=MANY), text, ", max_rows_contributed = 3").values()) == 300
    found = exact(opened(rows=MANY), "k, COUNT(*) AS c FROM t GROUP BY k", ", max_rows_contributed = 3")
    assert sum(found.values()) == 300 << 24


def test_unique_takes_null_as_a_value(opened: Callable[..., Session]) -> None:
    """Two rows of a unit with NULL would both count, where rows are counted in the place of units."""
    twice = "SELECT i // 2 AS u, NULL::VARCHAR AS k, 1 AS n, DATE '2024-01-30' AS day FROM range(60) r(i)"
    with pytest.raises(OperationalError, match="cannot be read as declared"):
        answer(opened('unique = [["u", "k"]]', twice), f"k, {N} GROUP BY k")


def test_a_mutant_that_drops_null_is_seen(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened()
    assert sum(exact(session, f"k, {N} GROUP BY k").values()) == 420
    monkeypatch.setattr("dpsql.analysis.key_candidates.add_null", lambda domain: domain.without_null())
    assert sum(exact(session, f"k, {N} WHERE u >= 0 GROUP BY k").values()) == 280


def test_a_mutant_of_the_join_loses_the_rows_of_null(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relations, "_same", lambda a, b, *, null=True: Binary("=", a, b))
    session = opened(rows=MANY)
    options = ", mechanism = LAPLACE, max_groups_contributed = 2"
    assert sum(exact(session, "k, COUNT(DISTINCT u) AS c FROM t GROUP BY k", options).values()) < 200


# -- expressions that are never NULL

C, D = Column("t", "c"), Column("t", "d")
ONE, NOTHING = Constant(1, BIGINT), Constant(None, NULL)


@pytest.mark.parametrize(
    ("node", "never"),
    [
        (C, True),
        (D, False),
        (ONE, True),
        (NOTHING, False),
        (IsNull(D), True),
        (Binary("IS DISTINCT FROM", D, C), True),
        (Binary("=", C, ONE), True),
        (Binary("=", C, D), False),
        (Binary("+", C, ONE), False),
        (Not(Paren(Binary("<", C, ONE))), True),
        (Cast(C, BIGINT), False),
        (Cast(C, BIGINT, bounded=True), True),
        (Try(Cast(C, BIGINT, safe=False)), True),
        (Case(((D, ONE),)), False),
        (Case(((D, ONE),), C), True),
        (Case(((D, ONE),), D), False),
        (Call("COALESCE", (D, C)), True),
        (Call("COALESCE", (D, D)), False),
        (Apply(Form("", "", (), "starts_with({0}, 'x')"), (C,)), True),
        (Apply(Form("", "", (), "NULLIF({0}, {1})"), (C, ONE)), False),
        (Apply(Form("", "", (), "json_extract({0}, 'x')"), (C,)), False),
        (Apply(Form("", "", (), "upper({0})"), (D,)), False),
    ],
)
def test_what_is_never_null(node: Expr, never: bool) -> None:
    assert never_null(node, lambda name: name == "t.c") is never


def test_a_chain_of_or_is_looked_through_once() -> None:
    """Each operand was looked up anew for each alternative, of those within them, too: 2^60 times here."""
    column = Column("t1", "c0")
    chain: Expr = Binary("=", column, Constant(0, BIGINT))
    for value in range(1, 60):
        chain = Binary("OR", Paren(chain), Binary("=", column, Constant(value, BIGINT)))
    assert column in find_not_null(chain)
