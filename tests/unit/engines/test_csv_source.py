"""CSV files: one row's quotes and line breaks never make a statement fail, nor lose another unit's rows."""

from __future__ import annotations

import csv
import io
import itertools
import random
from pathlib import Path

import duckdb
import pytest

from dpsql import Policy
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.duckdb.source_files import is_well_quoted, read_csv_header, write_csv_scan
from dpsql.errors import PolicyError
from dpsql.owner import verify
from dpsql.policy import CsvSource, load
from dpsql.session import Session
from tests.narrow import present

POLICY = """
[budget]
epsilon = 5
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.notes]
source = "notes.csv"
unit = "id"
columns = { id = "VARCHAR", note = "VARCHAR" }
"""
COLUMNS = ["id", "note"]
MANY_LINES = 'unit,"' + "a,b\n" * 30_000 + '"\n'
"""One unit's quoted field, whose lines look like rows."""


def rows(n: int, first: int = 0) -> str:
    return "".join(f"{i},value number {i % 1000:05d} and some text\n" for i in range(first, first + n))


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "notes.csv").write_text("id,note\n")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return load(tmp_path / "dpsql.toml")


@pytest.fixture
def path(policy: Policy) -> Path:
    source = policy.tables["notes"].source
    assert isinstance(source, CsvSource)
    return source.path


def scan(policy: Policy, path: Path) -> str:
    table = policy.tables["notes"]
    return write_csv_scan(table, [path], read_csv_header(table, path))[0]


def vetted(policy: Policy) -> bool:
    engine = DuckDBEngine(policy)
    try:
        return engine.vet("notes")
    finally:
        engine.close()


def test_a_field_of_many_lines_across_a_chunk_boundary_is_read(policy: Policy, path: Path) -> None:
    path.write_text("id,note\n" + rows(24_000) + MANY_LINES + rows(80_000, 24_000))
    # With chunks of 1 MB instead of 32 MB a small file has such a boundary.
    small = scan(policy, path).replace(
        "columns =", "buffer_size = 1000000, max_line_size = 500000, columns ="
    )
    with duckdb.connect(config={"threads": 4}) as connection:
        found = connection.sql(f"SELECT COUNT(*), COUNT(DISTINCT id) FROM {small}").fetchall()
    assert found == [(104_001, 104_001)]


@pytest.mark.slow
def test_one_unit_cannot_make_a_table_of_80_mb_unreadable(policy: Policy, path: Path) -> None:
    # The field lies across 32,000,000 bytes, where the parallel reader of DuckDB 2.0 starts another chunk.
    before = "id,note\n" + rows(900_000)
    before = before[: before.rindex("\n", 0, 32_000_000 - len(MANY_LINES) // 2) + 1]
    path.write_text(before + MANY_LINES + rows(2_190_000 - before.count("\n") + 1, 900_000))
    assert path.stat().st_size > 80_000_000
    session = Session(policy)
    count = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 5) COUNT(DISTINCT id) AS n FROM notes"
    n = present(session.run(count).release).rows.column("n")[0].as_py()
    session.close()
    assert abs(n - 2_190_001) < 100, "false alarms: e^-500"


def test_line_breaks_and_quotes_within_a_field_are_kept(policy: Policy, path: Path) -> None:
    path.write_bytes(b'id,note\n1,"a\nb, ""c""\r\nd"\n2,\n"3",""\n')
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT id, note FROM {scan(policy, path)}").fetchall()
    assert found == [("1", 'a\nb, "c"\r\nd'), ("2", None), ("3", None)]
    assert vetted(policy)


def test_a_public_file_may_be_read_by_many_threads(tmp_path: Path, policy: Policy, path: Path) -> None:
    assert "parallel = false" in scan(policy, path)
    (tmp_path / "dpsql.toml").write_text(POLICY.replace('unit = "id"', "public = true"))
    assert "parallel = true" in scan(load(tmp_path / "dpsql.toml"), path)


UNREADABLE = {
    "an unclosed quote": b'1,"abc\n',
    "an unclosed quote after a space": b'1, "abc\n',
    "two unclosed quotes": b'1,"abc\n2,"def\n',
    "an unclosed quote and one in a field": b'1,5" pipe\n2,"abc\n',
    "text after a closing quote": b'1,"ab"c\n',
    "a field too few": b"1\n",
    "a field too many": b"1,x,y\n",
    "a line too long": b"1," + b"z" * 2_100_000 + b"\n",
    "another line ending": b"1,x\r\n",
    "no UTF-8": b"1,\xff\n",
}


@pytest.mark.parametrize("row", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.sampled(3)
def test_a_row_that_a_reader_could_stumble_over_is_found_by_vetting(
    policy: Policy, path: Path, row: bytes
) -> None:
    text = rows(50).encode()
    path.write_bytes(b"id,note\n" + text + text)
    assert vetted(policy)
    path.write_bytes(b"id,note\n" + text + row + text)
    assert not vetted(policy)


def test_the_owner_is_told_what_is_wrong_with_the_quotes(policy: Policy, path: Path) -> None:
    path.write_bytes(b'id,note\n1,"abc\n2,def\n')
    report = verify(policy)
    assert report.wrong
    assert any("RFC 4180" in finding.text for finding in report.findings)


def test_a_header_that_does_not_end_is_refused(policy: Policy, path: Path) -> None:
    for text in (b'id,"note\n1,x\n', b"id,note\r1,x\r"):
        path.write_bytes(text)
        with pytest.raises(PolicyError, match=r"notes\.csv"):
            DuckDBEngine(policy)


def damaged(chance: random.Random) -> bytes:
    """Make a few records, mostly well-formed, and sometimes damage one byte."""
    field = [
        "",
        "a",
        "é",
        '"a"',
        '"a\nb"',
        '"a""b"',
        '""',
        '"a,b"',
        '"\r\n"',
        "a b",
        "\0",
        '"""',
        'a"',
        ' "a"',
    ]
    weights = [9] * 11 + [1] * 3
    end = chance.choice(["\n", "\n", "\r\n"])
    lines = [",".join(chance.choices(field, weights, k=2)) for _ in range(chance.randint(1, 6))]
    text = (end.join(lines) + chance.choice(["", end])).encode()
    if chance.random() < 0.3:
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice([b'"', b",", b"\n", b"\r", b"\xff"]) + text[place:]
    return f"id,note{end}".encode() + text


@pytest.mark.parametrize("files", [70, pytest.param(200, marks=pytest.mark.slow)])
def test_what_passes_vetting_is_read_alike_whatever_a_statement_reads_of_it(
    policy: Policy, path: Path, files: int
) -> None:
    """Records are those of RFC 4180, none is lost, and no choice of columns makes the reader fail."""
    chance = random.Random(20)
    passed = 0
    choices = [list(c) for n in range(3) for c in itertools.combinations(COLUMNS, n)]
    with duckdb.connect(config={"threads": 1}) as connection:
        for _ in range(files):
            path.write_bytes(damaged(chance))
            try:
                if not is_well_quoted(path, chunk=chance.randint(1, 9)):
                    continue
                read = connection.sql(f"SELECT id, note FROM {scan(policy, path)}").fetchall()
            except duckdb.Error:
                continue
            passed += 1
            text = path.read_bytes().decode().split("\n", 1)[1]
            expected = [r for r in csv.reader(io.StringIO(text, newline=""), strict=True) if r]
            assert [[c or "" for c in r] for r in read] == [r[:2] for r in expected], path.read_bytes()
            for chosen in choices:
                listed = ", ".join(chosen) or "1"
                assert len(connection.sql(f"SELECT {listed} FROM {scan(policy, path)}").fetchall()) == len(
                    read
                )
    assert passed > files // 4
