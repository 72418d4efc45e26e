"""The runner of a corpus: what it lets pass, and that it asks a copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.corpus import Outcome, main, problems

GOOD = [Outcome("as written")] * 80 + [Outcome("spelled")] * 2 + [Outcome("refused")] * 18


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (GOOD, []),
        ([*GOOD, *[Outcome("refused", "single rows")] * 50], []),
        ([], ["no statement"]),
        ([*GOOD, Outcome("refused")], ["as written: 79.2%", "right: 81.2%"]),
        ([Outcome("spelled"), *GOOD[1:]], ["as written: 79.0%"]),
        ([*GOOD, *[Outcome("as written")] * 25, *[Outcome("few rows")] * 5], ["few rows: 5, at most 4"]),
        ([*GOOD, *[Outcome("as written")] * 5, Outcome("WRONG")], ["WRONG: 1"]),
        ([*GOOD, *[Outcome("as written")] * 5, Outcome("WRONG", "", "googlesql15")], []),
    ],
)
def test_what_is_worse_than_it_may_be(outcomes: list[Outcome], words: list[str]) -> None:
    found = problems(outcomes)
    assert len(found) == len(words)
    assert all(one.startswith(word) for one, word in zip(found, words, strict=True))


@pytest.mark.parametrize(
    ("outcome", "code", "exit_code"), [("as written", 0, 0), ("WRONG", 1, 1), ("refused", 0, 1)]
)
def test_the_folder_is_only_read(tmp_path: Path, outcome: str, code: int, exit_code: int) -> None:
    results = json.dumps([{"outcome": outcome, "out_of_scope": "", "ident": "one"}])
    program = f"""import pathlib, sys
pathlib.Path("build").mkdir()
pathlib.Path("build/results.json").write_text({results!r})
sys.exit({code})
"""
    (tmp_path / "run.py").write_text(program)
    assert main([str(tmp_path)]) == exit_code
    assert [p.name for p in tmp_path.iterdir()] == ["run.py"]


def test_a_folder_that_is_no_corpus(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == main([]) == 2
    (tmp_path / "run.py").write_text("raise SystemExit(3)")
    assert main([str(tmp_path)]) == 1
