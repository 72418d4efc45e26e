"""`import dpsql`: light, complete, and every name in its module."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dpsql
import dpsql.dbapi

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", dpsql.__all__)
def test_every_name_resolves(name: str) -> None:
    value = getattr(dpsql, name)
    assert value is getattr(dpsql, name)
    if hasattr(dpsql.dbapi, name):
        assert value is getattr(dpsql.dbapi, name)


def test_the_map_is_complete() -> None:
    assert len(set(dpsql.__all__)) == len(dpsql.__all__)
    assert set(dpsql.__all__) <= set(dir(dpsql))
    # What PEP 249 wants of a module is all there.
    assert set(dpsql.dbapi.__all__) - {"TypeObject"} <= set(dpsql.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = dpsql.nonsense


def test_rooms_are_reachable() -> None:
    assert dpsql.kernel.mechanisms.__name__ == "dpsql.kernel.mechanisms"
    assert dpsql.kernel.noise.__name__ == "dpsql.kernel.noise"


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert dpsql.__version__ == project["version"]


@pytest.mark.parametrize("module", ["dpsql", "dpsql.cli", "dpsql.dbapi"])
def test_importing_is_light(module: str) -> None:
    code = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"duckdb", "pyarrow", "numpy", "sqlglot", "prompt_toolkit", "pygments"}
    assert heavy.isdisjoint(done.stdout.split())


def test_a_program_ends_without_a_search_for_garbage() -> None:
    # Hooks run in the opposite order: the program's own comes after dpsql's.
    frozen = "atexit.register(lambda: print(gc.get_freeze_count() > 10_000))"
    code = f"import atexit, gc; {frozen}; import dpsql; dpsql.connect"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
