"""The comparison with other systems: its figures by hand, and a page that has no number but those of the
results."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from tests.comparison.data_sets import DATA_SETS
from tests.comparison.environments import SYSTEMS
from tests.comparison.measure import figures
from tests.comparison.page import NAMES, PAGE, RESULTS, WORDS, count_lines, write_page
from tests.comparison.questions import QUESTIONS


def test_errors_are_relative_to_the_exact_answer() -> None:
    exact = {"a": 10.0, "b": 30.0}
    found = figures("rows_by_kind", [[["a", 12, 9, 15], ["b", 26, 25, 27]]], exact)
    assert found == {"error": pytest.approx(math.sqrt((4 + 16) / 2) / 20), "covered": 0.5}


def test_a_group_that_is_not_shown_counts_as_0() -> None:
    assert figures("undeclared", [[["a", 10]]], {"a": 10.0, "b": 30.0})["error"] == pytest.approx(
        math.sqrt(900 / 2) / 20
    )


def test_the_largest_are_measured_against_the_groups_that_were_named() -> None:
    exact = {str(n): float(n) for n in range(1, 8)}
    answer = [["7", 7, 6, 8], ["6", 6, 5, 7], ["5", 5, 4, 6], ["2", 4, 3, 5], ["1", 1, 0, 2]]
    found = figures("top", [answer], exact)
    assert found["right"] == 3
    assert found["covered"] == 0.8
    assert found["error"] == pytest.approx(math.sqrt(4 / 5) / 5)


def test_lines_by_hand_leave_out_what_is_not_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        '"""Words."""\n\nimport os\n\n# a remark\ndef f():\n    """Words."""\n    return os.name\n'
    )
    assert count_lines(file) == 2


def test_the_page_is_that_of_the_results() -> None:
    results = json.loads(RESULTS.read_text("utf-8"))
    assert PAGE.read_text("utf-8") == write_page(results)


def test_the_results_are_whole() -> None:
    """Every system that is compared has all questions of each data set that it was asked about, or why
    not."""
    results = json.loads(RESULTS.read_text("utf-8"))
    assert set(results["data"]) == set(DATA_SETS) == set(results["systems"]["with_dpsql"]["figures"])
    assert set(results["systems"]) == set(SYSTEMS) == set(NAMES)
    assert set(WORDS) | {"with_dpsql_found"} == set(SYSTEMS)
    for system, found in results["systems"].items():
        assert found["version"], system
        for name, answers in found["figures"].items():
            assert set(answers) == set(QUESTIONS), (system, name)
            assert all("error" in a or "refused" in a for a in answers.values()), (system, name)


def test_the_page_says_where_others_are_better() -> None:
    better = PAGE.read_text("utf-8").partition("## Where another system is better")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\* ", better, re.M)) >= 3
