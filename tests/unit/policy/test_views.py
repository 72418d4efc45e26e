"""Views of the policy file: what is read, and that a mistake in one is found when the policy is loaded."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from dpsql.errors import PolicyError
from dpsql.policy import Policy, View, load

TABLES = """
[budget]
epsilon = 1
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.pages]
source = "pages.csv"
columns = { page = "VARCHAR" }
public = true
"""


def policy(folder: Path, text: str) -> Policy:
    for name in ("visits.parquet", "pages.csv"):
        (folder / name).touch()
    (folder / "dpsql.toml").write_text(TABLES + text)
    return load(folder / "dpsql.toml")


def views(**sqls: str) -> str:
    return "".join(f"[views.{name}]\nsql = '''{sql}'''\n" for name, sql in sqls.items())


def test_views_are_read_and_found_without_case(tmp_path: Path) -> None:
    sql = "WITH visits AS (SELECT * FROM Visits) SELECT * FROM visits JOIN main.PAGES USING (page)"
    found = policy(tmp_path, views(both=sql, more="SELECT page FROM Both, range(3)"))
    assert dict(found.views) == {"both": View("both", sql), "more": View("more", found.views["MORE"].sql)}
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (views(a="SELECT page FROM vists"), "views.a.sql: there is no table 'vists'"),
        (views(a="SELECT (SELECT n FROM b)"), "views.a.sql: there is no table 'b'"),
        (views(a="WITH t AS (SELECT * FROM t) SELECT * FROM t"), "views.a.sql: there is no table 't'"),
        (views(a="SELECT FROM FROM"), "views.a.sql: syntax error"),
        (views(a="SELECT 1; SELECT 2"), "views.a.sql: one statement at a time"),
        (views(a="SELECT $x FROM visits"), "views.a.sql: "),
        (views(a="DELETE FROM visits"), "views.a.sql: DELETE statements are not run"),
        (views(a="SHOW TABLES"), "views.a.sql: a view is one SELECT"),
        (views(a="EXPLAIN SELECT 1"), "views.a.sql: a view is one SELECT"),
        (
            views(a="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 9) 1"),
            "a view has no privacy options",
        ),
        (
            views(a="SELECT * FROM (SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM visits)"),
            "a view has no privacy options",
        ),
        (views(a="SELECT page FROM visits GROUP BY page TOP 3"), "no clause that selects groups"),
        (views(Visits="SELECT 1"), "views.Visits: is the name of a table as well"),
        (views(a="SELECT 1", A="SELECT 1"), "'a' and 'A' are the same name"),
        ('[views."a\\u00e9"]\nsql = "SELECT 1"', "printable ASCII"),
        (views(a="SELECT * FROM a"), "views.a.sql: the view reads itself"),
        (views(a="SELECT * FROM b", b="SELECT * FROM main.C", c="SELECT (SELECT 1 FROM a)"), "reads itself"),
        ("[views.a]", "views.a.sql: is required"),
        ("[views.a]\nsql = 1", "views.a.sql: expected text"),
        ('[views.a]\nsql = "SELECT 1"\nepsilon = 1', "views.a.epsilon: unknown key"),
        ("[views]\na = 'SELECT 1'", "views: expected views"),
    ],
)
def test_a_mistake_is_found_when_the_policy_is_loaded(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(tmp_path, text)
    assert error in str(caught.value)


def test_views_may_read_each_other_in_any_order_and_often(tmp_path: Path) -> None:
    chain = {f"v{i}": f"SELECT * FROM v{i + 1} JOIN v{i + 2} USING (page)" for i in range(60)}
    found = policy(tmp_path, views(**chain, v60="SELECT * FROM visits", v61="SELECT * FROM v60"))
    assert len(found.views) == 62


def test_views_given_in_python_are_checked_as_well(tmp_path: Path) -> None:
    given = policy(tmp_path, "")
    with pytest.raises(PolicyError, match="holds a view named 'b'"):
        Policy(budget=given.budget, tables=given.tables, views={"a": View("b", "SELECT 1")})
