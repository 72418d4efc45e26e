"""Apache Superset, from an environment of its own: databases, datasets, charts, SQL Lab by its REST API."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.serve.clients.cookbook import STATEMENTS, Answered, Rows, difference, differences
from tests.serve.clients.drivers import WHO
from tests.serve.clients.programs import environment
from tests.serve.clients.questions import LARGE, LONG, WRONG
from tests.serve.clients.shop import Shop, opened
from tests.serve.clients.subject import url

PYTHON = os.environ.get("DPSQL_SUPERSET", "")
pytestmark = [
    pytest.mark.superset,
    pytest.mark.skipif(not PYTHON, reason="DPSQL_SUPERSET does not name the Python that has apache-superset"),
]
LIMITED = "SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 3"
LONG_WITHOUT_OPTIONS = re.sub(r" WITH DIFFERENTIAL_PRIVACY OPTIONS \(.*?\)", "", LONG)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shop, dict[str, Any]]:
    """What Superset found on a server; the server has stopped since."""
    folder = tmp_path_factory.mktemp("superset")
    (folder / "shop").mkdir()
    texts = {"who": WHO, "cookbook": STATEMENTS, "wrong": WRONG, "large": LARGE, "limited": LIMITED}
    (folder / "asked.json").write_text(json.dumps({**texts, "long": LONG_WITHOUT_OPTIONS}))
    kept = {name: value for name, value in environment().items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with opened(folder / "shop") as shop:
        agreed = url(shop, "postgresql+psycopg2", "bob") + "&options=-c%20dp_epsilon%3D0.25"
        program = str(Path(__file__).with_name("in_superset.py"))
        done = subprocess.run(
            [
                *(PYTHON, program, str(folder)),
                *(url(shop, "postgresql+psycopg2"), agreed, str(folder / "asked.json")),
            ],
            env=kept,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    return shop, json.loads(done.stdout.splitlines()[-1])


def test_its_connections_answer_the_cookbook(asked: tuple[Shop, dict[str, Any]]) -> None:
    shop, found = asked
    assert found["who"][1] == "alice"
    answers = [Answered(tuple(names), [tuple(row) for row in rows]) for names, rows in found["cookbook"]]
    assert differences(answers, shop.expected) == []


def test_sql_lab_answers_from_the_stored_releases(asked: tuple[Shop, dict[str, Any]]) -> None:
    """Superset overwrites the outermost LIMIT, so each statement of the cookbook is asked as a subquery.

    What its own parser does not know, such as OPTIONS, it refuses itself. What it changes into another
    question is refused by the server.
    """
    shop, found = asked
    answered = []
    for number, (answer, expected) in enumerate(zip(found["lab"], shop.expected, strict=True), 1):
        if "error" in answer:
            assert "Error parsing near" in answer["error"] or "postgresql error" in answer["error"], number
            continue
        # The rows of a subquery have no order.
        shown = Answered(tuple(answer["columns"]), _sorted(answer["rows"]))
        assert difference(shown, Answered(expected.columns, _sorted(expected.rows))) is None, number
        answered.append(number)
    assert len(answered) >= 24
    assert found["explained"]["columns"] == ["property", "value"]
    before, after = found["own budget"]
    assert before == after


def _sorted(rows: Iterable[Iterable[object]]) -> Rows:
    return sorted(map(tuple, rows), key=lambda row: [str(value) for value in row])


def test_sql_lab_says_what_is_wrong_and_what_it_costs(asked: tuple[Shop, dict[str, Any]]) -> None:
    _, found = asked
    assert "there is no column oops" in found["refused"]["error"]
    assert "counted, never shown" in found["preview"]["error"]
    assert "this costs epsilon 0.25" in found["limit"]["error"]
    assert "LIMIT 1001" in found["limit"]["error"], "the LIMIT 3 that was written is overwritten by Superset"
    assert found["large"] == 10_000, "more is not shown by Superset"


def test_databases_and_datasets(asked: tuple[Shop, dict[str, Any]]) -> None:
    _, found = asked
    assert set(found["browsed"]) == {"patients", "visits", "diagnoses"}
    assert found["browsed"]["patients"] == ["patient_id", "birth_year", "sex", "region"]
    assert sorted(found["columns"]) == ["birth_year", "patient_id", "region", "sex"]
    assert len(found["values"]) == 12, "a filter offers the declared values"
    assert "Old Town" in found["values"]


def test_a_chart_is_charged_once_and_only_where_it_was_agreed(asked: tuple[Shop, dict[str, Any]]) -> None:
    _, found = asked
    assert "nobody has agreed to it; nothing was charged" in found["not agreed"]["error"]
    assert (found["chart"]["status"], found["chart"]["error"]) == ("success", None)
    assert [row["sex"] for row in found["chart"]["data"]] == ["F", "M", "X"]
    assert abs(sum(row["count"] for row in found["chart"]["data"]) - 50_000) < 1000
    assert found["chart again"] == found["chart"]
    assert [budget[0][2] for budget in found["budgets"]] == ["0", "0.25", "0.25"]


def test_a_statement_of_sql_lab_is_stopped(asked: tuple[Shop, dict[str, Any]]) -> None:
    shop, found = asked
    stopped, told = found["cancelled"]
    assert stopped == {"result": "OK"}
    assert "stopped" in told["error"]
    assert len(shop.outcomes("bob", "57014")) == 1
