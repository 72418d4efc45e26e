"""What files and pipes hold: rounded numbers, intervals, metadata, several results, widths."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql import cli
from dpsql.cli import main
from dpsql.cli.narrate import ExitCode
from dpsql.render.grid import PIPED_WIDTH

ASK = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) diagnosis, COUNT(DISTINCT patient_id) AS n "
    "FROM visits GROUP BY diagnosis TOP 3"
)
Write = Callable[..., str]


@pytest.fixture
def write(session: Any, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Write:
    """Runs the command line, which must end well, and returns its standard output."""
    monkeypatch.setattr(cli, "open_session", lambda settings: session)
    monkeypatch.delenv("COLUMNS", raising=False)

    def go(*args: str, code: ExitCode = ExitCode.OK) -> str:
        session.closed = False
        assert main(args) == code
        return capfdbinary.readouterr().out.decode()

    return go


# -- numbers


def test_counts_have_the_digits_that_their_noise_leaves(write: Write) -> None:
    rows = list(csv.DictReader(io.StringIO(write("--format", "csv", "-c", ASK))))
    assert [row["n"] for row in rows] == ["1234", "987", "803"]
    exact = list(csv.DictReader(io.StringIO(write("--format", "csv", "--exact-digits", "-c", ASK))))
    assert [row["n"] for row in exact] == ["1234.4", "987.1", "803.0"]
    assert json.loads(write("--format", "json", "-c", ASK))[1] == {"diagnosis": "Type 2 diabetes", "n": 987}


@pytest.mark.parametrize("name", ["csv", "json", "jsonl"])
def test_intervals_are_written_when_asked_for(write: Write, name: str) -> None:
    text = write("--format", name, "--intervals", "-c", ASK)
    if name == "csv":
        row: dict[str, Any] = next(csv.DictReader(io.StringIO(text)))
    else:
        row = json.loads(text)[0] if name == "json" else json.loads(text.splitlines()[0])
    numbers = {key: float(value) for key, value in row.items() if key != "diagnosis"}
    # Bounds are rounded outwards, the standard deviation of 20.56 upwards.
    assert numbers == {"n": 1234, "gap": 247, "n_stddev": 21, "n_low": 1194, "n_high": 1275}


def test_public_numbers_keep_their_digits(write: Write) -> None:
    assert write("--format", "csv", "-c", "SELECT 1234.5678::DOUBLE AS x") == "x\r\n1234.5678\r\n"


# -- what a file says of its rows


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_binary_files_say_price_mechanism_and_guarantee(write: Write, tmp_path: Path, name: str) -> None:
    file = tmp_path / "out"
    write("--format", name, "--intervals", "-o", str(file), "-c", ASK)
    table = pa.ipc.open_file(file).read_all() if name == "arrow" else pq.read_table(file)
    assert table.column_names == ["diagnosis", "n", "gap", "n_stddev", "n_low", "n_high"]
    assert table.schema.field("n").type == pa.float64()
    found = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert found["dpsql.epsilon"] == "1"
    assert found["dpsql.mechanism"] == "noisy top-k with gap"
    assert found["dpsql.guarantee"] == "epsilon-differential privacy for each patient"
    assert found["dpsql.statement"] == ASK


def test_a_public_result_has_no_price(write: Write, tmp_path: Path) -> None:
    write("--format", "parquet", "-o", str(tmp_path / "out"), "-c", "SELECT 1 AS a")
    assert pq.read_table(tmp_path / "out").schema.metadata is None


# -- several statements


def test_several_results_are_one_array(write: Write, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    write("--format", "json", "-o", str(file), "-c", f"SET dp_epsilon = 1; SELECT 1 AS a; {ASK}")
    found = json.loads(file.read_bytes())
    assert [each["statement_number"] for each in found] == [2, 3]
    assert found[0]["rows"] == [{"a": 1}]
    assert [row["n"] for row in found[1]["rows"]] == [1234, 987, 803]


def test_an_array_is_whole_when_a_statement_fails(write: Write) -> None:
    failing = ("--on-error", "continue", "--format", "json", "-c")
    text = write(*failing, f"SELECT 1 AS a; {ASK} -- BOOM", code=ExitCode.DATABASE)
    assert json.loads(text) == [{"statement_number": 1, "rows": [{"a": 1}]}]
    text = write(*failing, f"{ASK} -- BOOM\n; {ASK} -- BOOM", code=ExitCode.DATABASE)
    assert json.loads(text) == []


def test_json_lines_have_the_number_of_their_statement(write: Write) -> None:
    lines = write("--format", "jsonl", "-c", "SELECT 1 AS a; SELECT 2 AS b").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"statement_number": 1, "a": 1},
        {"statement_number": 2, "b": 2},
    ]
    assert json.loads(write("--format", "jsonl", "-c", "SELECT 1 AS a")) == {"a": 1}


def test_several_parquet_files_are_a_folder(write: Write, session: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    args = ("--format", "parquet", "-o", str(folder), "-c", ";".join(["SELECT 1 AS a"] * 10))
    write(*args)
    assert [file.name for file in sorted(folder.iterdir())] == [f"{i:02}.parquet" for i in range(1, 11)]
    write(*args)  # its own files are written again
    (folder / "mine.txt").touch()
    session.ran.clear()
    write(*args, code=ExitCode.USAGE)
    assert session.ran == []


def test_several_parquet_files_are_no_file(write: Write, session: Any, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    args = ("--format", "parquet", "-o", str(tmp_path / "out"), "-c", "SELECT 1; SELECT 2")
    write(*args, code=ExitCode.USAGE)
    assert session.ran == []


# -- widths


def test_tables_on_a_pipe_have_a_width(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ("--format", "table", "-c", f"SELECT '{'x' * 300}' AS a")

    def widest(*more: str) -> int:
        return max(map(len, write(*more, *args).splitlines()))

    assert widest() == PIPED_WIDTH
    assert widest("--width", "60") == 60
    assert widest("--width", "full") > 300
    write("-o", str(tmp_path / "out"), *args)
    assert max(map(len, (tmp_path / "out").read_text("utf-8").splitlines())) == PIPED_WIDTH
    monkeypatch.setenv("COLUMNS", "70")
    assert widest() == 70
    write("--width", "narrow", *args, code=ExitCode.USAGE)
