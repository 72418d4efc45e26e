"""The command line over a small session: order, prices, exit codes, what goes where."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql import cli, errors
from dpsql.cli import main, narrate
from dpsql.cli.narrate import ExitCode
from dpsql.cli.options import GivenSql, split_sources
from dpsql.policy import Assumed

ROOT = Path(__file__).parents[3]


def ask(epsilon: str, extra: str = "") -> str:
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) diagnosis, "
        f"COUNT(DISTINCT patient_id) AS n {extra} FROM visits GROUP BY diagnosis TOP 3"
    )


@dataclass
class Done:
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(session: Any, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    monkeypatch.setattr(cli, "open_session", lambda settings: session)
    monkeypatch.delenv("COLUMNS", raising=False)

    def go(*args: str, stdin: str | None = None) -> Done:
        if stdin is not None:
            text = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
            monkeypatch.setattr(sys, "stdin", text)
        session.closed = False  # every run is given the same one
        code = main(args)
        out, err = capfdbinary.readouterr()
        return Done(code, out.decode(), err.decode())

    return go


# -- sources


def test_what_is_no_command_has_its_option(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "questions.sql"
    file.write_text("SELECT 1", encoding="utf-8")
    for given, hint in (
        (str(file), f"dpsql -f {file}"),
        ("SELECT COUNT(*) FROM t", "dpsql -c 'SELECT COUNT(*) FROM t'"),
        ("chek", "dpsql check"),
        ("qqqq", "dpsql --help"),
    ):
        done = run(given)
        assert done.code == ExitCode.USAGE
        assert f"Hint: {hint}\n" in f"{done.err}\n"


def test_commands_and_files_run_in_the_order_given(run: Run, session: Any, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 2; SELECT 3;")
    (tmp_path / "b.sql").write_text("SELECT 5")
    a, b = str(tmp_path / "a.sql"), str(tmp_path / "b.sql")
    done = run("-c", "SELECT 1", "-f", a, "--command", "SELECT 4", "--file", b, "-fc.sql", "-f", "-")
    assert done.code == ExitCode.USAGE
    assert "c.sql" in done.err
    done = run("-c", "SELECT 1", "-f", a, "--command=SELECT 4", f"--file={b}", "-f", "-", stdin="SELECT 6")
    assert done.code == 0
    assert session.ran == [f"SELECT {i}" for i in range(1, 7)]


def test_a_statement_knows_its_file_and_line() -> None:
    pieces = split_sources([GivenSql("SELECT 1;\n\n-- c\nSELECT 2; SELECT 3", "a.sql"), GivenSql("SELECT 4")])
    assert [piece.where for piece in pieces] == ["a.sql:1", "a.sql:4", "a.sql:4", "-c"]


def test_nothing_to_run_is_fine(run: Run, session: Any) -> None:
    assert run("-c", " -- nothing ;\n").code == 0
    assert session.ran == []


@pytest.mark.parametrize("content", [b"SELECT '\xff'", None])
def test_a_file_that_cannot_be_read(run: Run, session: Any, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "a.sql"
    if content is not None:
        file.write_bytes(content)
    done = run("-c", "SELECT 1", "-f", str(file))
    assert done.code == ExitCode.USAGE
    assert done.err.startswith(f"dpsql: error: cannot read {file}: ")
    assert session.ran == []


@pytest.mark.parametrize(("listed", "new"), [(True, True), (False, True), (False, False)])
def test_names_that_nobody_verifies_are_told_with_a_new_ledger(
    run: Run, session: Any, listed: bool, new: bool
) -> None:
    session.policy.analysts = {"*": None} if listed else {}
    session.ledger = SimpleNamespace(is_new=new)
    done = run("-c", "SELECT 1", "-c", "SELECT 2")
    assert done.code == ExitCode.OK
    assert done.err.count("names of analysts are not verified") == int(new and not listed)


# -- usage


@pytest.mark.parametrize(
    "args",
    [
        ("--nonsense",),
        ("--format", "xml", "-c", "SELECT 1"),
        ("--on-error", "ignore", "-c", "SELECT 1"),
        ("nonsense",),
        ("--dry-run",),
        ("-c", "SELECT 1", "budget"),
        ("--partial", "budget"),
        ("-c",),
    ],
)
def test_usage_errors(run: Run, session: Any, args: tuple[str, ...]) -> None:
    done = run(*args)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert done.err.startswith("dpsql: error: ")
    assert "Hint: dpsql --help" in done.err
    assert session.ran == []


def test_help_prints_every_exit_code(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    for code in ExitCode:
        assert re.search(rf"^ +{code.value}  \w", done.out, re.MULTILINE)
    assert done.err == ""


def test_version(run: Run) -> None:
    done = run("--version")
    assert done.code == 0
    assert done.out == f"dpsql {dpsql.__version__}\n"


def test_a_missing_policy_is_a_usage_error(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["-p", str(tmp_path / "none.toml"), "-c", "SELECT 1"]) == ExitCode.USAGE
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("dpsql: error: none.toml: no such file")


def test_the_policy_comes_from_the_environment(
    run: Run, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def opened(settings: object) -> object:
        seen.append(settings)
        return session

    monkeypatch.setattr(cli, "open_session", opened)
    run("-c", "SELECT 1")
    monkeypatch.setenv("DPSQL_POLICY", "elsewhere.toml")
    run("-c", "SELECT 1", "--analyst", "ada")
    run("-p", "here.toml", "-c", "SELECT 1")
    assert [(s.policy, s.analyst) for s in seen] == [
        ("dpsql.toml", None),
        ("elsewhere.toml", "ada"),
        ("here.toml", None),
    ]


# -- errors and their exit codes


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELCT 1", ExitCode.QUERY_FAILED),
        (ask("1", "BOOM"), ExitCode.DATABASE),
        ("SELECT secret", ExitCode.REFUSED),
        (ask("11"), ExitCode.BUDGET_EXCEEDED),
        ("SELECT 'INTERRUPT'", ExitCode.INTERRUPTED),
        ("SELECT 'BUG'", ExitCode.QUERY_FAILED),
    ],
)
def test_exit_codes(run: Run, session: Any, sql: str, code: ExitCode) -> None:
    done = run("-c", sql)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("dpsql: ")
    assert session.closed


def test_every_exception_has_a_code() -> None:
    got = {
        kind.__name__: narrate.exit_code(kind("x"))
        for kind in (
            errors.ProgrammingError,
            errors.DataError,
            errors.InternalError,
            errors.InterfaceError,
            errors.OperationalError,
            errors.NotSupportedError,
            errors.QueryRefused,
            errors.QuerySyntaxError,
            errors.PolicyError,
        )
    }
    assert {name: int(code) for name, code in got.items()} == {
        "ProgrammingError": 1,
        "DataError": 1,
        "InternalError": 1,
        "InterfaceError": 1,
        "OperationalError": 3,
        "NotSupportedError": 4,
        "QueryRefused": 4,
        "QuerySyntaxError": 1,
        "PolicyError": 2,
    }


def test_a_syntax_error_shows_file_line_caret_and_hint(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "r.sql"
    file.write_text("SELECT 1;\n\nSELECT\n  2;\nSELCT 1;\n")
    done = run("-f", str(file))
    assert done.code == ExitCode.QUERY_FAILED
    assert done.err.splitlines() == [
        f"dpsql: error: {file}:5: I do not know SELCT",
        "  line 5: SELCT 1",
        "          ^",
        "Hint: write SELECT",
        "dpsql: nothing was run",
    ]


def test_a_refusal_shows_all_obstacles_in_the_lines_of_the_file(capfd: pytest.CaptureFixture[str]) -> None:
    error = errors.QueryRefused("no column", line=1, col=8, source="SELECT a", hint="b")
    error.obstacles += (errors.Obstacle("no bound", 2, 3, None, "  c"),)
    error.rewrite = "SELECT b"
    narrate.error(error, where="r.sql:3", line=3)
    assert capfd.readouterr().err.splitlines() == [
        "dpsql: error: r.sql:3: 1: no column",
        "  line 3: SELECT a",
        "                 ^",
        "Hint: b",
        "2: no bound",
        "  line 4:   c",
        "            ^",
        "would be accepted:",
        "SELECT b",
    ]


def test_errors_cannot_steer_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    narrate.error(errors.ProgrammingError("no column \x1b]0;x\x07"))
    narrate.warning("a\x9bb")
    assert capfd.readouterr().err == "dpsql: error: no column \\x1b]0;x\\x07\ndpsql: warning: a\\x9bb\n"


def test_a_bug_shows_no_values_and_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSQL_DEBUG", "1")
    done = run("-c", "SELECT 'BUG'")
    assert "4711" not in done.err
    assert "Traceback" not in done.err
    assert done.err.count("\n") == 1
    assert "KeyError" in done.err
    assert "bug of dpsql" in done.err


def test_an_internal_error_says_whose_bug_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    narrate.error(errors.InternalError("the plan does not add up"))
    assert "bug of dpsql" in capfd.readouterr().err


def test_interrupting_cancels_and_keeps_the_charge(run: Run, session: Any) -> None:
    done = run("-c", ask("2", "INTERRUPT"), "-c", "SELECT 1")
    assert done.code == ExitCode.INTERRUPTED
    assert session.cancelled
    assert len(session.ran) == 1
    assert "stays charged" in done.err


# -- prices first


def test_a_wrong_statement_anywhere_and_nothing_runs(run: Run, session: Any) -> None:
    assert run("-c", ask("1"), "-c", "SELCT 1").code == ExitCode.QUERY_FAILED
    assert run("-c", f"{ask('1')}; SELECT secret").code == ExitCode.REFUSED
    assert session.ran == []


def test_a_sum_that_does_not_fit_and_nothing_runs(run: Run, session: Any) -> None:
    done = run("-c", "SELECT 1", "-c", ask("6"), "-c", ask("4.5"))
    assert (done.code, done.out) == (ExitCode.BUDGET_EXCEEDED, "")
    assert done.err == (
        "dpsql: error: the 3 statements together ask for epsilon 10.5, but only epsilon 10 is left; "
        "nothing was run\nHint: --partial runs what fits, --dry-run shows each price\n"
    )
    assert session.ran == []


def test_partial_runs_what_fits(run: Run, session: Any) -> None:
    done = run("--partial", "-c", ask("6"), "-c", ask("5"), "-c", ask("4"), "-c", "SELECT 1")
    assert done.code == ExitCode.BUDGET_EXCEEDED
    assert session.ran == [ask("6"), ask("4"), "SELECT 1"]
    assert "left out: epsilon 5 asked, epsilon 4 left" in done.err


def test_exactly_what_is_left_fits(run: Run, session: Any) -> None:
    assert run("-c", ask("0.7"), "-c", ask("9.3")).code == 0
    assert session.budget().remaining.epsilon == 0
    assert run("-c", ask("0.0001")).code == ExitCode.BUDGET_EXCEEDED


def test_settings_count_for_the_prices_behind_them(run: Run, session: Any) -> None:
    asked = "SELECT WITH DIFFERENTIAL_PRIVACY diagnosis FROM visits GROUP BY diagnosis TOP 3"
    script = f"{asked}; SET dp_epsilon = 4; {asked}; SET dp_epsilon = 5; {asked}"
    done = run("--dry-run", "-c", script)
    assert done.code == 0
    assert [row["epsilon"] for row in csv.DictReader(io.StringIO(done.out))] == [
        "1.0",
        "0.0",
        "4.0",
        "0.0",
        "5.0",
    ]
    assert session.defaults == ""
    assert run("-c", script).code == 0
    assert session.spent.epsilon == 10
    assert session.defaults == "SET dp_epsilon = 5"


def test_settings_are_no_answers(run: Run, session: Any) -> None:
    done = run("--format", "parquet", "-o", os.devnull, "-c", "SET dp_epsilon = 0.5; SELECT 1")
    assert done.code == 0
    assert session.ran[-1] == "SELECT 1"


def test_the_cap_on_one_statement_is_seen_before_anything_runs(run: Run, session: Any) -> None:
    session.max_epsilon_per_query = Fraction(2)
    done = run("-c", ask("1"), "-c", ask("2.5"))
    assert done.code == ExitCode.BUDGET_EXCEEDED
    assert "asks for epsilon 2.5, but the policy allows one epsilon 2\n" in done.err
    assert session.ran == []
    assert run("--partial", "-c", ask("1"), "-c", ask("2.5"), "-c", ask("2")).code == ExitCode.BUDGET_EXCEEDED
    assert session.ran == [ask("1"), ask("2")]


def test_dry_run_prices_and_runs_nothing(run: Run, session: Any) -> None:
    done = run("--dry-run", "-c", f"SELECT\n 1; {ask('0.5')}", "-c", ask("0.25"))
    assert done.code == 0
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(r["statement"], r["place"], r["epsilon"], r["delta"]) for r in rows] == [
        ("1", "-c", "0.0", "0.0"),
        ("2", "-c", "0.5", "0.0"),
        ("3", "-c", "0.25", "0.0"),
    ]
    assert rows[0]["text"] == "SELECT 1"
    assert done.err == "dpsql: together epsilon 0.75; epsilon 10 is left; nothing was run\n"
    assert session.ran == []
    assert session.budget().spent.epsilon == 0


def test_dry_run_of_too_much(run: Run) -> None:
    done = run("--dry-run", "--format", "table", "-c", ask("6"), "-c", ask("6"))
    assert done.code == ExitCode.BUDGET_EXCEEDED
    assert "│         2 │ -c    │ 6       │ 0     │" in done.out


def test_on_error_continue_runs_the_rest(run: Run, session: Any) -> None:
    done = run(
        "--on-error",
        "continue",
        "-c",
        "SELECT 1; SELECT secret; SELCT 1",
        "-c",
        ask("1", "BOOM"),
        "-c",
        ask("2"),
    )
    assert done.code == ExitCode.REFUSED
    assert session.ran == ["SELECT 1", ask("1", "BOOM"), ask("2")]
    assert done.err.count("dpsql: error: ") == 3


def test_on_error_stop_stops_at_run_time(run: Run, session: Any) -> None:
    done = run("-c", ask("1", "BOOM"), "-c", ask("2"), "-c", "SELECT 1")
    assert done.code == ExitCode.DATABASE
    assert len(session.ran) == 1
    assert "2 statements were not run" in done.err


def test_progress_is_told_when_there_are_several(run: Run) -> None:
    assert "statement" not in run("-c", "SELECT 1").err
    done = run("-c", "SELECT 1", "-c", ask("0.5"))
    assert "dpsql: statement 1 of 2 (-c)\n" in done.err
    assert "dpsql: statement 2 of 2 (-c): epsilon 0.5\n" in done.err
    assert "dpsql: epsilon 9.5 of 10 left\n" in done.err


# -- what goes where


def test_csv_off_a_terminal_and_the_price_on_stderr(run: Run) -> None:
    done = run("-c", ask("1"))
    assert done.out.split("\r\n")[:2] == ["diagnosis,n", "Essential hypertension,1234"]
    assert "dpsql: epsilon 1 of 10 · noisy top-k with gap · 95% ± 41\n" in done.err


def test_table_shows_the_price_itself(run: Run) -> None:
    done = run("--format", "table", "-c", ask("1"))
    assert done.out.splitlines()[-1] == "epsilon 1 of 10 · noisy top-k with gap · 95% ± 41"
    assert done.err == "dpsql: epsilon 9 of 10 left\n"


def test_warnings_go_to_stderr(run: Run, session: Any, fakes: SimpleNamespace) -> None:
    from dataclasses import replace

    execute = session.execute

    def warned(prepared: Any) -> Any:
        answer = execute(prepared)
        return replace(answer, release=replace(answer.release, warnings=("the order is not certain",)))

    session.execute = warned
    done = run("-c", ask("1"))
    assert "dpsql: warning: the order is not certain\n" in done.err
    assert "certain" not in done.out


def test_what_is_assumed_goes_to_stderr_in_one_line(run: Run, session: Any) -> None:
    from dataclasses import replace

    execute, bounds = session.execute, (Assumed("rows", "at most 20", "policy"), Assumed("no row is lost"))

    def assumed(prepared: Any) -> Any:
        answer = execute(prepared)
        return replace(answer, release=replace(answer.release, assumed=bounds))

    session.execute = assumed
    done = run("-c", ask("1"))
    assert "dpsql: assumed: at most 20 rows (policy), no row is lost\n" in done.err
    assert "assumed" not in done.out


def test_results_are_kept_apart(run: Run) -> None:
    assert run("-c", "SELECT 1 AS a; SELECT 2 AS b").out == "a\r\n1\r\n\r\nb\r\n2\r\n"


@pytest.mark.parametrize("name", ["csv", "json", "jsonl", "markdown", "table", "arrow", "parquet"])
def test_a_file_gets_the_answer_and_stdout_nothing(run: Run, tmp_path: Path, name: str) -> None:
    file = tmp_path / "out"
    done = run("--format", name, "-o", str(file), "-c", ask("1"))
    assert (done.code, done.out) == (0, "")
    data = file.read_bytes()
    if name == "arrow":
        assert pa.ipc.open_file(file).read_all().num_rows == 3
    elif name == "parquet":
        assert pq.read_table(file).num_rows == 3
    else:
        assert "Essential hypertension" in data.decode()


def test_arrow_on_a_pipe_is_a_stream(
    session: Any, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(cli, "open_session", lambda settings: session)
    assert main(["--format", "arrow", "-c", ask("1")]) == 0
    assert pa.ipc.open_stream(capfdbinary.readouterr().out).read_all().column_names == ["diagnosis", "n"]


@pytest.mark.parametrize("target", ["folder", "missing/out.csv"])
def test_an_output_that_cannot_be_written_costs_nothing(
    run: Run, session: Any, tmp_path: Path, target: str
) -> None:
    (tmp_path / "folder").mkdir()
    done = run("-o", str(tmp_path / target), "-c", ask("1"))
    assert done.code == ExitCode.USAGE
    assert "cannot write" in done.err
    assert session.ran == []


def test_one_result_formats_take_one_statement(run: Run, session: Any) -> None:
    done = run("--format", "arrow", "-c", ask("1"), "-c", "SELECT 1")
    assert done.code == ExitCode.USAGE
    assert "arrow holds one result, and there are 2 statements" in done.err
    assert session.ran == []


def test_a_refused_batch_leaves_the_old_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("old")
    assert run("-o", str(file), "-c", ask("11")).code == ExitCode.BUDGET_EXCEEDED
    assert run("-o", str(file), "-c", "SELCT").code == ExitCode.QUERY_FAILED
    assert file.read_text() == "old"


def test_a_full_disk_is_told_with_the_way_to_the_answer(run: Run) -> None:
    done = run("-o", "/dev/full", "-c", ask("1"))
    assert done.code == ExitCode.QUERY_FAILED
    assert "cannot write the answer" in done.err
    assert "at no cost" in done.err


# -- as a process


def process(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False, **options
    )


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from dpsql.cli import main; assert main(['--help']) == 0; "
        "print(*sys.modules, file=sys.stderr)"
    )
    done = process("-c", code)
    assert done.returncode == 0
    loaded = set(done.stderr.split())
    assert {"duckdb", "pyarrow", "numpy", "sqlglot", "prompt_toolkit", "pygments", "sqlite3"}.isdisjoint(
        loaded
    )
    assert "dpsql.cli" in loaded


@pytest.mark.parametrize("daemon", [True, False])
def test_a_process_frees_nothing_at_its_end_but_for_a_thread_that_keeps_it(daemon: bool) -> None:
    code = f"""
import threading, time
from dpsql.cli import __main__ as started
def main():
    work = (lambda: time.sleep(60)) if {daemon} else (lambda: print("done"))
    threading.Thread(target=lambda: time.sleep(.1) or work(), daemon={daemon}).start()
    return 3
started.main = main
print(started.start(), "goes on", flush=True)
"""
    done = process("-c", code)
    assert (done.returncode, done.stdout) == ((3, "") if daemon else (0, "3 goes on\ndone\n"))


@pytest.mark.parametrize("module", ["dpsql", "dpsql.cli"])
@pytest.mark.sampled(2, rest="longer")
def test_the_module_runs(module: str) -> None:
    done = process("-m", module, "-p", "/nowhere/x.toml", "-c", "SELECT 1")
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert done.stderr.startswith("dpsql: error: x.toml")
