"""Typing at the shell: prompt_toolkit's line, Python's own, completion by tab."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from dpsql.cli.repl import line_input
from dpsql.cli.repl.commands import LineReader
from dpsql.cli.repl.line_input import CompletionNames, Piped, open_reader

NAMES = CompletionNames({"visits": ("patient_id", "diagnosis_code")}, (".help",), ("csv",))

ENTER, CTRL_C, CTRL_D, UP = "\r", "\x03", "\x04", "\x1b[A"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def keys(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PipeInput]:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def typed(keys: PipeInput, text: str, reader_: LineReader | None = None) -> str:
    keys.send_text(text)
    return (reader_ or open_reader(lambda: NAMES)).line("dpsql> ", "")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"SELECT 1;{ENTER}", "SELECT 1;"),
        (f"SELECT{ENTER} 1{ENTER};{ENTER}", "SELECT\n 1\n;"),
        (f"SELECT ';{ENTER}';{ENTER}", "SELECT ';\n';"),
        (f".help{ENTER}", ".help"),
        (ENTER, ""),
    ],
)
def test_a_line_goes_on_until_the_statement_ends(keys: PipeInput, text: str, line: str) -> None:
    assert typed(keys, text) == line


def test_tab_completes(keys: PipeInput) -> None:
    # The completer itself: a burst of keys, as sent here, outruns prompt_toolkit's own asynchronous asking.
    completer = line_input._make_completer(lambda: NAMES)
    found = list(completer.get_completions(Document("SELECT * FROM visits v WHERE v.pat"), CompleteEvent()))
    assert [(one.text, one.start_position) for one in found] == [("patient_id", -3)]


@pytest.mark.parametrize("text", ["help", "quit;", "\\q", "SELECT 1\n.help", "SELECT '\n\\q", "\\d visits"])
def test_commands_need_no_semicolon(keys: PipeInput, text: str) -> None:
    assert typed(keys, text.replace("\n", ENTER) + ENTER) == text


def test_the_end_of_input_leaves_an_unfinished_statement(keys: PipeInput) -> None:
    with pytest.raises(KeyboardInterrupt):
        typed(keys, f"SELECT '{ENTER}{CTRL_D}")


def test_keys_that_leave(keys: PipeInput) -> None:
    with pytest.raises(KeyboardInterrupt):
        typed(keys, f"SELECT{CTRL_C}")
    with pytest.raises(EOFError):
        typed(keys, CTRL_D)


def test_history_is_kept_for_its_owner_alone(keys: PipeInput, home: Path) -> None:
    first = open_reader(lambda: NAMES)
    typed(keys, f"SELECT 'secret';{ENTER}", first)
    assert typed(keys, f"{UP}{ENTER}", first) == "SELECT 'secret';"
    file = home / ".dpsql_history"
    assert "secret" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_home_that_cannot_be_written_is_no_obstacle(
    keys: PipeInput, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home / "missing"))
    assert typed(keys, f"SELECT 1;{ENTER}") == "SELECT 1;"


# -- without prompt_toolkit


@pytest.fixture
def plain(home: Path, monkeypatch: pytest.MonkeyPatch) -> LineReader:
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    return open_reader(lambda: NAMES)


def test_without_prompt_toolkit_python_reads_the_line(
    plain: LineReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[str] = []
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: True))

    def typed(prompt: str) -> str:
        prompts.append(prompt)
        return "SELECT 1;"

    monkeypatch.setattr("builtins.input", typed)
    assert plain.interactive
    assert plain.line("dpsql> ", "") == "SELECT 1;"
    assert plain.line("dpsql> ", "SELECT") == "SELECT 1;"
    assert prompts == ["dpsql> ", "  ...> "]


def test_what_is_missing_is_told_in_one_line(plain: LineReader, capfd: pytest.CaptureFixture[str]) -> None:
    open_reader(lambda: NAMES)
    assert capfd.readouterr().err.splitlines()[-1].endswith("pip install 'dpsql[repl]'")


def test_readline_completes(plain: LineReader, monkeypatch: pytest.MonkeyPatch) -> None:
    import readline

    line = "SELECT * FROM visits v WHERE v.pat"
    monkeypatch.setattr(readline, "get_line_buffer", lambda: line)
    monkeypatch.setattr(readline, "get_endidx", lambda: len(line))
    complete = readline.get_completer()
    assert complete is not None
    assert [complete("pat", 0), complete("pat", 1)] == ["patient_id", None]


def test_a_prompt_never_goes_to_a_redirected_stdout(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1;\ny\n"))
    line = line_input._Terminal(line_input._read_line)
    assert line.line("dpsql> ", "") == "SELECT 1;"
    assert line.ask("sure? ")
    with pytest.raises(EOFError):
        line.line("dpsql> ", "")
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "dpsql> sure? dpsql> "


@pytest.mark.parametrize(
    ("answer", "yes"), [("y", True), ("YES ", True), ("", False), ("n", False), ("yep", False)]
)
def test_only_a_yes_is_a_yes(monkeypatch: pytest.MonkeyPatch, answer: str, *, yes: bool) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer + "\n"))
    assert line_input._Terminal(line_input._read_line).ask("sure? ") is yes


def test_a_pipe_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\n\nb"))
    pipe = open_reader(lambda: NAMES)
    assert isinstance(pipe, Piped)
    assert [pipe.line("x", ""), pipe.line("x", ""), pipe.line("x", "")] == ["a", "", "b"]
    with pytest.raises(EOFError):
        pipe.line("x", "")
