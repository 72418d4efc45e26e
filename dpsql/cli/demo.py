"""`dpsql demo`: a private question on shipped data, with no set-up."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from dpsql.errors import OperationalError

__all__ = ["POLICY", "QUESTION", "copy_data"]

POLICY = "clinic.toml"
QUESTION = """\
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)
       d.diagnosis, COUNT(DISTINCT v.patient_id) AS patients
FROM visits v JOIN diagnoses d ON d.code = v.diagnosis_code
GROUP BY d.diagnosis
TOP 5"""
"""Which diagnoses do most patients have? The privacy unit is the patient."""


def copy_data() -> Path:
    """Copy the shipped data into a new temporary folder and return it.

    A copy, since the budget is spent in a ledger beside the policy, and each demo starts with a full one.
    """
    shipped = _shipped()
    folder = Path(tempfile.mkdtemp(prefix="dpsql-demo-"))
    for file in sorted(shipped.iterdir()):
        if file.suffix in (".toml", ".parquet", ".csv", ".md"):
            shutil.copyfile(file, folder / file.name)
    return folder


def _shipped() -> Path:
    """Find the data: beside this file when installed, at the project's top in its source tree."""
    here = Path(__file__).resolve()
    for folder in (here.parent / "demo_data", here.parents[2] / "data"):
        if (folder / POLICY).is_file():
            return folder
    raise OperationalError("the demo's data is missing from this installation: reinstall dpsql")
