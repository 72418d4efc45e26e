"""Every command and snippet of README.md and examples/ runs, where copies of data/ and examples/ lie.

Fenced blocks are run by their language: `bash`, `python`, `sql` (on the clinic; `sql refused` must be
refused), `toml` (a policy that loads). Blocks without a language are output. What .ci/run does in an
environment of its own (installing, running this very suite) is checked to be there.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from dpsql.cli import main
from dpsql.language import split_script
from dpsql.policy import load
from tests.commands import Commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "examples").glob("*.md"))]
SCRIPTS = {"clinic": "clinic", "cookbook": "clinic", "flights": "flights"}
"""SQL files of examples/ and the policy each is for."""
FENCE = re.compile(
    r"(?:<!-- ci: (?P<ci>[\w-]+) -->\s*\n)?^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S
)
REFUSED = 4


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    ci: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(page.name, text.count("\n", 0, m.start("text")), m["info"].strip(), m["text"], m["ci"])
        for m in FENCE.finditer(text)
    ]


BLOCKS = {page: blocks_of(page) for page in PAGES}


@pytest.fixture
def folder(tmp_path: Path, commands: Commands) -> Path:
    """Copies of data/ and examples/, and `dpsql` on the path."""
    for name in ("data", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.sqlite*", "reproduce"))
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "dpsql"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(commands.command)} "$@"\n')
    command.chmod(0o755)
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shutil.which(command[0], path=str(folder / "bin")) or command[0], *command[1:]],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
        env={
            **{k: v for k, v in os.environ.items() if k not in ("DPSQL_POLICY", "COLUMNS")},
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "TMPDIR": str(folder),
            "HOME": str(folder),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONWARNINGS": "error",
        },
    )


Capture = pytest.CaptureFixture[str]


def here(capfd: Capture, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run dpsql in this process: there are many calls, and each would load the engine anew."""
    code = main(list(arguments))
    return subprocess.CompletedProcess((), code, *capfd.readouterr())


def executed(folder: Path, block: Block, capfd: Capture) -> None:
    """Run one block; whatever it is, it must do what the page says."""
    if block.language == "bash":
        script = re.sub(r"^\$ ", "", block.text, flags=re.M)
        done = run(folder, "bash", "-euo", "pipefail", "-c", script)
    elif block.language == "python":
        done = run(folder, "dpsql", "python", block.text)
    elif block.language in ("sql", "sql refused"):
        (folder / "page.sql").write_text(block.text, "utf-8")
        done = here(capfd, "-p", str(folder / "data" / "clinic.toml"), "-f", str(folder / "page.sql"))
        if block.language == "sql refused":
            assert (done.returncode, done.stdout) == (REFUSED, ""), done.stderr
            assert "\nHint: " in done.stderr
            return
    else:
        assert block.language == "toml", f"{block} has a language nobody runs: {block.language!r}"
        (folder / "data" / "page.toml").write_text(block.text, "utf-8")
        assert load(folder / "data" / "page.toml").tables
        return
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    assert done.stdout, f"{block} says nothing"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_runs(folder: Path, page: Path, capfd: Capture) -> None:
    found = [block for block in BLOCKS[page] if block.language and block.ci in (None, "main-job")]
    assert len(found) >= 4
    for block in found:
        executed(folder, block, capfd)


def test_what_is_not_run_here_is_run_by_ci() -> None:
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    elsewhere = {block.ci: block for page in PAGES for block in BLOCKS[page] if block.ci is not None}
    assert set(elsewhere) == {"install", "install-tests", "main-job", "tests", "server"}
    assert "block tests" in ci
    assert "block main-job" in ci
    assert elsewhere["install"].text.strip() == "pip install . && dpsql demo"
    assert "pip wheel" in ci
    (extras,) = re.findall(r'pip install -e "\.(\[.+?\])"', elsewhere["install-tests"].text)
    assert f'pip install --quiet -e ".{extras}"' in ci


def test_output_blocks_follow_commands() -> None:
    for page in PAGES:
        languages = [block.language for block in BLOCKS[page]]
        assert all(before == "bash" for before, this in pairwise(languages) if not this)
        text = page.read_text("utf-8")
        assert len(BLOCKS[page]) * 2 == len(re.findall(r"^\s*```", text, re.M)), "every fence is seen"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_example_script_runs_and_fits_its_budget(folder: Path, name: str, capfd: Capture) -> None:
    script = folder / "examples" / f"{name}.sql"
    policy = str(folder / "data" / f"{SCRIPTS[name]}.toml")
    dry = here(capfd, "-p", policy, "--dry-run", "-f", str(script))
    assert dry.returncode == 0, dry.stderr
    prices = [float(row["epsilon"]) for row in csv.DictReader(io.StringIO(dry.stdout))]
    stated = re.search(r"(?:epsilon of|together they take)[\s-]+(\d+(?:\.\d+)?)", script.read_text("utf-8"))
    assert stated is not None
    assert sum(prices) == pytest.approx(float(stated[1]))
    done = here(capfd, "-p", policy, "--format", "jsonl", "-f", str(script))
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr


def test_the_scripts_are_all_there() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.sql")} == set(SCRIPTS)
    text = (ROOT / "examples" / "cookbook.sql").read_text("utf-8")
    assert len(split_script(text)) == 37
    assert [int(n) for n in re.findall(r"^-- (\d+)\. ", text, re.M)] == list(range(1, 38))


def test_a_broken_page_would_be_noticed(folder: Path, capfd: Capture) -> None:
    for language, text in (
        ("bash", "dpsql --nonsense"),
        ("python", "1/0"),
        ("sql", "SELCT 1"),
        ("bash", "true"),
    ):
        with pytest.raises(AssertionError):
            executed(folder, Block("x.md", 1, language, text, None), capfd)
    with pytest.raises(AssertionError):
        executed(folder, Block("x.md", 1, "sql refused", "SELECT 1", None), capfd)
    with pytest.raises(AssertionError):
        executed(folder, Block("x.md", 1, "ruby", "puts 1", None), capfd)
