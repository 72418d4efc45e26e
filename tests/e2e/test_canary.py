"""Nothing of one person's cells is ever seen: not in errors, logs, warnings, EXPLAIN, stderr or the ledger.

Marked values stand in private data wherever an engine is likely to quote them: cells that do not convert,
invalid text, broken CSV lines, times beyond their range. Everything that a session, the DB-API and the
command line show is searched for them.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Self, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.cli import main
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.errors import DatabaseError, Error, OperationalError
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of

WORD = "CANARY7F3A"
NUMBER = 987654321987
MARKS = (WORD, str(NUMBER), f"{NUMBER:,}", f"{NUMBER / 1000:.0f}", WORD.lower(), WORD.encode().hex())

POLICY = """
[budget]
epsilon = 100000
delta = 0.01
default_epsilon = 1
default_delta = 1e-9
max_failures = 1000
ledger = "ledger.sqlite"

[database]
path = "own.duckdb"

[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.columns]
user_id = "BIGINT"
page = "VARCHAR"
note = "VARCHAR"
ms = "BIGINT"
amount = "DOUBLE"
day = "DATE"
moment = "TIMESTAMP"
[tables.visits.domain]
page = ["a", "b", "c"]

[tables.odd]
source = "visits.parquet"
unit = "user_id"
columns = { user_id = "BIGINT", note = "INTEGER", ms = "TINYINT", amount = "DECIMAL(9,2)", day = "TIME" }

[tables.invalid]
source = "invalid.parquet"
unit = "user_id"
trust_source = true
columns = { user_id = "BIGINT", note = "VARCHAR" }

[tables.late]
source = "late.parquet"
unit = "user_id"
trust_source = true
columns = { user_id = "BIGINT", moment = "TIMESTAMP" }

[tables.broken]
source = "broken.csv"
unit = "user_id"
trust_source = true
columns = { user_id = "BIGINT", page = "VARCHAR", ms = "BIGINT" }

[tables.checked]
source = "broken.csv"
unit = "user_id"
columns = { user_id = "BIGINT", page = "VARCHAR", ms = "BIGINT" }

[tables.texts]
source = "texts.csv"
unit = "user_id"
columns = { user_id = "BIGINT", page = "VARCHAR", ms = "BIGINT", day = "DATE" }

[tables.own]
source = "patients"
unit = "user_id"
unique = [["note"]]

[tables.linked]
source = "visits.parquet"
unit = { via = "note", table = "own", column = "note" }
unique = [["page"]]
columns = { note = "VARCHAR", page = "VARCHAR" }
[tables.deep]
source = "visits.parquet"
unit = { via = "page", table = "linked", column = "page" }

[tables.root]
source = "patients"
unit = "user_id"
unique = [["note"]]
trust_source = true
[tables.hop]
source = "patients"
unit = { via = "note", table = "root", column = "note" }
unique = [["user_id"]]
trust_source = true
[tables.last]
source = "visits.parquet"
unit = { via = "user_id", table = "hop", column = "user_id" }

[tables.pages]
source = "pages.parquet"
public = true
"""

ASKED = [
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits",
    "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2",
    "SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 2",
    "SELECT ms, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY ms ORDER BY n DESC LIMIT 2",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(note AS INTEGER) = 5",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE note::DATE > DATE '2024-01-01'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(note AS DOUBLE) + ms * ms > 1",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(moment AS VARCHAR) LIKE '%9%'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(note, '^x')",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE chr(ms::INTEGER) = 'x'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE json_extract_string(note, '$.a') = 'x'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM odd WHERE note > 3 OR ms > 3 OR amount > 1 OR day IS NULL",
    "SELECT COUNT(DISTINCT user_id) AS n FROM invalid",
    "SELECT COUNT(DISTINCT user_id) AS n FROM invalid WHERE note LIKE '%x%'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM late WHERE moment < TIMESTAMP '2024-01-01'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM late WHERE CAST(moment AS VARCHAR) = 'x'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM broken WHERE ms > 3",
    "SELECT page, COUNT(DISTINCT user_id) AS n FROM broken GROUP BY page ORDER BY n DESC LIMIT 1",
    "SELECT COUNT(DISTINCT user_id) AS n FROM checked WHERE ms > 3",
    "SELECT COUNT(DISTINCT user_id) AS n FROM texts WHERE ms > 3 OR day > DATE '2024-01-01'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM own WHERE note = 'x'",
    # Keys of a path: one that occurs twice is found before the statement, or, where it is trusted, is not.
    "SELECT COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM linked",
    "SELECT COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM deep JOIN linked USING (page)",
    "SELECT COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM last WHERE CAST(note AS INTEGER) = 5",
    "SELECT COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM last JOIN hop USING (user_id)",
    # Not accepted, or about public things: what is said must be as silent.
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE note = 5",
    "SELECT note FROM visits",
    "SELECT * FROM visits",
    "SELECT MAX(note) FROM visits",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE error(note) = 'x'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE notes = 'x'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE note = ms",
    "SELECT page, (SELECT MAX(note) FROM visits) FROM pages",
    "SELECT page, 1 // 0, CAST('x' AS INTEGER) FROM pages",
    "SELECT * FROM duckdb_tables()",
    "SELECT estimated_size FROM duckdb_tables()",
    "SELECT COUNT(*) FROM pages",
    "SHOW TABLES",
    "SHOW RELEASES",
    "SHOW PRIVACY BUDGET",
    "DESCRIBE visits",
    "DESCRIBE invalid",
    "EXPLAIN SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(note AS INTEGER) = 5",
    "EXPLAIN (FORMAT JSON) SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note TOP 2",
    "EXPLAIN SELECT COUNT(DISTINCT user_id) AS n FROM broken WHERE ms > 3",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = [f"{WORD}-12", f"2024-13-{WORD}", "{" + WORD, WORD * 40_000, "a", "b", None, f"{NUMBER}x"]
    numbers = [NUMBER, -NUMBER, 2**63 - 1, 5, 6, 7, None, NUMBER]
    visits = pa.table(
        {
            "user_id": pa.array([NUMBER, 1, 2, 3, 4, 5, None, 7], pa.int64()),
            "page": ["a", "b", WORD, "c", "a", "b", "c", None],
            "note": texts,
            "ms": pa.array(numbers, pa.int64()),
            "amount": pa.array([NUMBER + 0.5, float("nan"), 1e308, 1, 2, 3, 4, None], pa.float64()),
            "day": pa.array([2**31 - 2, -(2**31) + 2, 1, 2, 3, 4, 5, None], pa.int32()).cast(pa.date32()),
            "moment": pa.array([NUMBER * 1000, 2**62, -(2**62), 1, 2, 3, 4, None], pa.int64()).cast(
                pa.timestamp("us")
            ),
        }
    )
    pq.write_table(visits, tmp_path / "visits.parquet")
    bad = [WORD.encode() + b"\xff\xfe", b"\xc3\x28" + WORD.encode(), b"fine"]
    offsets = pa.py_buffer(
        memoryview(
            pa.array([0, len(bad[0]), len(bad[0] + bad[1]), len(b"".join(bad))], pa.int32()).buffers()[1]
        )
    )
    invalid = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"".join(bad))])
    pq.write_table(pa.table({"user_id": pa.array([1, 2, 3]), "note": invalid}), tmp_path / "invalid.parquet")
    edge = pa.array([-(2**63) + 2, NUMBER, 2**63 - 2], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"user_id": pa.array([1, 2, 3]), "moment": edge}), tmp_path / "late.parquet")
    lines = ["user_id,page,ms", "1,a,5", f"2,{WORD},{NUMBER},9,9", f'3,"{WORD},{NUMBER}', f"{WORD},b,x"]
    (tmp_path / "broken.csv").write_text("\n".join(lines) + "\n", "utf-8")
    rows = ["user_id,page,ms,day", f"1,a,{WORD},{WORD}", f"{WORD},b,{NUMBER}x,2024-13-40", "3,c,7,2024-01-02"]
    (tmp_path / "texts.csv").write_text("\n".join(rows) + "\n", "utf-8")
    with duckdb.connect(str(tmp_path / "own.duckdb")) as connection:
        connection.execute("CREATE TABLE patients(user_id BIGINT, note VARCHAR)")
        connection.execute(f"INSERT INTO patients VALUES (1, '{WORD}'), (2, '{WORD}'), ({NUMBER}, 'x')")
    pq.write_table(pa.table({"page": ["a", "b"]}), tmp_path / "pages.parquet")
    (tmp_path / "dpsql.toml").write_text(POLICY, "utf-8")
    return tmp_path


class Seen:
    """Everything that came out, to be searched."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.failed: list[str] = []

    def error(self, error: BaseException) -> None:
        """Keep an exception as a person, a logger or a debugger shows it, with all that hangs on it."""
        self.failed.append(type(error).__name__)
        todo: list[BaseException] = [error]
        known: set[int] = set()
        while todo:
            one = todo.pop()
            if id(one) in known:
                continue
            known.add(id(one))
            notes = getattr(one, "__notes__", ())
            shown = vars(one) if hasattr(one, "__dict__") else {}
            self.parts += [str(one), repr(one), repr(one.args), repr(notes), repr(shown)]
            self.parts += traceback.format_exception(one)
            todo += [e for e in (one.__cause__, one.__context__) if e is not None]

    def check(self) -> None:
        text = "\n".join(self.parts)
        for mark in MARKS:
            place = text.find(mark)
            assert place < 0, f"{mark} was seen: ...{text[max(0, place - 300) : place + 100]!r}"


@pytest.fixture
def seen(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[Seen]:
    made = Seen()
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield made
    made.parts += [str(w.message) for w in warned]
    made.parts += [caplog.text, *capfd.readouterr()]
    made.check()


def ledger_bytes(folder: Path) -> str:
    return "".join(p.read_bytes().decode("latin-1") for p in sorted(folder.glob("ledger.sqlite*")))


def run_all(session: Session, seen: Seen, statements: list[str]) -> None:
    for text in statements:
        try:
            answer = session.run(text)
        except DatabaseError as error:
            seen.error(error)
        else:
            seen.parts += [str(answer.table.to_pylist()), str(answer.release), repr(answer)]


def test_the_marks_are_where_an_engine_would_quote_them(folder: Path) -> None:
    """The test could not fail if plain DuckDB did not show them."""
    with duckdb.connect() as connection:
        columns = "columns = {'user_id': 'BIGINT', 'page': 'VARCHAR', 'ms': 'BIGINT', 'day': 'DATE'}"
        for sql in (
            f"SELECT CAST(note AS INTEGER) FROM '{folder}/visits.parquet'",
            f"SELECT ms::TINYINT FROM '{folder}/visits.parquet'",
            f"SELECT * FROM read_csv('{folder}/texts.csv', auto_detect = false, header = true, {columns})",
        ):
            with pytest.raises(duckdb.Error) as raised:
                connection.execute(sql).fetchall()
            assert any(mark in str(raised.value) for mark in MARKS)


def test_a_session_shows_nothing_of_a_cell(folder: Path, seen: Seen) -> None:
    session = Session(load(folder / "dpsql.toml"))
    try:
        run_all(session, seen, ASKED)
        run_all(session, seen, ["SHOW RELEASES", "SHOW PRIVACY BUDGET"])
        seen.parts += [repr(session), repr(session.budget())]
        seen.parts += [
            repr(engine_of(session)),
            repr(engine_of(session).schema_database),
        ]
        seen.parts.append(repr(session.prepare(ASKED[4])))
        seen.parts.append(ledger_bytes(folder))
    finally:
        session.close()
    seen.parts.append(ledger_bytes(folder))
    assert seen.failed.count("OperationalError") >= 3


def test_a_failing_statement_is_charged_and_says_nothing(folder: Path, seen: Seen) -> None:
    session = Session(load(folder / "dpsql.toml"))
    try:
        before = session.budget().spent.epsilon
        with pytest.raises(OperationalError) as raised:
            session.run("SELECT COUNT(DISTINCT user_id) AS n FROM invalid WHERE note LIKE '%x%'")
        seen.error(raised.value)
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
        assert session.budget().spent.epsilon == before + 1
        # The same table again: the engine was opened afresh, and other tables answer.
        session.run("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(note AS INTEGER) = 5")
        assert session.budget().spent.epsilon == before + 2
        seen.parts.append(ledger_bytes(folder))
    finally:
        session.close()


def test_data_that_goes_while_the_session_is_open_says_nothing(folder: Path, seen: Seen) -> None:
    session = Session(load(folder / "dpsql.toml"))
    try:
        run_all(session, seen, ["SELECT COUNT(DISTINCT user_id) AS n FROM invalid"])
        (folder / "visits.parquet").write_bytes(b"PAR1" + WORD.encode() * 100)
        (folder / "invalid.parquet").unlink()
        (folder / "broken.csv").write_bytes(WORD.encode() + b"\xff\x00" * 50)
        run_all(session, seen, ASKED)
    finally:
        session.close()
    # Replaced files are opened afresh before a charge; what cannot be opened is the policy's error.
    assert len(seen.failed) >= 5
    assert set(seen.failed) <= {"OperationalError", "PolicyError"}


class Failing:
    """A connection that fails as the engine can, quoting a cell."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def sql(self, text: str) -> object:
        try:
            raise KeyError(WORD)  # noqa: TRY301  an error with a cause is what is tested
        except KeyError as inner:
            raise self.error from inner

    execute = sql

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    "kind",
    [
        *(duckdb.Error, duckdb.ConversionException, duckdb.InternalException, duckdb.FatalException),
        *(
            duckdb.OutOfMemoryException,
            duckdb.InvalidInputException,
            duckdb.IOException,
            duckdb.InterruptException,
        ),
        *(RuntimeError, ValueError, MemoryError, UnicodeDecodeError, OverflowError, OSError, pa.ArrowInvalid),
    ],
)
@pytest.mark.sampled(6)
def test_no_error_of_an_engine_gets_through(folder: Path, seen: Seen, kind: type[Exception]) -> None:
    session = Session(load(folder / "dpsql.toml"))
    try:
        session.run("SELECT COUNT(DISTINCT user_id) AS n FROM visits")
        args = ("utf-8", WORD.encode(), 0, 1, WORD) if kind is UnicodeDecodeError else (f"{WORD} {NUMBER}",)
        engine = engine_of(session)
        assert isinstance(engine, DuckDBEngine)
        engine._opened = dict.fromkeys((True, False), cast("duckdb.DuckDBPyConnection", Failing(kind(*args))))
        with pytest.raises(OperationalError) as raised:
            session.run("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > 1")
        seen.error(raised.value)
        seen.parts.append(ledger_bytes(folder))
        session.run("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > 2")  # opened afresh
    finally:
        session.close()


def test_no_error_after_the_counts_gets_through(
    folder: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts and keys are exact until noise is drawn: a failure there may quote them."""
    session = Session(load(folder / "dpsql.toml"))

    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"{WORD} {NUMBER}")

    try:
        session.run("SELECT COUNT(DISTINCT user_id) AS n FROM visits")
        for name in ("build_rows", "build_details"):
            with monkeypatch.context() as patch:
                patch.setattr(f"dpsql.composition.running.{name}", fail)
                with pytest.raises(OperationalError) as raised:
                    session.run(f"SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE page = '{name}'")
                seen.error(raised.value)
    finally:
        session.close()


def test_the_connector_shows_nothing_of_a_cell(folder: Path, seen: Seen) -> None:
    connection = dpsql.connect(folder / "dpsql.toml")
    try:
        cursor = connection.cursor()
        for text in ASKED:
            try:
                cursor.execute(text)
                seen.parts += [repr(cursor.description), repr(cursor.fetchall()), repr(cursor)]
                html = getattr(cursor, "_repr_html_", None)
                seen.parts.append(str(html()) if html is not None else "")
            except Error as error:
                seen.error(error)
        seen.parts.append(repr(connection))
    finally:
        connection.close()
    seen.parts.append(ledger_bytes(folder))
    assert seen.failed.count("OperationalError") >= 3


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.sampled(3)
@pytest.mark.slow  # a process and the connector show the same every day
def test_the_command_line_shows_nothing_of_a_cell(
    folder: Path, seen: Seen, capfd: pytest.CaptureFixture[str], form: str
) -> None:
    """Whatever is asked, in this process: `seen` has all that it writes, logs and warns of."""
    commands = [part for text in ASKED for part in ("-c", text)]
    calls = [
        ["--format", form, "--on-error", "continue", *commands],
        ["-c", ASKED[12]],
        ["--dry-run", "-c", ASKED[4]],
        ["budget"],
        ["budget", "--json"],
        ["check"],
    ]
    for arguments in calls if form == "table" else calls[:1]:
        main(["-p", str(folder / "dpsql.toml"), *arguments])
        written = capfd.readouterr()
        assert "Traceback" not in written.err
        # What `check` prints is for the owner alone, whom it shows values that lie outside of domains.
        seen.parts += [written.err] if arguments == ["check"] else [*written]
    seen.parts.append(ledger_bytes(folder))


def test_a_process_of_the_command_line_shows_nothing_of_a_cell(folder: Path) -> None:
    """With Python's own warnings and development mode, which writes what is wrong at the exit, too."""
    seen = Seen()
    environment = {**os.environ, "PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1"}
    commands = [part for text in ASKED for part in ("-c", text)]
    for arguments in (["--on-error", "continue", *commands], ["-c", ASKED[12]]):
        done = subprocess.run(
            [sys.executable, "-m", "dpsql.cli", "-p", str(folder / "dpsql.toml"), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            stdin=subprocess.DEVNULL,
            env=environment,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stderr
        seen.parts += [done.stdout, done.stderr]
    seen.parts.append(ledger_bytes(folder))
    seen.check()
