"""`dpsql bounds`: what it lists, asks, charges, refuses and shows."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.cli import main
from dpsql.cli.narrate import ExitCode
from dpsql.database import Engines
from dpsql.estimates import KeptLadder
from dpsql.ledger import Ledger
from dpsql.owner import ladder_listing
from dpsql.policy import load
from dpsql.render.grid import width

POLICY = """
[budget]
epsilon = 1000
default_epsilon = 20
ledger = "ledger.sqlite"
high_water = false
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "person"
[tables.people]
source = "people.parquet"
unit = "user_id"
unit_kind = "person"
unique = [["user_id"]]
[tables.people.bounds]
age = { from = 0, to = 120 }
[tables.events]
source = "events.parquet"
unit = "ROW"
[tables.pages]
source = "pages.parquet"
public = true
"""
TABLES = {
    # 40 persons with 3 rows, 30 with 6, one with 40; whoever has n rows has 1.50 n of cost.
    "visits": """
        SELECT u AS user_id, 1.5::DECIMAL(8,2) AS cost, -2 AS minutes, 'x' AS note, u * 10 AS page_id
        FROM range(71) AS r(u), range(CASE WHEN u < 40 THEN 3 WHEN u < 70 THEN 6 ELSE 40 END) AS s(i)""",
    "people": "SELECT u AS user_id, 30 AS age, 2.5 AS score FROM range(71) AS r(u)",
    "events": "SELECT i AS size FROM range(10) AS r(i)",
    "pages": "SELECT i AS page, 'p' AS title FROM range(10) AS r(i)",
}


def write(folder: Path, tables: dict[str, str]) -> None:
    for name, sql in tables.items():
        duckdb.sql(f"COPY ({sql}) TO '{folder / name}.parquet' (FORMAT parquet)")


@dataclass
class Done:
    code: int
    out: str
    err: str


class Owner:
    """An owner's folder, and the command in it, with nobody at a terminal unless answers are typed."""

    def __init__(
        self,
        folder: Path,
        tables: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        self.path, self.folder = folder / "dpsql.toml", folder
        self._monkeypatch, self._capfd = monkeypatch, capfd
        self.policy = POLICY
        shutil.copytree(tables, folder, dirs_exist_ok=True)

    def put(self, table: str, sql: str) -> None:
        write(self.folder, {table: sql})

    def __call__(self, *args: str, typed: str | None = None, columns: int = 80) -> Done:
        self.path.write_text(self.policy)
        stdin = io.StringIO(typed or "")
        self._monkeypatch.setattr(stdin, "isatty", lambda: typed is not None, raising=False)
        self._monkeypatch.setattr(sys, "stdin", stdin)
        self._monkeypatch.setenv("COLUMNS", str(columns))
        code = main(["-p", str(self.path), "--width", str(columns), *args])
        done = Done(code, *self._capfd.readouterr())
        assert "Traceback" not in done.err
        assert "internal error" not in done.err
        return done

    def spent(self, analyst: str | None = None) -> Fraction | int:
        with Ledger.of(load(self.path)) as ledger:
            return ledger.budget(analyst).spent.epsilon

    def ladders(self) -> list[KeptLadder]:
        with Ledger.of(load(self.path)) as ledger:
            return [KeptLadder.from_json(each.payload.decode()) for each in ledger.ladders()]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write(folder, TABLES)
    return folder


@pytest.fixture
def owner(
    tmp_path: Path, tables: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Owner:
    return Owner(tmp_path, tables, monkeypatch, capfd)


def cells(done: Done, heading: str) -> list[list[str]]:
    """Return the cells of the table that has this heading."""
    tables = [part.splitlines() for part in done.out.split("┌")[1:]]
    (found,) = [lines for lines in tables if heading in lines[1]]
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in found[1:] if line.startswith("│")]


def test_what_can_be_asked(owner: Owner) -> None:
    """Not keys, rows that are units, the table of persons with one row, or its columns with bounds."""
    done = owner("bounds")
    assert (done.code, owner.spent()) == (0, 0)
    names = "visits, visits.cost, visits.minutes, people.score"
    assert done.out.replace("\n", " ") == f"no ladder is kept can be asked, at epsilon 50 each: {names} "


def test_a_ladder_is_charged_to_everybody_and_shown(owner: Owner) -> None:
    owner.policy += "[analysts.ada]\nepsilon = 500\n[analysts.'*']\nepsilon = 400\n"
    done = owner("bounds", "visits", "--yes")
    assert done.code == 0, done.err
    assert done.err.splitlines()[-4:] == [
        "dpsql: visits: epsilon 50",
        "dpsql: charged to the policy, to every analyst and to every group, those who come later included",
        "dpsql: least is left of each new analyst (*): 400 of 400",
        "dpsql: charged: epsilon 50; least is left of each new analyst (*): 350 of 400",
    ]
    assert [owner.spent(name) for name in (None, "ada", "who comes later")] == [50, 50, 50]
    (ladder,) = owner.ladders()
    assert (ladder.table, ladder.measure, ladder.epsilon) == ("visits", "rows", Fraction(50))
    # M is twice the first power of two that nobody exceeds by much; t powers more with at most e^(-5 t/2)/2.
    assert ladder.most in [128 << t for t in range(7)]
    heading, *rows = cells(done, "persons")
    assert heading[:2] == ["rows", "persons"]
    assert [row[:2] for row in rows if not row[1].startswith("0 ")] == [
        ["3 to 4", "40 ± 0"],
        ["6 to 8", "30 ± 0"],
        ["33 to 45", "1 ± 0"],
    ]
    assert done.out.startswith("visits: rows of a person (ladder 1, epsilon 50)\n")
    assert done.out.splitlines()[-1] == f"taken for granted: no person has more than {2 * ladder.most:,} rows"
    assert "in all about 71 persons" in done.out
    assert (
        "a statement with epsilon 20 over the whole table counts rows of a person up to 45"
        in done.out.replace("\n", " ")
    )


def test_statements_then_use_it(owner: Owner) -> None:
    statement = "SELECT COUNT(*) FROM visits"
    owner("bounds", "visits", "--yes")
    done = owner("--format", "csv", "-c", statement)
    assert done.code == 0, done.err
    assert "left out: rows of a person beyond 45 in visits" in done.err
    assert abs(float(done.out.split()[1]) - (40 * 3 + 30 * 6 + 40)) < 60


def test_totals_are_shown_in_the_unit_of_the_column(owner: Owner) -> None:
    done = owner("bounds", "VISITS.cost", "visits.minutes", "Visits.COST", "--yes")
    assert done.code == 0, done.err
    assert "dpsql: visits.cost, visits.minutes: epsilon 50 each, 100 together" in done.err
    assert owner.spent() == 100
    assert "visits.cost: total of cost of a person (ladder 1, epsilon 50)" in done.out
    assert "visits.minutes: total of minutes of a person (ladder 2, epsilon 50)" in done.out
    cost, minutes = (cells(done, heading) for heading in ("cost ", "minutes "))
    # 4.50, 9.00 and 60.00 lie in the bins of hundredths up to a power of the square root of two.
    found = [(row[0], row[1].split()[0]) for row in cost[1:]]
    assert [each for each in found if each[1] != "0"] == [
        ("3.63 to 5.12", "40"),
        ("7.25 to 10.24", "30"),
        ("57.93 to 81.92", "1"),
    ]
    assert sum(int(row[1].split()[0]) for row in minutes[1:]) == 71


def test_the_groups_of_a_unit_are_shown_and_used(owner: Owner) -> None:
    """A person with n visits is on n of the 300 days, of which those from 40 on nobody is."""
    owner.put("visits", TABLES["visits"].replace("'x' AS note", "i AS day, i // 2 AS ward, 'x' AS note"))
    owner.policy += "[tables.visits.domain]\nday = { from = 0, to = 299 }\nward = { from = 0, to = 9 }\n"
    assert "visits.ward, visits by day, people.score" in owner("bounds").out.replace("\n", " ")
    done = owner("bounds", "visits by WARD, day", "visits BY day", "visits by note", "--yes", columns=200)
    assert done.code == 0, done.err
    assert owner.spent() == 150
    assert 'dpsql: "visits by day, ward", visits by day, visits by note: epsilon 50 each' in done.err
    assert "visits by day: groups of a person (ladder 2, epsilon 50)" in done.out
    assert "in all about 71 persons, 385 groups" in done.out
    unknown = "how much that leaves out no answer knows: the values of the groups are not declared"
    assert done.out.splitlines()[-1] == unknown
    assert [each.measure for each in owner.ladders()] == [
        "groups by day, ward",
        "groups by day",
        "groups by note",
    ]
    with Ledger.of(load(owner.path)) as ledger:
        (asked,) = {each.statement for each in ledger.ladders()}
    assert asked == 'dpsql bounds "visits by day, ward" "visits by day" "visits by note"'
    listed = owner("bounds", "--json")
    found = {each["name"]: each for each in json.loads(listed.out)["ladders"]}
    assert list(found) == ["visits by day", "visits by day, ward", "visits by note"]
    assert found["visits by day"]["left_out"]["estimate"] >= 0
    assert found["visits by note"]["left_out"] is None
    statement = "SELECT day, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY day"
    done = owner("--format", "csv", "-c", statement, columns=200)
    assert done.code == 0, done.err
    assert "left out: groups of a person beyond " in done.err
    again = owner("bounds", "visits by day", "--yes")
    assert (again.code, owner.spent()) == (2, 170)
    assert "visits by day is kept of these data already" in again.err
    assert "groups by day over the whole table: by the kept ladder" in owner("check").out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("people by age", "a person is in one group by age: no statement needs a bound"),
        ("events by size", "each row of events is a unit"),
        ("pages by title", "pages is public: nothing in it is bounded"),
        ("visits by page", "visits has no column page"),
    ],
)
def test_groups_that_no_statement_bounds_are_refused_uncharged(owner: Owner, name: str, said: str) -> None:
    done = owner("bounds", name, "--yes")
    assert (done.code, owner.spent()) == (ExitCode.USAGE, 0)
    assert said in done.err.replace("\n", " ")


BOUNDED = "[tables.visits.bounds]\ncost = { from = 0, to = 1 }\n"


def test_what_values_have_beyond_bounds_is_measured_and_shown(owner: Owner) -> None:
    """Each of the 340 visits costs 1.50, half a unit beyond the bounds."""
    owner.policy += BOUNDED
    done = owner("bounds", "visits.cost", "visits", "--yes")
    assert done.code == 0, done.err
    assert "is not measured" not in done.err
    assert owner.spent() == 100
    assert "visits.cost: total of cost of a person (ladder 2, epsilon 50)" in done.out
    said = done.out.replace("\n", " ")
    assert "values of cost beyond 0 to 1, on average over all: 0." in said
    assert "(epsilon 10 of it)" in said
    (_, cost) = json.loads(owner("bounds", "visits", "visits.cost", "--again", "--yes", "--json").out)[
        "ladders"
    ]
    assert cost["exact"] == "50"
    found = cost["values_beyond"]
    assert (found["bounds"], found["exact"]) == ([0, 1], "10")
    assert 0.45 < found["mean_above"]["estimate"] < found["mean_above"]["at_most"] < 0.55
    assert found["mean_below"]["estimate"] < 0.05


def test_without_a_number_of_rows_it_is_not_and_that_is_told(owner: Owner) -> None:
    owner.policy += BOUNDED
    done = owner("bounds", "visits.cost", "--yes")
    assert "how much of visits.cost lies beyond its bounds is not measured" in done.err
    assert "ask dpsql bounds visits first, or with it" in done.err
    assert "values of cost beyond" not in done.out


def test_nobody_at_a_terminal_has_to_agree_by_an_option(owner: Owner) -> None:
    done = owner("bounds", "visits")
    assert (done.code, done.out, owner.spent()) == (ExitCode.USAGE, "", 0)
    assert "epsilon 50" in done.err
    assert "nothing was charged\nHint: --yes" in done.err


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_who_does_not_agree_is_not_charged(owner: Owner, answer: str) -> None:
    done = owner("bounds", "visits", typed=answer)
    assert (done.code, owner.spent(), owner.ladders()) == (ExitCode.INTERRUPTED, 0, [])
    assert "Charge it? [y/N]" in done.err
    assert "nothing was charged" in done.err


def test_who_agrees_is(owner: Owner) -> None:
    done = owner("bounds", "visits", "--epsilon", "1/3", typed="y\n")
    assert (done.code, owner.spent()) == (0, Fraction(1, 3)), done.err
    assert "visits: epsilon 0.3334\n" in done.err


def test_what_is_kept_of_these_data_is_measured_again_only_when_asked(owner: Owner) -> None:
    assert owner("bounds", "visits", "--yes").code == 0
    done = owner("bounds", "visits.cost", "visits", "--yes")
    assert (done.code, done.out, owner.spent()) == (ExitCode.USAGE, "", 50)
    assert "visits is kept of these data already" in done.err
    assert "Hint: " in done.err
    assert "--again" in done.err
    assert owner("bounds", "visits", "--yes", "--again", "--epsilon", "10").code == 0
    assert (owner.spent(), [each.number for each in owner.ladders()]) == (60, [1, 2])
    listed = owner("bounds")
    ((name, made, epsilon, *_),) = cells(listed, "ladder")[1:]
    assert (name, len(made), epsilon) == ("visits", 10, "10"), "the newest holds"
    assert listed.out.endswith(
        "can be asked, at epsilon 50 each: visits.cost, visits.minutes, people.score\n"
    )


def test_the_list_says_what_a_bound_leaves_out(owner: Owner) -> None:
    owner("bounds", "visits", "visits.cost", "--yes")
    before = owner.spent()
    done = owner("bounds")
    heading, *rows = cells(done, "ladder")
    assert heading == ["ladder", "made", "epsilon", "bound", "left out", "at most"]
    ladder = owner.ladders()[0]
    bound = ladder.choose_bound(Fraction(20))
    assert [row[0] for row in rows] == ["visits", "visits.cost"]
    assert rows[0][3] == str(bound) == "45"
    assert float(rows[0][5]) == pytest.approx(ladder.most_cut(bound), rel=0.01)
    assert "a statement with epsilon 20 over the whole table" in done.out.replace("\n", " ")
    assert owner.spent() == before


def test_a_ladder_of_other_data_tells_no_sizes(owner: Owner) -> None:
    owner("bounds", "visits", "--yes")
    owner.put("visits", TABLES["visits"].replace("range(71)", "range(70)"))
    done = owner("bounds")
    (row,) = cells(done, "ladder")[1:]
    assert row[3:] == ["older data", "45", "?", "?"]
    assert "each: visits, visits.cost" in done.out
    assert owner("bounds", "visits", "--yes").code == 0, "it is not kept of these data"
    assert "older data" not in owner("bounds").out
    owner.policy = POLICY.replace(
        'unit = "user_id"\nunit_kind = "person"\n[tables.people]', 'unit = "page_id"\n[tables.people]'
    )
    assert cells(owner("bounds"), "ladder")[1][3] == "other units"


def test_json(owner: Owner) -> None:
    done = owner("bounds", "visits", "visits.cost", "--yes", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["charged"] == {"epsilon": 100.0, "exact": "100"}
    rows, cost = found["ladders"]
    assert (rows["name"], rows["measure"], rows["release"], rows["unit"]) == ("visits", "rows", 1, "person")
    assert (cost["name"], cost["measure"], cost["release"]) == ("visits.cost", "total of cost", 2)
    assert (rows["bound"], rows["statement_epsilon"], rows["of"]) == (45, 20, "these data")
    assert rows["units"] == sum(each["units"] for each in rows["bins"]) == 71
    assert rows["bins"][-1] | {"units": 0} == {"above": 128, "to": None, "units": 0, "half_width": 0}
    assert rows["assumes_none_beyond"] == 256
    assert set(rows["left_out"]) == {"estimate", "at_most"}
    listed = json.loads(owner("--format", "json", "bounds").out)
    assert listed["ladders"] == found["ladders"]
    assert listed["can_be_asked"] == ["visits.minutes", "people.score"]
    assert listed["price"] == {"epsilon": 50.0, "exact": "50"}


def test_what_is_shown_is_what_was_released(owner: Owner) -> None:
    """At an epsilon with much noise, all figures are those of the ledger."""
    done = owner("bounds", "visits", "--yes", "--epsilon", "0.1", "--json")
    (shown,) = json.loads(done.out)["ladders"]
    (ladder,) = owner.ladders()
    bound = ladder.choose_bound(Fraction(20))
    assert [each["units"] for each in shown["bins"]] == list(ladder.bins)
    assert shown["total"] == ladder.total
    assert shown["left_out"] == {"estimate": ladder.cut(bound), "at_most": ladder.most_cut(bound)}
    assert shown["bins"][0]["half_width"] > 40


def test_too_little_is_left_of_some(owner: Owner) -> None:
    owner.policy += (
        "[analysts.ada]\nepsilon = 40\n[analysts.bob]\nepsilon = 400\n"
        "[groups.team]\nmembers = ['ada', 'bob']\nepsilon = 45\n"
    )
    for options in (["--yes"], [], ["--yes", "--json"]):
        done = owner("bounds", "visits", *options)
        assert (done.code, done.out, owner.spent()) == (ExitCode.BUDGET_EXCEEDED, "", 0)
        assert "analyst ada (40 left), group team (45 left)" in done.err
        assert "bob" not in done.err
        assert "Hint: " in done.err
    assert owner("bounds", "visits", "--yes", "--epsilon", "40").code == 0
    done = owner("bounds", "visits.cost", "visits.minutes", "--yes", "--epsilon", "3")
    assert done.code == ExitCode.BUDGET_EXCEEDED, "together they are too much for the group"
    assert owner.spent() == 40


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "there is no table nothing"),
        ("visits.nothing", "visits has no column nothing"),
        ("visits.note", "visits has no column note with numbers"),
        ("visits.", "'visits.' names no table and no column"),
        ("", "'' names no table and no column"),
        ("visits.cost.more", "visits has no column cost.more"),
        ("pages", "pages is public"),
        ("pages.page", "pages is public"),
        ("events", "each row of events is a unit"),
        ("events.size", "each row of events is a unit"),
        ("people", "a person has one row in people"),
        ("vısıts", "there is no table vısıts"),
    ],
)
@pytest.mark.sampled(3)
def test_names_of_nothing_that_could_be_measure(owner: Owner, name: str, said: str) -> None:
    done = owner("bounds", "visits.cost", name, "--yes")
    assert (done.code, done.out, owner.spent()) == (ExitCode.USAGE, "", 0)
    assert said in done.err
    assert "\nHint: dpsql bounds, alone, lists what can be asked, such as visits, visits.cost" in done.err


@pytest.mark.parametrize("epsilon", ["0", "x", "1e-40", ""])
def test_prices_that_are_none(owner: Owner, epsilon: str) -> None:
    done = owner("bounds", "visits", "--yes", "--epsilon", epsilon)
    assert (done.code, done.out, owner.spent()) == (ExitCode.USAGE, "", 0)
    assert "dpsql: error: --epsilon: " in done.err
    assert "\nHint: --epsilon 50" in done.err


@pytest.mark.parametrize(
    "args",
    [("bounds", "--yes"), ("bounds", "--again"), ("bounds", "--epsilon", "1"), ("--format", "csv", "bounds")],
)
def test_options_that_do_not_go_together(owner: Owner, args: tuple[str, ...]) -> None:
    done = owner(*args)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert "\nHint: " in done.err


def test_where_costs_add_up(owner: Owner) -> None:
    owner.policy = POLICY.replace(
        "epsilon = 1000", 'epsilon = 10\ndelta = 1e-6\naccounting = "zcdp"'
    ).replace("default_epsilon = 20", "default_epsilon = 0.1")
    done = owner("bounds", "visits", "visits.cost", "--yes")
    assert done.code == 0, done.err
    assert "epsilon 0.5 each, 1 together" in done.err
    assert "least is left of the policy's budget" in done.err
    assert 0 < owner.spent() <= 1
    assert "with epsilon 0.1 over the whole table" in done.out
    budget = owner("budget")
    assert budget.code == 0
    assert "each budget has paid for all of them" in budget.out


def test_the_budget_lists_what_everybody_paid_for(owner: Owner) -> None:
    owner("bounds", "visits", "--yes")
    done = owner("--analyst", "ada", "budget")
    (row,) = cells(done, "ladder")[1:]
    assert (row[0], row[2:]) == ("1", ["visits", "rows", "50", "yes"])


def test_changes_that_do_not_show_are_told_before_the_charge(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder_listing, "tells_changes", lambda *given: False)
    done = owner("bounds", "visits")
    assert "warning: no change of visits shows" in done.err
    assert "data_version" in done.err


@pytest.mark.parametrize("columns", [40, 80])
def test_nothing_is_wider_than_the_terminal(owner: Owner, columns: int) -> None:
    done = owner("bounds", "visits", "visits.cost", "--yes", "--epsilon", "0.5", columns=columns)
    assert done.code == 0, done.err
    assert max(map(width, done.out.splitlines())) <= columns
    if columns > 40:
        assert max(map(width, owner("bounds", columns=columns).out.splitlines())) <= columns


def test_the_report_goes_to_a_file(owner: Owner, tmp_path: Path) -> None:
    target = tmp_path / "bounds.txt"
    done = owner("-o", str(target), "bounds", "visits", "--yes")
    assert (done.code, done.out) == (0, "")
    assert target.read_text("utf-8").startswith("visits: rows of a person")
    refused = owner("-o", str(tmp_path / "none" / "x"), "bounds", "visits", "--yes", "--again")
    assert (refused.code, owner.spent()) == (ExitCode.USAGE, 50)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("secret 41"), ExitCode.DATABASE, "its charge is kept\nHint: "),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "what was charged stays charged"),
    ],
)
def test_a_measurement_that_fails_keeps_its_charge(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: ExitCode, said: str
) -> None:
    def fail(*given: Any) -> None:
        raise error

    monkeypatch.setattr(Engines, "count", fail)
    done = owner("bounds", "visits", "visits.cost", "--yes")
    assert (done.code, done.out, owner.spent()) == (code, "", 100)
    assert said in done.err
    assert "secret" not in done.err
    assert owner.ladders() == []


def test_check_names_the_command_and_then_the_ladder(owner: Owner) -> None:
    def said() -> dict[str, list[str]]:
        done = owner("--format", "csv", "check")
        assert done.code == 0, done.err
        found: dict[str, list[str]] = {}
        for level, place, text, *_ in csv.reader(done.out.splitlines()[1:]):
            found.setdefault(f"{level} {place}", []).append(text)
        return found

    offer = "dpsql bounds visits (epsilon 50 of 1000)"
    assert offer in said()["ok tables.visits.rows_per_unit"][0]
    owner.policy += "[defaults]\nrows_per_unit = 5\n"
    assert offer in said()["note defaults.rows_per_unit"][0]
    assert "ok tables.visits.rows_per_unit" not in said()
    owner("bounds", "visits", "--yes")
    found = said()
    assert "use the kept ladder already" in found["note defaults.rows_per_unit"][0]
    assert "by the kept ladder of" in found["ok tables.visits.rows_per_unit"][0]
    owner.put("visits", TABLES["visits"].replace("range(71)", "range(70)"))
    assert offer in said()["note tables.visits.rows_per_unit"][0]
