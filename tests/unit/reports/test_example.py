"""The example of the page on reports runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsql.cli import main
from dpsql.language import split_script
from dpsql.session import Session

PAGE = Path(__file__).parents[3] / "docs" / "pages" / "analysts" / "reports.md"


def block(title: str) -> str:
    found = re.search(rf"^```{title}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.longer
def test_the_report_of_the_page_is_registered_and_run(folder: Path) -> None:
    (folder / "weekly.sql").write_text(block("sql weekly"))
    for line in re.findall(r"^dpsql (report .*)$", PAGE.read_text("utf-8"), re.MULTILINE):
        words = [str(folder / word) if word.startswith("weekly.") else word for word in line.split()]
        assert main(["-p", str(folder / "dpsql.toml"), "--analyst", "ann", *words]) == 0, line


def test_the_statements_of_the_page_run(session: Session) -> None:
    results = [session.run(text).table for text in split_script(block("sql session"))]
    assert [table.num_rows for table in results[2:]] == [2, 3, 3, 1, 0]
