"""The shell over a small session: statements, dot commands, completion, questions."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dpsql import cli
from dpsql.cli import main
from dpsql.cli.narrate import ExitCode
from dpsql.cli.output import FORMATS, AnswerOutput
from dpsql.cli.repl import Repl, names_of
from dpsql.cli.repl.commands import COMMANDS
from dpsql.cli.repl.line_input import CompletionNames, Piped, completions, is_complete
from tests.unit.cli.test_cli import ask

NAMES = CompletionNames(
    {"visits": ("patient_id", "diagnosis_code", "minutes"), "diagnoses": ("code", "diagnosis")},
    tuple(COMMANDS),
    FORMATS,
    lambda column: ("Coast Road", "Dune Park", "Abbot's Gate") if column == "clinic" else (),
)


class Person:
    """Types prepared lines and answers questions; an exception among the lines is raised."""

    interactive = True

    def __init__(self, lines: Iterable[str | BaseException], *, yes: bool = True) -> None:
        self.lines = iter(lines)
        self.yes = yes
        self.prompts: list[str] = []
        self.questions: list[str] = []

    def line(self, prompt: str, begun: str) -> str:
        self.prompts.append(prompt)
        line = next(self.lines, None)
        if line is None:
            raise EOFError
        if isinstance(line, BaseException):
            raise line
        return line

    def ask(self, question: str) -> bool:
        self.questions.append(question)
        return self.yes


class Desk:
    """A shell with a person at it."""

    def __init__(self, session: Any, capfd: pytest.CaptureFixture[str], policy: Path) -> None:
        self.session, self._capfd, self._policy = session, capfd, policy
        self.out = self.err = ""

    def type(self, *lines: str | BaseException, yes: bool = True, mode: str = "csv") -> Person:
        person = Person(lines, yes=yes)
        self.repl = Repl(self.session, AnswerOutput(mode, None), person, self._policy)
        self.code = self.repl.run()
        self.repl.output.close()
        self.out, self.err = self._capfd.readouterr()
        return person


@pytest.fixture
def desk(session: Any, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Desk:
    policy = tmp_path / "dpsql.toml"
    policy.write_text("# for all\n[budget]\nepsilon = 10 # \x1b[31m\n")
    return Desk(session, capfd, policy)


# -- statements


def test_a_statement_ends_with_a_semicolon(desk: Desk) -> None:
    desk.type("SELECT", " 1 AS a", ";", "SELECT ';' AS b; SELECT 3 AS c;")
    assert desk.session.ran == ["SELECT\n 1 AS a", "SELECT ';' AS b", "SELECT 3 AS c"]
    assert desk.out == "a\r\n1\r\nb\r\n;\r\nc\r\n3\r\n"
    assert desk.code == ExitCode.OK


def test_the_end_of_input_drops_what_a_person_has_begun(desk: Desk) -> None:
    desk.type("SELECT 1", EOFError(), "SELECT 2 AS b;", "SELECT 3")
    assert desk.session.ran == ["SELECT 2 AS b"]
    assert desk.err.count("the unfinished statement is dropped") == 2


def test_a_command_leaves_an_unfinished_statement(desk: Desk) -> None:
    person = desk.type(
        "SELECT 'a", ".timer on", "SELECT 2 AS b;", "SELECT\n.5 AS c;", "SELECT 1\n\\q", "SELECT 4;"
    )
    assert desk.session.ran == ["SELECT 2 AS b", "SELECT\n.5 AS c"]
    assert desk.err.count("the unfinished statement is dropped") == 2
    assert "the timer is on" in desk.err
    assert len(person.prompts) == 5


@pytest.mark.parametrize("word", ["quit", "exit", "EXIT;", "\\q", ".quit"])
def test_words_that_leave(desk: Desk, word: str) -> None:
    desk.type(word, "SELECT 1;")
    assert desk.session.ran == []
    assert desk.repl.done


@pytest.mark.parametrize("word", ["help", "HELP;", "?", "\\?", "\\h", ".help"])
def test_words_that_help(desk: Desk, word: str) -> None:
    desk.type(word)
    assert ".save FILE" in desk.out


def test_commands_of_psql(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 5")
    desk.type("\\dt", "\\d visits;", f"\\i {tmp_path}/a.sql", "\\timing", "\\copy x")
    assert desk.session.ran == ["SHOW TABLES", 'DESCRIBE "visits"', "SELECT 5"]
    assert "the timer is on" in desk.err
    assert "there is no command \\copy" in desk.err


def test_a_pipe_runs_its_last_statement_and_knows_no_lines_within_texts(desk: Desk) -> None:
    person = Person(["SELECT 'a", ".quit", "' AS a;", "SELECT 2 AS b"])
    person.interactive = False
    Repl(desk.session, AnswerOutput("csv", None), person, None).run()
    assert desk.session.ran == ["SELECT 'a\n.quit\n' AS a", "SELECT 2 AS b"]


# -- the last answer as a file


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.csv", b"diagnosis,n\r\n"),
        ("a.json", b"[\n{"),
        ("a.ndjson", b"{"),
        ("a.md", b"| diagnosis"),
        ("a.txt", "┌".encode()),
        ("a.html", b"<!DOCTYPE html>"),
        ("a.svg", b"<svg "),
        ("a.parquet", b"PAR1"),
        ("a.arrow", b"ARROW1"),
    ],
)
def test_the_last_answer_is_saved(desk: Desk, tmp_path: Path, name: str, start: bytes) -> None:
    desk.type(ask("1") + ";", f".save {tmp_path / name}")
    assert (tmp_path / name).read_bytes().startswith(start)
    assert len(desk.session.ran) == 1


def test_saved_numbers_have_intervals_when_asked_for(desk: Desk, tmp_path: Path) -> None:
    desk.type(ask("1") + ";", ".intervals on", f".save {tmp_path}/a.csv")
    assert (tmp_path / "a.csv").read_text().startswith("diagnosis,n,gap,n_stddev,n_low,n_high\n")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([".save a.csv"], "nothing to save yet"),
        (["SELECT 1;", ".save"], ".save takes a file"),
        (["SELECT 1;", ".save a.doc"], "the end of a.doc names no format"),
        (["SELECT 1;", ".save a.html"], "only answers of private statements"),
        (["SELECT 1;", ".save missing/a.csv"], "no such folder"),
        ([".intervals maybe"], ".intervals takes on or off"),
    ],
)
def test_what_cannot_be_saved(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    desk.type(*lines)
    assert said in desk.err
    assert not list(tmp_path.glob("a.*"))


def test_long_answers_are_shown_by_a_pager(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    shown: list[str] = []
    monkeypatch.setattr(click, "echo_via_pager", shown.append)
    monkeypatch.setenv("LINES", "24")
    desk.type("SELECT * FROM range(50);", ".pager on", "SELECT * FROM range(50);", "SELECT 1;", mode="table")
    assert len(shown) == 1
    assert shown[0].count("\n") == 54
    assert desk.out.count("│  49 │") + desk.out.count("│    49 │") == 1


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- and so on", True),
        ("SELECT 1; /* a\nb */", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; SELECT 2", False),
        ("SELECT $$;", False),
        ('SELECT ";', False),
        ("/* ;", False),
        ("", False),
        ("\n", False),
        (";", True),
    ],
)
def test_when_a_text_is_complete(text: str, *, done: bool) -> None:
    assert is_complete(text) is done


def test_the_prompt_shows_the_epsilon_left(desk: Desk) -> None:
    person = desk.type(ask("1.5") + ";", "SELECT 1;")
    assert person.prompts[0] == "dpsql (epsilon 10 left)> "
    assert person.prompts[1] == "dpsql (epsilon 8.5 left)> "


def test_an_error_keeps_the_shell_and_costs_a_person_nothing(desk: Desk) -> None:
    desk.type("SELCT 1;", "SELECT secret;", "SELECT 'BUG';", "SELECT 4 AS d;")
    assert desk.code == ExitCode.OK
    assert desk.out == "d\r\n4\r\n"
    assert desk.err.count("dpsql: error: ") == 3
    assert "4711" not in desk.err


def test_an_error_ends_the_statements_of_its_line(desk: Desk) -> None:
    desk.type("SELECT 1; SELCT 2; SELECT 3;")
    assert desk.session.ran == ["SELECT 1"]


def test_a_dear_statement_is_asked_about(desk: Desk) -> None:
    person = desk.type(ask("2.5") + ";", ask("2") + ";", yes=False)
    # A quarter of 10 is 2.5: that is not more than a quarter.
    assert person.questions == ["this takes epsilon 2 of the epsilon 7.5 left; run it? [y/N] "]
    assert desk.session.budget().spent.epsilon == 2.5
    assert "not run" in desk.err
    person = desk.type(ask("2") + ";", yes=True)
    assert len(person.questions) == 1
    assert desk.session.budget().spent.epsilon == 4.5


def test_what_does_not_fit_is_refused_without_asking(desk: Desk) -> None:
    person = desk.type(ask("11") + ";")
    assert person.questions == []
    assert "the budget does not pay for it" in desk.err


def test_public_statements_are_not_asked_about(desk: Desk) -> None:
    assert desk.type("SELECT 1;").questions == []


def test_ctrl_c_at_the_prompt_drops_what_was_typed(desk: Desk) -> None:
    desk.type("SELECT", KeyboardInterrupt(), "SELECT 2;")
    assert desk.session.ran == ["SELECT 2"]


def test_ctrl_c_while_running_cancels_and_keeps_shell_and_charge(desk: Desk) -> None:
    desk.type(ask("1", "INTERRUPT") + ";", "SELECT 2 AS b;")
    assert desk.session.cancelled
    assert "stays charged" in desk.err
    assert desk.out == "b\r\n2\r\n"


# -- dot commands


def test_help_lists_every_command(desk: Desk) -> None:
    desk.type(".help")
    assert [line.split()[0] for line in desk.out.splitlines() if line.startswith(".")] == list(COMMANDS)


def test_a_command_may_be_shortened_if_it_stays_unique(desk: Desk) -> None:
    desk.type(".he", ".t", ".nonsense", ".", ".q", "SELECT 1;")
    assert desk.out.startswith(".help")
    assert desk.err.count("there is no command") == 3
    assert desk.session.ran == []


@pytest.mark.parametrize("leave", [".quit", ".exit", ".quit;"])
def test_leaving(desk: Desk, leave: str) -> None:
    desk.type(leave, "SELECT 1;")
    assert desk.session.ran == []


def test_commands_that_are_statements(desk: Desk) -> None:
    run: list[str] = []

    def prepare(text: str, parameters: object = None) -> NoReturn:
        run.append(text)
        raise KeyboardInterrupt

    desk.session.prepare = prepare
    desk.type(
        ".tables", '.tables a"b', ".budget", ".releases", ".explain SELECT 1;", ".explain", ".tables visits"
    )
    assert run == [
        "SHOW TABLES",
        'DESCRIBE "a""b"',
        "SHOW PRIVACY BUDGET",
        "SHOW RELEASES",
        "EXPLAIN SELECT 1",
        'DESCRIBE "visits"',
    ]
    assert "nothing to explain yet" in desk.err


def test_explain_takes_the_last_private_statement(desk: Desk) -> None:
    desk.type(ask("1") + ";", "SELECT 1;", ".explain")
    assert desk.session.ran[-1] == f"EXPLAIN {ask('1')}" or desk.repl.asked == ask("1")


def test_mode(desk: Desk) -> None:
    desk.type(".mode jsonl", "SELECT 1 AS a;", ".mode", ".mode xml")
    assert desk.out == '{"a": 1}\n'
    assert "the format is jsonl; there are table, csv" in desk.err
    assert "there is no format xml" in desk.err


def test_output(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    desk.type(f".output {file}", "SELECT 1 AS a;", ".output", "SELECT 2 AS b;", ".output /no/such/x")
    assert file.read_bytes() == b"a\r\n1\r\n"
    assert desk.out == "b\r\n2\r\n"
    assert "cannot write /no/such/x" in desk.err


def test_timer(desk: Desk) -> None:
    desk.type("SELECT 1;", ".timer on", "SELECT 2;", ".timer off", "SELECT 3;", ".timer", ".timer maybe")
    assert sum(line.endswith(" s") for line in desk.err.splitlines()) == 1
    assert desk.repl.timer
    assert ".timer takes on or off" in desk.err


def test_policy_is_shown_and_cannot_steer_the_terminal(desk: Desk) -> None:
    desk.type(".policy")
    assert desk.out == "# for all\n[budget]\nepsilon = 10 # \\x1b[31m\n"


def test_read_prices_the_file_as_a_whole(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_text(f"{ask('6')};\n{ask('5')};")
    desk.type(f".read {file}", ".read", ".read /no/such.sql", "SELECT 1 AS a;")
    assert "the 2 statements together ask for epsilon 11" in desk.err
    assert ".read takes a file" in desk.err
    assert "cannot read /no/such.sql" in desk.err
    assert desk.session.ran == ["SELECT 1 AS a"]
    file.write_text("SELECT 1 AS a; SELECT 2 AS b;")
    desk.type(f".read {file}")
    assert desk.out == "a\r\n1\r\nb\r\n2\r\n"


def test_chart_draws_the_last_answer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    desk.type(
        ".chart", ask("1") + ";", ".chart", "SELECT 'a' AS k, 2 AS v UNION ALL SELECT 'b', 1;", ".chart"
    )
    assert "nothing to draw yet" in desk.err
    drawn = desk.out.split("\r\n")
    assert "│ Essential hypertension │ 1,234 ± 41 │ ██" in drawn[4]
    assert "▒ │" in drawn[4]
    lines = desk.out.splitlines()
    bars = {line[2]: line.count("█") for line in lines if line.startswith(("│ a", "│ b"))}
    assert bars["a"] == 2 * bars["b"] > 20


def test_chart_without_numbers(desk: Desk) -> None:
    desk.type("SELECT 'a' AS k;", ".chart", "SELECT 0 AS n;", ".chart", "SELECT -1 AS n;", ".chart")
    assert "has no number to draw" in desk.err
    assert desk.err.count("error") == 1
    assert desk.out.count("█") > 20


def test_parquet_needs_a_file(desk: Desk, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    file = tmp_path / "a.parquet"
    desk.type(".mode parquet", f".output {file}", "SELECT 1 AS a;", "SELECT 2 AS b;")
    # Such a file holds one result: the last.
    assert pq.read_table(file).to_pylist() == [{"b": 2}]


# -- completion


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM vi", ["visits"]),
        ("WHERE clinic = 'Co", ["Coast Road'"]),
        ("WHERE v.clinic IN ('Coast Road', '", ["Coast Road'", "Dune Park'", "Abbot''s Gate'"]),
        ("WHERE clinic = 'Abbot''s", ["Abbot''s Gate'"]),
        ("WHERE note = 'Co", []),
        ("SELECT 'vi", []),
        ("SELECT 'a', vi", ["visits"]),
        ("SELECT * FROM ", ["visits", "diagnoses"]),
        ("sel", ["select"]),
        ("SEL", ["SELECT"]),
        ("SELECT dia", ["diagnosis_code", "diagnosis", "diagnoses"]),
        ("SELECT v.p| FROM visits v", []),
        ("SELECT * FROM visits v WHERE v.", ["patient_id", "diagnosis_code", "minutes"]),
        ("SELECT * FROM visits AS v JOIN diagnoses d ON d.c", ["code"]),
        ("DESCRIBE d", ["diagnoses"]),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (eps", ["epsilon"]),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, me",
            ["measure", "measure_strategy", "mechanism"],
        ),
        ("OPTIONS (mechanism = NOISY", ["NOISY_TOP_K", "NOISY_MAX"]),
        ("OPTIONS (noise = ", ["EXPONENTIAL", "LAPLACE", "GEOMETRIC", "GAUSSIAN"]),
        ("OPTIONS (epsilon = 1) pat", ["patient_id"]),
        ("SET dp_", ["dp_epsilon", "dp_error", "dp_delta", "dp_measure", "dp_confidence", "dp_dialect"]),
        ("SELECT WITH DIFF", ["DIFFERENTIAL_PRIVACY"]),
        ("select with diff", ["differential_privacy"]),
        ("SELECT a FROM visits\nGROUP ", ["BY"]),
        ("SELECT a FROM visits ABOVE THR", ["THRESHOLD"]),
        ("SHOW PRIVACY ", ["BUDGET", "BUDGET BY PARTS"]),
        ("WHERE clinic = ", ["'Coast Road'", "'Dune Park'", "'Abbot''s Gate'"]),
        ("WHERE v.clinic IN (", ["'Coast Road'", "'Dune Park'", "'Abbot''s Gate'"]),
        ("WHERE minutes = ", []),
        (".mo", [".mode"]),
        (".mode j", ["json", "jsonl"]),
        (".timer ", ["on", "off"]),
        (".tables d", ["diagnoses"]),
        (".explain SELECT * FROM d", ["diagnoses"]),
        (".read x", []),
        ("", []),
        ("SELECT ", []),
    ],
)
def test_completion(text: str, found: list[str]) -> None:
    before = text.partition("|")[0]
    if "|" not in text:
        size, names = completions(before, NAMES)
        assert names == found
        assert all(name.lower().startswith(before[len(before) - size :].lower()) for name in names)


def test_names_come_from_the_session_and_errors_leave_keywords(session: Any) -> None:
    session.engine.execute("CREATE TABLE products (id INTEGER, name VARCHAR)")
    assert names_of(session).tables == {"products": ("id", "name")}
    session.prepare = lambda text, parameters=None: (_ for _ in ()).throw(
        __import__("dpsql.errors").errors.OperationalError("busy")
    )
    assert names_of(session).tables == {}


# -- a pipe


def piped(monkeypatch: pytest.MonkeyPatch, session: Any, text: str, *args: str) -> int:
    monkeypatch.setattr(cli, "open_session", lambda settings: session)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
    return main(args)


def test_a_pipe_has_no_prompt_and_is_not_asked(
    session: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = piped(monkeypatch, session, f".mode jsonl\n{ask('9')};\nSELECT 2 AS b;\n")
    out, err = capfd.readouterr()
    assert code == 0
    assert out.splitlines()[-1] == '{"b": 2}'
    assert "left)>" not in out + err
    assert session.closed


def test_a_pipe_stops_at_the_first_error_and_tells_its_code(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert piped(monkeypatch, session, "SELECT 1; SELECT secret; SELECT 2;\nSELECT 3;") == ExitCode.REFUSED
    assert session.ran == ["SELECT 1"]


def test_a_pipe_goes_on_if_told_so(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT secret;\n.nonsense\nSELECT 3;"
    assert piped(monkeypatch, session, text, "--on-error", "continue") == ExitCode.REFUSED
    assert session.ran == ["SELECT 3"]


def test_the_reader_of_a_pipe_says_yes() -> None:
    assert Piped().ask("sure?")
