"""Tables of several files, and CSV files as they come: which rows are read, and which version they are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql import database as database_module
from dpsql.database import Database
from dpsql.engines import open_engine
from dpsql.engines.duckdb.duckdb_owner import Inspector
from dpsql.errors import OperationalError, PolicyError
from dpsql.owner import introspect_sources, verify
from dpsql.policy import CsvFormat, load
from dpsql.release.reuse import Versions
from dpsql.session import Session
from tests.narrow import present

HEAD = "[budget]\nepsilon = 1000\ndefault_epsilon = 50\n[tables.t]\nunit = 'u'\n"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def policy(table: str, head: str = HEAD) -> Path:
        file = tmp_path / "dpsql.toml"
        file.write_text(head + table, "utf-8")
        return file

    return policy


def rows(policy: Path, listed: str = "*") -> list[tuple[Any, ...]]:
    """Return what the private engine reads, in order."""
    inspector = Inspector(load(policy))
    try:
        assert inspector.vet("t")
        return inspector.fetch_all(f"SELECT {listed} FROM main.t ORDER BY ALL")
    finally:
        inspector.close()


def parquet(file: Path, query: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
    return file


MESSY = (
    ";u;Stadt;Betrag (€);Notiz\n"
    '0;7;Köln;1,50;"a;""b"""\n'
    "1;8;Zürich;1.000,5;n/a\n"
    "2;9;;-2;\n"
)  # fmt: skip
MESSY_TABLE = """
source = "messy.csv"
columns = { u = "BIGINT", Stadt = "VARCHAR", amount = "DECIMAL(9,2)", Notiz = "VARCHAR" }
[tables.t.csv]
delimiter = ";"
encoding = "ENCODING"
null = ["", "n/a"]
decimal = ","
rename = { "Betrag (€)" = "amount" }
"""


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1252", "utf-16", "iso-8859-15"])
@pytest.mark.sampled(3, rest="longer")
def test_a_csv_file_as_it_comes_is_read_as_it_is_meant(write: Write, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "messy.csv").write_bytes(MESSY.encode(encoding))
    policy = write(MESSY_TABLE.replace("ENCODING", encoding))
    read = rows(policy, "u, Stadt, amount::DOUBLE, Notiz")
    assert read == [(7, "Köln", 1.5, 'a;"b"'), (8, "Zürich", None, None), (9, None, -2.0, None)]
    found = [f for f in verify(load(policy)).findings if f.level == "wrong"]
    assert [f.place for f in found] == ["tables.t.columns.amount"], "1.000,5 is no number here"


def test_no_byte_of_a_one_byte_encoding_makes_a_file_unreadable(write: Write, tmp_path: Path) -> None:
    every = bytes(b for b in range(1, 256) if b not in b'\n\r",')
    (tmp_path / "t.csv").write_bytes(b"u,x\n1," + every + b"\n")
    for encoding in ("latin-1", "windows-1252", "cp1253", "koi8-r"):
        columns = 'columns = { u = "BIGINT", x = "VARCHAR" }'
        policy = write(f'source = "t.csv"\n{columns}\ncsv = {{ encoding = "{encoding}" }}\n')
        ((_, read),) = rows(policy)
        assert len(read) == len(every)


def test_the_copy_of_a_private_file_is_its_owners_alone_and_goes_with_the_engine(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_bytes("u,x\n1,é\n".encode("latin-1"))
    columns = 'columns = { u = "BIGINT", x = "VARCHAR" }'
    inspector = Inspector(load(write(f'source = "t.csv"\n{columns}\ncsv = {{ encoding = "latin-1" }}\n')))
    (copy,) = inspector.readers["t"].paths
    assert copy.read_text("utf-8") == "u,x\n1,é\n"
    assert (copy.stat().st_mode & 0o077, copy.parent.stat().st_mode & 0o077) == (0, 0)
    inspector.close()
    assert not copy.exists()


@pytest.mark.parametrize(
    ("csv", "says"),
    [
        ("delimiter = ';;'", "tables.t.csv.delimiter"),
        ("delimiter = '\"'", "tables.t.csv.delimiter"),
        ("encoding = 'shift_jis'", "tables.t.csv.encoding"),
        ("encoding = 'nonsense'", "tables.t.csv.encoding"),
        ("null = []", "tables.t.csv.null"),
        ("null = 5", "tables.t.csv.null"),
        ("decimal = ';'", "tables.t.csv.decimal"),
        ("thousands = ';'", "tables.t.csv.thousands"),
        ("thousands = '.'", "tables.t.csv.thousands"),
        ("date = 'DD.MM.YY'", "tables.t.csv.date"),
        ("date = 'DD.DD.YYYY'", "tables.t.csv.date"),
        ("rename = { a = 'x', b = 'x' }", "tables.t.csv.rename"),
        ("rename = { a = 1 }", "tables.t.csv.rename.a"),
        ("separator = ';'", "tables.t.csv.separator"),
    ],
)
def test_a_format_that_cannot_be_meant_is_refused(write: Write, tmp_path: Path, csv: str, says: str) -> None:
    (tmp_path / "t.csv").write_text("u\n1\n")
    with pytest.raises(PolicyError, match=says.replace(".", r"\.")):
        load(write(f"source = 't.csv'\ncolumns = {{ u = 'BIGINT' }}\ncsv = {{ {csv} }}\n"))


def test_a_renamed_column_must_be_there(write: Write, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("u\n1\n")
    renames = "csv = { rename = { v = 'w' } }"
    with pytest.raises(PolicyError, match="the header has no column 'v'"):
        Inspector(load(write(f"source = 't.csv'\ncolumns = {{ u = 'BIGINT' }}\n{renames}\n")))


def test_the_files_of_a_pattern_are_one_table_with_the_columns_of_their_folders(
    write: Write, tmp_path: Path
) -> None:
    parquet(tmp_path / "d/country=DE/year=2020/a.parquet", "SELECT 1::BIGINT AS u")
    parquet(tmp_path / "d/country=a%20b/year=x/a.parquet", "SELECT 2::BIGINT AS u")
    parquet(tmp_path / "d/country=__HIVE_DEFAULT_PARTITION__/year=2021/b.parquet", "SELECT 3::BIGINT AS u")
    for hidden in ("d/_temporary/0/c.parquet", "d/country=DE/.old/c.parquet", "d/.c.parquet"):
        parquet(tmp_path / hidden, "SELECT 99::BIGINT AS u")
    (tmp_path / "elsewhere").mkdir()
    linked = parquet(tmp_path / "elsewhere/e.parquet", "SELECT 4::BIGINT AS u")
    (tmp_path / "d/country=DE/year=2020/link.parquet").symlink_to(linked)
    columns = "columns = { u = 'BIGINT', country = 'VARCHAR', year = 'INTEGER' }"
    expected = [(1, "DE", 2020), (2, "a b", None), (3, None, 2021), (4, "DE", 2020)]
    for source in ("d/**/*.parquet", "d/*/*/*.parquet", "d/"):
        assert rows(write(f"source = '{source}'\n{columns}\n")) == expected
    assert rows(write("source = 'd/country=DE/*/*.parquet'\n")) == [(1, "DE", "2020"), (4, "DE", "2020")]


def test_several_csv_files_have_one_header(write: Write, tmp_path: Path) -> None:
    for name, text in {"a": "u,x\n1,a\n", "b": "u,x\n2,b\n"}.items():
        (tmp_path / f"part-{name}.csv").write_text(text)
    policy = write("source = 'part-*.csv'\ncolumns = { u = 'BIGINT', x = 'VARCHAR' }\n")
    assert rows(policy) == [(1, "a"), (2, "b")]
    (tmp_path / "part-secret.csv").write_text("x,u\nc,3\n")
    with pytest.raises(PolicyError) as caught:
        Inspector(load(policy))
    assert "secret" not in str(caught.value), "names of files may be private"


TWO_TYPES = [
    ("1::BIGINT AS x", "1.6::DOUBLE AS x", "x is BIGINT in a, and b has DOUBLE"),
    ("1.5::DOUBLE AS x", "1::BIGINT AS x", "x is DOUBLE in a, and b has BIGINT"),
    ("1::INTEGER AS x", "1::BIGINT AS x", "x is INTEGER in a, and b has BIGINT"),
    ("1.5::DECIMAL(9,1) AS x", "1.25::DECIMAL(9,2) AS x", "x is DECIMAL(9,1) in a, and b has DECIMAL(9,2)"),
    ("DATE '2024-01-01' AS x", "TIMESTAMP '2024-01-01 12:00' AS x", "x is DATE in a, and b has TIMESTAMP"),
    ("1::BIGINT AS x", "1 AS y", "x is BIGINT in a, and b has no such column"),
    ("{'y': 1::SMALLINT} AS s", "{'y': 1.5::DOUBLE} AS s", "s.y is SMALLINT in a, and b has DOUBLE"),
]


@pytest.mark.parametrize(("one", "other", "told"), TWO_TYPES)
@pytest.mark.sampled(3)
def test_files_of_which_one_type_loses_values_of_the_other_are_refused(
    write: Write, tmp_path: Path, one: str, other: str, told: str
) -> None:
    """The engine reads all files with the types of the first one, and rounds what it reads."""
    files = [parquet(tmp_path / f"d/{name}.parquet", q) for name, q in
             (("a", f"SELECT 1::BIGINT AS u, {one}"), ("b", f"SELECT 2::BIGINT AS u, {other}"))]  # fmt: skip
    policy = write("source = 'd/*.parquet'\n")
    with pytest.raises(PolicyError, match="hold a column with different types") as caught:
        Inspector(load(policy))
    assert "a.parquet" not in str(caught.value), "names of files may be private"
    words = told.replace(" in a,", f" in {files[0]}, with which all files are read,")
    words = words.replace(" and b ", f" and {files[1]} ")
    (finding,) = [each.text for each in verify(load(policy)).findings if each.level == "wrong"]
    assert finding.startswith(words)
    with pytest.raises(PolicyError, match=re.escape(words)):
        introspect_sources([tmp_path / "d" / "*.parquet"])
    declared = write("source = 'd/*.parquet'\ncolumns = { u = 'BIGINT' }\n")
    assert rows(declared) == [(1,), (2,)], "what is not read may differ"


def test_files_of_which_the_first_holds_all_values_are_read(write: Write, tmp_path: Path) -> None:
    kinds = ["BIGINT AS x, 1.5::DOUBLE AS y", "INTEGER AS x, 1.5::FLOAT AS y"]
    kinds.append("UINTEGER AS x, 3::INTEGER AS y")
    for i, kind in enumerate(kinds):
        parquet(tmp_path / f"d/{i}.parquet", f"SELECT {i}::BIGINT AS u, 7::{kind}, 0 AS more{i}")
    listed = "columns = { u = 'BIGINT', x = 'BIGINT', y = 'DOUBLE' }"
    found = rows(write(f"source = 'd/*.parquet'\n{listed}\n"))
    assert found == [(0, 7, 1.5), (1, 7, 1.5), (2, 7, 3.0)]


def test_check_tells_of_values_that_the_declared_type_rounds(write: Write, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("u,x,d\n1,1.6,2024-01-01\n2,2,2024-01-01 12:30:00\n3,,\n3,,\n")
    columns = "columns = { u = 'BIGINT', x = 'BIGINT', d = 'DATE' }"
    found = verify(load(write(f"source = 't.csv'\n{columns}\n"))).findings
    assert [each.text for each in found if each.level == "note"] == [
        "1 value rounded to BIGINT when read, as '1.6'",
        "1 value rounded to DATE when read, as '2024-01-01 12:30:00'",
    ]


@pytest.mark.parametrize("source", ["d/*.parquet/../*.parquet", "d/a**/*.parquet", "d/*.json", "none/*.csv"])
def test_a_pattern_that_cannot_be_meant_is_refused(write: Write, source: str) -> None:
    with pytest.raises(PolicyError, match=r"tables\.t\.source"):
        load(write(f"source = '{source}'\ncolumns = {{ u = 'BIGINT' }}\n"))


def test_an_added_a_removed_a_renamed_and_a_changed_file_are_a_new_version(
    write: Write, tmp_path: Path
) -> None:
    first = parquet(tmp_path / "d/c=x/a.parquet", "SELECT 1 AS u")
    second = parquet(tmp_path / "d/c=x/b.parquet", "SELECT 2 AS u")
    policy = load(write("source = 'd/**/*.parquet'\n"))
    tables, versions = list(policy.tables.values()), Versions(policy)
    seen: set[tuple[str, object]] = set()

    def changed(stamped: bool = True) -> bool:
        version, stamps = versions.content(tables), versions.stamps()
        new = (version not in {v for v, _ in seen}, stamps not in {s for _, s in seen})
        seen.add((version, stamps))
        assert new[1] == stamped
        return new[0]

    assert changed()
    assert not changed(stamped=False)
    third = parquet(tmp_path / "d/c=x/c.parquet", "SELECT 3 AS u")
    assert changed(), "added"
    (tmp_path / "d/c=y").mkdir()
    third.rename(tmp_path / "d/c=y/c.parquet")
    assert changed(), "another value of the column of the folders"
    parquet(second, "SELECT 4 AS u")
    assert changed(), "changed"
    first.unlink()
    assert changed(), "removed"
    os.utime(second)
    assert not changed(), "touched"


@pytest.fixture
def opened(write: Write, tmp_path: Path) -> Iterator[Session]:
    for i in range(3):
        parquet(tmp_path / f"d/{i}.parquet", f"SELECT i AS u FROM range({1000 * i}, {1000 * i + 1000}) r(i)")
    session = Session(load(write("source = 'd/*.parquet'\n")))
    yield session
    session.close()


COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(DISTINCT u) AS n FROM t"


def counted(session: Session) -> float:
    return float(present(session.run(COUNT).release).rows.column("n")[0].as_py())


def test_a_session_follows_the_files_of_a_pattern(opened: Session, tmp_path: Path) -> None:
    assert abs(counted(opened) - 3000) < 10
    parquet(tmp_path / "d/3.parquet", "SELECT i AS u FROM range(3000, 4000) r(i)")
    assert abs(counted(opened) - 4000) < 10
    (tmp_path / "d/0.parquet").unlink()
    assert abs(counted(opened) - 3000) < 10


@pytest.mark.parametrize("removed", [True, False])
def test_a_file_that_comes_or_goes_while_it_is_counted_gives_no_answer(
    opened: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, removed: bool
) -> None:
    counted(opened)
    engine = opened.database.engines().engine
    count = engine.count

    def meanwhile(*arguments: Any) -> Any:
        found = count(*arguments)
        if removed:
            (tmp_path / "d/1.parquet").unlink()
        else:
            parquet(tmp_path / "d/9.parquet", "SELECT 1 AS u")
        return found

    monkeypatch.setattr(engine, "count", meanwhile)
    with pytest.raises(OperationalError, match="the data changed while it was counted"):
        opened.run(COUNT.replace("COUNT(DISTINCT u)", "COUNT(DISTINCT u) FILTER (WHERE u > 5)"))


def test_a_file_that_comes_while_the_engine_is_opened_is_in_both_or_in_neither(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet(tmp_path / "d/0.parquet", "SELECT 1 AS u")
    policy, opens = load(write("source = 'd/*.parquet'\n")), list[int]()

    def racing(*arguments: Any, **named: Any) -> Any:
        if not opens:
            parquet(tmp_path / "d/1.parquet", "SELECT 2 AS u")
        opens.append(1)
        return open_engine(*arguments, **named)

    monkeypatch.setattr(database_module, "open_engine", racing)
    with Database(policy) as database:
        engines = database.engines()
        read = {str(path) for path in engines.engine.readers["t"].paths}  # type: ignore[attr-defined]
        assert read <= {path for path, _ in engines.stamps}
        assert (len(read), len(opens)) == (2, 2), "opened again, on what is there now"


def test_a_pattern_in_the_current_folder_has_the_columns_of_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet(tmp_path / "year=2020/a.parquet", "SELECT 1 AS u")
    monkeypatch.chdir(tmp_path)
    for source in ("*/*.parquet", "**/*.parquet", "."):
        (table,) = introspect_sources([source])
        assert table.folders == ("year",)


def test_init_finds_files_folders_and_formats(tmp_path: Path) -> None:
    parquet(tmp_path / "d/country=DE/a.parquet", "SELECT 1 AS u, {'city': 'x', 'geo': {'lat': 1.5}} AS a")
    (tmp_path / "messy.csv").write_bytes(MESSY.encode("windows-1252"))
    (table,) = introspect_sources([tmp_path / "d"])
    assert (table.name, table.source) == ("d", f"{tmp_path}/d/**/*.parquet")
    assert [(c.name, str(c.kind)) for c in table.columns] == [
        ("u", "INTEGER"),
        ("a.city", "VARCHAR"),
        ("a.geo.lat", "DECIMAL(2,1)"),
        ("country", "VARCHAR"),
    ]
    (table,) = introspect_sources([tmp_path / "messy.csv"])
    rename = (("Betrag (€)", "Betrag"),)
    assert table.csv == CsvFormat(";", "windows-1252", decimal=",", rename=rename)
    assert ([c.name for c in table.columns], table.unnamed) == (["u", "Stadt", "Betrag", "Notiz"], 1)
    (tmp_path / "d/b.csv").write_text("u\n")
    with pytest.raises(PolicyError, match="both Parquet and CSV"):
        introspect_sources([tmp_path / "d"])
