"""What a repeat reads decides whether it is free: content, not times; its own tables, not others."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.analysis import CompiledQuery
from dpsql.dbapi.named_streams import open_unnamed
from dpsql.engines import Engine
from dpsql.errors import OperationalError
from dpsql.kernel.counts import Counts
from dpsql.owner import verify
from dpsql.policy import Table, load
from dpsql.release import reuse
from dpsql.release.reuse import Versions
from dpsql.render.readable import summary
from dpsql.session import Session
from tests.narrow import engine_of, present

POLICY = """
[budget]
epsilon = 1000
default_epsilon = 50
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { table = "pages", column = "page", complete = true }
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "VARCHAR" }
[tables.other]
source = "other.csv"
unit = "id"
columns = { id = "INTEGER" }
"""
OWN = POLICY.replace('source = "visits.parquet"', 'source = "visits"') + '[database]\npath = "own.duckdb"\n'
DOMAIN = 'page = { table = "pages", column = "page", complete = true }'
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
GROUPS = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2) page, COUNT(DISTINCT user_id) AS n"
    " FROM visits GROUP BY page"
)


def visits(n: int) -> str:
    return f"SELECT i AS user_id, 'a' AS page FROM range({n}) t(i)"


def write_parquet(folder: Path, n: int) -> None:
    """Put another file in the place of the old one."""
    duckdb.sql(f"COPY ({visits(n)}) TO '{folder}/new.parquet' (FORMAT parquet)")
    os.replace(folder / "new.parquet", folder / "visits.parquet")


def write_database(path: Path, *statements: str) -> None:
    """Write to the database so that only its log changes, if it was there."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute("SET checkpoint_threshold = '1TB'")
        for statement in statements:
            connection.execute(statement)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that the tests copy: making one takes as long as a session."""
    path = tmp_path_factory.mktemp("own") / "own.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE visits AS {visits(100)}")
    return path


@pytest.fixture
def folder(tmp_path: Path, own: Path) -> Path:
    write_parquet(tmp_path, 100)
    (tmp_path / "pages.csv").write_text("page\na\nb\n")
    (tmp_path / "other.csv").write_text("id\n1\n")
    shutil.copy(own, tmp_path / "own.duckdb")
    return tmp_path


@pytest.fixture
def sessions(folder: Path) -> Iterator[Callable[..., Session]]:
    made = []

    def open_one(toml: str = POLICY) -> Session:
        (folder / "dpsql.toml").write_text(toml)
        made.append(Session(load(folder / "dpsql.toml")))
        return made[-1]

    yield open_one
    for session in made:
        session.close()


def near(session: Session, text: str = COUNT) -> int:
    """Return a count, to the nearest hundred (false alarms: e^-2500)."""
    return round(present(session.run(text).release).rows.column("n")[0].as_py(), -2)


def free(session: Session, text: str = COUNT) -> bool:
    return present(session.run(text).release).reused is not None


def test_rows_in_the_log_of_a_database_are_new_data(folder: Path, sessions: Callable[..., Session]) -> None:
    first = sessions(OWN)
    assert near(first) == 100
    first.close()
    file = (folder / "own.duckdb").read_bytes()
    write_database(
        folder / "own.duckdb", f"INSERT INTO visits SELECT user_id + 100, page FROM ({visits(100)})"
    )
    assert (folder / "own.duckdb").read_bytes() == file, "only the log changed"
    session = sessions(OWN)
    assert not free(session)
    assert near(session) == 200


def test_rows_in_the_log_of_a_database_are_vetted(folder: Path, sessions: Callable[..., Session]) -> None:
    toml = OWN.replace('unit = "user_id"', 'unit = "user_id"\nunique = [["user_id"]]')
    session = sessions(toml)
    session.run(COUNT)
    session.close()
    write_database(folder / "own.duckdb", "INSERT INTO visits VALUES (1, 'b')")
    with pytest.raises(OperationalError, match="cannot be read as declared"):
        sessions(toml).run(COUNT)


@pytest.mark.parametrize("toml", [POLICY, OWN], ids=["parquet", "database"])
def test_a_session_reads_what_its_key_names_when_a_file_is_replaced(
    folder: Path, sessions: Callable[..., Session], toml: str
) -> None:
    session = sessions(toml)
    assert near(session) == 100
    with duckdb.connect(str(folder / "new.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits AS {visits(300)}")
    os.replace(folder / "new.duckdb", folder / "own.duckdb")
    write_parquet(folder, 300)
    assert near(session) == 300
    assert free(session)
    assert near(sessions(toml)) == 300, "another session is given the same"


def test_a_prepared_statement_is_planned_again_on_new_data(
    folder: Path, sessions: Callable[..., Session]
) -> None:
    session = sessions()
    prepared = session.prepare(COUNT)
    write_parquet(folder, 300)
    assert round(present(session.execute(prepared).release).rows.column("n")[0].as_py(), -2) == 300
    assert free(session)


def test_public_tables_are_those_of_the_files_now(folder: Path, sessions: Callable[..., Session]) -> None:
    session = sessions()
    assert session.run(GROUPS).table.num_rows == 2
    (folder / "pages.csv").write_text("page\na\nb\nc\n")
    assert session.run("SELECT * FROM pages").table.num_rows == 3
    release = session.run(GROUPS).release
    assert release is not None
    assert release.rows.num_rows == 3
    assert "the data changed" in release.charged_again


def test_times_alone_and_what_the_statement_does_not_read_end_no_free_repeat(
    folder: Path, sessions: Callable[..., Session]
) -> None:
    session = sessions()
    first = session.run(GROUPS).release
    os.utime(folder / "visits.parquet")
    os.utime(folder / "pages.csv", ns=(1, 1))
    (folder / "other.csv").write_text("id\n1\n2\n")
    (folder / "copy").write_bytes((folder / "visits.parquet").read_bytes())
    os.replace(folder / "copy", folder / "visits.parquet")
    assert first is not None
    assert present(session.run(GROUPS).release).number == first.number
    edited = (
        "# a comment\n"
        + POLICY.replace("epsilon = 1000", "epsilon = 2000\nmax_failures = 5").replace(
            "[tables.visits]",
            "[tables.early]\nsource = 'other.csv'\nunit = 'id'\n"
            "columns = { id = 'INTEGER' }\ndomain.id = [1, 2]\n[tables.visits]",
        )
        + "[analysts.analyst]\nepsilon = 1\n"
    )
    for toml in (POLICY, edited):
        assert present(sessions(toml).run(GROUPS).release).number == first.number


def test_content_is_compared_even_where_size_and_time_are_the_same(
    folder: Path, sessions: Callable[..., Session]
) -> None:
    path = folder / "visits.csv"
    toml = POLICY.replace("visits.parquet", "visits.csv").replace(
        'unit = "user_id"', 'unit = "user_id"\ncolumns = { user_id = "INTEGER", page = "VARCHAR" }'
    )
    path.write_text("user_id,page\n1,a\n2,a\n")
    os.utime(path, ns=(10**18, 10**18))
    assert not free(sessions(toml))
    path.write_text("user_id,page\n1,a\n1,a\n")
    os.utime(path, ns=(10**18, 10**18))
    assert not free(sessions(toml))


def test_a_declared_version_rules_over_repeats_and_content_over_vetting(
    folder: Path, sessions: Callable[..., Session]
) -> None:
    toml = 'data_version = "1"\n' + POLICY.replace(
        'unit = "user_id"', 'unit = "user_id"\nunique = [["user_id"]]'
    )
    session = sessions(toml)
    session.run(COUNT)
    duckdb.sql(f"COPY (SELECT 1 AS user_id, 'a' AS page FROM range(2)) TO '{folder}/visits.parquet'")
    assert free(session)
    with pytest.raises(OperationalError, match="cannot be read as declared"):
        session.run(GROUPS)
    write_parquet(folder, 300)
    release = sessions(toml.replace('"1"', '"2"')).run(COUNT).release
    assert release is not None
    assert release.reused is None
    assert release.charged_again.endswith("charged again: the data changed")


class Disturbed:
    """An engine during whose work something happens."""

    def __init__(self, inner: Engine, name: str, happens: Callable[..., object]) -> None:
        self._inner, self._name, self._happens = inner, name, happens

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name != self._name:
            return found

        def call(*arguments: str) -> bool:
            made = found(*arguments)
            self._happens()
            return made

        return call


def test_what_was_counted_while_a_file_changed_is_no_answer_for_later(
    folder: Path, sessions: Callable[..., Session]
) -> None:
    path = folder / "visits.parquet"
    rows, times = path.read_bytes(), path.stat()
    session = sessions()
    count = engine_of(session).count

    def disturbed(compiled: CompiledQuery) -> Counts:
        write_parquet(folder, 300)
        try:
            return count(compiled)
        finally:
            path.write_bytes(rows)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    engine_of(session).count = disturbed  # type: ignore[method-assign]  # the test disturbs it
    with pytest.raises(OperationalError, match="the data changed"):
        near(session)
    assert session.budget().spent.epsilon == 50
    assert session.ledger.count_failures("analyst") == 0
    again = sessions()
    assert not free(again)
    assert near(again) == 100


UNIQUE = POLICY.replace('unit = "user_id"', 'unit = "user_id"\nunique = [["user_id"]]', 1)


@pytest.mark.parametrize("stream", [False, True])
def test_no_answer_rests_on_a_fact_that_is_false_in_a_replaced_file(
    folder: Path, sessions: Callable[..., Session], stream: bool
) -> None:
    session = sessions(UNIQUE)
    session.run("SELECT COUNT(*) AS n FROM visits")

    def repeat_one_unit() -> None:
        rows = "SELECT 7 AS user_id, 'a' AS page FROM range(5000)"
        duckdb.sql(f"COPY ({rows}) TO '{folder}/visits.parquet'")

    count = engine_of(session).count

    def disturbed(compiled: CompiledQuery) -> Counts:
        repeat_one_unit()
        return count(compiled)

    engine_of(session).count = disturbed  # type: ignore[method-assign]  # the test disturbs it
    checked = open_unnamed(session, 1, 1, {"tolerance": 10})
    text = "SELECT COUNT(*) AS n FROM visits WHERE page = 'a'"
    with pytest.raises(OperationalError, match="the data changed"):
        _ = checked.count(text, guess=100) if stream else session.run(text)
    assert session.ledger.count_cancelled("analyst") == 1


def test_what_was_vetted_while_a_file_changed_is_vetted_again(
    folder: Path, sessions: Callable[..., Session]
) -> None:
    session = sessions()
    object.__setattr__(
        session.database.engines(),
        "engine",
        Disturbed(engine_of(session), "vet", lambda: write_parquet(folder, 300)),
    )
    with pytest.raises(OperationalError, match="nothing was charged"):
        session.run(COUNT)
    assert session.budget().spent.epsilon == 0
    calls = []
    again = sessions()
    object.__setattr__(
        again.database.engines(),
        "engine",
        Disturbed(engine_of(again), "vet", lambda: calls.append("vet")),
    )
    again.run(COUNT)
    assert calls == ["vet"]


def test_what_another_version_vetted_is_vetted_again(
    folder: Path, sessions: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    for version in ("1", "1", "2"):
        monkeypatch.setattr(reuse, "_versions", lambda version=version: (version, "2.0"))
        session = sessions()
        object.__setattr__(
            session.database.engines(),
            "engine",
            Disturbed(engine_of(session), "vet", lambda: calls.append("vet")),
        )
        session.run(COUNT)
    assert len(calls) == 2


def test_a_table_that_never_rests_disturbs_only_those_who_read_it(
    folder: Path, sessions: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sessions()
    look = Versions.stamps
    stirred = []

    def stir(
        self: Versions, tables: Iterable[Table] | None = None
    ) -> tuple[tuple[str, tuple[int, ...]], ...]:
        with (folder / "other.csv").open("a") as file:
            file.write("1\n")
        stirred.append(1)
        return look(self, tables)

    monkeypatch.setattr(Versions, "stamps", stir)
    session.run(COUNT)
    assert stirred
    with pytest.raises(OperationalError, match="nothing was charged"):
        session.run("SELECT COUNT(DISTINCT id) AS n FROM other")


def test_the_owners_check_remembers_nothing_of_files_that_changed_meanwhile(
    folder: Path, sessions: Callable[..., Session]
) -> None:
    policy = sessions().policy
    assert {name.partition("\n")[0] for name in verify(policy).passed} == {"visits", "other"}

    def tell(words: str, done: int | None, total: int | None) -> None:
        if words == "reading visits":
            write_parquet(folder, 300)

    assert verify(policy, tell).passed == {}


def why(session: Session, text: str = COUNT, parameters: Sequence[str] | None = None) -> str:
    return present(session.run(text, parameters).release).charged_again


def test_a_repeat_that_is_charged_says_why(
    folder: Path, sessions: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sessions()
    assert why(session) == ""
    assert why(session, "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE) " + COUNT[7:]) == ""
    write_parquet(folder, 300)
    release = session.run(COUNT).release
    assert release is not None
    assert release.charged_again.startswith("asked before, on ")
    assert release.charged_again.endswith("; charged again: the data changed")
    assert release.charged_again in summary(release, None)
    other_unit = POLICY.replace('unit = "user_id"', 'unit = "user_id"\nunit_kind = "person"')
    assert why(sessions(other_unit)).endswith("charged again: the policy changed")
    monkeypatch.setattr(reuse, "_versions", lambda: ("99", "99"))
    write_parquet(folder, 200)
    words = why(sessions(other_unit))
    assert words.endswith("charged again: the data changed and dpsql or the engine was updated")


def test_a_change_of_the_policy_that_changes_the_statements_meaning_is_told(
    sessions: Callable[..., Session],
) -> None:
    sessions().run(GROUPS)
    narrower = POLICY.replace(DOMAIN, 'page = ["a"]')
    assert why(sessions(narrower), GROUPS).endswith("charged again: the policy changed")


def test_another_question_of_the_same_text_was_not_asked_before(sessions: Callable[..., Session]) -> None:
    session = sessions()
    text = COUNT + " WHERE page = ?"
    session.run(text, ["a"])
    assert why(session, text, ["b"]) == ""
    narrower = sessions(POLICY.replace(DOMAIN, 'page = ["a"]'))
    assert why(narrower, text, ["c"]) == ""
    narrower.run("SET dp_epsilon = 2")
    assert why(narrower, text, ["a"]) == ""


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write down every file that is hashed; no file is too young for its hash to be kept."""
    made: list[str] = []
    digest = hashlib.file_digest

    def counted(stream: BufferedReader, name: str) -> object:
        made.append(Path(stream.name).name)
        return digest(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    monkeypatch.setattr(reuse, "_SETTLED_SECONDS", -3600)
    return made


def test_a_file_is_hashed_once_per_change_also_across_sessions(
    folder: Path, sessions: Callable[..., Session], digests: list[str]
) -> None:
    sessions().run(COUNT)
    assert sorted(digests) == ["pages.csv", "visits.parquet"]
    sessions().run(COUNT)
    assert len(digests) == 2
    os.utime(folder / "visits.parquet")
    session = sessions()
    assert free(session)
    assert digests[2:] == ["visits.parquet"]


def test_a_hash_of_a_file_that_was_just_written_is_not_kept(
    folder: Path, sessions: Callable[..., Session], digests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "_SETTLED_SECONDS", 3600)
    session = sessions()
    session.run(COUNT)
    before = len(digests)
    session.prepare(COUNT)
    assert len(digests) > before


def test_a_file_that_is_written_while_it_is_hashed_has_no_version(
    folder: Path, sessions: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = sessions().policy
    digest = hashlib.file_digest

    def disturbed(stream: BufferedReader, name: str) -> object:
        os.utime(stream.name)
        return digest(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", disturbed)
    with pytest.raises(OperationalError, match="nothing was charged"):
        Versions(policy).content(policy.tables.values())


def test_a_file_that_is_gone_has_a_version_of_its_own(folder: Path, sessions: Callable[..., Session]) -> None:
    policy = sessions().policy
    seen = Versions(policy)
    before = seen.content(policy.tables.values())
    (folder / "other.csv").unlink()
    assert seen.content(policy.tables.values()) != before


@pytest.mark.parametrize("log", [".wal", ".wal.checkpoint", ".wal.recovery"])
def test_every_log_of_a_database_belongs_to_its_version(tmp_path: Path, log: str) -> None:
    for name in ("own.duckdb", "pages.csv", "other.csv"):
        (tmp_path / name).touch()
    (tmp_path / "dpsql.toml").write_text(OWN)
    policy = load(tmp_path / "dpsql.toml")
    table = policy.tables["visits"]
    before = Versions(policy).content([table])
    (tmp_path / f"own.duckdb{log}").write_bytes(b"rows")
    assert Versions(policy).content([table]) != before
