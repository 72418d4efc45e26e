"""Apache Superset, from an environment of its own: databases, tables, the cookbook, a chart, cancelling."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.serve.clients.cookbook import STATEMENTS, Answered, differences
from tests.serve.clients.drivers import WHO
from tests.serve.clients.programs import environment
from tests.serve.clients.questions import LARGE, LONG, WRONG, WRONG_AT
from tests.serve.clients.shop import opened
from tests.serve.clients.subject import url

PYTHON = os.environ.get("DPSQL_SUPERSET", "")
pytestmark = [
    pytest.mark.superset,
    pytest.mark.skipif(not PYTHON, reason="DPSQL_SUPERSET does not name the Python that has apache-superset"),
]


def test_superset(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    asked = {"who": WHO, "cookbook": STATEMENTS, "wrong": WRONG, "large": LARGE, "long": LONG}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    kept = {name: value for name, value in environment().items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with opened(tmp_path / "shop") as shop:
        agreed = url(shop, "postgresql+psycopg2", "bob") + "&options=-c%20dp_epsilon%3D0.25"
        program = str(Path(__file__).with_name("in_superset.py"))
        done = subprocess.run(
            [
                *(PYTHON, program, str(tmp_path)),
                *(url(shop, "postgresql+psycopg2"), agreed, str(tmp_path / "asked.json")),
            ],
            env=kept,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["who"][1] == "alice"
        answers = [Answered(tuple(names), [tuple(row) for row in rows]) for names, rows in found["cookbook"]]
        assert differences(answers, shop.expected) == []
        assert set(found["browsed"]) == {"patients", "visits", "diagnoses"}
        assert found["browsed"]["patients"] == ["patient_id", "birth_year", "sex", "region"]
        assert found["refused"][1:] == ["42703", str(WRONG_AT)]
        assert found["large"] == 300 * 289
        status, rows, message, _ = found["chart"]
        assert (status, message) == ("success", None)
        assert abs(sum(count for _, count in rows) - 50_000) < 1000
        text, done_by = found["cancelled"]
        assert "cancelled" in text
        assert done_by == [True]
