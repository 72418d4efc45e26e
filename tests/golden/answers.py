"""What whole statements answer for fixed random words, and what they spend: from the counts to the rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc

from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.kernel.counts import Counts
from dpsql.kernel.noise import SystemEntropy
from dpsql.noise import SeededEntropy
from tests.golden.texts import DAY, REFUSED, compiled_at, rounded
from tests.golden.worlds import Golden
from tests.support.exact import exact_of, with_exact

Lines = dict[str, list[str]]


def answers(statements: Iterable[Golden]) -> Lines:
    """Return two hashes of each statement: of its rows, with what is known of them, and of its charge."""
    found = {}
    with _fixed_noise() as begin, compiled_at(DAY):
        for golden in statements:
            begin()
            found[golden.name] = _answer(golden)
    return found


def _answer(golden: Golden) -> list[str]:
    session = golden.session
    before = session.budget().spent
    try:
        result = session.run(golden.text)
    except (QueryRefused, QuerySyntaxError):
        return [REFUSED, REFUSED]
    rows = rounded([result.table.to_pydict(), result.release and result.release.table.to_pydict()])
    spent = session.budget().spent
    charged = f"{spent.epsilon - before.epsilon} {spent.delta - before.delta}"
    return [hashlib.sha256(str(each).encode()).hexdigest()[:16] for each in (rows, charged)]


@contextmanager
def _fixed_noise() -> Iterator[Callable[[], None]]:
    """Let noise come from one stream, and counts in one order; what is yielded lets the stream begin anew."""
    streams = [SeededEntropy(0)]

    def begin() -> None:
        streams[0] = SeededEntropy(0)

    counting = DuckDBEngine.count
    with (
        patch.object(SystemEntropy, "words", lambda _, n: streams[0].words(n)),
        patch.object(DuckDBEngine, "count", lambda *given: _ordered(counting(*given))),
    ):
        yield begin


def _ordered(counts: Counts) -> Counts:
    """Return counts in the order of their keys, so that each group has the same noise every time."""
    own = exact_of(counts)
    columns = {name: own.keys.column(name) for name in own.keys.column_names} | own.places
    columns |= {f"n{i}": pa.array(n) for i, n in enumerate(own.n)}
    order = pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns]).to_numpy()
    keys = own.keys.take(order) if own.keys.num_columns else own.keys
    places = {name: place[order] for name, place in own.places.items()}
    return with_exact(counts, keys=keys, n=tuple(n[order] for n in own.n), places=places)
