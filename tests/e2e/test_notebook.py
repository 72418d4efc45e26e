"""The notebook under examples/: it runs from first cell to last, and what is stored in it is whole."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "tour.ipynb"
DRAWN = 3
"""Answers that draw themselves."""

# In a process of its own: a kernel's machinery warns about matters that are not dpsql's.
RUN = """
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read("tour.ipynb", 4)
NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
nbformat.write(notebook, "executed.ipynb")
"""


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def pages(notebook: Any) -> list[str]:
    """The HTML that dpsql drew."""
    found = [output.get("data", {}).get("text/html", "") for output in outputs(notebook)]
    return [html for html in found if 'class="dpsql"' in html]


class Reader(HTMLParser):
    """Collects tags with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def check_drawings(found: list[str]) -> None:
    assert len(found) == DRAWN
    for html in found:
        reader = Reader()
        reader.feed(html)
        tags = [tag for tag, _ in reader.tags]
        assert tags.count("svg") == tags.count("tr") - 1
        assert not {"script", "img", "link", "iframe", "style"} & set(tags)
        assert not [value for _, attrs in reader.tags for value in attrs.values() if value and "//" in value]
        assert not [name for _, attrs in reader.tags for name in attrs if name.startswith("on")]
        # Each bar has its interval: a pale part that has a width, within the drawing.
        rects = [attrs for tag, attrs in reader.tags if tag == "rect"]
        pale = [float(attrs["width"] or 0) for attrs in rects if "fill-opacity" in attrs]
        ends = [float(attrs["x"] or 0) + float(attrs["width"] or 0) for attrs in rects]
        assert len(pale) == tags.count("svg")
        assert min(pale) > 0
        assert max(ends) <= 200


def test_the_notebook_runs(tmp_path: Path) -> None:
    for name in ("data", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.sqlite*", "reproduce"))
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=tmp_path / "examples",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        # jupysql counts its users over the network unless told not to, and imports Spark where it is
        # installed, which warns of pandas.
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "PLOOMBER_STATS_ENABLED": "false",
            "PYTHONWARNINGS": "ignore::FutureWarning",
        },
    )
    assert done.returncode == 0, done.stderr[-2000:]
    executed = nbformat.read(tmp_path / "examples" / "executed.ipynb", 4)
    check_drawings(pages(executed))
    texts = [output.get("text", "") + str(output.get("data", "")) for output in outputs(executed)]
    assert any("the rows of a private table are counted, never shown" in text for text in texts)
    assert any("Hint: " in text for text in texts)
    assert "epsilon" in texts[-1]
    stored = nbformat.read(NOTEBOOK, 4)
    assert [len(c.outputs) for c in executed.cells if c.cell_type == "code"] == [
        len(c.outputs) for c in stored.cells if c.cell_type == "code"
    ]


def test_what_is_stored_is_whole_and_tells_nothing_of_a_machine() -> None:
    stored = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(stored)
    check_drawings(pages(stored))
    assert not [output for output in outputs(stored) if output.output_type == "error"]
    text = NOTEBOOK.read_text("utf-8")
    assert not re.search(r"/(?:tmp|root|home|Users|work)\b|0x[0-9a-f]{6,}", text)


@pytest.mark.parametrize("broken", ["<svg>", "<script>", '<rect width="300" x="0">', '<a onclick="x">'])
def test_a_drawing_that_is_not_whole_would_be_noticed(broken: str) -> None:
    whole = pages(nbformat.read(NOTEBOOK, 4))
    check_drawings(whole)
    with pytest.raises(AssertionError):
        check_drawings([whole[0] + broken, *whole[1:]])
