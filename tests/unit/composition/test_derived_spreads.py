"""Functions of variances: correlations, slopes, coefficients of variation have intervals that hold."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.composition.prepared import PreparedComposed
from dpsql.release import Release, places_of
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.support.world import open_world


def ends(found: Release) -> tuple[float, float]:
    """Return the interval of the one number of an answer."""
    (place,) = places_of(found).numbers
    low, high = (found.table.column(present(at))[0].as_py() for at in (place.low, place.high))
    return low, high


SPREAD = """
[budget]
epsilon = 1e9
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.pairs]
source = "pairs.parquet"
unit = "u"
unique = [["u"]]
not_null = ["x", "y"]
[tables.pairs.bounds]
x = { from = 0, to = 10 }
y = { from = 0, to = 10 }
"""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("pairs")
    x = [u % 11 for u in range(20_000)]
    y = [(each + u // 11 % 3) % 11 for u, each in enumerate(x)]
    with open_world(folder, SPREAD, pairs={"u": range(20_000), "x": x, "y": y}) as opened:
        yield opened


@pytest.mark.parametrize(
    "form",
    [
        "CORR(x, y)",
        "REGR_SLOPE(y, x)",
        "STDDEV(x) / AVG(x)",
        "VAR_SAMP(y) / AVG(y)",
        "REGR_R2(x, y)",
        "COVAR_POP(x, y)",
    ],
)
@pytest.mark.parametrize(("runs", "least"), [(3, 2), pytest.param(20, 13, marks=pytest.mark.longer)])
@pytest.mark.sampled(5, rest="longer")
def test_a_function_of_variances_has_the_exact_answer_in_its_interval(
    pairs: Session, form: str, runs: int, least: int
) -> None:
    """Of 20 intervals of level .95 fewer than 13 hold with probability 2e-5."""
    table = f"'{present(pairs.policy.path).parent}/pairs.parquet'"
    ((exact,),) = duckdb.execute(f"SELECT {form} FROM {table}").fetchall()
    held = 0
    for run in range(runs):
        once = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1.{run:02})"
        found = present(pairs.run(f"SELECT {once} {form} AS n FROM pairs").release)
        low, high = ends(found)
        assert high - low < 1.5 * abs(exact)
        held += low <= exact <= high
    assert held >= least


def test_a_correlation_has_all_that_it_can_be_where_a_variance_may_be_0(pairs: Session) -> None:
    """A noisy variance is above 0 in about half of the answers: of these one is, at least."""
    once, found = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.0005)", []
    for more in range(5):
        release = present(pairs.run(f"SELECT {once} CORR(x, y + {more} * 0) AS n FROM pairs").release)
        if release.rows.column("n")[0].as_py() is not None:
            found.append(ends(release))
    assert found
    assert all(each == (-1, 1) for each in found)


def test_statistics_of_a_pair_in_either_order_share_their_moments(pairs: Session) -> None:
    first, both = (
        len(of_type(pairs.prepare(f"SELECT {asked} FROM pairs"), PreparedComposed).parts)
        for asked in (
            "CORR(x, y) AS r",
            "CORR(x, y) AS r, CORR(y, x) AS s, COVAR_POP(y, x) AS c, REGR_R2(y, x) AS q",
        )
    )
    assert first == both
