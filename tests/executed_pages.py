"""Runs every command of a case study, and writes what it printed below it.

    python -m tests.executed_pages docs/pages/cases/shop.md

The page's bash and Python blocks run one after the other in one folder, beside a copy of examples/. The
block without a language that follows one is its output, and is written anew; pictures that the page shows
are copied beside it. Tests run the same in short form: audits with few trials, nothing written
(`tests/e2e/test_cases.py`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^```(?P<language>bash|python)\n(?P<code>.*?)^```\n(?:\n```\n(?P<output>.*?)^```\n)?", re.M | re.S
)
PICTURE = re.compile(r"!\[[^\]]*\]\(([\w-]+\.svg)\)")
SHORT = "100"
"""Trials of an audit in the short form."""


class Executed(NamedTuple):
    """A block of the page, its place, and what it printed."""

    code: str
    start: int
    end: int
    output: str


def execute_page(text: str, folder: Path, command: Sequence[str], *, short: bool) -> Iterator[Executed]:
    """Run the blocks one after the other; raise AssertionError where one fails or prints nothing."""
    shutil.copytree(
        ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("reproduce", "__pycache__")
    )
    programs = folder / "bin"
    programs.mkdir()
    for name, words in {"dpsql": [*command, "-m", "dpsql.cli"], "python": command}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
        (programs / name).chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k not in ("DPSQL_POLICY", "COLUMNS")} | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        "XDG_STATE_HOME": str(folder / "state"),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    for found in FENCE.finditer(text):
        code = found["code"]
        ran = re.sub(r"--trials \d+", f"--trials {SHORT}", code) if short else code
        arguments = ["bash", "-euo", "pipefail", "-c", ran]
        if found["language"] == "python":
            arguments = [str(programs / "python"), "-c", ran]
        done = subprocess.run(
            arguments,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, f"{ran}\n{done.stdout}"
        assert found["output"] is None or done.stdout.strip(), f"{ran}\nprints nothing"
        yield Executed(code, found.start(), found.end(), _shown(done.stdout, folder))


def _shown(output: str, folder: Path) -> str:
    """Return what was printed without colours, the folder's name, and lines that are written over."""
    lines = [line.rpartition("\r")[2] for line in re.sub(r"\x1b\[[0-9;]*m", "", output).split("\n")]
    return "\n".join(lines).replace(f"{folder}/", "").strip() + "\n"


def write_outputs(page: Path) -> None:
    """Run the page as a whole; write the outputs into it, and its pictures beside it."""
    text = page.read_text("utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made, place = [], 0
        for each in execute_page(text, folder, [sys.executable], short=False):
            block = text[each.start : each.end]
            if FENCE.fullmatch(block)["output"] is not None:  # type: ignore[index]  # it is what was found
                block = f"{block[: block.index('```', 3)]}```\n\n```\n{each.output}```\n"
            made += [text[place : each.start], block]
            place = each.end
            print(each.code, each.output, sep="\n", flush=True)
        page.write_text("".join([*made, text[place:]]), "utf-8")
        for name in PICTURE.findall(text):
            shutil.copy(folder / name, page.with_name(name))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        write_outputs(Path(argument))
