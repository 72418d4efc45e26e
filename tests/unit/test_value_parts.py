"""Statements over units whose parts are values of a column: what is read, charged, shown; changed lists."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import BudgetExceeded, OperationalError, ProgrammingError, QueryRefused
from dpsql.kernel.facts import Facts, Home
from dpsql.kernel.ledger.caps import PartBudgets
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import PartSet
from dpsql.ledger import Ledger, Request
from dpsql.policy import load
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[parts.user]
table = "signups"
column = "land"
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
domain.land = LANDS
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 3
"""
OPTIONS = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {})"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files and the policy, which no test changes."""
    made = tmp_path_factory.mktemp("written")
    with duckdb.cursor() as connection:
        connection.execute(
            "CREATE TEMP TABLE signups AS SELECT i AS user_id, ['DE', 'FR', 'IT', NULL][1 + i % 4] AS land,"
            " i % 4 - 1 AS cohort, i % 2 = 0 AS paid FROM range(2000) t(i)"
        )
        connection.execute(
            "CREATE TEMP TABLE visits AS SELECT i % 2000 AS user_id, i AS x FROM range(4000) t(i)"
        )
        for name in ("signups", "visits"):
            connection.execute(f"COPY {name} TO '{made / name}.parquet' (FORMAT parquet)")
    write(made, '["DE", "FR"]')
    return made


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path


def write(folder: Path, lands: str, column: str = "land") -> None:
    text = POLICY.replace("LANDS", lands).replace('column = "land"', f'column = "{column}"')
    (folder / "dpsql.toml").write_text(text)


def opened(folder: Path) -> closing[Session]:
    return closing(Session(load(folder / "dpsql.toml"), analyst="ann"))


@pytest.fixture(scope="module")
def unchanged(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session for tests that explain and charge nothing."""
    made = tmp_path_factory.mktemp("unchanged")
    shutil.copytree(written, made, dirs_exist_ok=True)
    with opened(made) as session:
        yield session
        assert session.ledger.entries() == []


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with opened(folder) as made:
        yield made
        assert made.ledger.check() == []


def ask(session: Session, rest: str, epsilon: str = "1", items: str = "COUNT(*)") -> float:
    made = session.run(f"SELECT {OPTIONS.format(epsilon)} {items} FROM {rest}")
    return float(made.table.column(0)[0].as_py())


def parts_of(session: Session, rest: str, items: str = "COUNT(*)") -> str:
    table = session.run(f"EXPLAIN SELECT {OPTIONS.format('0.1')} {items} FROM {rest}").table
    found = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return str(found["parts"])


def shown(session: Session) -> dict[str, tuple[str, str]]:
    table = session.run("SHOW PRIVACY BUDGET BY PARTS").table
    names, spent, left, _ = (column.to_pylist() for column in table.columns)
    return {name: (s, rest) for name, s, rest in zip(names, spent, left, strict=True)}


OUTSIDE = "outside the declared values"


def test_a_unit_bears_what_is_asked_of_its_value(session: Session) -> None:
    assert abs(ask(session, "signups WHERE land = 'DE'") - 500) < 50
    assert abs(ask(session, "visits JOIN signups USING (user_id) WHERE land = 'FR'") - 1000) < 100
    with pytest.raises(BudgetExceeded, match=r"only 0 of the budget is left for land DE, FR$"):
        ask(session, "signups WHERE land IN ('FR', 'DE')", "0.1")
    ask(session, "signups WHERE land NOT IN ('DE', 'FR')", "0.4")
    ask(session, "signups WHERE land IS NULL", "0.3")
    assert shown(session) == {
        "DE, FR": ("1", "0"),
        OUTSIDE: ("0.4", "0.6"),
        "NULL": ("0.3", "0.7"),
        "no row": ("0", "1"),
        "all statements in sequence": ("2.7", ""),
    }


@pytest.mark.parametrize(
    ("rest", "parts"),
    [
        ("signups WHERE land = 'DE'", "DE"),
        ("signups WHERE land <> 'DE'", f"FR, {OUTSIDE}"),
        ("signups WHERE lower(land) = 'de'", f"DE, {OUTSIDE}"),
        ("signups WHERE land LIKE 'F%' AND land IN ('DE', 'FR')", "FR"),
        ("signups WHERE land = 'Atlantis'", OUTSIDE),
        ("signups WHERE land IS NULL OR land = 'FR'", "FR, NULL"),
        ("signups WHERE NOT (land = 'DE' AND cohort > 1)", f"DE, FR, {OUTSIDE}, NULL"),
        ("visits WHERE user_id IN (SELECT user_id FROM signups WHERE land = 'DE')", "DE"),
        (
            "visits v WHERE EXISTS (SELECT 1 FROM signups s WHERE s.user_id = v.user_id AND land = 'FR')",
            "FR",
        ),
    ],
)
def test_explain_says_which_values(unchanged: Session, rest: str, parts: str) -> None:
    assert parts_of(unchanged, rest) == f"{parts} (value of signups.land)"


def test_what_names_no_value_reads_all(session: Session) -> None:
    assert parts_of(session, "visits").startswith("all: nothing says which values of land are read; join")
    with pytest.raises(QueryRefused, match="no value of land satisfies this"):
        ask(session, "signups WHERE land = 'DE' AND land = 'FR'")


def test_a_new_value_begins_with_what_was_charged_outside(folder: Path) -> None:
    with opened(folder) as session:
        ask(session, "signups WHERE land = 'DE'", "0.5")
        ask(session, "signups WHERE land NOT IN ('DE', 'FR')", "0.7")
    write(folder, '["IT", "FR", "DE"]')
    with opened(folder) as session:
        assert {name: spent for name, (spent, _) in shown(session).items()} == {
            "DE": "0.5",
            "FR": "0",
            "IT": "0.7",
            OUTSIDE: "0.7",
            "NULL": "0",
            "no row": "0",
            "all statements in sequence": "1.2",
        }
        with pytest.raises(BudgetExceeded, match="is left for land IT"):
            ask(session, "signups WHERE land = 'IT'", "0.4")
        ask(session, "signups WHERE land = 'IT'", "0.3")
        assert session.ledger.check() == []


def test_a_value_that_comes_back_has_its_old_total(folder: Path) -> None:
    with opened(folder) as session:
        ask(session, "signups WHERE land = 'FR'", "0.8")
    write(folder, '["DE"]')
    with opened(folder) as session:
        ask(session, "signups WHERE land <> 'DE'", "0.2")
        assert shown(session)["FR"] == ("1", "0"), "it is a part as long as the declaration is this one"
    write(folder, '["DE", "ES", "FR"]')
    with opened(folder) as session:
        assert (shown(session)["FR"], shown(session)["ES"]) == (("1", "0"), ("0.2", "0.8"))
        assert session.ledger.check() == []


def test_another_column_spends_the_largest_total_everywhere(folder: Path) -> None:
    with opened(folder) as session:
        ask(session, "signups WHERE land = 'FR'", "0.8")
    write(folder, '["DE", "FR"]', "cohort")
    with opened(folder) as session:
        assert {spent for name, (spent, _) in shown(session).items() if name[:3] != "all"} == {"0.8"}


def test_whole_numbers_are_parts(folder: Path) -> None:
    write(folder, '["DE", "FR"]', "cohort")
    with opened(folder) as session:
        assert parts_of(session, "signups WHERE cohort >= 1") == "from 1 (value of signups.cohort)"
        assert (
            parts_of(session, "signups WHERE cohort IN (-1, 0, 2)") == "-1 .. 0, 2 (value of signups.cohort)"
        )
        assert abs(ask(session, "signups WHERE cohort = -1") - 500) < 50
        assert abs(ask(session, "signups WHERE cohort BETWEEN 1 AND 2", "0.5") - 1000) < 100
        assert [*shown(session).items()][:5] == [
            ("up to -2", ("0", "1")),
            ("-1", ("1", "0")),
            ("0", ("0", "1")),
            ("1 .. 2", ("0.5", "0.5")),
            ("from 3", ("0", "1")),
        ]


def test_truth_values_are_parts(folder: Path) -> None:
    write(folder, '["DE", "FR"]', "paid")
    with opened(folder) as session:
        assert parts_of(session, "signups WHERE paid") == "True (value of signups.paid)"
        assert parts_of(session, "signups WHERE paid IS NOT TRUE") == "False, NULL (value of signups.paid)"
        assert abs(ask(session, "signups WHERE NOT paid") - 1000) < 50
        assert shown(session)["False"] == ("1", "0")


def change(folder: Path, sql: str) -> None:
    with duckdb.connect() as connection:
        file = folder / "signups.parquet"
        connection.execute(f"CREATE TABLE t AS SELECT * FROM '{file}'")
        connection.execute(sql)
        connection.execute(f"COPY t TO '{file}' (FORMAT parquet)")


def test_a_unit_with_another_value_is_refused(session: Session, folder: Path) -> None:
    ask(session, "signups WHERE land = 'DE'", "0.5")
    change(folder, "INSERT INTO t VALUES (9999, 'DE', 1, TRUE)")
    ask(session, "signups WHERE land = 'FR'", "0.5")
    change(folder, "UPDATE t SET land = 'FR' WHERE user_id = 0")
    with pytest.raises(
        OperationalError, match=r"waits for its owner.* the value of land of a user has changed"
    ):
        ask(session, "signups WHERE land = 'FR' AND cohort > 0", "0.5")


def test_a_list_that_grows_moves_nobody(folder: Path) -> None:
    with opened(folder) as session:
        ask(session, "signups WHERE land = 'DE'", "0.5")
    write(folder, '["DE", "FR", "IT"]')
    change(folder, "INSERT INTO t VALUES (9999, 'IT', 1, TRUE)")
    with opened(folder) as session:
        ask(session, "signups WHERE land = 'IT'", "0.5")


def test_numbers_of_another_ledger_are_no_parts(tmp_path: Path) -> None:
    """Where values have other numbers than the ledger gave them, a statement is charged to all parts."""
    parts = PartBudgets("user", None, "by land", column="land")
    with Ledger.open(
        tmp_path / "ledger.sqlite", policy_id="p", total=Charge(Fraction(1)), parts=parts, high_water=False
    ) as ledger:
        assert ledger.number_values(["DE", "FR"]) == (("DE", 0), ("FR", 1))
        assert ledger.number_values(["IT", "DE"]) == (("DE", 0), ("FR", 1), ("IT", 2))

        def charge(values: tuple[tuple[str | bool, int], ...]) -> list[tuple[str, str]]:
            facts = Facts((), home=Home("user", "signups", "land", "value", "VARCHAR", values=values))
            asked = [Request("r", "m", Charge(Fraction(1, 10)), parts=PartSet.of((0, 0)))]
            ledger.reserve_all(analyst="ann", statement="s", requests=asked, facts=facts)
            return [(each.words, str(each.budget.spent.epsilon)) for each in ledger.budget_by_parts()]

        assert charge((("DE", 0), ("FR", 1)))[:2] == [("DE", "1/10"), ("FR, IT", "0")]
        assert charge((("FR", 0), ("DE", 1)))[:2] == [("DE", "1/5"), ("FR, IT", "1/10")]
        assert ledger.check() == []


def test_what_is_added_up_says_which_values_are_missing(folder: Path) -> None:
    with opened(folder) as session:
        for land in ("DE", "FR"):
            ask(session, f"signups WHERE land = '{land}'", "0.5")
        both = "FROM signups WHERE land IN ('DE', 'FR')"
        made = session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (combine = ONLY) COUNT(*) {both}")
        assert abs(made.table.column(0)[0].as_py() - 1000) < 60
        with pytest.raises(QueryRefused, match=r"not told by what was released; missing: .*land IT"):
            session.run(
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (combine = ONLY) COUNT(*)"
                " FROM signups WHERE land IN ('DE', 'FR', 'IT')"
            )


def test_a_stream_of_some_parts_needs_dates(session: Session) -> None:
    days = "parts = '2026-01-05 TO 2026-12-28'"
    with pytest.raises(ProgrammingError, match="parts of units are values of land"):
        session.run(f"OPEN CHECKS daily OPTIONS (epsilon = 0.1, misses = 2, tolerance = 500, {days})")
    session.run("OPEN CHECKS daily OPTIONS (epsilon = 0.1, misses = 2, tolerance = 500)")
    assert shown(session)["DE, FR"] == ("0.1", "0.9")


def test_a_report_of_each_part_needs_dates(session: Session) -> None:
    script = "SELECT COUNT(*) AS n FROM signups WHERE land = :part"
    with pytest.raises(QueryRefused, match="needs units that are in parts by a date"):
        session.reports.plan_registration("lands", script, epsilon=Fraction(1, 2))
