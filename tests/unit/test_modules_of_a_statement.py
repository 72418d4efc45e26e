"""The documents of developers name what is there, and a statement runs through the modules that they name."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.modules_of_a_statement import STATEMENTS, packages

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted((ROOT / "docs/pages/developers").glob("*.md")),
    ROOT / "docs/pages/explanation/what_you_must_trust.md",
]
MODULES = {path.stem for path in (ROOT / "dpsql").iterdir() if path.suffix == ".py" or path.is_dir()}
FILES = ("csv", "json", "md", "py", "sql", "toml")
CODE = re.compile(r"^```\n(?P<block>.*?)^```$|`(?P<span>[^`\n]+)`", re.M | re.S)
SQL_OR_PROGRAM = re.compile(r"^```\w.*?^```$", re.M | re.S)

MOST = {"SUM": 210, "top-k": 202}
"""The most modules that a statement may run through: what was reached, with a reserve of 2."""


def code_of(page: Path) -> list[str]:
    """Return what a page has as code, but for whole programs and statements."""
    text = SQL_OR_PROGRAM.sub("", page.read_text("utf-8"))
    return [found["block"] or found["span"] for found in CODE.finditer(text)]


def paths_in(code: str) -> list[str]:
    """Return the paths in dpsql, tests or docs that a piece of code names; `NAME` stands for any name."""
    found = re.findall(r"(?<![\w./])(?:dpsql|tests|docs)/[\w./]*\w", code)
    return [path for path in found if "NAME" not in path]


def dotted_names_in(code: str) -> list[str]:
    """Return the dotted names of modules of dpsql, and of what is in them, that a piece of code has."""
    found = re.findall(r"(?<![\w./])(?:dpsql\.)?([a-z]\w*(?:\.\w+)+)", code)
    return [name for name in found if name.split(".")[0] in MODULES and name.split(".")[-1] not in FILES]


def resolve(name: str) -> object:
    """Return the module, class, function or member with a dotted name in dpsql."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(["dpsql", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(name)


def steps_of_a_statement() -> str:
    """Return the numbered steps in the life of a statement, as the architecture's page has them."""
    page = (ROOT / "docs/pages/developers/architecture.md").read_text("utf-8")
    section = page.split("## The life of a statement")[1].split("\n## ")[0]
    return section[section.index("\n1. ") :]


def packages_named(text: str) -> list[str]:
    """Return the packages that a text names, or modules of which it names, in order of first mention."""
    folders = {f"kernel.{path.name}" for path in (ROOT / "dpsql/kernel").iterdir() if path.is_dir()}
    found: dict[str, None] = {}
    for span in re.findall(r"`(?:dpsql[/.])?([a-z_]+(?:[./]\w+)*)`", text):
        first, *rest = re.split("[./]", span)
        folder = ".".join([first, *rest[:1]])
        found.setdefault(folder if folder in folders else first)
    return list(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_exists(page: Path) -> None:
    code = code_of(page)
    missing = [path for each in code for path in paths_in(each) if not (ROOT / path).exists()]
    for name in (name for each in code for name in dotted_names_in(each)):
        try:
            resolve(name)
        except (ImportError, AttributeError):
            missing.append(name)
    assert not missing


def test_a_name_that_is_not_there_is_noticed() -> None:
    assert paths_in("dpsql/none.py, `dpsql/session.py`") == ["dpsql/none.py", "dpsql/session.py"]
    assert dotted_names_in("answers.choose planning.choose, planning.md") == ["planning.choose"]
    with pytest.raises(AttributeError):
        resolve("planning.no_such_name")


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.sampled(2, rest="longer")
def test_a_statement_runs_through_few_modules_and_the_page_names_their_packages(name: str) -> None:
    """The largest numbers are those of a new process; the packages are named as the SUM enters them."""
    asked = f"modules_of(STATEMENTS[{name!r}])"
    code = f"import json; from tests.modules_of_a_statement import *; print(json.dumps({asked}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    entered: list[str] = json.loads(done.stdout)
    assert len(set(entered)) <= MOST[name]
    order = [package for package in packages(entered) if package != "(top)"]
    named = [package for package in packages_named(steps_of_a_statement()) if package in order]
    assert set(named) == set(order)
    if name == "SUM":
        assert named == order
