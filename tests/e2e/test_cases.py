"""The case studies of the documents: every command runs and says something, in short form; what they show
is what was said."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.executed_pages import FENCE, PICTURE, ROOT, execute_page

PAGES = sorted((ROOT / "docs" / "pages" / "cases").glob("*.md"))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where pip's index cannot be reached."""
    folder = tmp_path_factory.mktemp("packages")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        "lifetimes==0.11.3",
    ]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a package of data cannot be downloaded")


@pytest.mark.cases
@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_case_study_runs(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    ran = list(execute_page(text, tmp_path, [sys.executable], short=True))
    assert len(ran) == len(re.findall(r"^```(?:bash|python)$", text, re.M)) >= 6
    for name in PICTURE.findall(text):
        assert (tmp_path / name).read_text("utf-8").startswith("<svg")
    audited = next(each.output for each in ran if " audit " in each.code)
    assert audited.count("passes") == 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_case_study_shows_what_was_printed(page: Path) -> None:
    """Nothing is empty, no path of the machine that ran it is left, and its pictures are there."""
    text = page.read_text("utf-8")
    outputs = [found["output"] for found in FENCE.finditer(text) if found["output"] is not None]
    assert len(outputs) >= 5
    assert all(output.strip() for output in outputs)
    assert not re.search(r"/(tmp|root|home|dev)/", text)
    for name in PICTURE.findall(text):
        assert page.with_name(name).read_text("utf-8").startswith("<svg")


def test_a_command_that_fails_or_is_silent_is_noticed(tmp_path: Path) -> None:
    for number, code in enumerate(("false", "true")):
        text = f"```bash\n{code}\n```\n\n```\n\n```\n"
        with pytest.raises(AssertionError):
            list(execute_page(text, tmp_path / str(number), [sys.executable], short=True))
