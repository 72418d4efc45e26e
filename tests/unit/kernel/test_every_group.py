"""Whether all groups of a public domain are there: how many there are is then public, and is counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from kernel.reading import tree_of

from dpsql.errors import InternalError
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.check import Keys
from dpsql.kernel.release import Run
from tests.counted_nodes import certify
from tests.support.exact import ample, made_up, with_exact
from tests.unit.kernel.trees_by_hand import CERTIFIED, FACTS, written

OF_CELLS = "SELECT s.c1 AS k0, LEAST(GREATEST(COALESCE(s.c2, 0), 1), 9) AS c, COUNT(DISTINCT s.u) AS n0 "
OF_CELLS += "FROM ({likes}) AS s GROUP BY s.c1, LEAST(GREATEST(COALESCE(s.c2, 0), 1), 9)"
IN_DOMAIN = (
    "SELECT d0.c0 AS k0, COALESCE(g.c, 0) AS c, COALESCE(g.n0, 0) AS n0 FROM ({pages}) AS d0 "
    f"LEFT JOIN ({OF_CELLS}) AS g ON g.k0 = d0.c0"
)
OF = "SELECT h.k0 AS k0, h.c AS c, h.n0 AS n0 FROM"


@pytest.mark.parametrize(
    ("text", "keys", "every"),
    [
        (CERTIFIED["a domain"], Keys.DECLARED, True),
        (CERTIFIED["units"], Keys.ONE, True),
        (IN_DOMAIN, Keys.CELLS, True),
        # A group whose rows are all in other cells would be gone, and there is no row without a partner.
        (f"{OF} ({IN_DOMAIN}) AS h WHERE h.c >= 1", Keys.CELLS, False),
        (IN_DOMAIN + " WHERE d0.c0 IS NOT NULL", Keys.CELLS, False),
        (f"{OF} ({OF_CELLS}) AS h JOIN ({{pages}}) AS d ON h.k0 = d.c0", Keys.CELLS, False),
        (f"{OF} ({IN_DOMAIN}) AS h JOIN ({{pages}}) AS d ON h.k0 = d.c0", Keys.CELLS, False),
    ],
    ids=["declared", "one", "cells", "some cells", "some groups", "groups with rows", "joined again"],
)
def test_which_groups_are_there_follows_from_the_query(text: str, keys: Keys, every: bool) -> None:
    found = certify(tree_of(written(text)), FACTS)
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
