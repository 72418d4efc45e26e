"""Makes an environment for each system, with pinned packages: what they require excludes one another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "with_opendp": ["opendp[polars]==0.16.0"],
    "with_smartnoise": ["smartnoise-sql==1.0.10", "pyarrow"],
    "with_diffprivlib": ["diffprivlib==0.6.6", "scikit-learn==1.5.2", "pandas", "pyarrow"],  # see findings/
    "with_pipelinedp": ["pipeline-dp==0.3.1", "pyarrow"],
    "with_tumult": ["tmlt.analytics==0.21.0", "setuptools"],
}
"""Of each system but dpsql, which runs where this program does."""
SYSTEMS = ("with_dpsql", "with_dpsql_found", *PACKAGES)


def make_environment(system: str, folder: Path) -> str:
    """Return a Python that has the system's packages, or raise RuntimeError with pip's last line."""
    if system not in PACKAGES:
        return sys.executable
    place = folder / system
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        command = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *PACKAGES[system],
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["pip failed"])[-1])
        (place / "ready").touch()
    return str(python)
