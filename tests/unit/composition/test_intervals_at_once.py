"""Intervals of what SQL over released numbers selects: for all numbers at once, the same wherever shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.estimates.predictions import half_width
from dpsql.kernel import mechanisms
from dpsql.planning import COVERS_LESS
from dpsql.release import (
    Release,
    ends_of,
    from_arrow,
    from_bytes,
    hold_at_once,
    places_of,
    to_arrow,
    to_bytes,
    write_cell,
)
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.support.world import open_world

GROUPS = 12
PARTS = 1 << 24
"""In how many parts of a row rows are counted."""
POLICY = f"""
[budget]
epsilon = 1e9
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
rows_per_unit = 1
[tables.t.domain]
g = {{ from = 1, to = {GROUPS}, complete = true }}
[tables.t.bounds]
v = {{ from = 0, to = 50 }}
"""
BLOCK = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
ENDS = "SELECT g, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS lo, DP_INTERVAL_HIGH(n) AS hi FROM t GROUP BY g"
NOTE = (
    f"released numbers decide what is shown, so intervals hold for the numbers of all {GROUPS} groups at once"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """12 groups of 100 units with one row each."""
    folder = tmp_path_factory.mktemp("selected")
    unit = np.arange(100 * GROUPS)
    with open_world(folder, POLICY, t={"u": unit, "g": unit % GROUPS + 1, "v": unit % 50}) as made:
        yield made


def written(rest: str, options: str = "epsilon = 0.5, fresh = TRUE") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"


def asked(session: Session, rest: str, options: str = "epsilon = 0.5, fresh = TRUE") -> Release:
    return present(session.run(written(rest, options)).release)


def widths(table: pa.Table, name: str = "n") -> set[float]:
    """Half the widths of the intervals of a number, rounded."""
    low, high = (table.column(f"{name}_{end}").to_numpy() for end in ("low", "high"))
    return {*((high - low) / 2).round(4).tolist()}


def laplace_width(numbers: int) -> float:
    law = mechanisms.Laplace.plan(1, Fraction(1, 2), sensitivity=PARTS)
    return round(half_width(law, 1 - Fraction(5, 100) / numbers) / PARTS, 4)


BY_NOISE = [
    "g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n + 0 DESC LIMIT 3",
    "g, COUNT(*) AS n FROM t GROUP BY g QUALIFY n = MAX(n) OVER ()",
    "g, COUNT(*) AS n FROM t GROUP BY g QUALIFY n >= AVG(n) OVER ()",
    "g, COUNT(*) AS n FROM t GROUP BY g HAVING COUNT(*) > 1 AND COUNT(*) < 100000",
    f"* FROM ({BLOCK}) WHERE n > 1",
    f"a.g, a.n FROM ({BLOCK}) AS a SEMI JOIN (SELECT g FROM ({BLOCK}) WHERE n > 1) AS b USING (g)",
]  # fmt: skip
BY_KEYS = [
    "g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n DESC",
    "g, COUNT(*) AS n FROM t GROUP BY g HAVING g < 3",
    f"* FROM ({BLOCK}) WHERE g > 3 ORDER BY g LIMIT 2",
    f"g, n, n / SUM(n) OVER () AS share FROM ({BLOCK})",
]  # fmt: skip


@pytest.mark.parametrize("rest", BY_NOISE)
@pytest.mark.sampled(3, rest="longer")
def test_what_noise_selects_has_the_interval_of_all_groups(session: Session, rest: str) -> None:
    release = asked(session, rest)
    assert widths(release.table) == {laplace_width(GROUPS)}
    assert NOTE in release.warnings
    explained = session.run(f"EXPLAIN {written(rest)}").table.to_pydict()
    facts = dict(zip(explained["property"], explained["value"], strict=True))
    assert facts["half_width"] == f"{laplace_width(GROUPS):.4g}"
    assert NOTE in facts["warnings"]


@pytest.mark.parametrize("rest", BY_KEYS)
def test_what_keys_select_has_the_interval_of_one(session: Session, rest: str) -> None:
    release = asked(session, rest)
    assert widths(release.table) == {laplace_width(1)}
    assert not release.warnings


def test_the_interval_is_the_same_wherever_it_is_shown(session: Session) -> None:
    release = asked(session, f"* FROM ({ENDS}) WHERE n > 1")
    table, (part,) = release.table, release.parts
    assert widths(table) == widths(part.table) == {laplace_width(GROUPS)}
    for end, column in (("low", "lo"), ("high", "hi")):
        assert release.rows.column(column).to_pylist() == table.column(f"n_{end}").to_pylist()
        assert part.rows.column(column).to_pylist() == part.table.column(f"n_{end}").to_pylist()
    told = json.loads(write_cell(release).column(0)[0].as_py())["rows"]
    assert [(row["lo"], row["hi"]) for row in told] == [(row["n_low"], row["n_high"]) for row in told]
    received = present(from_arrow(to_arrow(release.rows, release))[1])
    assert received.table.equals(table)
    assert f"± {laplace_width(GROUPS):.0f}" in repr(release)


def test_ends_that_noise_chooses_are_those_of_all_groups(session: Session) -> None:
    most = asked(session, f"MAX(n) AS most, ARG_MAX(lo, n) AS lo, ARG_MAX(hi, n) AS hi FROM ({ENDS})")
    (row,) = most.rows.to_pylist()
    assert row["hi"] - row["most"] == pytest.approx(laplace_width(GROUPS), abs=1e-3)
    assert row["most"] - row["lo"] == pytest.approx(laplace_width(GROUPS), abs=1e-3)
    assert most.warnings == (NOTE,)
    each = asked(session, f"g, hi - lo AS width FROM ({ENDS})")
    assert {round(w / 2, 4) for w in each.rows.column("width").to_pylist()} == {laplace_width(1)}


def test_one_release_answers_both_for_the_price_of_one(session: Session) -> None:
    """The released numbers do not depend on what is done with them, so the stored ones answer again."""
    options = "epsilon = 0.5, confidence = 0.9"
    first = asked(session, BLOCK.removeprefix("SELECT "), options)
    spent = session.budget().spent.epsilon
    selecting = asked(
        session, "k, c FROM (SELECT g AS k, COUNT(*) AS c FROM t GROUP BY g) WHERE c > 1", options
    )
    again = asked(session, BLOCK.removeprefix("SELECT "), options)
    assert session.budget().spent.epsilon == spent
    assert again.table.equals(first.table)
    assert selecting.rows.column("c").to_pylist() == first.rows.column("n").to_pylist()
    assert widths(selecting.table, "c").pop() > widths(first.table).pop()
    prepared = of_type(session.prepare(written(f"* FROM ({BLOCK}) WHERE n > 1", options)), PreparedComposed)
    assert not prepared.price.epsilon
    assert present(prepared.parts[0].method.quote.half_width) > widths(first.table).pop()


def test_an_error_is_that_of_the_interval_that_is_shown(session: Session) -> None:
    release = asked(session, f"* FROM ({BLOCK}) WHERE n > 1", "error = 50, fresh = TRUE")
    assert 49 < widths(release.table).pop() <= 50
    plain = asked(session, f"* FROM ({BLOCK}) WHERE g > 1", "error = 50, fresh = TRUE")
    assert 49 < widths(plain.table).pop() <= 50
    assert release.charge.epsilon > plain.charge.epsilon


def test_single_intervals_stay_single_and_that_is_told(session: Session) -> None:
    options = "epsilon = 0.5, fresh = TRUE, intervals = SINGLE"
    release = asked(session, f"* FROM ({BLOCK}) WHERE n > 1", options)
    assert widths(release.table) == {laplace_width(1)}
    assert release.warnings == (COVERS_LESS,)


def test_without_an_interval_nothing_is_told(session: Session) -> None:
    assert not asked(session, f"g FROM ({BLOCK}) WHERE n > 1").warnings
    assert not asked(session, f"MAX(n) AS most FROM ({BLOCK})").warnings


def test_rows_of_a_top_k_hold_together_for_the_rows_that_it_may_show(session: Session) -> None:
    top = "SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 3"
    options = "epsilon = 0.5, fresh = TRUE, mechanism = NOISY_TOP_K, measure_strategy = BOX"
    alone = asked(session, top.removeprefix("SELECT "), options)
    release = asked(session, f"* FROM ({top}) WHERE n > 1", options)
    box = mechanisms.Box.plan(3, Fraction(1, 4), sensitivity=PARTS)
    level = Fraction(95, 100)
    assert widths(alone.table).pop() == pytest.approx(half_width(box, level, 0) / PARTS, abs=1e-3)
    wide = half_width(box, level, 0, simultaneous=True) / PARTS
    assert widths(release.table).pop() == pytest.approx(wide, abs=1e-3)
    (note,) = release.warnings
    assert (
        note
        == "released numbers decide what is shown, so intervals hold for all numbers that it may show at once"
    )


NUMBERS = "COUNT(*) AS n, SUM(v) AS s, AVG(v) AS a, VAR_POP(v) AS d"


@pytest.mark.parametrize(
    "options", ["epsilon = 1, mechanism = LAPLACE", "epsilon = 1, mechanism = BOX", "epsilon = 0.5"]
)
def test_intervals_of_several_kinds_of_numbers_contain_the_single_ones(
    session: Session, options: str
) -> None:
    two = "COUNT(*) AS n, COUNT(*) FILTER (WHERE v > 9) AS m"
    items = two if "mechanism" in options else NUMBERS
    block = f"SELECT g, {items} FROM t GROUP BY g"
    prepared = session.prepare(written(block.removeprefix("SELECT "), f"{options}, confidence = 0.8"))
    names = of_type(prepared, PreparedPrivate).plan.outputs
    single = asked(session, block.removeprefix("SELECT "), f"{options}, confidence = 0.8")
    wide = asked(session, f"* FROM ({block}) WHERE n > 0", f"{options}, confidence = 0.8")
    assert single.rows.equals(wide.rows)
    for name in (output.name for output in names if output.kind == "count"):
        low, high, lower, higher = (
            table.column(f"{name}_{end}").to_numpy(zero_copy_only=False)
            for table in (single.table, wide.table)
            for end in ("low", "high")
        )
        assert (lower <= low).all()
        assert (higher >= high).all()
        assert ((higher - lower) > (high - low)).any(), name


def test_a_stored_release_keeps_both_intervals(session: Session) -> None:
    (part,) = asked(session, f"* FROM ({ENDS})").parts
    prepared = of_type(session.prepare(written(ENDS.removeprefix("SELECT "))), PreparedPrivate)
    stored = asked(session, ENDS.removeprefix("SELECT "))
    read = from_bytes(to_bytes(stored))
    assert present(read.together).equals(present(stored.together))
    ends = ends_of(prepared.plan.outputs, places_of(read))
    assert {read.table.column_names[place] for place in ends} == {"lo", "hi", "n_low", "n_high"}
    assert widths(hold_at_once(read, ends).table) == {laplace_width(GROUPS)}
    older = from_bytes(to_bytes(replace(stored, together=None)))
    assert older.together is None
    unknown = hold_at_once(older, ends)
    assert unknown.table.column("n_low").null_count == unknown.rows.column("lo").null_count == GROUPS
    assert unknown.table.schema.equals(stored.table.schema)
    assert part.rows.column_names == stored.rows.column_names


def test_a_value_that_a_later_release_reads_selects_through_it(session: Session, tmp_path: Path) -> None:
    del tmp_path
    block = f"SELECT g, COUNT(*) AS m FROM t WHERE v > (SELECT AVG(n) / 10 FROM ({BLOCK})) GROUP BY g"
    release = asked(session, f"a.g, a.n, b.m FROM ({BLOCK}) AS a JOIN ({block}) AS b USING (g) WHERE b.m > 0")
    first = laplace_width(1)
    assert all(width > 2 * first for name in ("n", "m") for width in widths(release.table, name))


def test_the_larger_of_two_releases_is_covered_as_one_of_both(session: Session) -> None:
    """Noise chooses among the numbers of both: what intervals may miss is divided between the releases."""
    other = ENDS.replace("FROM t", "FROM t WHERE v < 49")
    options = "epsilon = 1, fresh = TRUE"
    release = asked(session, f"* FROM ({ENDS} UNION ALL {other}) ORDER BY n DESC LIMIT 5", options)
    low, high = (release.rows.column(name).to_numpy() for name in ("lo", "hi"))
    assert {*((high - low) / 2).round(4).tolist()} == {laplace_width(2 * GROUPS)}
    every = asked(session, f"* FROM ({ENDS} UNION ALL {other})", options)
    low, high = (every.rows.column(name).to_numpy() for name in ("lo", "hi"))
    assert {*((high - low) / 2).round(4).tolist()} == {laplace_width(1)}
