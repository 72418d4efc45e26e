"""Statements of a batch file, and releases of a statement, that one query counts; each pays for itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.analysis import CompiledQuery
from dpsql.cli.batch import Batch
from dpsql.cli.narrate import ExitCode
from dpsql.cli.options import Piece
from dpsql.cli.output import AnswerOutput
from dpsql.database import Database
from dpsql.engines import FAILED
from dpsql.engines.process_storage import KeptCounts
from dpsql.errors import BudgetExceeded, InternalError, OperationalError, StatementFailed
from dpsql.kernel.counts import Counts
from dpsql.release import reuse
from dpsql.session import Session
from tests.narrow import private
from tests.unit.test_kept_counts import POLICY, Scans, fresh, write_visits
from tests.unit.test_kept_counts import scans as scans  # noqa: PLC0414  a fixture

UNITS = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
ROWS = UNITS.replace("DISTINCT user_id", "*, contribution_bounds_per_group => (0, 2)")
SUM = UNITS.replace("COUNT(DISTINCT user_id)", "SUM(ms, contribution_bounds_per_group => (0, 100))")
TOP = f"{UNITS} ORDER BY n DESC LIMIT 3"
ABOVE = f"{ROWS} HAVING n >= 10"
BATCH = (TOP, ABOVE, SUM)
"""Statements over the same rows and groups, of different numbers."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reuse, "_SETTLED_SECONDS", -60.0)  # the files are of now
    write_visits(tmp_path)
    (tmp_path / "dpsql.toml").write_text(POLICY.replace("domain.page", "groups = 10\ndomain.page"))
    return tmp_path


@pytest.fixture
def database(folder: Path) -> Iterator[Database]:
    with Database(folder / "dpsql.toml") as made:
        yield made


def largest(session: Session, texts: tuple[str, ...], *, together: bool = True) -> list[float]:
    """Run statements, priced before the first one runs; return the largest number of each."""
    prepared = [session.prepare(text) for text in texts]
    with session.together(prepared if together else []):
        return [max(session.execute(one).table.column("n").to_pylist()) for one in prepared]


def test_one_query_counts_for_all(database: Database, scans: Scans) -> None:
    session = Session(database)
    found = largest(session, BATCH)
    assert len(scans) == 1
    assert scans[0].counts == 3
    # Page 0 is seen by 300 units, each once; `ms` is u % 100. Errors: e^-30 and less.
    assert all(abs(n - true) < 0.1 * true for n, true in zip(found, (300, 300, 14850), strict=True))
    assert session.budget().spent.epsilon == 150
    assert [entry.state for entry in database.ledger.entries()] == ["settled"] * 3


def test_charges_and_releases_are_those_of_statements_that_run_alone(
    folder: Path, database: Database
) -> None:
    seen = []
    for analyst, together in (("alice", True), ("bob", False)):
        session = Session(database, analyst)
        largest(session, BATCH, together=together)
        listed = database.ledger.entries()[:3]
        stored = [session.release(r.number) for r in database.ledger.releases(analyst)]
        seen.append(
            (
                [(entry.statement, entry.state, entry.reserved, entry.charged) for entry in listed],
                [(release.statement, release.charge, release.scale, release.warnings) for release in stored],
            )
        )
    assert seen[0] == seen[1]


def test_no_statement_gets_counts_before_its_own_charge(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, at = Session(database), list[list[str]]()
    true = KeptCounts.find

    def find(kept: KeptCounts, compiled: CompiledQuery) -> Counts | None:
        at.append([entry.state for entry in database.ledger.entries()])
        return true(kept, compiled)

    monkeypatch.setattr(KeptCounts, "find", find)
    largest(session, BATCH)
    assert at == [["reserved"] + ["settled"] * i for i in range(3)]


def test_a_statement_that_is_refused_leaves_nothing(folder: Path, scans: Scans) -> None:
    policy = (folder / "dpsql.toml").read_text().replace("epsilon = 1e6", "epsilon = 99")
    (folder / "dpsql.toml").write_text(policy)
    with Database(folder / "dpsql.toml") as database:
        session = Session(database)
        prepared = [session.prepare(text) for text in BATCH]
        with session.together(prepared):
            session.execute(prepared[0])
            for refused in prepared[1:]:
                with pytest.raises(BudgetExceeded):
                    session.execute(refused)
        assert len(scans) == 1
        assert session.budget().spent.epsilon == 50
        assert len(database.ledger.entries()) == len(database.ledger.releases("analyst")) == 1


def test_if_the_query_for_several_fails_the_statement_that_ran_it_fails(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, engine = Session(database), database.engines().engine
    true = engine.count

    def count(compiled: CompiledQuery) -> Counts:
        if compiled.counts > 1:
            raise OperationalError(FAILED)
        return true(compiled)

    monkeypatch.setattr(engine, "count", count)
    prepared = [session.prepare(text) for text in BATCH[:2]]
    with session.together(prepared):
        with pytest.raises(StatementFailed):
            session.execute(prepared[0])
        session.execute(prepared[1])
    assert [entry.state for entry in database.ledger.entries()] == ["settled", "failed"]


def test_releases_of_one_statement_are_counted_together(database: Database, scans: Scans) -> None:
    session = Session(database)
    text = f"WITH a AS ({TOP}), b AS ({ABOVE}) SELECT a.page, a.n, b.n AS visits FROM a JOIN b USING (page)"
    found = session.run(text)
    assert len(found.release.parts if found.release else ()) == 2
    assert len(scans) == 1
    assert session.budget().spent.epsilon == 50


def test_what_would_save_no_time_is_counted_alone(database: Database, scans: Scans) -> None:
    others = (
        UNITS.replace("FROM visits", "FROM visits WHERE ms < 50"),
        UNITS.replace("DISTINCT user_id", "DISTINCT ms, contribution_bounds_per_group => (0, 2)"),
        UNITS.replace("COUNT(DISTINCT user_id)", "SUM(ms, contribution_bounds => AUTO)"),
        "SELECT COUNT(DISTINCT user_id) AS n FROM visits",
    )
    largest(Session(database), (TOP, *others))
    assert [scan.counts for scan in scans if scan.groups is not None] == [1] * 5


def test_only_in_the_block_and_only_what_is_to_come(database: Database, scans: Scans) -> None:
    session = Session(database)
    prepared = [session.prepare(text) for text in BATCH]
    with session.together(prepared):
        pass
    for one in prepared:
        session.execute(one)
    assert [scan.counts for scan in scans] == [1, 1, 1]
    database.engines().kept.close()  # nothing is kept any more
    again = [session.prepare(fresh(text)) for text in BATCH]
    with session.together(again):
        for one in again:
            session.execute(one)
    assert [scan.counts for scan in scans[3:]] == [3, 2, 1]


def test_what_is_stored_is_not_counted_along(database: Database, scans: Scans) -> None:
    session = Session(database)
    session.run(ABOVE)
    largest(session, (TOP, ABOVE))
    assert [scan.counts for scan in scans] == [1, 1]


def test_with_keep_0_each_is_counted_alone(folder: Path, scans: Scans) -> None:
    text = (folder / "dpsql.toml").read_text()
    (folder / "dpsql.toml").write_text(f"[engine]\nkeep = 0\n{text}")
    with Database(folder / "dpsql.toml") as database:
        largest(Session(database), BATCH)
    assert [scan.counts for scan in scans] == [1, 1, 1]


def test_changed_data_are_counted_again(database: Database, folder: Path, scans: Scans) -> None:
    session = Session(database)
    prepared = [session.prepare(text) for text in BATCH[:2]]
    with session.together(prepared):
        session.execute(prepared[0])
        write_visits(folder, units=100)
        found = session.execute(prepared[1]).table.column("n").to_pylist()
    assert max(found) < 150  # e^-50
    assert len(scans) == 2


def test_a_batch_file_is_counted_together(
    database: Database, scans: Scans, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = [Piece(text, "batch.sql", i) for i, text in enumerate(BATCH, 1)]
    assert Batch(Session(database), AnswerOutput("csv", None)).run(pieces) == ExitCode.OK
    assert len(scans) == 1
    assert capsys.readouterr().out.count("page,n") == 3


def test_what_cannot_be_widened_is_counted_as_it_was_proved(
    database: Database, scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> CompiledQuery:
        raise InternalError("the plan has something")

    monkeypatch.setattr("dpsql.database.merge_queries", refused)
    session = Session(database)
    prepared = private(session.prepare(TOP))
    session.execute(prepared)
    assert [scan.sql for scan in scans] == [prepared.counting.sql]
