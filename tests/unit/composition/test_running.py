"""Statements of several releases: one price, one reservation, one settlement, then the outer query."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from dpsql import connect
from dpsql.audit import Outcome
from dpsql.audit.end_to_end import audit_statements, private_statements
from dpsql.composition import Parts, ReleasePart, planner
from dpsql.composition import composed_statements as outer_module
from dpsql.composition.prepared import PreparedComposed
from dpsql.engines import Cancelled, UnboundQuery
from dpsql.errors import BudgetExceeded, InternalError, OperationalError, QueryRefused
from dpsql.kernel.loss import Charge
from dpsql.language import Options, Query, parse
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from dpsql.session_api import StatementResult
from dpsql.types import DOUBLE
from tests.commands import Commands
from tests.narrow import engine_of, of_type, present
from tests.opened import Open, sessions_in
from tests.unit.test_one_path import states
from tests.unit.test_session import spent

POLICY = """
[budget]
epsilon = 5
delta = 1e-6
default_epsilon = 1
max_epsilon_per_query = 2
max_failures = 3
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
[tables.visits.domain]
page.values = ["a", "b", "c"]
page.complete = true
[tables.pages]
source = "pages.parquet"
public = true
"""
ALL = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
ONE = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
PAGE_A = f"{ONE} WHERE page = 'a'"
SHARES = "SELECT r0.page, r0.n, r0.n / r1.n AS share, r2.n AS a FROM r0, r1, r2 ORDER BY page"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "SELECT i AS user_id, ['a', 'b', 'c'][1 + i % 3] AS page FROM range(300) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/visits.parquet'")
    duckdb.sql(f"COPY (SELECT 'a' AS page, 'news' AS kind) TO '{tmp_path}/pages.parquet'")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def sessions(folder: Path) -> Iterator[Open]:
    with sessions_in(folder, POLICY) as opened:
        yield opened


@pytest.fixture
def session(sessions: Open) -> Session:
    return sessions()


def block(text: str, **options: Any) -> Query:
    query = of_type(parse(text), Query)
    epsilon = Fraction(str(options.pop("epsilon", "1/2")))
    return replace(query, options=Options(epsilon=epsilon, **options), has_options=True)


def parts(blocks: Sequence[Query], outer: str) -> Parts:
    tree = sqlglot.parse_one(outer, dialect="duckdb")
    assert isinstance(tree, sqlglot.exp.Query)
    return Parts(tuple(ReleasePart(f"r{i}", query) for i, query in enumerate(blocks)), tree)


@pytest.fixture
def made_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Let the next statements have these parts; return the text of a statement."""

    def make(outer: str, *blocks: Query, text: str = "SELECT COUNT(*) FROM visits") -> str:
        made = parts(blocks, outer)
        monkeypatch.setattr(planner, "parts_of", lambda *_: made)
        return text

    return make


def three(made_of: Callable[..., str], **options: Any) -> str:
    return made_of(SHARES, block(ALL, **options), block(ONE, **options), block(PAGE_A, **options))


def releases(answer: StatementResult) -> tuple[Release, ...]:
    return present(answer.release).parts


def test_a_statement_costs_the_sum_of_its_releases(session: Session, made_of: Callable[..., str]) -> None:
    prepared = of_type(session.prepare(three(made_of)), PreparedComposed)
    assert prepared.price == Charge(Fraction(3, 2))
    assert spent(session) == 0
    answer = session.execute(prepared)
    assert spent(session) == Fraction(3, 2)
    assert states(session) == ["settled"] * 3
    release = present(answer.release)
    assert [r.charge.epsilon for r in releases(answer)] == [Fraction(1, 2)] * 3
    assert [r.number for r in releases(answer)] == [1, 2, 3]
    assert release.charge == Charge(Fraction(3, 2))
    assert "e^1.5" in release.guarantee
    groups, total, of_a = (r.rows for r in releases(answer))
    assert answer.table.column_names == ["page", "n", "share", "a"]
    assert answer.table.schema.types == [pa.string(), pa.float64(), pa.float64(), pa.float64()]
    n, whole = groups.column("n").to_pylist(), total.column("n")[0].as_py()
    assert answer.table.to_pydict() == {
        "page": ["a", "b", "c"],
        "n": n,
        "share": [each / whole for each in n],
        "a": of_a.column("n").to_pylist() * 3,
    }
    assert session.ledger.check() == []


def test_asking_again_costs_nothing_and_runs_nothing(session: Session, made_of: Callable[..., str]) -> None:
    text = three(made_of)
    first = session.run(text)
    again = session.run(text)
    assert spent(session) == Fraction(3, 2)
    assert again.table.equals(first.table)
    assert present(again.release).reused is not None
    assert session.prepare(text).price == Charge()


def test_a_release_that_is_stored_costs_nothing_in_another_statement(
    session: Session, made_of: Callable[..., str]
) -> None:
    stored = session.run(made_of("SELECT n FROM r0", block(ONE)))
    assert spent(session) == Fraction(1, 2)
    text = three(made_of)
    assert session.prepare(text).price == Charge(Fraction(1))
    answer = session.run(text)
    assert spent(session) == Fraction(3, 2)
    assert releases(answer)[1].rows.equals(releases(stored)[0].rows)
    assert [r.reused is not None for r in releases(answer)] == [False, True, False]
    release = present(answer.release)
    assert (release.charge, release.reused) == (Charge(Fraction(1)), None)
    listed = session.ledger.releases("alice")
    assert [(r.place, r.places) for r in listed] == [(1, 1), (1, 3), (3, 3)]


def test_a_share_of_a_delta_that_is_not_spent_leaves_the_question_the_same(sessions: Open) -> None:
    """A count without a delta that was asked alone costs nothing among others, which share the default."""
    session = sessions(toml=POLICY.replace("default_epsilon", "default_delta = 1e-8\ndefault_epsilon"))
    both = f"SELECT a.n - b.n AS d FROM ({ONE}) AS a, ({PAGE_A}) AS b"
    session.run(ONE.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)"))
    assert session.prepare(both).price == Charge(Fraction(1, 2))
    session.run(both)
    assert session.budget().spent == Charge(Fraction(1))


def test_a_sum_over_a_cap_is_refused_and_nothing_is_charged(
    sessions: Open, made_of: Callable[..., str]
) -> None:
    session = sessions()
    over_query = made_of(
        SHARES, block(ALL, epsilon="0.7"), block(ONE, epsilon="0.7"), block(PAGE_A, epsilon="0.7")
    )
    with pytest.raises(BudgetExceeded) as caught:
        session.run(over_query)
    assert caught.value.scope == "query"
    for toml, scope in (
        (
            POLICY.replace("epsilon = 5", "epsilon = 1.4", 1).replace("max_epsilon_per_query = 2", ""),
            "policy",
        ),
        (
            POLICY.replace("[tables.visits]", "[analysts.alice]\nepsilon = 1.4\n[tables.visits]", 1),
            "analyst alice",
        ),
    ):
        with pytest.raises(BudgetExceeded) as caught:
            sessions(toml=toml).run(three(made_of))
        assert caught.value.scope == scope
        assert caught.value.requested == (Fraction(3, 2), Fraction(0))
    assert spent(session) == 0
    assert states(session) == []


@pytest.mark.parametrize("broken", [1, 2, 3])
@pytest.mark.sampled(3, rest="longer")
def test_one_that_fails_fails_all(
    session: Session, made_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    text, counted = three(made_of), 0
    true = engine_of(session).count

    def count(compiled: Any) -> object:
        nonlocal counted
        counted += 1
        if counted == broken:
            raise ValueError("4711 rows")
        return true(compiled)

    monkeypatch.setattr(engine_of(session), "count", count)
    with pytest.raises(OperationalError) as caught:
        session.run(text)
    assert "4711" not in str(caught.value)
    assert counted == broken
    assert states(session) == ["failed"] * 3
    assert spent(session) == Fraction(3, 2)
    assert session.ledger.releases("alice") == []
    assert session.ledger.count_failures("alice") == 1, "one statement failed, not three"
    assert session.ledger.check() == []


def test_fresh_releases_are_made_again(session: Session, made_of: Callable[..., str]) -> None:
    session.run(three(made_of))
    answer = session.run(three(made_of, fresh=True))
    assert spent(session) == 3
    assert [r.number for r in releases(answer)] == [4, 5, 6]


def test_equal_blocks_are_one_release(session: Session, made_of: Callable[..., str]) -> None:
    text = made_of("SELECT a.n AS x, b.n AS y, a.n / b.n AS q FROM r0 a, r1 b", block(ONE), block(ONE))
    prepared = of_type(session.prepare(text), PreparedComposed)
    assert prepared.price == Charge(Fraction(1, 2))
    (row,) = session.execute(prepared).table.to_pylist()
    assert row["x"] == row["y"]
    assert row["q"] == 1
    assert spent(session) == Fraction(1, 2)


def test_a_release_used_twice_is_equal_in_both_uses(session: Session, made_of: Callable[..., str]) -> None:
    text = made_of(
        "WITH r AS (SELECT * FROM r0) SELECT a.n - b.n AS d FROM r a JOIN r b USING (page)", block(ALL)
    )
    assert session.run(text).table.column("d").to_pylist() == [0, 0, 0]
    assert spent(session) == Fraction(1, 2)


def test_releases_meet_public_tables(session: Session, made_of: Callable[..., str]) -> None:
    outer = "SELECT p.kind, r0.n FROM r0 JOIN pages p ON p.page = r0.page WHERE n > -1e9"
    assert session.run(made_of(outer, block(ALL))).table.column("kind").to_pylist() == ["news"]
    outer = "SELECT table_name FROM r0, information_schema.tables WHERE table_name = 'pages'"
    assert session.run(made_of(outer, block(ALL))).table.num_rows == 3


@pytest.mark.parametrize(
    "outer",
    [
        "SELECT * FROM r0 WHERE NOT EXISTS (SELECT 1 FROM visits)",
        "SELECT * FROM r0, (SELECT COUNT(*) AS c FROM visits) v",
        "WITH v AS (SELECT * FROM visits) SELECT page FROM r0 UNION ALL SELECT page FROM v",
        "SELECT * FROM r0, duckdb_settings()",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_private_tables_are_not_read_by_the_outer_query(
    session: Session, made_of: Callable[..., str], outer: str
) -> None:
    with pytest.raises(InternalError, match="neither released nor public"):
        session.prepare(made_of(outer, block(ALL)))
    assert spent(session) == 0


def test_an_outer_query_that_does_not_bind_is_refused(session: Session, made_of: Callable[..., str]) -> None:
    for outer in (
        "SELECT m FROM r0",
        "SELECT n FROM r7",
        "SELECT page + n FROM r0",
        "SELECT nosuch(n) FROM r0",
    ):
        with pytest.raises(QueryRefused):
            session.prepare(made_of(outer, block(ALL)))
    assert spent(session) == 0


def test_a_failure_of_the_outer_query_is_told_and_costs_nothing_again(
    session: Session, made_of: Callable[..., str]
) -> None:
    text = made_of("SELECT page, CAST(ABS(n) * 1e300 + 1e300 AS INTEGER) AS k FROM r0", block(ALL))
    for _ in range(4):
        with pytest.raises(OperationalError, match=r"not a valid one of the type.*costs nothing"):
            session.run(text)
    assert states(session) == ["settled"]
    assert session.ledger.count_failures("alice") == 0
    assert session.run(made_of("SELECT page FROM r0 ORDER BY 1", block(ALL))).table.num_rows == 3
    assert spent(session) == Fraction(1, 2)


def test_an_outer_query_is_cancelled_and_its_releases_are_kept(
    session: Session, made_of: Callable[..., str]
) -> None:
    long = "SELECT COUNT(*) FROM r0, range(1000000) a, range(1000000) b WHERE a.range + b.range < n - 1e9"
    text = made_of(long, block(ALL))

    def cancel() -> None:
        while not ended.wait(0.02):
            if states(session) == ["settled"]:
                session.cancel()

    ended = threading.Event()
    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Cancelled, match="costs nothing when it is asked again"):
        session.run(text)
    ended.set()
    thread.join()
    assert (session.ledger.count_failures("alice"), session.ledger.count_cancelled("alice")) == (0, 0)
    assert session.run(made_of("SELECT n FROM r0", block(ALL))).table.num_rows == 3
    assert spent(session) == Fraction(1, 2)


def test_the_schema_database_shows_released_rows_to_one_query_only(session: Session) -> None:
    database = session.database.engines().schema_database
    results: list[object] = []

    def ask(i: int) -> None:
        for _ in range(20):
            found = database.over(
                {"r0": (("n", DOUBLE),)}, {"r0": pa.table({"n": [float(i)]})}, "SELECT n FROM r0"
            )
            results.append(found.column("n").to_pylist() == [i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 80
    with pytest.raises(UnboundQuery):
        database.over({}, {}, "SELECT n FROM r0")


def test_threads_share_a_database(folder: Path, sessions: Open, made_of: Callable[..., str]) -> None:
    text = made_of("SELECT page, n FROM r0 ORDER BY page", block(ALL, fresh=True, epsilon="0.1"))
    database = sessions().database
    answers: list[StatementResult] = []

    def ask(name: str) -> None:
        with closing(Session(database, name)) as own:
            answers.extend(own.run(text) for _ in range(3))

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("bob", "cem", "dan")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 9
    for answer in answers:
        assert answer.table.equals(releases(answer)[0].rows.sort_by("page"))
    assert database.ledger.budget().spent.epsilon == Fraction(9, 10)


def test_explain_shows_every_release_and_charges_nothing(
    session: Session, made_of: Callable[..., str]
) -> None:
    prepared = of_type(session.prepare(three(made_of)), PreparedComposed)
    shown = session.execute(session.prepare(f"EXPLAIN {three(made_of)}")).table
    rows = dict(zip(*shown.to_pydict().values(), strict=True))
    assert rows["selection"] == "3 releases"  # as the release itself says
    assert rows["why"] == "one query over their rows"
    for i, part in enumerate(prepared.parts, 1):
        assert rows[f"{i}. compiled_sql"] == part.counting.sql
        assert rows[f"{i}. epsilon"] == "0.5"
    assert rows["epsilon"] == "1.5"
    assert rows["outer_sql"] == prepared.outer
    (text,) = (
        session.execute(session.prepare(f"EXPLAIN (FORMAT JSON) {three(made_of)}"))
        .table.column(0)
        .to_pylist()
    )
    found = json.loads(text)
    assert [each["epsilon"] for each in found["releases"]] == [0.5] * 3
    assert (found["epsilon"], found["budget_left"]) == (1.5, 5)
    assert spent(session) == 0
    session.execute(prepared)
    again = session.execute(session.prepare(f"EXPLAIN {three(made_of)}")).table.to_pydict()
    assert again["property"].count("2. asked_before") == 1
    assert again["value"][again["property"].index("epsilon")] == "0"


def test_a_release_of_several_is_refined(session: Session, made_of: Callable[..., str]) -> None:
    text = three(made_of)
    answer = session.run(text)
    second = releases(answer)[1]
    refined = present(session.run(f"REFINE RELEASE {second.number} TO 1").release)
    assert refined.charge == Charge(Fraction(1, 2))
    assert refined.rows.column_names == ["n"]
    assert spent(session) == 2
    assert session.run(text).table.equals(answer.table)
    made_of(SHARES, block(ALL), block(ONE), block(f"{ONE} WHERE page = 'b'"))
    with pytest.raises(QueryRefused, match="asks something else now"):
        session.prepare("REFINE RELEASE 3 TO 1")


def test_the_ledger_lists_the_parts(session: Session, made_of: Callable[..., str]) -> None:
    session.run(three(made_of))
    session.run(made_of("SELECT n FROM r0", block(f"{ONE} WHERE page = 'b'")))
    assert session.run("SHOW RELEASES").table.column("part").to_pylist() == [
        "1 of 3",
        "2 of 3",
        "3 of 3",
        None,
    ]


def test_all_obstacles_of_all_blocks_are_told(session: Session, made_of: Callable[..., str]) -> None:
    text = made_of(
        SHARES, block(f"{ONE} WHERE pge = 'a'"), block(ONE), block(f"{ONE} WHERE MEDAIN(page) = 1")
    )
    with pytest.raises(QueryRefused) as caught:
        session.prepare(text)
    assert len(caught.value.obstacles) == 2


def test_other_analysts_releases_are_shared_with_one_reservation(
    sessions: Open, made_of: Callable[..., str]
) -> None:
    toml = POLICY.replace(
        "[tables.visits]", '[analysts.bob]\nepsilon = 0.9\n[analysts."*"]\nepsilon = 5\n[tables.visits]', 1
    )
    toml = "share_releases = true\n" + toml
    alice, bob = sessions("alice", toml), sessions("bob", toml)
    alice.run(made_of("SELECT n FROM r0", block(ONE)))
    with pytest.raises(BudgetExceeded) as caught:
        bob.run(made_of("SELECT r0.n FROM r0, r1", block(ONE), block(PAGE_A)))
    assert caught.value.scope == "analyst bob"
    assert spent(bob) == 0, "the shared release is not charged either"
    answer = bob.run(made_of("SELECT r0.n FROM r0, r1", block(ONE), block(PAGE_A, epsilon="0.4")))
    assert spent(bob) == Fraction(9, 10)
    assert spent(alice) == Fraction(1, 2)
    assert releases(answer)[0].reused is not None
    assert bob.ledger.budget().spent.epsilon == Fraction(9, 10)


BARS = [
    ("SELECT page, n FROM r0 WHERE page <> 'b' ORDER BY page DESC", {"n": 0}),
    ("SELECT * FROM r0", {"n": 0}),
    ("SELECT page, r0.n AS m, r1.n AS w FROM pages LEFT JOIN r0 USING (page), r1", {"m": 0, "w": 1}),
    ("SELECT i, r0.n FROM range(4) k(i) LEFT JOIN r0 ON ascii(page) - 97 = k.i ORDER BY i", {"n": 0}),
    ("WITH s AS (FROM r0) SELECT a.n AS x, b.n AS y FROM s a, s b WHERE a.n < b.n", {"x": 0, "y": 0}),
    ("SELECT m FROM (SELECT n AS m FROM r0) WHERE m > 0", {"m": 0}),
    ("SELECT m FROM (SELECT n AS m, page FROM r0 ORDER BY n LIMIT 2) AS t ORDER BY page", {"m": 0}),
    ("SELECT floor(r0.n) AS d, r1.n AS w, COUNT(*) OVER () AS c FROM r0, r1", {"w": 1}),
    ("SELECT page, SUM(n) AS n FROM r0 GROUP BY page", {}),
    ("SELECT DISTINCT n FROM r0", {}),
    ("SELECT n, 1 AS n_low FROM r0", {"n": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("outer", "bars"), BARS)
@pytest.mark.sampled(5)
def test_bare_measures_keep_their_error_bars(
    session: Session, made_of: Callable[..., str], outer: str, bars: dict[str, int]
) -> None:
    answer = session.run(made_of(outer, block(ALL), block(ONE)))
    release = present(answer.release)
    assert answer.table.equals(release.rows)
    assert release.counts == tuple(bars)
    database = session.database.engines().schema_database
    prepared = of_type(session.prepare("SELECT COUNT(*) FROM visits"), PreparedComposed)
    types = {relation.name: relation.columns for relation in prepared.relations}
    tables = {f"r{i}": part.rows for i, part in enumerate(release.parts)}
    assert release.rows.equals(database.over(types, tables, prepared.outer)), "the rows are those as written"
    shown = release.table
    assert shown.column_names[: release.rows.num_columns] == release.rows.column_names
    for number, place in zip(present(release.places).numbers, bars.values(), strict=True):
        part = release.parts[place].table.to_pylist()
        by_value = {row["n"]: row for row in part} | {None: dict.fromkeys(("n_stddev", "n_low", "n_high"))}
        details = [shown.column(present(detail)).to_pylist() for detail in number.details]
        for value, *ends in zip(shown.column(number.place).to_pylist(), *details, strict=True):
            assert ends == [by_value[value][f"n_{kind}"] for kind in ("stddev", "low", "high")]
    assert not [name for name in shown.column_names if name.startswith("dpsql_")]


TOP = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2"


def test_one_release_with_a_query_around_it_is_as_before(
    session: Session, made_of: Callable[..., str]
) -> None:
    query = replace(block(TOP), options=Options(epsilon=Fraction(1), mechanism="NOISY_TOP_K"))
    prepared = session.prepare(made_of("SELECT page AS p, n AS m, n / 2 AS half FROM r0", query))
    release = present(session.execute(prepared).release)
    (part,) = release.parts
    assert (release.keys, release.counts, release.number) == (("p",), ("m", "half"), part.number)
    assert (release.selection, release.mechanism, release.scale) == ("top-2", part.mechanism, part.scale)
    assert release.properties["ordering"] == "m"
    assert release.table.column("gap").equals(part.table.column("gap"))
    fewer = session.run(made_of("SELECT page, n FROM r0 LIMIT 1", query))
    assert "gap" not in present(fewer.release).table.column_names
    facts = dict(zip(*session.run(f"EXPLAIN {prepared.text}").table.to_pydict().values(), strict=True))
    assert facts["selection"] == "top-2"
    assert facts["outer_sql"] == "SELECT page, n FROM r0 LIMIT 1"


KILLED = """
import os, sys
from pathlib import Path
from dpsql import connect
from dpsql.composition import planner
from dpsql.policy import load
from dpsql.session import Session
from tests.unit.composition.test_running import ALL, ONE, PAGE_A, SHARES, block, parts

for step in (int(step) if step.isdigit() else step for step in sys.argv[2:]):
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        continue
    made = parts([block(each, fresh=True) for each in (ALL, ONE, PAGE_A)], SHARES)
    planner.parts_of = lambda *_: made
    session = Session(load(Path(sys.argv[1])), str(step))
    engine, counted = session.database.engines().engine, 0
    true = engine.count

    def count(compiled):
        global counted
        counted += 1
        return os._exit(9) if counted == step else true(compiled)

    die = lambda *_: os._exit(9)
    if isinstance(step, int):
        engine.count = count
    else:
        prepared = session.prepare("SELECT COUNT(*) FROM visits")
        where = session.ledger if step == "settle_all" else type(engine.schema_database)
        setattr(where, step, die)
    session.run("SELECT COUNT(*) FROM visits")
"""


@pytest.mark.parametrize("steps", ["2 over", pytest.param("1 3 settle_all over", marks=pytest.mark.longer)])
def test_a_statement_that_is_killed_stays_charged_in_full(
    folder: Path, commands: Commands, steps: str
) -> None:
    (folder / "dpsql.toml").write_text(POLICY.replace("epsilon = 5", "epsilon = 50", 1))
    *before, _ = names = steps.split()
    command = [*commands.command, "python", KILLED, str(folder / "dpsql.toml"), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with closing(Session(load(folder / "dpsql.toml"), "owner")) as session:
        entries = session.ledger.entries()[::-1]
        lost = [entry.state for entry in entries]
        assert lost == ["reserved"] * 3 * len(before) + ["settled"] * 3
        assert spent(session) == len(names) * Fraction(3, 2)
        assert all(entry.charged.charge == Charge(Fraction(1, 2)) for entry in entries)
        assert [session.ledger.count_failures(name) for name in names] == [1] * len(before) + [0]
        assert session.ledger.check() == []


def audited(folder: Path, made_of: Callable[..., str], trials: int) -> Outcome:
    """Audit three counts that one unit moves together, and their sum, at the price of the statement."""
    duckdb.sql(f"COPY (SELECT i AS user_id, 'a' AS page FROM range(20) t(i)) TO '{folder}/visits.parquet'")
    (folder / "dpsql.toml").write_text(POLICY.replace("max_epsilon_per_query = 2", "").replace("= 5", "= 50"))
    counts = [block(text, epsilon=2) for text in (ONE, PAGE_A, f"{ONE} WHERE page <> 'b'")]
    text = made_of("SELECT r0.n + r1.n + r2.n AS s FROM r0, r1, r2", *counts)
    policy = load(folder / "dpsql.toml")
    asked = private_statements(policy, [(text, "here")])
    done = audit_statements(
        policy, asked, unit=None, trials=trials, error_rate=0.01, on_progress=lambda *_: None
    )
    return done.outcomes[0]


@pytest.mark.slow
def test_whole_outputs_are_audited_at_the_price_of_all_releases(
    folder: Path, made_of: Callable[..., str]
) -> None:
    outcome = audited(folder, made_of, 300)
    assert outcome.verdict.epsilon == 6
    assert not outcome.verdict.violated


@pytest.mark.slow
def test_the_price_of_one_release_only_is_found_out(
    folder: Path, made_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    true = outer_module._join_facts

    def one_only(prepared: PreparedComposed, released: tuple[Release, ...]) -> Release:
        return replace(true(prepared, released), charge=released[0].charge)

    monkeypatch.setattr(outer_module, "_join_facts", one_only)
    monkeypatch.setattr(PreparedComposed, "price", property(lambda self: self.parts[0].price))
    verdict = audited(folder, made_of, 300).verdict
    assert verdict.epsilon == 2
    assert verdict.violated


def test_a_cursor_has_the_release_of_the_statement_and_its_parts(folder: Path) -> None:
    text = (
        f"SELECT b.n / a.n AS share, a.n FROM ({ONE}) AS a, ({PAGE_A}) AS b, (SELECT 1 AS x) AS c WHERE x = 1"
    )
    with connect(folder / "dpsql.toml") as connection:
        cursor = connection.execute(text)
        release = present(cursor.release)
        assert [part.number for part in cursor.releases] == [1, 2]
        assert (cursor.releases, release.counts) == (release.parts, ("share", "n"))
        assert connection.release(2).rows.equals(cursor.releases[1].rows)
        assert connection.budget().spent == release.charge == Charge(Fraction(1))
        assert "2 releases" in repr(cursor)
        assert "± " in present(cursor._repr_html_())
        (row,) = cursor.fetchall()
        assert row[1] == cursor.releases[0].rows.column("n")[0].as_py()
        assert len(connection.execute(ONE).releases) == 1
        assert connection.execute("SELECT 1").releases == ()
