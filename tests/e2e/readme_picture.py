"""The picture of README.md: asked of a copy of the shipped clinic, with the noise of that day.

python -m tests.e2e.readme_picture
"""

from __future__ import annotations

import re
import shutil
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import dpsql

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "pages" / "images" / "visits.svg"
STATEMENT = """
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)
       date_trunc('month', visit_date) AS month, clinic, COUNT(DISTINCT patient_id) AS patients
FROM visits
WHERE clinic IN ('Coast Road', 'Pine Ridge', 'Quarry Hill')
GROUP BY month, clinic ORDER BY month, clinic
"""
PAPER = '<rect width="100%" height="100%" fill="#fff"/>'
"""A ground of its own: the page around it may be light or dark."""


def draw() -> str:
    """Ask, and return the picture."""
    with tempfile.TemporaryDirectory() as folder:
        copied = shutil.copytree(
            ROOT / "data", Path(folder) / "data", ignore=shutil.ignore_patterns("*.sqlite*")
        )
        with dpsql.connect(str(copied / "clinic.toml"), analyst="readme") as con:
            release = con.sql(STATEMENT).release
    assert release is not None
    drawn = release.to_svg().replace('fill="currentColor"', 'color="#1b1f24" fill="currentColor"', 1)
    return re.sub(r"(</title>)", rf"\1{PAPER}", drawn, count=1) + "\n"


def numbers(drawn: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the ranges that a picture tells: for a month and a clinic, the least and the greatest number."""
    found = {}
    for title in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}title"):
        month, _, rest = (title.text or "").partition(": ")
        for part in rest.split("; ") if re.fullmatch(r"\d{4}-\d{2}", month) else ():
            match = re.fullmatch(r"(.+?) ([\d,]+) (?:± ([\d,]+)|\(([\d,]+) to ([\d,]+)\))", part)
            assert match is not None, part
            clinic, *texts = match.groups()
            value, half, low, high = (None if t is None else float(t.replace(",", "")) for t in texts)
            if half is not None:
                low, high = (value or 0.0) - half, (value or 0.0) + half
            found[month, clinic] = (low or 0.0, high or 0.0)
    return found


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(draw(), "utf-8")
