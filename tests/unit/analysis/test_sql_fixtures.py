"""Statements as people type them: accepted ones count what the SQL says, refused ones say what and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.analysis import Plan, analyse, complete_options
from dpsql.composition.block import separate
from dpsql.engines import Engine, open_engine
from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.kernel.tree import Scan, Select, walk
from dpsql.language import Query, TopK, parse
from dpsql.policy import fold, load
from dpsql.session import Session
from tests.narrow import engine_of
from tests.sql_fixtures import FOLDER, Fixture, raw_data, read, write
from tests.support.exact import exact_of

ASKS = " -- asks something else: "
"""In a hint that is a whole statement, and another question."""
LEFT_OUT = re.compile(rf"{ASKS}(?:.*; )?(?:it without `|how many rows there are, not `|`.* alone, not `)")
"""In a hint that leaves out what nothing else helps: a fixture does not name it, it is run as it stands."""
PROVIDED = " -- the same if "
"""In a hint that is a whole statement, and the same question on a condition."""
UNITS = (1, 5, 7, 20)
"""Privacy units to remove: 1 is no user, 5 and 7 have odd values, 20 most rows."""


def fixtures(*paths: Path) -> list[Any]:
    found = [f for path in paths for f in read(path)]
    names = [f.name.split()[1] for f in found]
    assert len(set(names)) == len(names), "two fixtures have one number"
    return [pytest.param(f, id=f.name) for f in found]


ACCEPTED = fixtures(*sorted((FOLDER / "accepted").glob("*.sql")))
VALUES = fixtures(FOLDER / "accepted" / "values.sql")
COUNTS = [f for f in ACCEPTED if not f.values[0].name.startswith("values ")]
REFUSED = fixtures(*sorted((FOLDER / "refused").glob("*.sql")))
FOLLOWED = fixtures(FOLDER / "hints.sql")
LATER = fixtures(FOLDER / "later.sql")
DAILY = 24


def sample(found: list[Any]) -> list[Any]:
    """Every n-th fixture, `DAILY` of all files; the rest of them is slow."""
    step = max(1, len(found) // DAILY)
    slow = pytest.mark.slow
    return [f if i % step == 0 else pytest.param(*f.values, id=f.id, marks=slow) for i, f in enumerate(found)]


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with raw_data() as connection:
        yield connection


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    found = Session(load(write(tmp_path_factory.mktemp("sql") / "whole", raw)))
    yield found
    found.close()


@pytest.fixture(scope="module")
def neighbours(
    tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection
) -> Iterator[dict[int, Engine]]:
    """One engine a unit, over the data without that unit's rows."""
    base = tmp_path_factory.mktemp("neighbours")
    opened = {}
    for unit in UNITS:
        own = ("visits", "users", "baskets", "refunds")
        less = {t: f"FROM {t} WHERE user_id IS DISTINCT FROM {unit}" for t in own}
        less["goods"] = (
            f"FROM goods WHERE basket_id NOT IN (SELECT basket_id FROM baskets WHERE user_id = {unit})"
        )
        kept = f"basket_id NOT IN (SELECT basket_id FROM baskets WHERE user_id = {unit})"
        less["parcels"] = f"FROM parcels WHERE ({kept}) IS NOT FALSE"
        less["scans"] = f"FROM scans WHERE parcel_id NOT IN (SELECT parcel_id FROM parcels WHERE NOT {kept})"
        opened[unit] = open_engine(load(write(base / str(unit), raw, **less)))
    yield opened
    for engine in opened.values():
        engine.close()


ALIKE = 311
"""How many units have the very same rows; a prime, so that no multiple is one by chance."""


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Iterator[Engine]:
    """An engine over units that differ in nothing but their number: twins, whose rows lie in any order."""
    rows = "SELECT * EXCLUDE (user_id) FROM visits WHERE user_id IN (3, 5, 6)"
    made = open_engine(
        load(
            write(
                tmp_path_factory.mktemp("alike") / "data",
                raw,
                visits=f"SELECT i AS user_id, v.* FROM range({ALIKE}) AS r(i), ({rows}) AS v, range(2) c(j) "
                "ORDER BY hash(i * 1000 + j, COLUMNS(v.*))",
                users=f"SELECT i AS user_id, 40 AS age, 'X' AS city FROM range({ALIKE}) AS r(i)",
                baskets="SELECT 2 * i + j AS basket_id, i AS user_id, ['a', 'b'][j + 1] AS page, j = 0 late "
                f"FROM range({ALIKE}) AS r(i), range(2) AS c(j)",
                goods="SELECT i // 3 AS basket_id, ['x', 'y', 'z'][i % 3 + 1] AS sku, i % 2 = 0 AS late "
                f"FROM range({ALIKE} * 6) AS r(i)",
                parcels="SELECT i AS parcel_id, i // 2 AS basket_id, i % 2 = 0 AS late "
                f"FROM range({ALIKE} * 4) AS r(i)",
                scans="SELECT i // 2 AS parcel_id, ['depot', 'door'][i % 2 + 1] AS place, i % 4 AS hour "
                f"FROM range({ALIKE} * 8) AS r(i)",
                refunds="SELECT i AS refund_id, i // 2 AS basket_id, i // 4 AS user_id, i // 2 AS receipt, "
                "['late', 'broken'][i % 2 + 1] AS reason, DATE '2024-03-01' + (i % 4)::INTEGER AS day "
                f"FROM range({ALIKE} * 4) AS r(i)",
                readings=f"SELECT r.* FROM readings AS r, range({ALIKE})",
            )
        )
    )
    yield made
    made.close()


OUTSIDE = ("in no group",)


@cache
def proved(session: Session, statement: str) -> Plan:
    """The plan of a statement's release block, made once for all tests of the statement."""
    query = parse(statement)
    assert isinstance(query, Query)
    plain, _ = separate(query, session.policy, engine_of(session).schema_database)
    return analyse(
        plain,
        session.policy,
        engine_of(session).schema_database,
        complete_options(query.options, session.defaults),
    )


def counted(engine: Engine, plan: Plan) -> dict[tuple[object, ...], tuple[int, ...]]:
    """Candidate group -> its exact counts, and those of the rows in none of them under `OUTSIDE`.

    The first number of the rows of a quantile is their cell: it is a key as well.
    """
    counts = engine.count(plan.compiled)
    keys: list[tuple[object, ...]] = [()]
    numbers = [n.tolist() for n in exact_of(counts).n]
    columns = [c.to_pylist() for c in exact_of(counts).keys.columns]
    if plan.cells:
        columns.append(numbers.pop(0))
    if columns:
        keys = list(zip(*columns, strict=True))
    if plan.outside:
        keys[int(exact_of(counts).in_order()[-1])] = OUTSIDE
    found = dict(zip(keys, zip(*numbers, strict=True), strict=True))
    assert len(found) == len(exact_of(counts).n[0]), "a candidate group came twice"
    return found


def candidates_of(
    found: dict[tuple[object, ...], tuple[int, ...]],
) -> dict[tuple[object, ...], tuple[int, ...]]:
    """The candidate groups alone."""
    return {key: n for key, n in found.items() if key is not OUTSIDE}


@cache
def counted_whole(session: Session, statement: str) -> dict[tuple[object, ...], tuple[int, ...]]:
    """Candidate group -> its exact counts in the whole data, counted once for all tests of the statement."""
    return counted(engine_of(session), proved(session, statement))


@cache
def refusal(session: Session, statement: str) -> QueryRefused | QuerySyntaxError:
    """The error of a statement that is refused, run once for what it says and for its hint."""
    with pytest.raises((QueryRefused, QuerySyntaxError)) as caught:
        session.run(statement)
    assert isinstance(caught.value, (QueryRefused, QuerySyntaxError))
    return caught.value


def meant(
    raw: duckdb.DuckDBPyConnection, fixture: Fixture, plan: Plan
) -> dict[tuple[object, ...], tuple[int, ...]]:
    """What the statement means, by DuckDB on the raw data: `itself` is all but its last line."""
    expect = fixture.notes["expect"]
    if expect == "itself":
        expect = fixture.statement.rpartition("\n")[0]
    width = len(plan.key_types) + bool(plan.cells)
    table = raw.sql(expect).to_arrow_table()
    rows = {row[:width]: row[width:] for row in zip(*(c.to_pylist() for c in table.columns), strict=True)}
    if not width:
        return rows
    if fixture.notes["candidates"] == "unknown":
        return {key: n for key, n in rows.items() if n[0]}
    zero = (0,) * len(plan.counts)
    candidates = [tuple(row) for row in raw.sql(fixture.notes["candidates"]).fetchall()]
    return {candidate: rows.get(candidate, zero) for candidate in candidates}


def numbers(plan: Plan, counts: tuple[int, ...]) -> list[float]:
    """The numbers of one group that are shown, without noise: NaN where there is no average."""
    found = []
    for output in plan.outputs:
        if output.kind != "count":
            continue
        exact = [np.array([float(counts[p] * plan.counts[p].step)]) for p in output.uses or (output.of,)]
        if output.formula is not None:
            exact = [output.formula.estimate(exact, 1e-9, Fraction(1, 2)).value]
        found.append(float(exact[0][0]))
    return found


@pytest.mark.parametrize("fixture", VALUES)
@pytest.mark.sampled(3, rest="longer")
def test_accepted_sums_and_averages_are_those_of_the_sql(
    fixture: Fixture, session: Session, raw: duckdb.DuckDBPyConnection
) -> None:
    plan = proved(session, fixture.statement)
    whole = candidates_of(counted_whole(session, fixture.statement))
    found = {key: numbers(plan, n) for key, n in whole.items()}
    meaning, width = fixture.notes["expect"], len(plan.key_types)
    if meaning == "itself":
        meaning = fixture.statement.rpartition("\n")[0]
    expected = {row[:width]: row[width:] for row in raw.sql(meaning).fetchall()}
    listed = raw.sql(fixture.notes["candidates"]).fetchall() if width else [()]
    assert {*found} == {*listed}
    for key, values in found.items():
        # A group without rows has sums of 0, and no average.
        wanted = expected.get(key, (None,) * len(values))
        assert len(values) == len(wanted)
        for value, want in zip(values, wanted, strict=True):
            if want is None:
                assert value == 0 or np.isnan(value)
            else:
                assert value == pytest.approx(float(want), rel=1e-9, abs=1e-9), (key, values, wanted)
    assert any(any(row) for row in expected.values()), "a fixture that sums nothing shows nothing"


@pytest.mark.parametrize("fixture", COUNTS)
@pytest.mark.sampled(6, rest="longer")
def test_accepted_counts_what_the_sql_means(
    fixture: Fixture, session: Session, raw: duckdb.DuckDBPyConnection
) -> None:
    plan = proved(session, fixture.statement)
    expected = meant(raw, fixture, plan)
    steps = [count.step for count in plan.counts]
    found = {
        key: tuple(n * step for n, step in zip(row, steps, strict=True))
        for key, row in candidates_of(counted_whole(session, fixture.statement)).items()
    }
    if fixture.notes.get("candidates") == "unknown":  # the largest groups alone, any of equal ones at the cut
        assert plan.domain_size is None
        least = min(n for (n,) in found.values())
        assert found.items() <= expected.items()
        assert all(n <= least for key, (n,) in expected.items() if key not in found)
    else:
        assert found == expected
    assert any(any(row) for row in expected.values()), "a fixture that counts nothing shows nothing"


@pytest.mark.parametrize("fixture", sample(ACCEPTED))
@pytest.mark.sampled(4, rest="longer")
def test_accepted_changes_by_one_at_most_when_a_unit_goes(
    fixture: Fixture, session: Session, neighbours: dict[int, Engine]
) -> None:
    plan = proved(session, fixture.statement)
    whole = counted_whole(session, fixture.statement)
    bounds = np.array([c.bound for c in plan.counts])
    monotone = np.array([c.monotone for c in plan.counts])
    moved = 0
    for unit, engine in neighbours.items():
        less = counted(engine, plan)
        if plan.cells:  # a cell without rows is not counted
            less |= dict.fromkeys(whole.keys() - less.keys(), (0,))
        elif plan.domain_size is not None or not plan.key_types:
            assert less.keys() == whole.keys(), f"the candidates depend on unit {unit}"
        lost = np.array([np.subtract(whole[key], less[key]) for key in whole.keys() & less.keys()])
        check_totals(plan, lost)
        assert (lost >= np.where(monotone, 0, -bounds)).all(), f"a count falls by adding unit {unit}"
        assert (lost <= bounds).all(), f"unit {unit} changes a count by {lost.max()}"
        moved = max(moved, int(lost.any(axis=-1).sum()))
    assert not (plan.key_types and plan.one_group and not plan.cells) or moved <= 1
    if "groups" in fixture.notes:
        assert (plan.one_group, moved > 1) == (
            fixture.notes["groups"] == "1",
            fixture.notes["groups"] == "many",
        )


def check_totals(plan: Plan, lost: NDArray[np.int64]) -> None:
    """Assert that the numbers that share a bound move together by no more, in all groups."""
    shares = [
        count.noise_group if count.noise_group is not None else place
        for place, count in enumerate(plan.counts)
    ]
    for share in set(shares):
        places = [place for place, own in enumerate(shares) if own == share]
        bound = plan.l1_over_groups(places[0])
        assert bound is None or np.abs(lost[:, places]).sum() <= bound


@pytest.mark.parametrize("fixture", sample([f for f in ACCEPTED if "units" not in f.values[0].notes]))
@pytest.mark.sampled(3, rest="longer")
def test_accepted_treats_units_with_the_same_rows_alike(
    fixture: Fixture, session: Session, alike: Engine
) -> None:
    """What depends on how rows lie (ties, sums of doubles, build sides) would tell twins apart."""
    plan = proved(session, fixture.statement)
    for key, counts in counted(alike, plan).items():
        assert all(n % ALIKE == 0 for n in counts), f"{key}: {counts} of {ALIKE} twins"


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_no_count_decides_in_the_counting_query_what_is_counted(session: Session, every: int) -> None:
    """HAVING and LIMIT over exact counts would release them, except where a mechanism is made for it."""
    private = {fold(t.name) for t in session.policy.tables.values() if not t.public}
    limits = 0
    for case in ACCEPTED[::every]:
        plan = proved(session, case.values[0].statement)
        query = plan.compiled.query
        assert " HAVING " not in plan.compiled.sql
        for node in walk(query):
            if not isinstance(node, Select) or node.limit is None:
                continue
            limits += 1
            largest = node is query and plan.domain_size is None and isinstance(plan.selection, TopK)
            scans = {fold(n.table) for n in walk(node) if isinstance(n, Scan)}
            assert largest or not scans & private, case.values[0].name
    assert limits or every > 1


@pytest.mark.parametrize("fixture", REFUSED)
@pytest.mark.sampled(2, rest="longer")
def test_refused_says_what_and_where(fixture: Fixture, session: Session) -> None:
    error = refusal(session, fixture.statement)
    assert error.line is not None
    assert error.col is not None
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    found = next(o for o in error.obstacles if fixture.notes["error"] in o.message)
    assert fixture.notes.get("hint", "") in (found.hint or "")
    assert ("hint" in fixture.notes) == (found.hint is not None and not LEFT_OUT.search(found.hint))
    token, _, number = fixture.notes["at"].partition(" #")
    assert (found.line, found.col) == place(fixture.statement, token, int(number or 1))
    expected = fixture.notes.get("obstacles", found.message).split(" | ")
    assert len(error.obstacles) == len(expected)
    for one, message in zip(error.obstacles, expected, strict=True):
        assert one.message.startswith(message)
    assert [(o.line, o.col) for o in error.obstacles] == sorted((o.line, o.col) for o in error.obstacles)
    assert error.rewrite == fixture.notes.get("rewrite")
    for offered in (error.rewrite, *(o.hint for o in error.obstacles if is_whole(o.hint or ""))):
        if offered is not None:
            session.prepare(offered)


def is_whole(hint: str) -> bool:
    """Whether a hint is a whole statement, with what it asks."""
    return ASKS in hint or PROVIDED in hint


def place(statement: str, token: str, number: int) -> tuple[int, int]:
    """Line and column of the number-th occurrence of a token."""
    at = -1
    for _ in range(number):
        at = statement.index(token, at + 1)
    return statement.count("\n", 0, at) + 1, at - statement.rfind("\n", 0, at)


@pytest.mark.parametrize("fixture", LATER)
def test_later_is_refused_cleanly(fixture: Fixture, session: Session) -> None:
    """Statements of the design that nobody has built yet: whoever does moves them to `accepted`."""
    with pytest.raises((QueryRefused, QuerySyntaxError)) as caught:
        session.prepare(fixture.statement)
    error = caught.value
    assert isinstance(error, (QueryRefused, QuerySyntaxError))
    assert error.line is not None
    assert error.col is not None
    assert error.__cause__ is None


BY_NUMBER = {case.values[0].name.split()[1]: case.values[0].statement for case in REFUSED}


def hint_to_follow(session: Session, number: str) -> str | None:
    """The hint that a refused statement is given; None for whole statements, which are run anyway."""
    error = refusal(session, BY_NUMBER[number])
    whole = error.hint is None or error.rewrite is not None or is_whole(error.hint)
    return None if whole else error.hint


@pytest.mark.parametrize("fixture", FOLLOWED)
@pytest.mark.sampled(3, rest="longer")
def test_a_hint_that_is_followed_works(session: Session, fixture: Fixture) -> None:
    assert hint_to_follow(session, fixture.name.split()[1]) is not None
    session.prepare(fixture.statement)


@pytest.mark.longer
def test_every_hint_was_followed(session: Session) -> None:
    followed = {hint_to_follow(session, case.values[0].name.split()[1]) for case in FOLLOWED}
    assert {hint_to_follow(session, number) for number in BY_NUMBER} - followed == {None}
