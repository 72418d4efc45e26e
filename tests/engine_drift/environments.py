"""Fresh environments with given versions of packages, in which the facts are collected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_COLLECT = Path(__file__).with_name("collect.py")


def collected(versions: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts of an environment with these versions, and the newest allowed ones of all else."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        python = place / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
        print("installing", ", ".join(f"{k} {v}" for k, v in versions.items()), file=sys.stderr)
        venv.create(place / "env", with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*install, *_requirements(versions)])
        print("collecting", file=sys.stderr)
        _run([str(python), str(_COLLECT), str(place / "facts.json")])
        facts: dict[str, Any] = json.loads((place / "facts.json").read_text())
        return facts


def _requirements(versions: Mapping[str, str]) -> list[str]:
    """Return dpsql's dependencies, some of them with a version that they may not allow."""
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    kept = [each for each in declared if not each.startswith(tuple(versions))]
    return [*kept, "pytest", *(f"{name}=={version}" for name, version in versions.items())]


def _run(command: list[str]) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
