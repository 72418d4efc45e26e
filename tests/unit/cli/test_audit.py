"""`dpsql audit`: mechanisms, and whole statements on neighbouring data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql import Policy
from dpsql.audit import Pair, detect
from dpsql.audit.end_to_end import neighbour
from dpsql.cli import main
from dpsql.cli.narrate import ExitCode
from dpsql.errors import ProgrammingError
from dpsql.kernel.tree import Cast, Expr
from dpsql.policy import load
from dpsql.types import HUGEINT
from tests.narrow import present

QUICK = ["-m", "anchor", "--trials", "400"]
PAGES = ("home", "cart", "help")
TOP = "SELECT WITH DIFFERENTIAL_PRIVACY page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 1"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small shop: visits of twelve users, and what they ordered."""
    monkeypatch.chdir(tmp_path)
    visits = [
        (user, page) for user in range(12) for page in PAGES if (user + len(page)) % 3 or page == "home"
    ]
    visits += [(3, "cart"), (3, "help")]
    columns = {"user_id": [user for user, _ in visits], "page": [page for _, page in visits]}
    pq.write_table(pa.table(columns), "visits.parquet")
    (tmp_path / "users.csv").write_text('user_id,town\n3,"Ely, Cambs"\n4,\n5,York\n', encoding="utf-8")
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute("CREATE TABLE orders AS SELECT 100 + i AS id, i AS user_id FROM range(12) r(i)")
        connection.execute(
            "CREATE TABLE items AS SELECT 100 + i // 2 AS order_id, i AS item FROM range(24) r(i)"
        )
        connection.execute("CREATE TABLE hits AS SELECT i AS hit, 'a' AS page FROM range(5) r(i)")
    (tmp_path / "dpsql.toml").write_text(
        """
        [database]
        path = "shop.duckdb"
        [budget]
        epsilon = 5
        delta = 1e-4
        default_epsilon = 1
        [tables.visits]
        source = "visits.parquet"
        unit = "user_id"
        unit_kind = "person"
        [tables.visits.domain]
        page.values = ["home", "cart", "help", "faq"]
        page.complete = true
        [tables.users]
        source = "users.csv"
        unit = "user_id"
        unit_kind = "person"
        columns = { user_id = "BIGINT", town = "VARCHAR" }
        [tables.orders]
        source = "orders"
        unit = "user_id"
        unit_kind = "person"
        unique = [["id"]]
        [tables.items]
        source = "items"
        unit = { via = "order_id", table = "orders", column = "id" }
        [tables.hits]
        source = "hits"
        unit = "ROW"
        """,
        encoding="utf-8",
    )
    return tmp_path


def ask(folder: Path, text: str, name: str = "q.sql") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


# -- mechanisms


def test_a_mechanism_of_dpsql_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *QUICK, "--epsilon", "1.5"]) == ExitCode.OK
    out, err = capsys.readouterr()
    assert re.search(r"│ anchor +│ +1\.5 │ passes +│", out)
    assert "1.0 ┤" in out
    assert "epsilon tested" in out
    assert "anchor: no counterexample at epsilon 1.5; epsilon is at least" in " ".join(out.split())
    assert "dpsql: audit 1 of 1: anchor, epsilon 1.5" in err
    assert "1 verdicts, all as they should be" in err


def test_a_known_mistake_is_found_and_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--all", "-m", "iSVT 1", "--trials", "2000", "--epsilon", "0.7"]) == ExitCode.OK
    out = " ".join(capsys.readouterr().out.split())
    assert "not private" in out
    assert "iSVT 1 is not private at epsilon 0.7: epsilon is at least" in out
    assert "and never there; allowed is e^0.7 = 2.014 times as often" in out


def test_an_unexpected_verdict_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Too few runs to find what is known to be there.
    arguments = ["audit", "--all", "-m", "iSVT 4", "--trials", "100", "--epsilon", "0.2"]
    assert main(arguments) == ExitCode.QUERY_FAILED
    out, err = capsys.readouterr()
    assert "PASSES" in out
    assert "dpsql: error: 1 of 1 verdicts are not as they should be" in err


def test_json_and_html(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    assert (
        main(["audit", *QUICK, "--epsilon", "1", "--epsilon", "2", "--json", "--html", str(page)])
        == ExitCode.OK
    )
    data = json.loads(capsys.readouterr().out)
    assert [audit["given_epsilon"] for audit in data["audits"]] == [1.0, 2.0]
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_report_in_ascii(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.audit import CATALOGUE, as_text, campaign
    from dpsql.render.grid import Style

    done = campaign([s for s in CATALOGUE if s.name == "anchor"], trials=400)
    text = as_text(done, Style(70, "ascii"))
    assert text.isascii()
    assert "epsilon >=" in text
    assert max(map(len, text.splitlines())) <= 100


def test_an_empty_campaign_has_a_word() -> None:
    from dpsql.audit import Campaign, as_text
    from dpsql.render.grid import Style

    assert as_text(Campaign((), 0.99, 0.01, 0.0), Style()) == "nothing was audited\n"


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--list"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "dpsql      anchor" in out
    assert "iSVT" not in out
    assert main(["audit", "--list", "--all", "-m", "isvt"]) == ExitCode.OK
    assert capsys.readouterr().out.count("incorrect  iSVT") == 4


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-m", "no such"], "no subject has no such in its name"),
        (["--epsilon", "abc"], "--epsilon: not a finite number"),
        (["--epsilon", "0"], "--epsilon must be greater than 0"),
        (["--epsilon", "21"], "--epsilon must be greater than 0, and at most 20"),
        (["--trials", "5"], "--trials"),
        (["-f", "q.sql", "--all"], "-f does not go with"),
        (["--remove-unit", "3"], "--remove-unit needs -f"),
        (["--html", "/no/such/folder/a.html"], "cannot write /no/such/folder/a.html"),
    ],
)
def test_wrong_usage(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *arguments]) == ExitCode.USAGE
    assert text in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--help"]) == ExitCode.OK
    assert "--remove-unit" in capsys.readouterr().out


# -- whole statements


def test_a_statement_through_the_whole_of_dpsql(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(shop, f"SET dp_epsilon = 2;\nSHOW TABLES;\n{TOP};\n")
    assert main(["audit", "-f", "q.sql", "--remove-unit", "--trials", "100"]) == ExitCode.OK
    out, err = capsys.readouterr()
    words = " ".join(out.split())
    assert "q.sql:3: no counterexample at epsilon 2;" in words
    assert "D1 = the data" in words
    assert "the data without person 3" in words
    assert "warning: for the owner, on test data" in err
    assert "q.sql:3: 300 runs, on the data and without one unit" in err
    assert not (shop / "dpsql-ledger.sqlite").exists(), (
        "nothing is charged, the policy's ledger is not touched"
    )


@pytest.mark.longer
def test_a_statement_without_noise_is_caught(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from dpsql.kernel.mechanisms import NoiseSource

    silent = lambda _source, _noise, _scale, _bits, size: np.zeros(size, dtype=np.int64)  # noqa: E731
    monkeypatch.setattr(NoiseSource, "draw", silent)
    flat = lambda _source, _rate, dimension, trials: np.zeros((trials, dimension), dtype=np.int64)  # noqa: E731
    monkeypatch.setattr(NoiseSource, "box", flat)
    ask(shop, TOP)
    assert main(["audit", "-f", "q.sql", "--trials", "100"]) == ExitCode.QUERY_FAILED
    out, err = capsys.readouterr()
    assert "q.sql:1 is not private at epsilon 1" in " ".join(out.split())
    assert "1 of 1 verdicts are not as they should be" in err


SUMS = (
    "SELECT SUM(length(page), contribution_bounds_per_group => (0, 6)) FROM visits",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 2) page, "
    "AVG(length(page), contribution_bounds_per_row => (0, 6)) AS a FROM visits GROUP BY page",
)


@pytest.mark.slow
def test_sums_and_averages_are_private(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(shop, ";\n".join(SUMS))
    assert main(["audit", "-f", "q.sql", "--remove-unit", "--trials", "100"]) == ExitCode.OK
    words = " ".join(capsys.readouterr().out.split())
    assert "q.sql:1: no counterexample at epsilon 1;" in words
    assert "q.sql:2: no counterexample at epsilon 1;" in words


@pytest.mark.parametrize(
    ("place", "slip"),
    [
        pytest.param(
            "grids.Grid.total", lambda _grid, value, **_single: Cast(value, HUGEINT), marks=pytest.mark.slow
        ),
        pytest.param("released.sums._weighted", lambda number, _most, _whole: number, marks=pytest.mark.slow),
    ],
    ids=["totals are not cut", "rows are not weighted"],
)
def test_sums_that_no_bound_cuts_are_caught(
    shop: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    slip: Callable[..., Expr],
) -> None:
    """The unit with the most rows moves the total by 240 instead of 6, or by 60 rows instead of 2."""
    monkeypatch.setattr(f"dpsql.analysis.{place}", slip)
    many = pa.table({"user_id": [*range(12), *[3] * 60], "page": ["home"] * 72})
    pq.write_table(many, "visits.parquet")
    ask(shop, SUMS["_weighted" in place])
    assert main(["audit", "-f", "q.sql", "--remove-unit", "--trials", "100"]) == ExitCode.QUERY_FAILED
    assert "q.sql:1 is not private at epsilon 1" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_statement_with_delta_and_unknown_keys(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TOP.replace("visits", "users").replace("page", "town").replace("TOP 1", "TOP 2")
    ask(shop, text.replace("PRIVACY", "PRIVACY OPTIONS (epsilon = 1, delta = 1e-5)"))
    assert main(["audit", "-f", "q.sql", "--remove-unit", "3", "--trials", "100", "--json"]) == ExitCode.OK
    audited = json.loads(capsys.readouterr().out)["audits"][0]
    assert audited["delta"] == pytest.approx(1e-5)
    assert audited["counterexample"]["pattern"] == "person 3 removed, 9 rows"


@pytest.mark.longer
def test_statements_over_parts_are_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest budget by parts is 1,000; a statement of epsilon 5 uses it up within 200 of 300 runs."""
    monkeypatch.chdir(tmp_path)
    duckdb.sql(
        "COPY (SELECT i AS user_id, DATE '2024-01-01' + CAST(i AS INTEGER) AS day FROM range(12) t(i)) "
        "TO 'people.parquet'"
    )
    (tmp_path / "dpsql.toml").write_text(
        """
        [budget]
        epsilon = 5
        max_epsilon_per_query = 5
        [parts.person]
        table = "people"
        column = "day"
        every = "week"
        [tables.people]
        source = "people.parquet"
        unit = "user_id"
        unit_kind = "person"
        unique = [["user_id"]]
        """,
        "utf-8",
    )
    (tmp_path / "q.sql").write_text(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 5) COUNT(*) FROM people"
        " WHERE day < DATE '2024-01-08'"
    )
    assert main(["audit", "-f", "q.sql", "--remove-unit", "3", "--trials", "100"]) == ExitCode.OK


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("SHOW TABLES;", ExitCode.USAGE, "q.sql has no private statement"),
        ("SELECT user_id FROM visits;", ExitCode.REFUSED, ""),
        (f"{TOP};", ExitCode.QUERY_FAILED, "there is no person 99"),
    ],
)
def test_statements_that_cannot_be_audited(
    shop: Path, capsys: pytest.CaptureFixture[str], text: str, code: ExitCode, words: str
) -> None:
    ask(shop, text)
    assert main(["audit", "-f", "q.sql", "--remove-unit", "99", "--trials", "100"]) == code
    assert words in capsys.readouterr().err


def rows(policy: Policy, table: str) -> list[tuple[int | str, int | str | None]]:
    """What a policy's table holds."""
    source = present(policy.table(table)).source
    with duckdb.connect() as connection:
        if hasattr(source, "path"):
            return sorted(connection.execute(f"SELECT * FROM '{source.path}'").fetchall(), key=str)
        connection.execute(f"ATTACH '{policy.database}' AS d (READ_ONLY)")
        return sorted(connection.execute(f"SELECT * FROM d.{source.table}").fetchall())


def test_a_unit_is_removed_wherever_it_has_rows(shop: Path) -> None:
    policy = load("dpsql.toml")
    without = neighbour(policy, ["visits"], "3", shop)
    assert without.removed == "person 3"
    assert without.rows == 5 + 1 + 1 + 2
    assert {row[0] for row in rows(without.policy, "visits")} == set(range(12)) - {3}
    assert rows(without.policy, "users") == [("4", None), ("5", "York")]
    assert [row[1] for row in rows(without.policy, "orders")] == [u for u in range(12) if u != 3]
    assert [row[1] for row in rows(without.policy, "items")] == [i for i in range(24) if i not in (6, 7)]
    assert len(rows(without.policy, "hits")) == 5
    # The owner's own files are as they were.
    assert len(rows(policy, "orders")) == 12
    assert present(without.policy.table("visits")).domain == present(policy.table("visits")).domain


def test_a_unit_is_removed_at_the_end_of_every_path(tmp_path: Path) -> None:
    """Over three hops, through files and tables of the database: all rows whose chain ends at the unit."""
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE encounters AS SELECT i AS e, i % 5 AS u FROM range(10) AS r(i)")
        connection.execute("CREATE TABLE results AS SELECT i AS r, i % 20 AS o FROM range(40) AS r(i)")
        connection.execute(
            f"COPY (SELECT i AS o, i % 10 AS e FROM range(20) AS r(i)) TO '{tmp_path}/o.parquet'"
        )
        connection.execute(
            f"COPY (SELECT i % 40 AS r, i AS n FROM range(80) AS r(i)) TO '{tmp_path}/n.parquet'"
        )
    links = {"orders": ("o.parquet", "e", "encounters", "o"), "results": ("results", "o", "orders", "r")}
    links["notes"] = ("n.parquet", "r", "results", "n")
    text = '[budget]\nepsilon = 1\n[database]\npath = "d.duckdb"\n'
    for name, (source, via, parent, key) in links.items():
        unit = f'unit = {{ via = "{via}", table = "{parent}", column = "{via}" }}'
        text += f'[tables.{name}]\nsource = "{source}"\n{unit}\nunique = [["{key}"]]\n'
    text += '[tables.encounters]\nsource = "encounters"\nunit = "u"\nunique = [["e"]]\n'
    (tmp_path / "dpsql.toml").write_text(text)
    folder = tmp_path / "scratch"
    folder.mkdir()
    without = neighbour(load(tmp_path / "dpsql.toml"), ["notes"], "3", folder)
    assert (without.removed, without.rows) == ("unit 3", 2 + 4 + 8 + 16)
    for table, column in (("encounters", 0), ("orders", 0), ("results", 0), ("notes", 0)):
        assert not [row for row in rows(without.policy, table) if int(str(row[column])) % 5 == 3]


def test_the_unit_with_the_most_rows_is_removed_by_default(shop: Path) -> None:
    assert neighbour(load("dpsql.toml"), ["items"], None, shop).removed == "person 0"
    assert neighbour(load("dpsql.toml"), ["visits"], None, shop).removed == "person 3"


def test_a_row_is_removed_where_rows_are_units(shop: Path) -> None:
    without = neighbour(load("dpsql.toml"), ["hits"], "2", shop)
    assert (without.removed, without.rows) == ("row 2 of hits", 1)
    assert [row[0] for row in rows(without.policy, "hits")] == [0, 2, 3, 4]
    assert len(rows(without.policy, "orders")) == 12


@pytest.mark.parametrize(
    ("tables", "unit"), [(["hits"], "none"), (["hits"], "9"), (["visits"], "ann"), ([], "1")]
)
def test_units_that_are_not_there(shop: Path, tables: list[str], unit: str) -> None:
    with pytest.raises(ProgrammingError):
        neighbour(load("dpsql.toml"), tables, unit, shop)


def test_statements_and_mechanisms_share_one_detector() -> None:
    # A pair of anything will do: that is what the whole path hands over.
    verdict = detect(lambda side, trials, _: [side] * trials, 1, inputs=[Pair("p", "a", "b")], trials=100)
    assert verdict.violated


def test_released_whole_numbers_are_numbers_besides_labels() -> None:
    # A noisy count that is rounded is a BIGINT; sums and intervals are looked for among numbers alone.
    from types import SimpleNamespace

    from dpsql.audit import read
    from dpsql.audit.end_to_end import _lay_out

    tables = [pa.table({"page": ["home"] * k, "n": [7] * k}) for k in (1, 2)]
    charge = SimpleNamespace(epsilon=1)
    runs: list[Any] = [
        SimpleNamespace(release=SimpleNamespace(table=table, charge=charge, parts=())) for table in tables
    ]
    outputs = read(_lay_out(runs), 2)
    assert outputs.labels["n"].tolist() == [["7", ""], ["7", "7"]]
    assert outputs.values["n as a number"][1].tolist() == [7.0, 7.0]
    assert outputs.values["n as a number"][0, 0] == 7.0
