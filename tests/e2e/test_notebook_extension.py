"""`%load_ext dpsql`: prices before answers, also over jupysql's connection, and refusals alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from dpsql import dbapi
from dpsql.errors import ProgrammingError, QueryRefused
from dpsql.notebook import Extension, own_error

WRONG = "SELECT pge, COUNT(*) AS n FROM visits GROUP BY pge"
RIGHT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(DISTINCT patient_id) AS n FROM visits"


def run(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=folder,
        # jupysql counts its users over the network unless told not to, and imports Spark where it is
        # installed, which warns of pandas.
        env={
            **os.environ,
            "HOME": str(folder),
            "PLOOMBER_STATS_ENABLED": "false",
            "PYTHONWARNINGS": "ignore::FutureWarning",
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


SHELL = """
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
def cell(name, text):
    print("##", name)
    print("success", shell.run_cell(text).success)
cell("load", "%load_ext dpsql")
cell("no connection", "%%dpsql\\nSELECT 1 AS a")
cell("connect", "import dpsql; con = dpsql.connect({policy!r}, analyst='alice')")
cell("wrong", "%%dpsql con\\n{wrong}")
cell("price", "%%dpsql con --price\\n{right}")
cell("too much", "%%dpsql con --at-most 0.25\\n{right}")
cell("ask", "%%dpsql con --at-most 0.5 --into kept\\n{right}")
cell("kept", "print(len(kept.fetchall()), con.budget().spent.epsilon)")
cell("budget", "%%dpsql\\nSHOW PRIVACY BUDGET")
cell("pandas", "import pandas; pandas.read_sql({wrong!r}, 'dpsql:///{policy}?analyst=alice')")
cell("own", "1 / 0")
cell("from", "try:\\n    con.sql({wrong!r})\\nexcept dpsql.Error as e:\\n    raise KeyError('mine') from e")
cell("sql", "%load_ext sql")
cell("bob", "%sql dpsql:///{policy}?analyst=bob")
cell("as bob", "%%dpsql --into his\\n{right}")
cell("his", "print(his.connection.budget().spent.epsilon)")
cell("its own", "%%sql\\n{wrong}")
"""


def test_a_shell_shows_prices_and_refusals(clinic: Path) -> None:
    shown = run(SHELL.format(policy=str(clinic), wrong=WRONG, right=RIGHT), clinic.parent)
    parts = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", shown, re.MULTILINE))
    assert "there is no connection yet\nHint: dpsql.connect(..)" in parts["no connection"]
    refused = parts["wrong"].splitlines()
    assert refused[0] == "QueryRefused: there is no column pge"
    assert refused[2].endswith("^")
    assert len(refused) < 10
    assert "success False" in parts["wrong"]
    assert "<Explanation: costs epsilon 0.5; epsilon 10, delta 1e-5 is left>" in parts["price"]
    assert "costs epsilon 0.5 and may cost at most 0.25; nothing was charged" in parts["too much"]
    asked = parts["ask"]
    assert asked.index("costs epsilon 0.5") < asked.index("<Release: count>"), "the price comes first"
    assert "1 1/2" in parts["kept"], "the cursor is kept, and one statement was charged"
    assert "success True" in parts["budget"]
    assert "QueryRefused: there is no column pge" in parts["pandas"]
    assert "Traceback" not in parts["pandas"]
    assert "ZeroDivisionError" in parts["own"]
    assert "Traceback" in parts["own"]
    assert "KeyError: 'mine'" in parts["from"], "an error of the user's own code stays what it is"
    assert "costs epsilon 0.5" in parts["as bob"]
    assert "1/2" in parts["his"], "it was asked over the connection of jupysql"
    assert "there is no column pge" in parts["its own"]
    assert "Traceback" not in parts["its own"]


KERNEL = """
import nbformat
from nbclient import NotebookClient
cells = ["import dpsql; con = dpsql.connect({policy!r}, analyst='alice')", "%load_ext dpsql",
    "%%dpsql con\\n{wrong}", "%%dpsql con\\n{right}", "con.sql({wrong!r})", "1 / 0"]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
nbformat.write(notebook, "executed.ipynb")
"""


def test_a_notebook_shows_a_refusal_as_html_with_its_caret(clinic: Path) -> None:
    run(KERNEL.format(policy=str(clinic), wrong=WRONG, right=RIGHT), clinic.parent)
    cells = nbformat.read(clinic.parent / "executed.ipynb", 4).cells
    for place in (2, 4):
        shown, failed = cells[place].outputs
        html = shown.data["text/html"]
        assert html.startswith('<pre class="dpsql" role="alert"')
        line, caret = html.splitlines()[1:3]
        assert caret.index("^") == line.index("pge")
        assert "Hint: " in html
        assert shown.data["text/plain"].startswith("QueryRefused: there is no column pge")
        assert (failed.output_type, failed.ename, failed.traceback) == ("error", "QueryRefused", [""])
    price, answer = cells[3].outputs
    assert price.text.startswith("costs epsilon 0.5; epsilon 10, delta 1e-5 is left")
    assert "<svg" in answer.data["text/html"]
    assert "Number with its range" in answer.data["text/html"]
    assert "ZeroDivisionError" in "".join(cells[5].outputs[0].traceback)


def test_what_is_charged_is_never_more_than_what_was_shown(clinic: Path) -> None:
    with dbapi.connect(clinic, analyst="alice") as con:
        for amount in ("x", "-1", float("nan")):
            with pytest.raises(ProgrammingError, match="a limit is an epsilon"):
                con.sql(RIGHT, at_most=amount)
        with pytest.raises(dbapi.NotSupportedError, match=r"may cost at most 0\.1; nothing was charged"):
            con.sql(RIGHT, at_most=0.1)
        assert not con.budget().spent.epsilon
        assert con.sql("SELECT 1 AS a", at_most=0).fetchall() == [(1,)]
        assert len(con.sql(RIGHT, at_most=0.5).fetchall()) == 1
        assert len(con.sql(RIGHT, at_most=0).fetchall()) == 1, "it is stored now"


def test_errors_of_other_packages_are_not_taken_for_ours() -> None:
    refused = QueryRefused("no")
    assert own_error(refused) is refused
    mine = KeyError("mine")
    mine.__cause__ = refused
    assert own_error(mine) is None
    wrapped = type("DBAPIError", (Exception,), {"__module__": "sqlalchemy.exc"})()
    wrapped.__cause__ = refused
    assert own_error(wrapped) is refused


@pytest.mark.parametrize("line", ["--what", "a b", "--at-most", "--into 1x", "nothing"])
def test_a_wrong_line_is_told_how_it_is_written(line: str) -> None:
    shell = type("Shell", (), {"user_ns": {}})()
    with pytest.raises(ProgrammingError, match="Hint: "):
        Extension(shell).run_cell(line, "SELECT 1")
