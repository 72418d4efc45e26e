"""The docstring of a package names each of its modules; no file has leftovers of a merge, no text of a
tool that wrapped its lines."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dpsql"
CORE = (
    *("kernel", "language", "analysis", "planning", "estimates", "engines"),
    *("composition", "policy", "release", "ledger", "reports"),
)
LEFTOVER = re.compile(r"^(<{7}|>{7}) \S", re.M)
WRAPPED = re.compile(r' "\n *"[^"\n]*"""')
"""A docstring that was wrapped as a string of two parts: its quotes would be shown."""
MIDDLE = re.compile(r"^={7}$", re.M)


@pytest.mark.parametrize("name", CORE)
def test_a_package_lists_its_modules(name: str) -> None:
    missing = {}
    for init in sorted((PACKAGE / name).rglob("__init__.py")):
        text = ast.get_docstring(ast.parse(init.read_text("utf-8"))) or ""
        there = {p.stem for p in init.parent.glob("*.py")} - {"__init__"}
        there |= {p.parent.name for p in init.parent.glob("*/__init__.py")}
        lacking = {each for each in there if not re.search(rf"\b{each}\b", text)}
        if lacking:
            missing[str(init.relative_to(PACKAGE))] = sorted(lacking)
    assert missing == {}


def test_no_file_has_leftovers_of_a_merge() -> None:
    files = [p for folder in ("dpsql", "tests", "docs", "examples") for p in (ROOT / folder).rglob("*")]
    texts = [p for p in (*files, *ROOT.glob("*.md")) if p.suffix in (".py", ".md", ".toml", ".sql", ".yml")]
    assert len(texts) > 1000
    marks = [str(p.relative_to(ROOT)) for p in texts if LEFTOVER.search(p.read_text("utf-8"))]
    marks += [str(p) for p in texts if p.suffix == ".py" and MIDDLE.search(p.read_text("utf-8"))]
    assert marks == []


def test_no_docstring_has_quotes_of_a_wrapped_string() -> None:
    assert WRAPPED.search('"""One thing, and "\n"another."""')
    files = [p for folder in ("dpsql", "tests", "docs", "examples") for p in (ROOT / folder).rglob("*.py")]
    assert [str(p.relative_to(ROOT)) for p in files if WRAPPED.search(p.read_text("utf-8"))] == []
