"""`combine = ONLY`: what is added up from stored releases, what stays out, and that nothing is charged."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.errors import Error, QueryRefused, QuerySyntaxError
from dpsql.estimates.value_sets import ValueSet
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from tests.narrow import present

POLICY = """
[budget]
epsilon = 40
max_epsilon_per_query = 20
ledger = "ledger.sqlite"
high_water = false
[parts.user]
table = "signups"
column = "signed_up"
every = "week"
moves = "trusted"
closed_after = "{closed} days"
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
domain.land = {{ values = ["a", "b"], complete = {complete} }}
domain.city = ["x", "y"]
domain.age = {{ from = 0, to = 9, complete = true }}
bounds.age = {{ from = 0, to = 9 }}
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 3
domain.page = {{ values = ["p", "q"], complete = true }}
"""
WEEKS = [
    f"signed_up >= DATE '2026-01-{5 + 7 * i:02}' AND signed_up < DATE '2026-01-{12 + 7 * i:02}'"
    for i in range(3)
]
ALL = "signed_up >= DATE '2026-01-05' AND signed_up < DATE '2026-01-26'"


def write_rows(folder: Path, users: int = 2100) -> None:
    with duckdb.cursor() as connection:
        connection.execute(
            "CREATE TEMP TABLE signups AS SELECT i AS user_id,"
            " DATE '2026-01-05' + CAST(i % 21 AS INTEGER) AS signed_up, ['a', 'b'][1 + i % 2] AS land,"
            " CASE WHEN i % 3 = 0 THEN NULL ELSE ['x', 'y'][1 + i % 2] END AS city, i % 10 AS age"
            f" FROM range({users}) t(i)"
        )
        connection.execute(
            "CREATE TEMP TABLE visits AS SELECT i AS user_id, ['p', 'q'][j % 2 + 1] AS page"
            f" FROM range({users}) t(i), range(6) v(j)"
        )
        for name in ("signups", "visits"):
            connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path)
    write_policy(tmp_path)
    return tmp_path


def write_policy(folder: Path, complete: str = "true", closed: int = 4000) -> None:
    (folder / "dpsql.toml").write_text(POLICY.format(complete=complete, closed=closed))


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    opened = Session(load(folder / "dpsql.toml"), analyst="ann")
    yield opened
    assert opened.ledger.check() == []
    opened.close()


def paid(rest: str, items: str = "COUNT(*) AS n", epsilon: str = "1", options: str = "") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}{options}) {items} FROM {rest}"


def only(rest: str, items: str = "COUNT(*) AS n", options: str = "") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (combine = ONLY{options}) {items} FROM {rest}"


def release(session: Session, text: str) -> Release:
    found = session.run(text).release
    assert found is not None
    return found


def numbers(found: Release, name: str = "n") -> list[float]:
    return [float(value) for value in found.table.column(name).to_pylist()]


def ask_weeks(
    session: Session, items: str = "COUNT(*) AS n", group: str = "", more: str = ""
) -> list[Release]:
    return [release(session, paid(f"signups WHERE {week}{more}{group}", items)) for week in WEEKS]


def told_by(found: Release) -> list[int]:
    words = found.properties["computed"]
    return [int(each) for each in re.findall(r"\d+", words.split("(of")[0])]


def test_weeks_add_up_to_a_span_and_cost_nothing(session: Session, folder: Path) -> None:
    weeks = ask_weeks(session, "land, COUNT(*) AS n", " GROUP BY land")
    before = dump(folder)
    found = release(session, only(f"signups WHERE {ALL} GROUP BY land", "land, COUNT(*) AS n"))
    assert numbers(found) == pytest.approx([sum(numbers(week)[row] for week in weeks) for row in (0, 1)])
    assert (
        found.properties["computed"]
        == "computed from releases 1, 2, 3 (of 3), as of release 3; costs nothing"
    )
    assert (found.number, found.receipt) == (None, "")
    assert found.charge.epsilon == 0
    assert found.properties["computed"] in repr(found)
    assert numbers(found, "n_stddev") == pytest.approx([np.sqrt(6)] * 2, rel=0.01)
    total = release(session, only(f"signups WHERE {ALL}"))
    assert numbers(total) == pytest.approx([sum(numbers(found))])
    assert numbers(total, "n_low")[0] < numbers(total)[0] < numbers(total, "n_high")[0]
    assert numbers(total)[0] == pytest.approx(2100, abs=40)
    assert dump(folder) == before, "no entry, no event, no other release"
    assert session.prepare(only(f"signups WHERE {ALL}")).price.epsilon == 0
    assert numbers(
        release(session, paid(f"signups WHERE {WEEKS[0]} GROUP BY land", "land, COUNT(*) AS n"))
    ) == (numbers(weeks[0])), "the originals are as they were"


def dump(folder: Path) -> list[str]:
    """Return what the ledger has of charges, events and releases."""
    with sqlite3.connect(folder / "ledger.sqlite") as connection:
        return [line for line in connection.iterdump() if '"setting"' not in line]


def test_it_is_allowed_when_the_budget_is_gone(session: Session) -> None:
    ask_weeks(session)
    for _ in range(2):
        session.run(paid(f"signups WHERE {ALL}", epsilon="19.5", options=", fresh = TRUE"))
    with pytest.raises(Error, match="left"):
        session.run(paid(f"signups WHERE {ALL}", epsilon="2", options=", fresh = TRUE"))
    assert told_by(release(session, only("signups WHERE " + WEEKS[0]))) == [1]


def test_the_oldest_release_counts_and_what_comes_later_changes_nothing(session: Session) -> None:
    ask_weeks(session)
    text = only(f"signups WHERE {ALL}")
    first = release(session, text)
    for week in WEEKS:
        session.run(paid(f"signups WHERE {week}", epsilon="5", options=", fresh = TRUE"))
    session.run(paid(f"signups WHERE {ALL}", epsilon="5"))
    session.run(paid(f"signups WHERE {ALL} GROUP BY land", "land, COUNT(*) AS n", "5"))
    later = release(session, text)
    assert (told_by(later), numbers(later)) == ([1, 2, 3], numbers(first))
    assert later.properties["computed"].endswith("(of 8), as of release 8; costs nothing")
    again = release(session, only(f"signups WHERE {ALL}", options=", at_release = 3"))
    assert numbers(again) == numbers(first)
    assert again.properties["computed"] == first.properties["computed"]
    with pytest.raises(QueryRefused, match="missing: n of 2026-W04"):
        session.run(only(f"signups WHERE {ALL}", options=", at_release = 2"))
    with pytest.raises(QueryRefused, match="your newest release is 8"):
        session.run(only(f"signups WHERE {ALL}", options=", at_release = 9"))


def test_what_was_not_told_is_refused_with_a_statement_that_measures_it(session: Session) -> None:
    for week in WEEKS[:2]:
        session.run(paid(f"signups WHERE {week} GROUP BY land", "land, COUNT(*) AS n"))
    text = only(f"signups WHERE {ALL} GROUP BY land", "land, COUNT(*) AS n")
    with pytest.raises(
        QueryRefused, match="not told by what was released; missing: n by land of 2026-W04\n"
    ) as refused:
        session.run(text)
    assert refused.value.hint is not None
    session.run(refused.value.hint)
    assert told_by(release(session, text)) == [1, 2, 3]
    with pytest.raises(QueryRefused, match="missing: n of age 5") as refused:
        session.run(only("signups WHERE age = 5"))
    session.run(present(refused.value.hint))
    assert told_by(release(session, only("signups WHERE age = 5"))) == [4]


def test_an_error_that_is_wanted(session: Session) -> None:
    ask_weeks(session)
    assert told_by(release(session, only(f"signups WHERE {ALL}", options=", error = 20"))) == [1, 2, 3]
    with pytest.raises(
        QueryRefused, match=r"tell it within \d.*, not 2: to measure it anew costs epsilon 1\.5"
    ) as refused:
        session.run(only(f"signups WHERE {ALL}", options=", error = 2"))
    session.run(present(refused.value.hint))


def test_explain_says_what_it_would_be_computed_from(session: Session) -> None:
    ask_weeks(session)
    table = session.run("EXPLAIN " + only(f"signups WHERE {ALL}")).table
    told = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert told["why"] == "computed from releases 1, 2, 3 (of 3), as of release 3; costs nothing"
    assert (told["epsilon"], told["stddev"], told["stddev_if_measured"]) == ("0", "2.449", "1.414")


def test_sql_over_what_was_added_up(session: Session) -> None:
    ask_weeks(session, "land, COUNT(*) AS n", " GROUP BY land")
    inner = only(f"signups WHERE {ALL} GROUP BY land", "land, COUNT(*) AS n")
    found = release(
        session, f"SELECT land, n, n / SUM(n) OVER () AS share FROM ({inner}) ORDER BY n DESC LIMIT 1"
    )
    assert found.properties["computed"].startswith("computed from releases 1, 2, 3")
    low, share, high = (numbers(found, name)[0] for name in ("share_low", "share", "share_high"))
    assert low < share < high, "it is made of measured numbers of known laws"
    assert share == pytest.approx(0.5, abs=0.03)
    mixed = f"SELECT (SELECT SUM(n) FROM ({inner})) AS a, ({paid('signups WHERE ' + WEEKS[0])}) AS b"
    assert session.prepare(mixed).price.epsilon == 1, "the week without groups was not asked for"
    other = (
        f"SELECT (SELECT SUM(n) FROM ({inner})) AS a, ({paid('signups WHERE age = 3', epsilon='0.5')}) AS b"
    )
    assert session.prepare(other).price.epsilon == Fraction(1, 2)


def test_several_releases_say_what_they_were_computed_from(session: Session) -> None:
    ask_weeks(session, "land, COUNT(*) AS n", " GROUP BY land")
    rolled = release(session, only(f"signups WHERE {ALL} GROUP BY ROLLUP (land)", "land, COUNT(*) AS n"))
    assert rolled.properties["computed"].startswith("computed from releases 1, 2, 3 (of 3)")
    assert numbers(rolled)[2] == pytest.approx(sum(numbers(rolled)[:2]))
    total, week = only(f"signups WHERE {ALL}"), paid(f"signups WHERE {WEEKS[0]}", epsilon="0.5")
    mixed = release(session, f"SELECT ({total}) AS a, ({week}) AS b")
    assert mixed.charge.epsilon == Fraction(1, 2)
    assert "computed from releases 1, 2, 3 (of 3), as of release 3; costs nothing" in mixed.warnings


def test_what_is_no_sum_or_selected_by_noise_is_refused(session: Session) -> None:
    ask_weeks(session, "MEDIAN(age) AS m")
    ask_weeks(session)
    with pytest.raises(QueryRefused, match="no sums over rows"):
        session.run(only(f"signups WHERE {ALL}", "MEDIAN(age) AS n"))
    assert told_by(release(session, only(f"signups WHERE {ALL}"))) == [4, 5, 6]
    for tail in (" ORDER BY n DESC LIMIT 1", " HAVING COUNT(*) > 1000"):
        with pytest.raises(QueryRefused, match="not selected from what is added up, but in SQL over it"):
            session.run(only(f"signups WHERE {ALL} GROUP BY land{tail}", "land, COUNT(*) AS n"))


def test_intervals_of_all_groups_at_once_are_wider(session: Session) -> None:
    ask_weeks(session, "land, COUNT(*) AS n", " GROUP BY land")
    halves = []
    for intervals in ("SINGLE", "SIMULTANEOUS"):
        options = f", intervals = {intervals}"
        found = release(session, only(f"signups WHERE {ALL} GROUP BY land", "land, COUNT(*) AS n", options))
        halves.append(numbers(found, "n_high")[0] - numbers(found)[0])
    assert halves[0] < halves[1]


def test_options_that_mean_nothing_beside_it(session: Session) -> None:
    for options in (", epsilon = 1", ", fresh = TRUE", ", delta = 1e-6"):
        with pytest.raises(QueryRefused, match="costs nothing and measures nothing"):
            session.prepare(only("signups", options=options))
    with pytest.raises(QueryRefused, match="at_release is for answers that are added up"):
        session.prepare(paid("signups", options=", at_release = 3"))
    with pytest.raises(QuerySyntaxError, match="expected one of ONLY, TRUE"):
        session.prepare(only("signups").replace("ONLY", "FALSE"))
    with pytest.raises(QueryRefused, match="combine = TRUE is for statements of a report"):
        session.prepare(only("signups").replace("ONLY", "TRUE"))


def test_sums_and_counts_of_one_release(session: Session) -> None:
    ask_weeks(session, "COUNT(*) AS n, SUM(age) AS s")
    found = release(session, only(f"signups WHERE {ALL}", "SUM(age) AS s, COUNT(*) AS n"))
    assert numbers(found, "s")[0] == pytest.approx(9450, abs=400)
    assert numbers(found)[0] == pytest.approx(2100, abs=60)
    with pytest.raises(QueryRefused, match="a is no sum of released numbers"):
        session.run(only(f"signups WHERE {ALL}", "AVG(age) AS a"))


def test_periods_and_ranges_of_a_key(session: Session) -> None:
    days = "signups WHERE {} GROUP BY 1"
    for week in WEEKS:
        session.run(paid(days.format(week), "signed_up AS day, COUNT(*) AS n"))
    found = release(session, only(days.format(ALL), "date_trunc('week', signed_up) AS w, COUNT(*) AS n"))
    assert np.allclose(numbers(found), 700, atol=40)
    old = release(session, only("signups WHERE signed_up BETWEEN '2026-01-07' AND '2026-01-20'"))
    assert told_by(old) == [1, 2, 3]
    ages = "signups WHERE age {} AND " + ALL
    for condition in ("< 4", "BETWEEN 4 AND 6"):
        session.run(paid(ages.format(condition)))
    assert told_by(release(session, only(ages.format("<= 6")))) == [4, 5]
    session.run(paid(ages.format("IN (7, 9)")))
    session.run(paid(ages.format("= 8")))
    assert told_by(release(session, only("signups WHERE " + ALL))) == [1, 2, 3]
    assert told_by(release(session, only(ages.format("<> 8")))) == [4, 5, 6]


def test_dates_that_are_cut_to_null_are_not_told(session: Session, folder: Path) -> None:
    """A date without an end may be: that group has other rows than `signed_up IS NULL`."""
    text = (folder / "dpsql.toml").read_text()
    more = "domain.signed_up = { from = 2026-01-01, to = 2026-02-28 }"
    (folder / "dpsql.toml").write_text(text.replace("domain.city", f"{more}\ndomain.city"))
    with closing(Session(load(folder / "dpsql.toml"), analyst="ann")) as other:
        years = "year(signed_up) AS y, COUNT(*) AS n"
        other.run(paid("signups GROUP BY 1", years))
        with pytest.raises(QueryRefused, match=r"missing: n of .* signed_up by year NULL"):
            other.run(only("signups GROUP BY 1", years))
        other.run(paid(f"signups WHERE {ALL} GROUP BY 1", years))
        assert told_by(release(other, only(f"signups WHERE {ALL} GROUP BY 1", years))) == [2]


# What stays out, each with a pair that breaks the condition; the wrong sum would be off by far.


def is_off(wrong: float, truth: float, deviation: float) -> bool:
    return abs(wrong - truth) > 3 * deviation


def test_rows_that_are_weighted_down_add_up_along_whole_units_alone(session: Session) -> None:
    """7.1 with 21, item 9: `page` tells rows of one user apart, the week of the sign-up does not."""
    of = "visits JOIN signups USING (user_id)"
    pages = [release(session, paid(f"{of} WHERE page = '{page}'")) for page in "pq"]
    assert is_off(sum(numbers(each)[0] for each in pages), 3 * 2100, 6)
    with pytest.raises(QueryRefused, match="not told"):
        session.run(only(of))
    for week in WEEKS:
        session.run(paid(f"{of} WHERE {week} GROUP BY page", "page, COUNT(*) AS n"))
    found = release(session, only(f"{of} WHERE {ALL} GROUP BY page", "page, COUNT(*) AS n"))
    assert np.allclose(numbers(found), 3150, atol=200), "weights are rounded to whole rows, by a hash"
    with pytest.raises(QueryRefused, match="not told"):
        session.run(only(f"{of} WHERE {ALL}"))
    with pytest.raises(QueryRefused, match="not told"):  # the weights are of other rows
        session.run(only(f"{of} WHERE {ALL} AND page = 'p'"))


def test_units_of_several_groups_do_not_add_up(session: Session) -> None:
    """7.1: a user is in both pages."""
    of, units = "visits JOIN signups USING (user_id)", "COUNT(DISTINCT user_id) AS n"
    found = release(session, paid(f"{of} GROUP BY page", f"page, {units}"))
    assert is_off(sum(numbers(found)), 2100, 5)
    with pytest.raises(QueryRefused, match="not told"):
        session.run(only(of, units))
    for land in "ab":
        session.run(paid(f"{of} WHERE land = '{land}'", units))
    assert numbers(release(session, only(of, units)))[0] == pytest.approx(2100, abs=30)


def test_other_bounds_are_other_numbers(session: Session) -> None:
    """7.1: sums of values that are cut otherwise."""
    items = "SUM(age, contribution_bounds_per_row => (0, {})) AS n"
    first = release(session, paid(f"signups WHERE {WEEKS[0]}", items.format(3)))
    for week in WEEKS[1:]:
        session.run(paid(f"signups WHERE {week}", items.format(9)))
    assert is_off(numbers(first)[0], 3150, 30)
    with pytest.raises(QueryRefused, match="not told"):
        session.run(only(f"signups WHERE {ALL}", items.format(9)))


def test_rows_of_another_relation_stay_out(session: Session) -> None:
    """7.2: joined rows are others; windows and subqueries are not told apart at all."""
    found = [release(session, paid(f"signups JOIN visits USING (user_id) WHERE {week}")) for week in WEEKS]
    assert is_off(sum(numbers(each)[0] for each in found), 2100, 10)
    with pytest.raises(QueryRefused, match="not told"):
        session.run(only(f"signups WHERE {ALL}"))
    ranked = (
        "(SELECT user_id, signed_up, row_number() OVER (PARTITION BY user_id ORDER BY signed_up) AS r"
        " FROM signups) WHERE r = 1 AND {}"
    )
    for week in WEEKS:
        session.run(paid(ranked.format(week)))
    with pytest.raises(QueryRefused, match="no sums over rows"):
        session.run(only(ranked.format(ALL)))


def test_conditions_on_two_columns_have_to_be_equal(session: Session) -> None:
    """7.3: `land = 'a' OR age = 3` is no set of values of one column."""
    either = "(land = 'a' OR age = 3)"
    ask_weeks(session, more=f" AND {either}")
    assert told_by(release(session, only(f"signups WHERE {either} AND {ALL}"))) == [1, 2, 3]
    for text in (
        f"signups WHERE {ALL}",
        f"signups WHERE {ALL} AND land = 'a'",
        f"signups WHERE {ALL} AND age = 3",
    ):
        with pytest.raises(QueryRefused, match="not told"):
            session.run(only(text))


def test_what_noise_has_chosen_stays_out(session: Session) -> None:
    """7.4: the largest groups, and groups of keys that are not declared, are shown because of their noise."""
    for week in WEEKS:
        session.run(
            paid(f"signups WHERE {week} GROUP BY land ORDER BY n DESC LIMIT 1", "land, COUNT(*) AS n")
        )
        session.run(
            paid(f"signups WHERE {week} GROUP BY 1", "age + 1 AS a, COUNT(*) AS n", options=", delta = 1e-6")
        )
    with pytest.raises(QueryRefused, match="not told"):
        session.run(only(f"signups WHERE {ALL} AND land = 'a'"))
    with pytest.raises(QueryRefused, match="no sums over rows"):
        session.run(only(f"signups WHERE {ALL} GROUP BY age + 1", "age + 1 AS a, COUNT(*) AS n"))


@pytest.mark.parametrize("column", ["land", "city"])
@pytest.mark.sampled(3, rest="longer")
def test_a_total_is_told_by_groups_of_all_values(session: Session, folder: Path, column: str) -> None:
    """7.5: a third of the cities are NULL, and nobody measured these rows."""
    found = release(session, paid(f"signups WHERE {ALL} GROUP BY {column}", f"{column}, COUNT(*) AS n"))
    if column == "land":
        assert told_by(release(session, only(f"signups WHERE {ALL}"))) == [1]
        return
    assert is_off(
        sum(n for n, c in zip(numbers(found), found.rows.column(0).to_pylist(), strict=True) if c), 2100, 5
    )
    with pytest.raises(QueryRefused, match=r"missing: n of .* city other than x, y"):
        session.run(only(f"signups WHERE {ALL}"))
    some = release(session, only(f"signups WHERE {ALL} AND city IN ('x', 'y')"))
    assert numbers(some)[0] == pytest.approx(1400, abs=30)


def test_the_policy_may_say_less_of_a_column(session: Session, folder: Path) -> None:
    """7.5: without `complete` the same groups tell no total; and a changed table is another one."""
    session.run(paid(f"signups WHERE {ALL} GROUP BY land", "land, COUNT(*) AS n"))
    write_policy(folder, complete="false")
    with closing(Session(load(folder / "dpsql.toml"), analyst="ann")) as other:
        with pytest.raises(QueryRefused, match="not told"):
            other.run(only(f"signups WHERE {ALL}"))
        other.run(paid(f"signups WHERE {ALL} GROUP BY land", "land, COUNT(*) AS n"))
        with pytest.raises(QueryRefused, match=r"missing: n of .* land other than a, b"):
            other.run(only(f"signups WHERE {ALL}"))


def test_numbers_of_two_versions_of_the_data_do_not_add_up(session: Session, folder: Path) -> None:
    """7.6: late rows come to each week."""
    for week in WEEKS[:2]:
        session.run(paid(f"signups WHERE {week}"))
    write_rows(folder, users=4200)
    session.run(paid(f"signups WHERE {WEEKS[2]}"))
    with pytest.raises(QueryRefused, match=r"missing: n of 2026-W02 .. 2026-W03"):
        session.run(only(f"signups WHERE {ALL}"))
    assert told_by(release(session, only(f"signups WHERE {WEEKS[2]}"))) == [3]


def test_closed_parts_add_up_over_versions(session: Session, folder: Path) -> None:
    """7.6: the owner says that old weeks change no more, and the answer says so."""
    write_policy(folder, closed=14)
    with closing(Session(load(folder / "dpsql.toml"), analyst="ann")) as other:
        for week in WEEKS[:2]:
            other.run(paid(f"signups WHERE {week}"))
        write_rows(folder, users=2121)
        other.run(paid(f"signups WHERE {WEEKS[2]}"))
        found = release(other, only(f"signups WHERE {ALL}"))
        assert told_by(found) == [1, 2, 3]
        assert any("count as closed 14 days after their end" in str(each) for each in found.assumed)
        # What was counted before a week was closed is of the data of that time.
        other.run(paid(f"visits JOIN signups USING (user_id) WHERE {WEEKS[0]}"))
        write_rows(folder, users=2142)
        with pytest.raises(QueryRefused, match="not told"):
            other.run(only(f"visits JOIN signups USING (user_id) WHERE {WEEKS[0]}"))


def test_nobody_reads_the_releases_of_another_analyst(session: Session, folder: Path) -> None:
    ask_weeks(session)
    other = Session(load(folder / "dpsql.toml"), analyst="bob")
    with closing(other), pytest.raises(QueryRefused, match="not told"):
        other.run(only(f"signups WHERE {ALL}"))


def test_a_failed_statement_tells_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for week in WEEKS[:2]:
        session.run(paid(f"signups WHERE {week}"))
    with monkeypatch.context() as patch:
        patch.setattr("dpsql.planning.all_groups.EveryCount.run", lambda *_: 1 / 0)
        with pytest.raises(Error):
            session.run(paid(f"signups WHERE {WEEKS[2]}"))
    with pytest.raises(QueryRefused, match="missing: n of 2026-W04"):
        session.run(only(f"signups WHERE {ALL}"))


def test_a_statement_without_a_condition_is_told_up_to_now(session: Session) -> None:
    """The date column is not `complete`: rows before, behind and without a date were measured by nobody."""
    ask_weeks(session)
    with pytest.raises(
        QueryRefused, match=r"missing: n of signed_up up to 2026-01-04 or .* or signed_up NULL"
    ):
        session.run(only("signups"))


def test_a_cell_of_no_rows_is_nothing(session: Session) -> None:
    ask_weeks(session)
    found = release(session, only(f"signups WHERE {ALL} AND land = 'c'"))
    assert (numbers(found), numbers(found, "n_high")) == ([0], [0])
    assert ValueSet.of_values("ab") & ValueSet.of_values("c") == ValueSet.of_values("")
