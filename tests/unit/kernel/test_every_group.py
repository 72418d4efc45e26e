"""Whether all groups of a public domain are there: how many there are is then public, and is counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from kernel.grounds import FixtureGround

from dpsql.errors import InternalError
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.check import Keys, certify
from dpsql.kernel.release import Run
from tests.support.exact import ample, made_up, with_exact

BOUNDS = "contribution_bounds_per_row => (0, 100)"


@pytest.fixture(scope="module")
def ground() -> Iterator[FixtureGround]:
    made = FixtureGround()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("statement", "keys", "every"),
    [
        ("SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page", Keys.DECLARED, True),
        ("SELECT COUNT(DISTINCT user_id) AS n FROM visits", Keys.ONE, True),
        (f"SELECT city, MEDIAN(age, {BOUNDS}) AS m FROM users GROUP BY city", Keys.CELLS, True),
        (f"SELECT MEDIAN(age, {BOUNDS}) AS m FROM users", Keys.CELLS, False),
        (
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6) age, MEDIAN(age, {BOUNDS}) AS m "
            "FROM users GROUP BY age",
            Keys.UNKNOWN,
            False,
        ),
    ],
    ids=["declared", "one", "cells", "cells of all rows", "cells of groups that have rows"],
)
def test_which_groups_are_there_follows_from_the_query(
    ground: FixtureGround, statement: str, keys: Keys, every: bool
) -> None:
    (compiled,) = ground.compiled(statement)
    found = certify(compiled.query, ground.facts)
    assert (found.keys, found.every_group) == (keys, every)


CELLED = UnitChanges((None, NumberChange(0, 1)), declared=False, one_cell=True, every_group=True)


def run_of(changes: UnitChanges, keys: list[str] | None, cells: list[int]) -> Run:
    table = pa.table({} if keys is None else {"k0": pa.array(keys, pa.string())})
    arrays = [np.array(each, dtype=np.int64) for each in (cells, [1] * len(cells))]
    order = (("k0", False),) if keys is not None else ()
    return Run(with_exact(made_up(table, arrays, changes), order=order), ample())


def test_how_many_groups_have_cells_is_counted_where_it_is_public() -> None:
    """A number that somebody states would make the statement fail by whether a unit's group is there."""
    assert len(run_of(CELLED, ["a", "a", "b"], [1, 2, 1]).groups_of_cells()) == 2
    assert len(run_of(CELLED, [], []).groups_of_cells()) == 0
    hidden = replace(CELLED, every_group=False)
    for keys in (["a", "b"], ["a"]):
        with pytest.raises(InternalError, match="which groups there are is private"):
            run_of(hidden, keys, [1] * len(keys)).groups_of_cells()


@pytest.mark.parametrize("cells", [[], [3], [3, 5]])
def test_without_keys_there_is_one_group_whatever_the_rows_are(cells: list[int]) -> None:
    one = run_of(replace(CELLED, every_group=False), None, cells)
    assert len(one.groups_of_cells()) == 1
