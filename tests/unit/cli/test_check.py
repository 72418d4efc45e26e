"""`dpsql check`: errors of a policy, reported to its owner alone."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from dpsql import owner as owner_package
from dpsql.cli import main
from dpsql.cli.narrate import ExitCode
from dpsql.errors import OperationalError, PolicyError
from dpsql.owner import Report, verify
from dpsql.owner.units import looks_like_units
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of

POLICY = """
[budget]
epsilon = 1
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unique = [["visit_id"]]
[tables.visits.domain]
page = { table = "pages", column = "page" }
hour = { from = 0, to = 23 }
mobile = "BOOLEAN"
[tables.pages]
source = "pages.parquet"
public = true
unique = [["page"]]
"""
FROM_CSV = (
    POLICY.replace("visits.parquet", "visits.csv").replace('mobile = "BOOLEAN"', "")
    + """
[tables.visits.columns]
visit_id = "BIGINT"
user_id = "BIGINT"
page = "VARCHAR"
hour = "TINYINT"
"""
)
VISITS = """
SELECT i AS visit_id, i % 50 AS user_id, CASE WHEN i % 2 = 0 THEN 'home' ELSE 'news' END AS page,
  (i % 24)::INTEGER AS hour, i % 3 = 0 AS mobile
FROM range(1000) AS r(i)
"""
PAGES = "SELECT * FROM (VALUES ('home'), ('news')) AS r(page)"


@dataclass
class Done:
    code: int
    out: str
    err: str

    def lines(self, level: str) -> dict[str, str]:
        found = [line.split("  ", 1) for line in self.out.splitlines() if line.startswith(level + " ")]
        pairs = (rest.strip().partition("  ") for _, rest in found)
        return {place.partition(", line ")[0]: text.strip() for place, _, text in pairs}


class Owner:
    """Keeps the sources and asks for a check."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capfd = folder, capfd
        self.put("visits", VISITS)
        self.put("pages", PAGES)
        self.policy = POLICY

    def put(self, table: str, sql: str) -> None:
        duckdb.sql(f"COPY ({sql}) TO '{self.folder / table}.parquet' (FORMAT parquet)")

    def check(self, *args: str, facts: bool = False) -> Done:
        path = self.folder / "dpsql.toml"
        path.write_text(self.policy)
        code = main(["-p", str(path), *args, "check", *(["--facts"] if facts else [])])
        out, err = self._capfd.readouterr()
        return Done(code, out, err)

    def said(self) -> str:
        return self._capfd.readouterr().err

    def report(self) -> Report:
        path = self.folder / "dpsql.toml"
        path.write_text(self.policy)
        return verify(load(path))


@pytest.fixture
def owner(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Owner:
    return Owner(tmp_path, capfd)


def test_a_policy_that_is_true_of_its_data(owner: Owner) -> None:
    done = owner.check()
    assert done.code == ExitCode.OK, done.out + done.err
    assert done.out.startswith("for the owner alone: this report holds exact private facts")
    assert done.lines("ok")["tables.visits"] == "private, 1,000 rows, all readable"
    assert done.lines("ok")["tables.visits.domain.page"] == "covers every value"
    assert done.lines("ok")["tables.visits.unique[0]"] == "visit_id is unique"
    assert done.lines("ok")["tables.visits.unit"] == (
        'every row has a user_id: not_null = ["user_id"], if that is so by construction, '
        "spares answers a line on others"
    )
    assert done.lines("note") == done.lines("wrong") == {}


def test_what_passed_is_not_read_again_before_the_first_statement(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert owner.check().code == ExitCode.OK
    session = Session(load(owner.folder / "dpsql.toml"))

    def read_again(table: str) -> bool:
        raise AssertionError(table)

    monkeypatch.setattr(engine_of(session), "vet", read_again)
    asked = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(DISTINCT user_id) AS n FROM visits"
    )
    assert session.run(asked).release is not None
    session.close()


def test_a_fact_that_does_not_hold(owner: Owner) -> None:
    owner.put("visits", f"{VISITS} UNION ALL {VISITS} WHERE i < 3")
    done = owner.check()
    assert done.code == ExitCode.USAGE
    assert done.lines("wrong") == {
        "tables.visits.unique[0]": "3 values of visit_id stand in more than one row (6 rows)"
    }
    assert "dpsql: error: the policy is not true of its data: 1 of" in done.err
    # What failed is not remembered as read.
    with Session(load(owner.folder / "dpsql.toml")).ledger._store.read() as connection:
        assert connection.execute("SELECT * FROM setting WHERE name LIKE 'vetted%'").fetchall() == []


def test_rows_of_nobody_are_told_and_may_repeat(owner: Owner) -> None:
    owner.put("visits", f"{VISITS} UNION ALL SELECT 1, NULL, 'home', 1, NULL FROM range(7)")
    done = owner.check()
    assert done.code == ExitCode.OK, done.out
    assert done.lines("note") == {
        "tables.visits.unit": "7 rows of 1,007 have no user_id: they are never counted"
    }


def test_a_domain_that_does_not_cover(owner: Owner) -> None:
    owner.policy = POLICY.replace("to = 23", "to = 20")
    owner.put("pages", f"{PAGES} WHERE page = 'home'")
    done = owner.check()
    assert done.code == ExitCode.OK, "a domain may leave out what nobody is to group by"
    notes = done.lines("note")
    assert set(notes) == {"tables.visits.domain.hour", "tables.visits.domain.page"}
    values = "'21' (41 rows), '22' (41 rows), '23' (41 rows). "
    assert notes["tables.visits.domain.hour"].startswith(
        f"123 rows outside of the domain (12.30%), with 3 values: {values}"
    )
    assert notes["tables.visits.domain.page"].startswith(
        "500 rows outside of the domain (50.00%), with 1 value: 'news' (5"
    )
    line = POLICY.splitlines().index("hour = { from = 0, to = 23 }") + 1
    assert f"tables.visits.domain.hour, line {line} " in done.out
    assert done.out.rindex("ok  ") < done.out.index("note  "), "what asks for a change stands at the end"


def test_values_that_their_declared_type_does_not_hold(owner: Owner) -> None:
    (owner.folder / "visits.csv").write_text(
        "visit_id,user_id,page,hour\n1,7,home,3\n2,x,news,12s\n3,,home,\n"
    )
    owner.policy = FROM_CSV
    done = owner.check()
    assert done.code == ExitCode.USAGE
    assert done.lines("wrong") == {
        "tables.visits.columns.user_id": "1 value not readable as BIGINT, so read as NULL: 'x' in row 2",
        "tables.visits.columns.hour": "1 value not readable as TINYINT, so read as NULL: '12s' in row 2",
    }
    assert done.lines("note") == {"tables.visits.unit": "2 rows of 3 have no user_id: they are never counted"}


def test_texts_of_a_csv_file_that_are_all_of_another_type(owner: Owner) -> None:
    (owner.folder / "visits.csv").write_text(
        "visit_id,user_id,page,hour,post,cost,day,at,odd,none\n"
        "1,7,home,3,01234,12.50,2024-01-31,2024-01-31 10:00:00,true,\n"
        "2,8,news,,23456,-3,2024-02-01,2024-02-01 11:30:00.5,FALSE,\n"
        "3,9,home,12,34567,,,,,\n"
    )
    texts = "".join(f'{name} = "VARCHAR"\n' for name in ("post", "cost", "day", "at", "odd", "none"))
    owner.policy = FROM_CSV.replace("BIGINT", "VARCHAR") + texts
    assert owner.check().lines("note")["tables.visits.columns"] == (
        "columns of texts hold numbers, dates or the like alone: if that is so by construction, "
        'write visit_id = "BIGINT", user_id = "BIGINT", cost = "DOUBLE", day = "DATE", at = "TIMESTAMP", '
        'odd = "BOOLEAN"'
    )


def test_a_file_that_ends_in_the_middle(owner: Owner) -> None:
    (owner.folder / "visits.csv").write_text("visit_id,user_id,page,hour\n1,7,home,3\n2,8\n")
    owner.policy = FROM_CSV
    done = owner.check()
    assert done.code == ExitCode.USAGE
    words = done.lines("wrong")["tables.visits.source"]
    assert words.startswith("cannot be read: ")
    assert "CSV Error on Line: 3; Original Line: 2,8; Expected Number of Columns: 4 Found: 2" in words
    assert "tables.pages" in done.lines("ok"), "the other tables are verified all the same"


def test_one_column_that_cannot_be_read(owner: Owner) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00"), pa.py_buffer(b"\xff\xfe")]
    )
    table = pq.read_table(owner.folder / "visits.parquet").slice(0, 1)
    pq.write_table(table.append_column("note", broken), owner.folder / "visits.parquet")
    wrong = {f.place: f.text for f in owner.report().findings if f.level == "wrong"}
    assert set(wrong) == {"tables.visits.columns.note"}
    assert wrong["tables.visits.columns.note"].startswith("cannot be read: ")


def test_a_policy_that_cannot_be_opened(owner: Owner) -> None:
    owner.policy = POLICY.replace('unit = "user_id"', 'unit = "client_id"')
    done = owner.check()
    assert done.code == ExitCode.USAGE
    assert "there is no column client_id" in done.lines("wrong")["policy"]


def test_a_public_table_that_is_a_view(owner: Owner) -> None:
    with duckdb.connect(str(owner.folder / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE notes (user_id BIGINT, note VARCHAR)")
        connection.execute("CREATE VIEW pages AS SELECT note AS page FROM notes")
    owner.policy = POLICY.replace('"pages.parquet"', '"pages"') + '[database]\npath = "shop.duckdb"\n'
    done = owner.check()
    assert done.code == ExitCode.USAGE
    assert "views are not read" in done.lines("wrong")["policy"]


def test_a_second_column_of_units(owner: Owner) -> None:
    owner.put(
        "messages",
        "SELECT i % 50 AS sender_id, (i * 7) % 50 AS receiver_id, i % 9 AS size FROM range(500) AS r(i)",
    )
    owner.policy = POLICY + '[tables.messages]\nsource = "messages.parquet"\nunit = "sender_id"\n'
    done = owner.check()
    assert done.code == ExitCode.OK
    notes = done.lines("note")
    assert set(notes) == {"tables.messages.columns.receiver_id"}
    assert notes["tables.messages.columns.receiver_id"].startswith("50 of its 50 values are units as well")
    assert (
        "the unit that sender_id names, not the one named here"
        in notes["tables.messages.columns.receiver_id"]
    )


@pytest.mark.parametrize(
    ("column", "values", "shared", "units", "alike"),
    [
        ("receiver_id", 40, 40, 1000, True),
        ("x", 400, 300, 1000, True),
        ("x", 199, 199, 1000, False),
        ("hour", 24, 24, 1000, False),
        ("receiver_id", 40, 19, 1000, False),
        ("visit_id", 400_000, 50_000, 50_000, False),
        ("sender_id", 1, 1, 1000, False),
        ("total", 24, 24, 1000, False),
    ],
)
def test_what_looks_like_a_second_unit(
    column: str, values: int, shared: int, units: int, *, alike: bool
) -> None:
    assert looks_like_units(column, values, shared, units) is alike


def test_children_find_their_unit_through_the_parent(owner: Owner) -> None:
    owner.put("clicks", "SELECT i AS visit_id, 1 AS x FROM range(990, 1010) AS r(i)")
    owner.policy = POLICY + (
        '[tables.clicks]\nsource = "clicks.parquet"\n'
        'unit = { via = "visit_id", table = "visits", column = "visit_id" }\n'
    )
    assert owner.check().lines("note") == {
        "tables.clicks.unit": "10 rows of 20 have no unit through visits: they are never counted"
    }


@pytest.mark.parametrize(
    ("table", "unit", "note"),
    [
        ("SELECT i % 50 AS user_id, 1 AS x FROM range(90) AS r(i)", '"ROW"', "user_id is the unit of visits"),
        ("SELECT i AS visit_id, 1 AS x FROM range(90) AS r(i)", '"ROW"', "visit_id names a row of visits"),
        (
            "SELECT i AS visit_id, 1 AS x FROM range(90) AS r(i)",
            '"x"\nunit_kind = "x"',
            "only one x is protected",
        ),
        # The name alone is no evidence, the values alone are none either.
        ("SELECT 7000 + i AS user_id, 1 AS x FROM range(90) AS r(i)", '"ROW"', ""),
        ("SELECT i % 50 AS size, i AS number FROM range(90) AS r(i)", '"ROW"', ""),
    ],
)
@pytest.mark.sampled(3)
def test_rows_that_belong_to_a_unit_of_another_table(owner: Owner, table: str, unit: str, note: str) -> None:
    owner.put("clicks", table)
    owner.policy = POLICY + f'[tables.clicks]\nsource = "clicks.parquet"\nunit = {unit}\n'
    notes = owner.check().lines("note")
    assert (note in notes.pop("tables.clicks.unit")) if note else not notes
    assert not notes


def test_rows_that_belong_to_rows_of_a_child_table(owner: Owner) -> None:
    owner.put("clicks", "SELECT 1000 + i AS click_id, i AS visit_id FROM range(90) AS r(i)")
    owner.put("refunds", "SELECT 1000 + i % 40 AS click_id, 1 AS x FROM range(90) AS r(i)")
    owner.policy = POLICY + (
        '[tables.clicks]\nsource = "clicks.parquet"\n'
        'unit = { via = "visit_id", table = "visits", column = "visit_id" }\n'
        '[tables.refunds]\nsource = "refunds.parquet"\nunit = "ROW"\n'
    )
    notes = owner.check().lines("note")
    assert set(notes) == {"tables.refunds.unit"}
    assert "click_id names a row of clicks, which belongs to one unit" in notes["tables.refunds.unit"]


def test_an_unreadable_table_does_not_stop_the_search_for_units(owner: Owner) -> None:
    owner.put("clicks", "SELECT i AS visit_id, 1 AS x FROM range(90) AS r(i)")
    owner.policy = POLICY + '[tables.clicks]\nsource = "clicks.parquet"\nunit = "ROW"\n'
    path = owner.folder / "clicks.parquet"
    data = bytearray(path.read_bytes())
    data[4:40] = bytes(36)
    path.write_bytes(data)
    report = owner.report()
    assert report.wrong


def test_units_of_one_kind_have_one_type(owner: Owner) -> None:
    owner.put("people", "SELECT i::VARCHAR AS user_id FROM range(50) AS r(i)")
    owner.policy = POLICY + '[tables.people]\nsource = "people.parquet"\nunit = "user_id"\n'
    wrong = {f.place: f.text for f in owner.report().findings if f.level == "wrong"}
    assert wrong == {
        "tables.people.unit": "is VARCHAR, but units of the same kind in visits are integer: they never match"
    }


def test_public_tables_that_name_units(owner: Owner) -> None:
    owner.put("pages", "SELECT 'home' AS page, 7 AS User_Id UNION ALL SELECT 'news', 8")
    notes = {f.place: f.text for f in owner.report().findings if f.level == "note"}
    assert set(notes) == {"tables.pages.columns.User_Id"}
    assert "is the unit in visits" in notes["tables.pages.columns.User_Id"]


def test_what_the_owner_trusts_is_not_read(owner: Owner) -> None:
    owner.put("visits", f"{VISITS} UNION ALL {VISITS} WHERE i < 3")
    owner.policy = POLICY.replace('unit = "user_id"', 'unit = "user_id"\ntrust_source = true')
    report = owner.report()
    assert report.wrong == 0
    assert report.passed == {}
    assert [f.place for f in report.findings if f.level == "note"] == ["tables.visits"]


def test_the_report_as_data(owner: Owner) -> None:
    rows = list(csv.DictReader(io.StringIO(owner.check("--format", "csv").out)))
    assert {row["level"] for row in rows} == {"ok"}
    done = owner.check("--format", "json")
    assert json.loads(done.out) == [{**row, "line": None} for row in rows]
    assert "for the owner alone" in done.err


def test_what_the_default_bounds_cut_is_shown_to_the_owner(owner: Owner) -> None:
    """50 units of 20 rows, in 12 hours: two in each of 8, one in each of 4."""
    owner.policy += "[defaults]\nrows_per_unit = 18\n"
    found = owner.check().lines("note")["defaults.rows_per_unit"]
    assert found.startswith(
        '18 cuts 10.00% of the rows of visits, of 100.00% of its units: write rows_per_unit = "AUTO", or '
        "dpsql bounds visits (epsilon 0.05 of 1)"
    )
    owner.policy = owner.policy.replace("rows_per_unit = 18", "rows_per_unit = 20\ngroups = 2")
    done = owner.check()
    assert done.code == ExitCode.OK
    assert done.lines("ok")["defaults.rows_per_unit"] == "no unit of visits is cut"
    assert done.lines("note")["defaults.groups"] == (
        "2 leaves out 80.00% of the rows of visits, grouped by hour, where groups are cut: "
        'write groups = "AUTO"'
    )
    owner.policy = owner.policy.replace("rows_per_unit = 20\ngroups = 2", 'rows_per_unit = "AUTO"')
    assert not any("defaults" in place for place in owner.check().lines("note"))


def test_a_policy_that_finds_no_bounds_is_not_told_to(owner: Owner) -> None:
    owner.policy += "[defaults]\nrows_per_unit = 18\nauto_bounds = false\n"
    assert "choose bounds without the rows" in owner.check().lines("note")["defaults.rows_per_unit"]


def test_the_share_of_units_beyond_a_bound_is_that_of_units_not_of_rows(owner: Owner) -> None:
    owner.put("visits", f"{VISITS} UNION ALL SELECT i, i, 'home', 1, TRUE FROM range(2000, 2050) AS r(i)")
    owner.policy += "[defaults]\nrows_per_unit = 18\n"
    found = owner.check().lines("note")["defaults.rows_per_unit"]
    assert found.startswith("18 cuts 9.52% of the rows of visits, of 50.00% of its units")


def test_the_values_that_bounds_cut_are_shown_to_the_owner(owner: Owner) -> None:
    more = "TIMESTAMP '2024-01-01' + INTERVAL (i) MINUTE AS seen, (i % 7 + 0.5)::DECIMAL(4,1) AS rate"
    odd = (
        "CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 'nan'::DOUBLE WHEN 2 THEN 'inf'::DOUBLE ELSE i END AS score"
    )
    owner.put("visits", VISITS.replace("FROM range", f", {more}, {odd} FROM range"))
    owner.policy += """
[tables.visits.bounds]
hour = { from = 6, to = 17 }
rate = { from = 0.5, to = 6.5 }
score = { from = 0, to = 1000 }
seen = { from = 2024-01-01, to = 2024-01-01T08:19:00 }
"""
    done = owner.check()
    assert done.code == ExitCode.OK, done.out + done.err
    notes = done.lines("note")
    assert notes["tables.visits.bounds.hour"].startswith("49.80% of the values are cut: choose bounds")
    assert notes["tables.visits.bounds.score"].startswith("50.00% of the values are cut")  # the infinite ones
    assert notes["tables.visits.bounds.seen"].startswith("50.00% of the values are cut")
    assert done.lines("ok")["tables.visits.bounds.rate"] == "no value is cut"


BROKEN = "visit_id,user_id,page,hour\n" + "1,7,home,3\n" * 5 + '2,8,5" pipe,4\n' + "3,9,news,5\n" * 5


def test_a_line_with_a_stray_quote_is_shown(owner: Owner) -> None:
    (owner.folder / "visits.csv").write_text(BROKEN)
    owner.policy = FROM_CSV
    words = owner.check().lines("wrong")["tables.visits.source"]
    assert words.startswith('cannot be read: line 7: 2,8,5" pipe,4; its quotes do not follow RFC 4180')


def test_why_a_database_cannot_be_opened_is_said_to_the_owner_alone(owner: Owner) -> None:
    database = owner.folder / "own.duckdb"
    with duckdb.connect(database) as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS user_id")
    owner.policy = '[database]\npath = "own.duckdb"\n[budget]\nepsilon = 1\n'
    owner.policy += '[tables.visits]\nsource = "visits"\nunit = "user_id"\n'
    hold = f"import duckdb, sys; c = duckdb.connect({str(database)!r}); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        done = owner.check()
        with pytest.raises(PolicyError) as caught:
            Session(load(owner.folder / "dpsql.toml"))
        code = main(["-p", str(owner.folder / "new.toml"), "init", str(database), "--unit", "user_id"])
        said = owner.said()
        other.communicate(b"")
    assert done.code == ExitCode.USAGE
    assert "lock" in done.lines("wrong")["database.path"]
    assert str(other.pid) in done.lines("wrong")["database.path"]
    assert (code, str(other.pid) in said) == (ExitCode.USAGE, True)
    assert "lock" not in str(caught.value)
    assert str(other.pid) not in str(caught.value)


def test_files_with_other_headers_are_named_to_the_owner(owner: Owner) -> None:
    (owner.folder / "v-1.csv").write_text("visit_id,user_id,page,hour\n")
    (owner.folder / "v-2.csv").write_text("visit_id,user_id,hour,page\n")
    owner.policy = FROM_CSV.replace("visits.csv", "v-*.csv")
    done = owner.check()
    assert (
        "v-2.csv has the columns visit_id, user_id, hour, page" in done.lines("wrong")["tables.visits.source"]
    )


def test_what_can_hardly_be_meant_is_a_note(owner: Owner) -> None:
    owner.policy = (
        POLICY.replace('unit = "user_id"', 'unit = "user_id"\nunit_kind = "patients"')
        + "[analysts.alice]\nepsilon = 2\n[analysts.bob]\nepsilon = 1\n"
        + '[groups.both]\nmembers = ["alice", "bob"]\nepsilon = 3\n'
        + '[tables.more]\nsource = "visits.parquet"\nunit = "user_id"\nunit_kind = "patient"\n'
    )
    done = owner.check()
    assert done.code == ExitCode.OK
    notes = done.lines("note")
    assert "never binds" in notes["analysts.alice.epsilon"]
    assert "never binds" in notes["groups.both.epsilon"]
    assert "two kinds" in notes["tables.visits.unit_kind"]
    assert "analysts.bob.epsilon" not in notes


@pytest.mark.parametrize("command", ["init", "check"])
def test_an_interrupt_where_nothing_is_charged_says_nothing_of_charges(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (owner.folder / "dpsql.toml").write_text(POLICY)
    monkeypatch.setattr(owner_package, "verify", interrupted)
    monkeypatch.setattr(owner_package, "introspect_sources", interrupted)
    path = owner.folder / ("new.toml" if command == "init" else "dpsql.toml")
    sources = [str(owner.folder / "visits.parquet")] if command == "init" else []
    assert main(["-p", str(path), command, *sources]) == ExitCode.INTERRUPTED
    said = owner.said()
    assert "interrupted; nothing" in said
    assert "charge" not in said


AT = {"a": "2024-07-02 00:00:00+02:00", "b": "2024-07-02T01:00:00Z", "c": ""}
"""Texts of times: with an offset, in UTC, and none."""


def with_texts(owner: Owner, kind: str, more: str = "", texts: Sequence[str] = tuple(AT.values())) -> None:
    rows = "".join(f"{i},{text}\n" for i, text in enumerate(texts))
    (owner.folder / "texts.csv").write_text(f"user_id,seen\n{rows}")
    owner.policy = f"""
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[tables.texts]
source = "texts.csv"
unit = "user_id"
columns = {{ user_id = "BIGINT", seen = "{kind}" }}
{more}
"""


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATE"])
def test_an_offset_that_a_type_would_drop_is_wrong_and_nothing_is_answered(owner: Owner, kind: str) -> None:
    with_texts(owner, kind)
    done = owner.check()
    assert done.code == ExitCode.USAGE
    assert done.lines("wrong") == {
        "tables.texts.columns.seen": f"2 of 2 texts carry an offset, which a {kind} drops: "
        "declare it TIMESTAMPTZ"
    }
    session = Session(load(owner.folder / "dpsql.toml"), "owner")
    with pytest.raises(OperationalError, match="cannot be read as declared"):
        session.run(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(DISTINCT user_id) FROM texts"
        )
    session.close()


def test_texts_of_instants_without_an_offset_are_told(owner: Owner) -> None:
    with_texts(
        owner, "TIMESTAMPTZ", texts=[*AT.values(), "2024-07-02 00:00:00", "2024-07-02 00:00:00 Europe/Berlin"]
    )
    done = owner.check()
    assert done.lines("note")["tables.texts.columns.seen"] == "1 of 4 texts without an offset: read in UTC"
    lost = done.lines("wrong")["tables.texts.columns.seen"]
    assert lost.startswith(
        "1 value not readable as TIMESTAMPTZ, so read as NULL: '2024-07-02 00:00:00 Europe/Berlin'"
    )


def test_hours_of_a_zone_that_are_doubled_or_skipped_are_told(owner: Owner) -> None:
    zone = 'zone = { seen = "europe/berlin" }'
    with_texts(
        owner, "TIMESTAMP", zone, ["2024-10-27 02:30:00", "2024-10-27 03:00:00", "2024-03-31 02:00:00"]
    )
    assert owner.check().lines("note")["tables.texts.zone.seen"] == (
        "of 1 row the hour occurs twice in Europe/Berlin (the later one is taken), of 1 row it is skipped "
        "(the offset before it is taken)"
    )


def test_instants_that_are_declared_as_times_are_told(owner: Owner) -> None:
    owner.put("visits", f"SELECT *, TIMESTAMPTZ '2024-01-01 00:00:00+00' AS seen FROM ({VISITS})")
    columns = 'columns = { visit_id = "BIGINT", user_id = "BIGINT", seen = "TIMESTAMP" }\nunique'
    plain = owner.policy.replace('unique = [["visit_id"]]', columns + ' = [["visit_id"]]')
    owner.policy = plain[: plain.index("[tables.visits.domain]")] + plain[plain.index("[tables.pages]") :]
    assert "are read as times of UTC" in owner.check().lines("note")["tables.visits.columns.seen"]


# --- the facts on which proofs rest ---------------------------------------------------------------------


ASKED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = .1) COUNT(DISTINCT user_id) FROM visits"


def facts_of_json(owner: Owner) -> list[dict[str, str]]:
    shown = owner.check("--format", "json", facts=True)
    assert shown.code == 0, shown.err
    found: list[dict[str, str]] = json.loads(shown.out)
    return found


def test_facts_are_shown_as_proofs_have_them(owner: Owner) -> None:
    shown = owner.check("--format", "table", facts=True)
    assert shown.code == 0, shown.err
    visits = shown.out[shown.out.index("visits\n") :]
    assert "rows        a row belongs to the unit in user_id" in visits
    assert "columns     visit_id BIGINT, user_id BIGINT, page VARCHAR, hour INTEGER, mobile BOOLEAN" in visits
    assert "unique      visit_id" in visits
    pages, *_, domain = facts_of_json(owner)
    assert (pages["table"], pages["rows"], pages["unique"]) == ("pages", "public", "page")
    assert domain["table"] == "domain of visits.page"
    assert domain["rows"].startswith("distinct public values, 2 at most, in d_")


def test_facts_that_do_not_hold_of_a_public_table_are_told(owner: Owner) -> None:
    owner.put("pages", "SELECT * FROM (VALUES ('home'), ('home')) AS r(page)")
    assert facts_of_json(owner)[0]["unique"] == "page (not so in its rows)"


def test_facts_are_compared_with_those_of_the_newest_charge(owner: Owner) -> None:
    assert "the ledger has no charge under this policy yet" in owner.check(facts=True).err
    with closing(Session(owner.folder / "dpsql.toml")) as session:
        session.run(ASKED)
        digest = session.facts.digest
        assert session.ledger.facts == digest
    assert f"facts {digest}: the newest charge of the ledger rests on them" in owner.check(facts=True).err
    owner.put("visits", VISITS.replace("(i % 24)::INTEGER", "(i % 24)::BIGINT"))
    told = owner.check(facts=True).err
    assert f"the newest charge of the ledger rests on others, {digest}" in told
    with closing(Session(owner.folder / "dpsql.toml")) as session:
        session.run(ASKED)
        assert session.ledger.facts == session.facts.digest != digest
        assert session.ledger.check() == []
    assert "the newest charge of the ledger rests on them" in owner.check(facts=True).err
