"""Kept ladders of in how many groups of some columns a unit is: what they measure, and who uses them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.analysis import Plan
from dpsql.analysis.released.unit_counts import UnitsOfFew
from dpsql.analysis.table_measures import UnitMeasure
from dpsql.database import Database
from dpsql.errors import ProgrammingError, QueryRefused
from dpsql.kernel.mechanisms.ladder import FULL
from dpsql.owner.ladder_listing import list_kept
from dpsql.owner.ladder_releases import parse_measure, release_ladders
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import of_type, present, private
from tests.support.exact import every_number, exact_of, scores_of
from tests.support.world import write_world

DAYS, EXTRA = 120, 7
POLICY = f"""
[budget]
epsilon = 1e9
delta = 0.5
default_epsilon = 0.25
default_delta = 1e-3
high_water = false
[defaults]
groups = 3
[tables.visits]
source = "visits.parquet"
unit = "id"
unit_kind = "patient"
domain.day = {{ from = 0, to = {DAYS - 1} }}
domain.ward = {{ from = 0, to = 9 }}
[views.every_visit]
sql = "SELECT * FROM visits"
"""
BY = {"day": (1,), "ward": (2,), "day, ward": (1, 2), "note": (3,), "note, ward": (3, 2)}
"""The columns of measures, and their places in a row."""
DECLARED = {"day": range(DAYS), "ward": range(10)}
BY_DAY = "SELECT day, COUNT(DISTINCT id) AS n FROM visits GROUP BY day"
BY_NOTE = "SELECT note, COUNT(DISTINCT id) AS n FROM visits GROUP BY note"
Row = tuple[int | None, int | None, int, str | None]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Units with few groups and with many; days and wards are outside of the domain, NULL, and repeated."""
    draw = np.random.default_rng(5)
    found: list[Row] = []
    for unit in range(200):
        size = int(draw.choice([1, 3, 9, 40, 200], p=[0.4, 0.3, 0.2, 0.05, 0.05]))
        for day in draw.integers(0, DAYS + EXTRA, size):
            held = None if day == DAYS + EXTRA - 1 else int(day)
            note = None if day % 9 == 0 else "abcdefghijkl"[int(day) % 12]
            found.append((unit, held, int(draw.integers(0, 12)), note))
    return [*found, (None, 3, 1, "a"), (None, 4, 1, None)]


def opened(folder: Path, rows: list[Row], policy: str = POLICY) -> Database:
    listed = ", ".join(str(row).replace("None", "NULL") for row in rows)
    made = f"SELECT * FROM (VALUES {listed}) AS t(id, day, ward, note)"
    folder.mkdir(exist_ok=True)
    write_world(folder, policy, visits=made)
    return Database(load(folder / "dpsql.toml"))


def released(database: Database, *names: str, epsilon: int = 10**6) -> None:
    release_ladders(
        database, [parse_measure(database, name) for name in names], Fraction(epsilon), "dpsql bounds"
    )


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> Iterator[Database]:
    """A database with ladders of most measures, which have hardly any noise."""
    with opened(tmp_path_factory.mktemp("groups"), rows) as made:
        released(made, "visits by day", "visits BY Ward , DAY", "visits by note")
        yield made


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    made = Session(database, "alice")
    yield made
    made.close()


def asked(statement: str, options: str = "epsilon = 5") -> str:
    return statement.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})", 1)


def plan_of(session: Session, statement: str, options: str = "epsilon = 5") -> Plan:
    return private(session.prepare(asked(statement, options))).plan


def sizes_of(rows: list[Row], by: str) -> list[int]:
    """Return in how many groups each unit is, as SQL and the declared domains say."""
    names, groups = by.split(", "), dict[int, set[object]]()
    declared = all(name in DECLARED for name in names)
    for row in rows:
        key = [row[place] for place in BY[by]]
        outside = any(
            v is not None and v not in DECLARED[n] for n, v in zip(names, key, strict=True) if n in DECLARED
        )
        if row[0] is not None:
            groups.setdefault(row[0], set()).add("outside" if declared and outside else tuple(key))
    return [len(each) for each in groups.values()]


def above_of(database: Database, measure: UnitMeasure, ends: tuple[int, ...]) -> NDArray[np.int64]:
    reads = [database.policy.tables["visits"]]
    return every_number(database.engines(), measure.above(ends), reads)


def scores(database: Database, measure: UnitMeasure) -> NDArray[np.int64]:
    counts = database.engines().count(measure.scores(), [database.policy.tables["visits"]])
    return scores_of(counts, len(measure.bounds))


@pytest.mark.parametrize("by", ["day", "ward", "day, ward", "note"])
@pytest.mark.sampled(2, rest="longer")
def test_the_groups_of_each_unit_are_measured(database: Database, rows: list[Row], by: str) -> None:
    """All rows outside of the domains are one group; NULL is a value of its own."""
    measure, sizes = parse_measure(database, f"visits by {by}"), sizes_of(rows, by)
    assert (measure.table, measure.text) == ("visits", f"groups by {by}")
    ends = (0, *range(1, 14), 40, 90, 121, 122, 123)
    assert list(above_of(database, measure, ends)) == [sum(size > end for size in sizes) for end in ends]
    wanted = [sum(min(FULL * 8 * max(c - b, 0) // b, FULL) for c in sizes) for b in measure.bounds]
    assert list(scores(database, measure)) == wanted
    assert max(sizes) <= measure.bounds[-1]


def test_values_of_undeclared_columns_are_groups_each_beside_declared_ones(
    database: Database, rows: list[Row]
) -> None:
    measure = parse_measure(database, "visits by note, ward")
    sizes = sizes_of(rows, "note, ward")
    assert list(above_of(database, measure, (5, 20))) == [sum(s > end for s in sizes) for end in (5, 20)]


def test_one_unit_moves_one_bin_and_no_score_by_more_than_one(
    tmp_path: Path, database: Database, rows: list[Row]
) -> None:
    ends = (0, 1, 2, 4, 5, 8, 11, 16, 22, 32, 45, 64, 90, 128)
    largest = 0
    for unit in (0, 7, 40):
        with opened(tmp_path / str(unit), [row for row in rows if row[0] != unit]) as without:
            for by in ("day", "day, ward", "note"):
                both = [(d, parse_measure(d, f"visits by {by}")) for d in (database, without)]
                here, there = (above_of(*each, ends) for each in both)
                bins = [a - np.append(a[1:], 0) for a in (here, there)]
                assert sorted(bins[0] - bins[1])[-2:] == [0, 1]
                assert int(np.abs(bins[0] - bins[1]).sum()) == 1
                moved = scores(*both[0]) - scores(*both[1])
                assert moved.min() >= 0
                largest = max(largest, int(moved.max()))
                assert moved.max() <= FULL
    assert largest == FULL


def test_a_statement_takes_its_bound_from_the_ladder_before_the_policys_number(session: Session) -> None:
    plan = plan_of(session, BY_DAY)
    left, part = present(plan.left_out[0]), of_type(plan.counts[0].parts[0], UnitsOfFew)
    ladder = left.kept.ladder
    assert part.most == left.bound == ladder.choose_bound(Fraction(5), groups=DAYS + 1, even=True)
    assert 3 < part.most < DAYS
    assert (ladder.measure, plan.ladders, plan.groups_kept, plan.assumed) == ("groups by day", (), None, ())
    pairs = "SELECT ward AS w, day, COUNT(DISTINCT id) AS n FROM every_visit GROUP BY day, ward"
    assert present(plan_of(session, pairs).left_out[0]).kept.ladder.measure == "groups by day, ward"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT day, COUNT(DISTINCT id) AS n FROM visits WHERE ward = 3 GROUP BY day",
        "SELECT day, COUNT(DISTINCT id) FILTER (WHERE ward = 3) AS n FROM visits GROUP BY day",
        "SELECT day + 1 AS d, COUNT(DISTINCT id) AS n FROM visits GROUP BY d",
        "SELECT day, COUNT(DISTINCT id) AS n FROM visits GROUP BY day ORDER BY n DESC LIMIT 5",
        "SELECT day, COUNT(DISTINCT id) AS n FROM visits GROUP BY day HAVING n > 5",
        "SELECT ward, COUNT(DISTINCT id) AS n FROM visits GROUP BY ward",
    ],
)
def test_other_statements_have_none(session: Session, statement: str) -> None:
    plan = plan_of(session, statement)
    assert not any(plan.left_out)
    assert plan.groups_left_out is None


@pytest.mark.parametrize(
    "said", ["max_groups_contributed = 9", "mechanism = BOX", "intervals = SIMULTANEOUS"]
)
def test_what_a_statement_says_comes_first(session: Session, said: str) -> None:
    assert not any(plan_of(session, BY_DAY, f"epsilon = 5, {said}").left_out)


def test_where_one_noise_for_all_groups_errs_less_no_unit_is_cut(session: Session) -> None:
    """Neither by the ladder nor by the policy's number: at a large epsilon what is cut would matter more."""
    plan = plan_of(session, BY_DAY, "epsilon = 1000")
    assert (plan.groups_kept, plan.left_out, plan.counts[0].l1_over_groups, plan.assumed) == (
        None,
        (None,),
        None,
        (),
    )


def test_one_unit_moves_all_groups_together_by_at_most_the_bound(
    tmp_path: Path, session: Session, rows: list[Row]
) -> None:
    def counts_of(session: Session) -> NDArray[np.int64]:
        found = private(session.prepare(asked(BY_DAY))).counting.count()
        return np.concatenate(exact_of(found).n)[
            np.argsort([str(key) for key in exact_of(found).keys.to_pylist()])
        ]

    bound = of_type(plan_of(session, BY_DAY).counts[0].parts[0], UnitsOfFew).most
    reached, kept = 0, present(session.database.engines().schema_database.kept_ladders)
    for unit in (0, 7, 40):
        with opened(tmp_path / str(unit), [row for row in rows if row[0] != unit]) as other:
            other.engines().schema_database.kept_ladders = kept
            without = Session(other, "alice")
            assert of_type(plan_of(without, BY_DAY).counts[0].parts[0], UnitsOfFew).most == bound
            moved = counts_of(session) - counts_of(without)
            without.close()
        assert moved.min() >= 0
        assert moved.max() <= 1
        assert moved.sum() <= bound
        reached += moved.sum() == bound
    assert reached


def test_groups_get_back_what_is_cut_and_have_it_in_their_intervals(
    session: Session, rows: list[Row]
) -> None:
    release = present(session.run(asked(BY_DAY)).release)
    plan = plan_of(session, BY_DAY)
    left = present(plan.left_out[0])
    assert f"left out: groups of a patient beyond {left.bound} in visits, about " in release.line
    assert " (in the range)" in release.line
    assert "no patient has more than 512 groups in visits" in release.properties["assumes"]
    sharp = BY_DAY.replace(
        " AS n", " AS n, DP_BOUND(n) AS b, DP_LEFT_OUT(n) AS cut, DP_INTERVAL_LOW(n) AS low"
    )
    shown = present(session.run(asked(sharp, "epsilon = 5, fresh = TRUE")).release).rows.to_pydict()
    assert set(shown["b"]) == {left.bound}
    assert sum(shown["cut"]) == pytest.approx(left.kept.ladder.cut(left.bound), rel=0.1)
    assert sum(size - min(size, left.bound) for size in sizes_of(rows, "day")) > 100


def test_groups_of_undeclared_keys_take_their_bound_from_the_ladder(session: Session) -> None:
    """Which groups of a unit count is chosen by a hash; the policy's number, 3, is not used."""
    plan = plan_of(session, BY_NOTE)
    left = present(plan.groups_left_out)
    assert (
        plan.groups_kept
        == left.bound
        == left.kept.ladder.choose_bound(Fraction(5), groups=100, even=True)
        > 3
    )
    assert (plan.assumed, plan.left_out) == ((), (None,) * len(plan.counts))
    release = present(session.run(asked(BY_NOTE)).release)
    said = f"groups of a patient beyond {left.bound} in visits, how much is not known (not in the range)"
    assert said in release.line
    assert "assumes" not in release.properties
    assert plan_of(session, BY_NOTE, "epsilon = 1, max_groups_contributed = 2").groups_left_out is None
    where = BY_NOTE.replace("GROUP", "WHERE ward = 1 GROUP")
    assert plan_of(session, where).groups_kept == 3


def test_a_bound_on_groups_that_cuts_no_number_is_not_told(session: Session) -> None:
    """It decides which groups are shown: rows have a bound of their own in all groups together."""
    rows = "SELECT note, COUNT(*) AS n FROM visits GROUP BY note"
    plan = plan_of(session, rows, "epsilon = 5, max_rows_contributed = 4")
    assert (plan.groups_kept, present(plan.groups_left_out).kept.ladder.measure) == (None, "groups by note")
    existence = plan.counts[present(plan.existence)].parts[0]
    assert of_type(existence, UnitsOfFew).most == present(plan.groups_left_out).bound
    release = present(session.run(asked(rows, "epsilon = 5, max_rows_contributed = 4")).release)
    assert "groups of a patient beyond" not in release.line


def test_without_a_ladder_the_refusal_names_the_command(tmp_path: Path, rows: list[Row]) -> None:
    with opened(tmp_path, rows, POLICY.replace("groups = 3", "")) as made:
        session = Session(made, "alice")
        hint = r'or the owner finds it once: dpsql bounds "visits by note"'
        with pytest.raises(QueryRefused, match=hint):
            session.prepare(asked(f"SELECT AVG(n) FROM ({BY_NOTE}) AS t"))
        some = BY_NOTE.replace("GROUP", "WHERE ward = 1 GROUP")
        with pytest.raises(QueryRefused) as refused:
            session.prepare(asked(f"SELECT AVG(n) FROM ({some}) AS t"))
        assert "dpsql bounds" not in str(refused.value)
        released(made, "visits by note")
        assert plan_of(session, BY_NOTE).groups_left_out
        session.close()


def test_declared_values_that_change_end_what_is_known(tmp_path: Path, rows: list[Row]) -> None:
    with opened(tmp_path, rows) as made:
        released(made, "visits by day", "visits")
        assert [each.of for each in list_kept(made)] == ["these data"] * 2
    with opened(tmp_path, rows, POLICY.replace(f"to = {DAYS - 1}", f"to = {DAYS}")) as made:
        assert [each.of for each in list_kept(made)] == ["these data", "older data"]
        session = Session(made, "alice")
        left = present(plan_of(session, BY_DAY).left_out[0])
        assert not left.kept.current
        said = "how much is not known since the data or the declared values changed after"
        assert said in present(session.run(asked(BY_DAY)).release).line
        session.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing by day", "there is no table nothing"),
        ("visits by", "there is no table visits by"),
        ("visits by month", "visits has no column month\nHint: one of id, day, ward, note"),
        ("visits by day,", "visits has no column "),
        ("visits by id", "id of visits: the privacy unit cannot be a group key"),
    ],
)
def test_what_has_no_groups_is_refused(database: Database, name: str, message: str) -> None:
    with pytest.raises(ProgrammingError, match=message):
        parse_measure(database, name)


def test_the_numbers_of_units_by_groups_are_kept(database: Database, rows: list[Row]) -> None:
    kept = {each.name: each for each in list_kept(database)}
    assert list(kept) == ["visits by day", "visits by day, ward", "visits by note"]
    found = kept["visits by day"]
    assert (found.measured, found.unit, found.groups, found.declared) == ("groups", "patient", 121, True)
    assert not kept["visits by note"].declared
    sizes = Counter(sizes_of(rows, "day"))
    assert found.number_of_units == sum(sizes.values())
    assert [each.units for each in found.bins()[:2]] == [sizes[1], sizes[2]]
    assert all(a.to == b.above for a, b in itertools.pairwise(found.bins()))
