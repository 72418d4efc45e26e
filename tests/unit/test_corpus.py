"""The runner of a corpus: what it lets pass, and that it asks a copy."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import duckdb
import pytest

import dpsql
from tests.corpus import (
    FACTS,
    REFERENCES,
    Outcome,
    add_facts,
    add_references,
    dead_ends,
    judged,
    main,
    offered,
    problems,
    right_without_empty,
    within_error,
)

GOOD = [Outcome("as written")] * 88 + [Outcome("spelled")] * 4 + [Outcome("refused")] * 8


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (GOOD, []),
        ([*GOOD, *[Outcome("refused", "single rows")] * 50], []),
        ([], ["no statement"]),
        ([*GOOD, Outcome("refused")], ["as written: 87.1%", "right: 91.1%"]),
        ([Outcome("spelled"), *GOOD[1:]], ["as written: 87.0%"]),
        ([*GOOD, *[Outcome("as written")] * 60, *[Outcome("few rows")] * 5], ["few rows: 5, at most 4"]),
        ([*GOOD, *[Outcome("as written")] * 15, Outcome("WRONG")], ["WRONG: 1"]),
        ([*GOOD, *[Outcome("as written")] * 15, Outcome("noise")], []),
    ],
)
def test_what_is_worse_than_it_may_be(outcomes: list[Outcome], words: list[str]) -> None:
    found = problems(outcomes)
    assert len(found) == len(words)
    assert all(one.startswith(word) for one, word in zip(found, words, strict=True))


@pytest.mark.parametrize(
    ("outcome", "code", "exit_code"), [("as written", 0, 0), ("WRONG", 1, 1), ("refused", 0, 1)]
)
def test_the_folder_is_only_read(tmp_path: Path, outcome: str, code: int, exit_code: int) -> None:
    results = json.dumps([{"outcome": outcome, "out_of_scope": "", "ident": "one"}])
    program = f"""import pathlib, sys
pathlib.Path("build").mkdir()
pathlib.Path("build/results.json").write_text({results!r})
sys.exit({code})
"""
    (tmp_path / "run.py").write_text(program)
    assert main([str(tmp_path)]) == exit_code
    assert [p.name for p in tmp_path.iterdir()] == ["run.py"]


def test_a_folder_that_is_no_corpus(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == main([]) == 2
    (tmp_path / "run.py").write_text("raise SystemExit(3)")
    assert main([str(tmp_path)]) == 1


def test_references_cut_what_the_statements_cut(tmp_path: Path) -> None:
    """The totals of a pen are 150 and 20, cut to 100 and 20; its averages 75 and 20, cut to 75 and 50."""
    rows = "(1, 'pen', 150), (1, 'pen', 0), (2, 'pen', 20), (3, 'nail', 7), (3, 'nail', 8), (3, 'nail', 300)"
    with duckdb.connect() as con:
        for name in ("professors", "view_on_professors", "students"):
            con.execute(f"CREATE TABLE {name} AS FROM (VALUES {rows}) t(id, item, quantity)")
        own = [one for one in REFERENCES if one.source == "googlesql"]
        found = [dict(con.execute(one.sql).fetchall()) for one in own]
    assert found == [
        {"pen": 3, "nail": 3},
        {"pen": 20, "nail": 8},
        {"pen": 120, "nail": 100},
        {"pen": 62.5, "nail": 100},
        {"pen": pytest.approx(170 / 3), "pencil": None, "book": None},
    ]


def test_references_are_added_where_the_corpus_has_none(tmp_path: Path) -> None:
    (tmp_path / "sources" / "googlesql").mkdir(parents=True)
    path = tmp_path / "sources" / "googlesql" / "exact.sql"
    path.write_text("--@ googlesql15 | its own\nSELECT 1;\n")
    add_references(tmp_path)
    text = path.read_text("utf-8")
    assert text.startswith("--@ googlesql15 | its own\nSELECT 1;\n")
    assert text.count("--@ googlesql15 ") == 1
    own = [one for one in REFERENCES if one.source == "googlesql"]
    assert text.count("--@ ") == sum(len(one.idents) for one in own)
    assert [p.name for p in (tmp_path / "sources").iterdir()] == ["googlesql"]


def test_facts_are_written_below_the_heads_of_their_tables(tmp_path: Path) -> None:
    for one in FACTS:
        path = tmp_path / "sources" / one.source / "policy.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(
                "" if f"[tables.{one.table}]" in path.read_text() else f"[tables.{one.table}]\nunit = 'u'\n"
            )
    add_facts(tmp_path)
    for one in FACTS:
        text = (tmp_path / "sources" / one.source / "policy.toml").read_text("utf-8")
        tomllib.loads(text)
        assert f"{one.line}\n" in text.partition(f"[tables.{one.table}]\n")[2]


@pytest.mark.parametrize(
    ("outcome", "message", "accepted"),
    [
        ("as written", "", True),
        ("spelled", "", True),
        ("spelled", "no column usr_id", False),
        ("refused", "", False),
        ("few rows", "", False),
    ],
)
def test_an_answer_to_the_statement_itself_is_as_written(outcome: str, message: str, accepted: bool) -> None:
    assert Outcome(outcome, message=message).accepted == accepted


WRONG_ONCE = """import json, pathlib, sys
build = pathlib.Path("build")
build.mkdir(exist_ok=True)
name = "WRONG" if len(sys.argv) == 1 or "always" in sys.argv[1] else "as written"
source = sys.argv[1] if sys.argv[1:] else SOURCE
row = {"outcome": name, "out_of_scope": "", "ident": "one", "source": source, "sql": ""}
(build / "results.json").write_text(json.dumps([row]))
"""


@pytest.mark.parametrize(("source", "outcome"), [("noisy", "as written"), ("always", "WRONG")])
def test_an_answer_is_wrong_if_it_is_wrong_twice(tmp_path: Path, source: str, outcome: str) -> None:
    (tmp_path / "run.py").write_text(f"SOURCE = {source!r}\n{WRONG_ONCE}")
    _, found = judged(tmp_path)
    assert [one.outcome for one in found] == [outcome]


def build(folder: Path, rows: str, budget: tuple[str, str], keys: list[int], ends: tuple[int, int]) -> None:
    """Write what `within_error` reads: a table of `id`, `k` and `x`, each id a unit, and its policy."""
    made = folder / "build"
    made.mkdir()
    with duckdb.connect(str(made / "made.duckdb")) as con:
        con.execute(f"CREATE TABLE t AS {rows}")
    (made / "made.toml").write_text(f"""
[budget]
epsilon = {budget[0]}
default_epsilon = {budget[1]}
ledger = "made-ledger.sqlite"
[database]
path = "made.duckdb"
[tables.t]
source = "t"
unit = "id"
unique = [["id"]]
domain = {{ k = {keys} }}
not_null = ["k"]
bounds = {{ x = {{ from = {ends[0]}, to = {ends[1]} }} }}
""")


@pytest.mark.parametrize(("largest", "within"), [(60, True), (3, False)])
def test_an_answer_is_within_its_error_unless_values_are_cut(
    tmp_path: Path, largest: int, within: bool
) -> None:
    rows = "SELECT i AS id, i % 2 AS k, 50 AS x FROM range(400) r(i)"
    build(tmp_path, rows, ("100", "1"), [0, 1], (0, largest))
    sql = "SELECT k, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY k ORDER BY k"
    assert within_error(tmp_path, "made", sql) == within
    assert within_error(tmp_path, "made", sql, rows=10**6)


@pytest.mark.parametrize(("least", "within"), [(0, True), (60, False)])
def test_extremes_are_within_the_exact_ones_and_empty_groups_are_near_zero(
    tmp_path: Path, least: int, within: bool
) -> None:
    rows = "SELECT i AS id, i % 2 AS k, i % 50 AS x FROM range(4000) r(i)"
    build(tmp_path, rows, ("1e5", "1e3"), [0, 1, 2], (least, 100))
    assert within_error(tmp_path, "made", "SELECT MAX(x) AS m FROM t") == within
    assert within_error(tmp_path, "made", "SELECT k, COUNT(*) AS n FROM t GROUP BY k")


POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "own-ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
"""


def test_what_a_refusal_offers_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "own.toml").write_text(POLICY)
    rows = "SELECT i AS user_id, i AS ms FROM range(9) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/build/visits.parquet'")
    asked = [
        Outcome("refused", "", "rows", "own", "SELECT * FROM visits", "the rows"),
        Outcome("spelled", "", "typo", "own", "SELECT COUNT(DISTINCT usr_id) FROM visits", "no column"),
        Outcome("as written", "", "fine", "own", "SELECT COUNT(DISTINCT user_id) FROM visits"),
    ]
    assert dead_ends(tmp_path, asked) == []
    monkeypatch.setattr("tests.corpus.offered", lambda error: ["SELECT user_id FROM visits"])
    found = dead_ends(tmp_path, asked)
    assert [one.split(" offers")[0] for one in found] == ["rows", "typo"]


def test_words_are_no_statement_that_is_offered() -> None:
    error = dpsql.QueryRefused("no", hint="SELECT DISTINCT user_id, page")
    assert offered(error) == []
    error = dpsql.QueryRefused("no", hint="SELECT 1 FROM t")
    error.rewrite = "SELECT 2 FROM t"
    assert offered(error) == ["SELECT 2 FROM t", "SELECT 1 FROM t"]


COMPARE = """
class Exact:
    def __init__(self, engine, sql):
        self.rows = engine.execute(sql).fetchall()

    def judge(self, got, asked, *, spelled):
        near = len(got) == len(self.rows) and all(abs(a[1] - b[1]) < 1 for a, b in zip(got, self.rows))
        return ("as written" if near else "WRONG"), ""
"""


@pytest.mark.parametrize(("keys", "right"), [("[0, 1, 2]", True), ("[0, 1]", False), ("[0, 2]", False)])
@pytest.mark.sampled(2, rest="longer")
def test_groups_without_rows_may_come_besides(tmp_path: Path, keys: str, right: bool) -> None:
    build = tmp_path / "build"
    build.mkdir()
    (tmp_path / "compare.py").write_text(COMPARE)
    with duckdb.connect(str(build / "made.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT i AS id, i % 2 AS k, 50 AS x FROM range(400) r(i)")
    (build / "made.toml").write_text(f"""
[budget]
epsilon = 1e5
default_epsilon = 1e4
ledger = "made-ledger.sqlite"
[database]
path = "made.duckdb"
[tables.t]
source = "t"
unit = "id"
unique = [["id"]]
domain = {{ k = {keys} }}
not_null = ["k"]
bounds = {{ x = {{ from = 0, to = 60 }} }}
""")
    assert (
        right_without_empty(tmp_path, "made", "SELECT k, AVG(x) AS s FROM t GROUP BY k ORDER BY k") == right
    )
