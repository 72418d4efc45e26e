"""The number of groups of a unit is searched where units of many groups are counted and nobody bounds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.analysis import Contribution
from dpsql.analysis.cut_contributions import find_excesses
from dpsql.analysis.released.unit_counts import UnitsOfFew
from dpsql.kernel import mechanisms
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.exact import exact_of
from tests.support.world import write_world

DAYS, EXTRA = 120, 7
POLICY = f"""
[budget]
epsilon = 1e6
default_epsilon = 0.25
[tables.visits]
source = "visits.parquet"
unit = "id"
unit_kind = "patient"
domain.day = {{ from = 0, to = {DAYS - 1} }}
domain.ward = {{ from = 0, to = 9 }}
"""
STATEMENTS = {
    "all": "SELECT day, COUNT(DISTINCT id) AS n FROM visits GROUP BY day",
    "some": "SELECT day, COUNT(DISTINCT id) FILTER (WHERE flag) AS n FROM visits GROUP BY day",
    "pairs": "SELECT day, ward, COUNT(DISTINCT id) AS n FROM visits GROUP BY day, ward",
}


@pytest.fixture(scope="module")
def rows() -> list[tuple[int | None, int | None, int, bool]]:
    """Units with few groups and with many; some days are outside of the domain, some NULL, some twice."""
    draw = np.random.default_rng(5)
    found: list[tuple[int | None, int | None, int, bool]] = []
    for unit in range(60):
        size = int(draw.choice([1, 3, 9, 40, 200], p=[0.3, 0.3, 0.2, 0.1, 0.1]))
        for day in draw.integers(0, DAYS + EXTRA, size):
            held = None if day == DAYS + EXTRA - 1 else int(day)
            found.append((unit, held, int(draw.integers(0, 10)), bool(draw.integers(0, 2))))
    return [*found, (None, 3, 1, True), (None, 4, 1, False)]


def opened(folder: Path, rows: list[tuple[int | None, int | None, int, bool]]) -> Session:
    listed = ", ".join(str(row).replace("None", "NULL") for row in rows)
    made = f"SELECT * FROM (VALUES {listed}) AS t(id, day, ward, flag)"
    folder.mkdir()
    write_world(folder, POLICY, visits=made)
    return Session(load(folder / "dpsql.toml"))


@pytest.fixture(scope="module")
def session(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int | None, int | None, int, bool]]
) -> Iterator[Session]:
    made = opened(tmp_path_factory.mktemp("groups") / "whole", rows)
    yield made
    made.close()


def asked(statement: str) -> str:
    return statement.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY", 1)


def bins_of(session: Session, statement: str) -> mechanisms.RungBins:
    counting = private(session.prepare(asked(statement))).counting
    (search,) = counting.plan.ladders
    return mechanisms.RungBins(*exact_of(counting.count(search.compiled)).n)


def counts_of(session: Session, statement: str, place: int) -> NDArray[np.int64]:
    counting = private(session.prepare(asked(statement))).counting
    counts = counting.with_bounds((place,)).count()
    keys = [str(key) for key in exact_of(counts).keys.to_pylist()]
    return np.concatenate(exact_of(counts).n)[np.argsort(keys)]


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.sampled(3)
def test_the_groups_of_each_unit_are_measured(
    session: Session, rows: list[tuple[int | None, int | None, int, bool]], name: str
) -> None:
    """All values outside of the domain are one group, and NULL is one."""
    plan = private(session.prepare(asked(STATEMENTS[name]))).plan
    (search,) = plan.ladders
    assert search.ladder.of is Contribution.GROUPS
    groups: dict[int, set[object]] = {}
    for unit, day, ward, flag in rows:
        if unit is None or (name == "some" and not flag):
            continue
        outside = day is not None and day >= DAYS
        key: object = "outside" if outside else (day, ward if name == "pairs" else None)
        groups.setdefault(unit, set()).add(key)
    sizes = Counter(len(each) for each in groups.values())
    bins, bounds = bins_of(session, STATEMENTS[name]), search.ladder.bounds
    for place, bound in enumerate(bounds):
        clipped = sum(min(size, bound) * times for size, times in sizes.items())
        assert bins.clipped(bounds, place) == clipped
        assert int(counts_of(session, STATEMENTS[name], place).sum()) == clipped


@pytest.mark.parametrize(
    "units", [(7,), *(pytest.param(some, marks=pytest.mark.slow) for some in ((0, 7, 19), (3, 11, 23)))]
)
def test_one_unit_moves_all_groups_together_by_at_most_the_bound(
    tmp_path: Path,
    session: Session,
    rows: list[tuple[int | None, int | None, int, bool]],
    units: tuple[int, ...],
) -> None:
    reached = 0
    for unit in units:
        without = opened(tmp_path / str(unit), [row for row in rows if row[0] != unit])
        for name, statement in STATEMENTS.items():
            plan = private(session.prepare(asked(statement))).plan
            bounds = plan.ladders[0].ladder.bounds
            here, there = bins_of(session, statement), bins_of(without, statement)
            for place in (0, 2, 4):
                moved = counts_of(session, statement, place) - counts_of(without, statement, place)
                assert moved.min() >= 0
                assert moved.max() <= 1
                assert moved.sum() <= bounds[place]
                reached += moved.sum() == bounds[place]
                more = here.excess(bounds, place, times=3) - there.excess(bounds, place, times=3)
                assert 0 <= more <= 3 * bounds[place], name
        without.close()
    assert reached


def test_the_excess_of_groups_is_measured(session: Session) -> None:
    prepared = private(session.prepare(asked(STATEMENTS["all"])))
    bounded = prepared.counting.with_bounds((2,)).plan
    assert isinstance(bounded.counts[0].parts[0], UnitsOfFew)
    (excess,) = find_excesses(bounded, prepared.plan.ladders, (2,))
    assert (excess.limit, excess.times, excess.most) == (4, 3, 12)
    release = present(session.run(asked(STATEMENTS["all"])).release)
    assert release.charge.epsilon == Fraction(1, 4)
    assert "groups of a patient beyond" in release.line
    assert "(in the range) if no patient is beyond" in release.line


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT ward, COUNT(DISTINCT id) AS n FROM visits GROUP BY ward",
        "SELECT day, COUNT(DISTINCT id) AS n FROM visits GROUP BY day ORDER BY n DESC LIMIT 5",
        "SELECT OPTIONS (max_groups_contributed = 9) day, COUNT(DISTINCT id) AS n FROM visits GROUP BY day",
        "SELECT OPTIONS (mechanism = BOX) day, COUNT(DISTINCT id) AS n FROM visits GROUP BY day",
    ],
)
def test_few_groups_selections_and_what_is_written_are_not_searched(session: Session, statement: str) -> None:
    assert not private(session.prepare(asked(statement))).plan.ladders
