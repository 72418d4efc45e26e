"""Keys of more text than one Arrow array holds: whether a statement fails must not tell how long they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from dpsql.analysis import analyse, complete_options
from dpsql.engines import open_engine
from dpsql.kernel.key_columns import pick_rows
from dpsql.language import Options, Query, parse
from dpsql.policy import load
from dpsql.policy.toml_values import LARGEST
from tests.support.exact import exact_of

POLICY = """
[budget]
epsilon = 1
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.csv"
unit = "user_id"
columns = { user_id = "BIGINT", page = "VARCHAR" }
"""
_MOST = 2**31 - 1


def test_texts_come_from_the_engine_in_arrays_that_hold_the_longest(tmp_path: Path) -> None:
    rows = "".join(f"{i},p{i}\n" for i in range(20_000))
    (tmp_path / "visits.csv").write_text(f"user_id,page\n{rows}")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    policy = load(tmp_path / "dpsql.toml")
    engine = open_engine(policy)
    query = parse(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 0.1, candidates = 50000) page, "
        "COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 1"
    )
    assert isinstance(query, Query)
    options = complete_options(query.options, Options(epsilon=policy.budget.default_epsilon))
    counts = engine.count(analyse(query, policy, engine.schema_database, options).compiled)
    engine.close()
    chunks = exact_of(counts).keys.column("k0").chunks
    assert sum(map(len, chunks)) == 20_000
    # A change of case makes a text at most half as long again.
    assert max(map(len, chunks)) * LARGEST * 3 // 2 <= _MOST


def test_released_keys_are_picked_from_more_text_than_one_array_holds() -> None:
    long = pa.array(["x" * (1 << 16)] * 1024)
    few = [pa.array([f"{i}", f"{i}'"]) for i in range(1500)]
    column = pa.chunked_array([*([long] * 33), *few])
    assert column.slice(0, 33 * 1024).nbytes > _MOST
    first = 33 * 1024
    rows = np.random.default_rng(1).permutation(3000)
    for size in (0, 3, 3000):
        found = pick_rows(column, first + rows[:size])
        assert found.to_pylist() == [f"{r // 2}" + "'" * (r % 2) for r in rows[:size].tolist()]
