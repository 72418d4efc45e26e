# ruff: noqa: E501  statements read better unbroken
"""Long private values are NULL at the scan, texts do not grow beyond the limit, patterns and needles are short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.analysis import analyse, complete_options
from dpsql.engines import length_check_key
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.errors import PolicyError, QueryRefused
from dpsql.kernel.tree import Form, listed_forms
from dpsql.language import Query, parse
from dpsql.owner import verify
from dpsql.policy import Policy, load
from dpsql.session import Session
from tests.narrow import engine_of, of_type, private
from tests.support.exact import exact_of
from tests.support.world import write_world

POLICY = """
{engine}
[budget]
epsilon = 1000
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.notes]
source = "notes.parquet"
unit = "user_id"
{more}
"""
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM notes WHERE "
ROWS = "SELECT * FROM (VALUES (1, repeat('a', 100)), (2, repeat('a', 101)), (3, repeat('é', 50)), (4, repeat('é', 51)), (5, NULL)) AS v(user_id, note)"

Make = Callable[..., Policy]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    def make(rows: str = ROWS, limit: str = "longest_value = 100", more: str = "") -> Policy:
        text = POLICY.format(engine=f"[engine]\n{limit}\n", more=more)
        return load(write_world(tmp_path, text, notes=rows))

    return make


def exact(session: Session, statement: str) -> int:
    query = of_type(parse(statement), Query)
    plan = analyse(
        query,
        session.policy,
        engine_of(session).schema_database,
        complete_options(query.options, session.defaults),
    )
    return int(exact_of(engine_of(session).count(plan.compiled)).n[0].sum())


def scanned(session: Session) -> str:
    return of_type(engine_of(session), DuckDBEngine)._scan("notes")


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ('"64 KiB"', 65536), ('"1KiB"', 1024), ('"100"', 100), ('"7 B"', 7)]
)
def test_the_limit_is_read_from_the_policy(made: Make, text: str, size: int) -> None:
    assert made(limit=f"longest_value = {text}").longest_value == size
    assert made(limit="").longest_value == 65536
    one, other = made(limit=""), made(limit=f"longest_value = {size + 1}")
    assert one.fingerprint(one.tables.values()) != other.fingerprint(other.tables.values())


@pytest.mark.parametrize(
    "text", ["0", "-1", '"1 MiB"', "1048576", "true", "1.5", '"64 kb"', '"x"', '""', "[1]"]
)
def test_a_limit_that_is_none_is_refused(made: Make, text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        made(limit=f"longest_value = {text}")
    assert "engine.longest_value" in caught.value.message
    assert 'longest_value = "64 KiB"' in (caught.value.hint or "")


def test_longer_texts_are_null_at_the_scan_by_their_bytes(made: Make) -> None:
    session = Session(made())
    assert exact(session, COUNT + "note IS NULL") == 3
    assert exact(session, COUNT + "length(note) >= 50") == 2
    session.run(COUNT + "note IS NULL")  # vetted: the test of lengths stays, for there are longer values
    assert "strlen" in scanned(session)
    assert exact(session, COUNT + "note IS NULL") == 3
    session.close()


@pytest.mark.parametrize(
    "cell",
    [
        "CASE WHEN i < 3 THEN ['abc'] ELSE [repeat('a', 200)] END",
        "CASE WHEN i < 3 THEN [i] ELSE range(i, i + 60) END",
        "CASE WHEN i < 3 THEN {'a': 'b'} ELSE {'a': repeat('a', 200)} END",
        "encode(repeat('a', CASE WHEN i < 3 THEN 100 ELSE 101 END))",
        "json_object('a', repeat('a', CASE WHEN i < 3 THEN 5 ELSE 101 END))",
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_so_are_lists_structs_blobs_and_json(made: Make, cell: str) -> None:
    rows = f"SELECT i AS user_id, {cell} AS note FROM range(10) AS r(i)"
    more = 'columns = { user_id = "BIGINT", note = "VARCHAR" }' if "json" in cell else ""
    session = Session(made(rows, more=more))
    name = "note.a" if "{" in cell else "note"
    assert exact(session, COUNT + f"{name} IS NULL") == 7
    assert exact(session, COUNT + f"{name} IS NOT NULL") == 3
    session.close()


def test_a_row_whose_fact_has_a_longer_value_is_not_read(made: Make) -> None:
    """Else two of them would have equal keys, NULL, and the fact were false."""
    rows = "SELECT i AS user_id, repeat('a', 98 + i::INTEGER) AS note FROM range(6) AS r(i)"
    session = Session(made(rows, more='unique = [["note"]]'))
    assert exact(session, "SELECT COUNT(DISTINCT user_id) AS n FROM notes") == 3
    assert exact(session, COUNT + "note IS NULL") == 0
    assert engine_of(session).vet("notes")
    session.close()


def test_where_no_value_is_longer_the_scan_does_without_the_test_and_nothing_else_changes(made: Make) -> None:
    short = "SELECT i AS user_id, 'a' || i AS note FROM range(50) AS r(i)"
    statement = COUNT + "note LIKE 'a1%'"
    session = Session(made(short))
    before = private(session.prepare(statement)).counting.sql
    assert "strlen" in scanned(session)
    assert session.run(statement).release is not None
    assert "strlen" not in scanned(session)
    assert private(session.prepare(statement)).counting.sql == before
    assert exact(session, statement) == 11
    session.close()
    # Another session knows it from the ledger; other data is tested again.
    session = Session(session.policy)
    session.run(COUNT + "note LIKE 'a2%'")
    assert "strlen" not in scanned(session)
    made(short + " UNION ALL SELECT 99, repeat('a', 101)")
    session.run(COUNT + "note LIKE 'a3%'")
    assert "strlen" in scanned(session)
    assert exact(session, COUNT + "note IS NULL") == 1
    session.close()


def test_a_source_that_is_trusted_unread_keeps_the_test(made: Make) -> None:
    session = Session(made(more="trust_source = true"))
    session.run(COUNT + "note IS NULL")
    assert "strlen" in scanned(session)
    assert exact(session, COUNT + "note IS NULL") == 3
    session.close()


def test_the_owner_alone_is_told_which_columns_hold_longer_values(made: Make) -> None:
    report = verify(made())
    (found,) = [f for f in report.findings if "longer" in f.text]
    assert (found.level, found.place) == ("note", "tables.notes.columns.note")
    assert "2 values longer than 100 bytes" in found.text
    assert set(report.passed) == {"notes"}
    report = verify(made("SELECT 1 AS user_id, 'a' AS note"))
    assert not any("longer" in f.text for f in report.findings)
    assert set(report.passed) == {"notes", length_check_key("notes")}


REFUSED = [
    f"note LIKE '{'%a' * 201}'",
    f"note LIKE '{'_' * 201}'",
    f"note NOT LIKE '%{'a' * 101}%'",
    f"note ILIKE '%{'a' * 101}'",
    f"note LIKE '%{'a' * 101}' ESCAPE '$'",
    f"note LIKE '{'a' * 1001}'",
    f"note GLOB '*{'a' * 101}'",
    f"contains(note, '{'a' * 201}')",
    f"position('{'a' * 201}' IN note) > 0",
    f"strpos(note, '{'a' * 201}') > 0",
    f"replace(note, '{'a' * 201}', '') = ''",
    f"split_part(note, '{'a' * 201}', 1) = ''",
    f"len(string_split(note, '{'a' * 201}')) = 1",
    f"trim(note, '{'a' * 33}') = ''",
    f"regexp_matches(note, '{'a' * 201}')",
    "regexp_matches(note, '((a{9}){9}){9}')",
    "note SIMILAR TO '(a{99}b|b{99}a){2}'",
    "regexp_replace(note, '[ab]{201}', '') = ''",
    f"note = '{'é' * 32769}'",
]
ACCEPTED = [
    f"note LIKE '{'%a' * 200}'",
    f"note LIKE '{'a' * 900}%{'a' * 99}'",
    f"note LIKE '{'$%' * 300}' ESCAPE '$'",
    f"contains(note, '{'é' * 200}')",
    f"trim(note, '{'a' * 32}') = ''",
    "regexp_matches(note, '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}')",
    f"note = '{'a' * 65536}'",
    "contains(note, left(note, 3))",
]


def test_long_patterns_and_needles_are_refused(made: Make) -> None:
    session = Session(made())
    for condition in REFUSED:
        with pytest.raises(QueryRefused):
            session.prepare(COUNT + condition)
    session.close()


def test_patterns_and_needles_within_the_limits_run(made: Make) -> None:
    session = Session(made())
    for condition in ACCEPTED:
        exact(session, COUNT + condition)
    # One that is calculated is NULL where it is longer.
    assert exact(session, COUNT + "contains(note || note || note, note || note || note)") == 0
    assert exact(session, COUNT + "contains(note, left(note, 3))") == 2
    session.close()


TEXTS = [
    "repeat('a', 65536)",
    "repeat('é', 32768)",
    "repeat('ⱥ', 21845)",
    "repeat('Ⱥ', 32768)",
    "repeat(chr(128512), 16384)",
    "repeat(chr(54620), 21845)",
    "repeat('[', 65536)",
    "'{\"a\":\"' || repeat('\\n', 32760) || '\"}'",
    "repeat('%', 65536)",
    "repeat(' ', 65536)",
    "repeat('1', 65536)",
    "repeat('a'',', 21845)",
]
OTHERS = {"BIGINT": "3", "INTEGER": "3", "VARCHAR[]": "['a', 'bb']", "BIGINT[]": "[1, 2]"}
LITERALS = {
    "#VARCHAR": "'i'",
    "#PAD": "'é'",
    "#REWRITE": "'\\0x\\0'",
    "#PATH": "'$.a'",
    "#INTEGER": "2",
    "#LENGTH": "1000",
}


def calls(form: Form, texts: list[str]) -> list[str]:
    """Write a form over the columns s (long), o (short) and l (long), each text in each of its places."""
    found = []
    places = [i for i, want in enumerate(form.arguments) if want == "VARCHAR"]
    for place in places:
        for other in texts:
            parts = [
                "s" if i == place else other if want == "VARCHAR" else LITERALS.get(want) or OTHERS[want]
                for i, want in enumerate(form.arguments)
            ]
            found.append(form.template.format(*parts))
    return found


def test_no_form_fails_on_the_longest_text_or_makes_one_far_longer() -> None:
    """Changing the case makes a text at most half as long again; all else stays within the limit."""
    written = {
        sql
        for forms in listed_forms().values()
        for form in forms
        if "VARCHAR" in form.arguments
        for sql in calls(form, ["'a'", "'aé'"])
    }
    assert len(written) > 80
    rows = " UNION ALL ".join(f"SELECT {text} AS s" for text in TEXTS)
    with duckdb_settings.connect() as connection:
        connection.execute(f"CREATE TABLE t AS {rows}")
        assert connection.execute("SELECT max(strlen(s)) FROM t").fetchall() == [(65536,)]
        for sql in sorted(written):
            kind = connection.execute(f"SELECT typeof({sql}) FROM t LIMIT 1").fetchall()[0][0]
            measure = f"max(strlen({sql}))" if kind == "VARCHAR" else f"bit_xor(hash({sql}))"
            (found,) = connection.execute(f"SELECT {measure} FROM t").fetchall()[0]
            most = 98304 if sql.split("(")[0] in ("lower", "upper", "lcase", "ucase") else 65536
            assert kind != "VARCHAR" or (found or 0) <= most, sql


LENGTHENED = [
    "note || note",
    "concat(note, note)",
    "replace(note, 'a', 'bb')",
    "translate(note, 'a', '😀')",
    "hex(note)",
    "url_encode(note)",
    "to_base64(note)",
    "regexp_escape(note)",
    "CAST(string_split(note, '') AS VARCHAR)",
    "OVERLAY(note PLACING 'xx' FROM 65536 FOR 1)",
    "concat_ws('-', note, 'b')",
    "list_transform(string_split(note, ''), lambda p: 'ab')",
]


def test_a_text_that_becomes_longer_than_the_limit_is_null(made: Make) -> None:
    rows = "SELECT 1 AS user_id, repeat('a', 65536) AS note UNION ALL SELECT 2, repeat('a', 9)"
    session = Session(made(rows, limit=""))
    for expression in LENGTHENED:
        assert exact(session, f"{COUNT}({expression}) IS NULL") == 1, expression
    assert exact(session, f"{COUNT}note IS NULL") == 0
    session.close()
