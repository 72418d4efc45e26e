"""The types that an analyst's script sees: `mypy --strict` on one, as from an installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dpsql

SCRIPT = Path(__file__).with_name("typed_script.py")


def strict(script: Path, folder: Path) -> str:
    """Run mypy on a script as its user would: of an installed package no errors are told, only types."""
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--cache-dir", str(folder / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(script)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(Path(dpsql.__file__).parents[1])},
    )
    return done.stdout + done.stderr


@pytest.mark.slow  # mypy reads the whole package; `mypy` itself checks the script every day, among the tests
def test_mypy_accepts_a_users_script_and_sees_its_mistakes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.read_text())
    assert "Success" in strict(script, tmp_path)
    script.write_text(
        SCRIPT.read_text().replace('to_svg("n")', "to_svg(at=1)").replace("budget()", "bugdet()")
    )
    found = strict(script, tmp_path)
    assert '"Connection" has no attribute "bugdet"' in found
    assert 'Unexpected keyword argument "at"' in found


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(dpsql.__file__).parent / "py.typed").exists()
