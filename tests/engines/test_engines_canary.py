# ruff: noqa: E501  statements read better unbroken
"""Nothing of one person's cells is ever seen, whichever engine counts: not in errors, logs, or on stderr.

Marked values stand in the tables; statements run, are refused, and fail in the engine itself, whose own
words quote the values. All that a process prints and all that the ledger holds is searched for them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from support.stores import PLAIN, PostgresStore, SparkStore, Store

WORD = "CANARY7F3A"
NUMBER = 987654321987
MARKS = (WORD, str(NUMBER), f"{NUMBER:,}", WORD.lower(), WORD.encode().hex())

POLICY = """
[budget]
epsilon = 100000
delta = 0.01
default_epsilon = 1
default_delta = 1e-9
max_failures = 1000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
columns = { user_id = "BIGINT", page = "VARCHAR", note = "VARCHAR", ms = "BIGINT" }
[tables.visits.domain]
page = ["a", "b", "c"]
[tables.broken]
source = "broken.parquet"
unit = "user_id"
trust_source = true
columns = { user_id = "BIGINT", note = "VARCHAR" }
[tables.twice]
source = "visits.parquet"
unit = "user_id"
unique = [["note"]]
columns = { user_id = "BIGINT", note = "VARCHAR" }
"""

ASKED = [
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits",
    "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2",
    "SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 2",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms * ms > 5 OR ms // 0 > 1",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE note LIKE '%x%' AND upper(note) <> 'Y'",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(note AS INTEGER) = 5",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(note, '^x')",
    "SELECT COUNT(DISTINCT user_id) AS n FROM broken WHERE md5(note) <> 'x'",
    "SELECT note, COUNT(DISTINCT user_id) AS n FROM broken GROUP BY note ORDER BY n DESC LIMIT 2",
    "SELECT COUNT(DISTINCT user_id) AS n FROM twice",
    "SELECT note FROM visits",
    "EXPLAIN SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 2",
    "EXPLAIN (FORMAT JSON) SELECT COUNT(DISTINCT user_id) AS n FROM broken WHERE note <> 'x'",
    "SHOW RELEASES",
    "DESCRIBE broken",
]

ROWS = f"""
SELECT * FROM (VALUES ({NUMBER}, 'a', '{WORD}-12', {NUMBER}), (1, 'b', '{WORD}', -{NUMBER}), (2, '{WORD}', 'x', 9223372036854775807),
  (3, 'c', '{WORD}', 5), (NULL, 'a', '{WORD}', {NUMBER}), (4, NULL, NULL, NULL), (5, 'a', 'a', 5)) AS v(user_id, page, note, ms)
"""


MD5 = (
    "CREATE OR REPLACE FUNCTION pg_catalog.md5(text) RETURNS text LANGUAGE {} "
    "IMMUTABLE STRICT PARALLEL SAFE {}"
)


def put(store: Store, folder: Path) -> dict[str, str]:
    """Put the rows there, and a table that fails in the engine with words that quote a cell."""
    with duckdb.connect() as connection:
        rows = (
            f"SELECT CAST(user_id AS BIGINT) AS user_id, page, note, CAST(ms AS BIGINT) AS ms FROM ({ROWS})"
        )
        sources = store.put(connection, {"visits": rows, "broken": f"SELECT user_id, note FROM ({rows})"})
    if isinstance(store, PostgresStore):
        schema = sources["broken"].partition(".")[0]
        store.execute(
            "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'asker') THEN CREATE ROLE asker LOGIN; END IF; END $$",
            f"GRANT USAGE ON SCHEMA {schema} TO asker",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO asker",
            # It converts a text to a number in the engine, whose message quotes the text.
            MD5.format("sql", "RETURN CAST(CAST($1 AS integer) AS text)"),
        )
    else:
        path = Path(sources["broken"])
        data = bytearray(path.read_bytes())
        data[4:40] = (WORD * 4).encode()[:36]  # the head of the first page
        path.write_bytes(bytes(data))
    return sources


@pytest.fixture
def policy(store: Store, tmp_path: Path) -> Iterator[Path]:
    sources = put(store, tmp_path)
    text = POLICY
    if isinstance(store, PostgresStore):  # where no index keeps it, a session does not even begin
        text = text.replace('unique = [["note"]]\n', "")
    for name, source in sources.items():
        text = text.replace(f'"{name}.parquet"', f"'{source}'")
    engine = store.engine.replace("owner@", "asker@")
    (tmp_path / "dpsql.toml").write_text(f'[database]\nengine = "{engine}"\n{text}', "utf-8")
    yield tmp_path / "dpsql.toml"
    if isinstance(store, PostgresStore):
        store.execute(MD5.format("internal", "LEAKPROOF AS 'md5_text'"))


def test_the_command_line_shows_nothing_of_a_cell(store: Store, policy: Path) -> None:
    """A whole process, with the engine's start and its logs."""
    commands = [part for text in ASKED for part in ("-c", text)]
    lines = [f"{name} {value}" for name, value in PLAIN.items()]
    (policy.parent / "spark-defaults.conf").write_text("\n".join(lines), "utf-8")
    environment = {**os.environ, "PYTHONWARNINGS": "always", "SPARK_CONF_DIR": str(policy.parent)}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "dpsql.cli",
            "-p",
            str(policy),
            "--format",
            "table",
            "--on-error",
            "continue",
            *commands,
        ],
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        stdin=subprocess.DEVNULL,
        env=environment,
        timeout=400,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.count("n") > 3, done.stderr
    assert "could not finish" in done.stderr, "the broken table did not fail in the engine"
    if not isinstance(store, PostgresStore):
        assert "dpsql check" in done.stderr, "the vouched fact was not tested"
    assert "WARN" not in done.stderr
    assert "log4j" not in done.stderr
    ledger = "".join(p.read_bytes().decode("latin-1") for p in sorted(policy.parent.glob("ledger.sqlite*")))
    for mark in MARKS:
        for what, text in (("stdout", done.stdout), ("stderr", done.stderr), ("the ledger", ledger)):
            place = text.find(mark)
            assert place < 0, f"{mark} was seen in {what}: {text[max(0, place - 300) : place + 100]!r}"


def test_the_engine_would_have_quoted_it(store: Store, policy: Path) -> None:
    """The test above could not fail if the engines were silent by themselves."""
    if isinstance(store, SparkStore):
        from dpsql.engines.spark.spark_connection import open_session

        session = open_session("spark")
        source = policy.read_text("utf-8").partition("source = '")[2].partition("'")[0]
        frame = session.sql(f"SELECT CAST(raise_error(concat(note, ms)) AS INT) AS x FROM parquet.`{source}`")
        with pytest.raises(Exception, match=WORD):
            frame.toArrow()
        return
    from adbc_driver_postgresql import dbapi

    broken = policy.read_text("utf-8").partition("[tables.broken]\nsource = '")[2].partition("'")[0]
    address = store.engine.replace("owner@", "asker@")
    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:

        def read() -> None:
            cursor.execute(f"SELECT md5(note) FROM {broken}")
            cursor.fetch_arrow_table()

        with pytest.raises(Exception, match=WORD):
            read()
