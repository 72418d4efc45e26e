"""How many different values of a unit count in a group is searched where nobody says it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from dpsql.analysis import Contribution
from dpsql.analysis.cut_contributions import find_excesses
from dpsql.errors import QueryRefused
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import is_within
from dpsql.planning.bound_search import BoundSearches
from dpsql.session import Session
from tests.narrow import of_type, present, private
from tests.support.exact import exact_of
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e9
default_epsilon = 1
{defaults}
[tables.t]
source = "t.parquet"
unit = "u"
unit_kind = "shop"
[tables.t.domain]
g = {{ values = ["a", "b"], complete = true }}
"""
# Unit i has the values 0 to i % 4 in group a, twice each, and one value of its own in b; NULL is no value.
ROWS = """
SELECT i AS u, 'a' AS g, v AS x FROM range(2000) s(i), range(4) d(v), range(2) WHERE v <= i % 4
UNION ALL SELECT i, 'b', i FROM range(2000) s(i) UNION ALL SELECT i, 'b', NULL FROM range(2000) s(i)
"""
BY_GROUP = "SELECT WITH DIFFERENTIAL_PRIVACY g, COUNT(DISTINCT x) AS n FROM t GROUP BY g ORDER BY g"
OF_ALL = "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(DISTINCT x) AS n FROM t"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("values") / "world"
    with open_world(folder, POLICY.format(defaults=""), t=ROWS) as made:
        yield made


@pytest.mark.parametrize(("text", "extra"), [(BY_GROUP, 0), (OF_ALL, 1)])
def test_the_values_of_each_unit_are_measured(session: Session, text: str, extra: int) -> None:
    """In all groups together the value of its own is one more; of units 0 to 3 it may be among the others."""
    counting = private(session.prepare(text)).counting
    (search,) = counting.plan.ladders
    assert search.ladder.of is Contribution.VALUES
    bins = mechanisms.RungBins(*exact_of(counting.count(search.compiled)).n)
    sizes = [i % 4 + 1 + extra * (i > i % 4) for i in range(2000)]
    for place, bound in enumerate(search.ladder.bounds[:5]):
        assert bins.clipped(search.ladder.bounds, place) == sum(min(size, bound) for size in sizes)


def test_the_found_bound_is_what_a_unit_changes(session: Session) -> None:
    counting = private(session.prepare(BY_GROUP)).counting
    for place in range(4):
        assert counting.with_bounds((place,)).plan.counts[0].unit_change == (0, 1 << place)
    release = present(session.run(BY_GROUP.replace("g, ", "OPTIONS (epsilon = 1e5) g, ", 1)).release)
    numbers = release.table.column("n").to_pylist()
    assert numbers == pytest.approx([4, 2000], abs=0.1)
    assert "different values in a group of a shop beyond 4" in str(release.properties)


def test_an_owner_may_refuse_searches(tmp_path_factory: pytest.TempPathFactory) -> None:
    defaults = "[defaults]\nauto_bounds = false"
    folder = tmp_path_factory.mktemp("refused") / "world"
    with (
        open_world(folder, POLICY.format(defaults=defaults), t=ROWS) as session,
        pytest.raises(QueryRefused, match="can have many different values"),
    ):
        session.prepare(BY_GROUP)


@pytest.mark.parametrize("options", ["", "OPTIONS (noise = LAPLACE) ", "OPTIONS (epsilon = 0.01) "])
@pytest.mark.sampled(2, rest="longer")
def test_any_bounds_are_within_what_is_reserved_where_costs_are_divided(
    tmp_path_factory: pytest.TempPathFactory, options: str
) -> None:
    """Values of each group beside rows of all: whatever their bounds, the noise is of the reserved kind."""
    policy = POLICY.format(defaults="").replace(
        "epsilon = 1e9\n", 'accounting = "zcdp"\nepsilon = 1e3\ndelta = 1e-3\nconversion_delta = 1e-4\n'
    )
    numbers = BY_GROUP.replace(" FROM", ", COUNT(*) AS m FROM").replace("g, ", f"{options}g, ", 1)
    with open_world(tmp_path_factory.mktemp("costs") / "world", policy, t=ROWS) as session:
        for text in (numbers, numbers.replace("DISTINCT x", "DISTINCT g")):
            prepared = private(session.prepare(text))
            searches = of_type(prepared.method, BoundSearches)
            ladders = prepared.plan.ladders
            for found in product((0, 1), (0, 7, 20)):
                plan = prepared.counting.with_bounds(found).plan
                answer = searches.within_quote(plan, find_excesses(plan, ladders, found))
                assert is_within(answer.quote.loss, searches.first.quote.loss)
        assert len(present(session.run(numbers).release).table) == 2
