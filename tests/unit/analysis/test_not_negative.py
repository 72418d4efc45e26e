"""Columns without a value below 0: what follows for sums, how it is tested, and what does not rest on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpsql.analysis.facts_of_values import never_negative
from dpsql.errors import OperationalError, PolicyError
from dpsql.kernel.tree import Binary, Call, Case, Cast, Column, Constant, Expr, IsNull, Paren
from dpsql.owner.verifying import verify
from dpsql.policy import load
from dpsql.session import Session
from dpsql.types import BIGINT, DOUBLE
from tests.narrow import private
from tests.support.exact import exact_of
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e9
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
{more}
[tables.t.domain]
g = ["a", "b"]
small = {{ from = 0, to = 9, complete = true }}
[tables.t.bounds]
debt = {{ from = 0, to = 5 }}
"""
ROWS = """
SELECT i % 40 AS u, ['a', 'b'][1 + i % 2] AS g, (i % 7)::DECIMAL(9,2) AS cost, (i % 5)::INTEGER AS number,
    i % 3 + 0.5::DOUBLE AS rate, (i % 9 - 4)::INTEGER AS debt, (i % 6)::UINTEGER AS natural, i % 10 AS small
FROM range(400) t(i)
"""
VOUCHED = 'not_negative = ["cost", "number", "rate"]'


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    worlds = []

    def make(more: str = VOUCHED, rows: str = ROWS) -> Session:
        worlds.append(open_world(tmp_path / "world", POLICY.format(more=more), t=rows))
        return worlds[-1].__enter__()

    yield make
    for world in worlds:
        world.__exit__(None, None, None)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("vouched") / "world"
    with open_world(folder, POLICY.format(more=VOUCHED), t=ROWS) as made:
        yield made


def changes_of(session: Session, text: str) -> tuple[int, int]:
    """Return by how much one unit changes a sum, as the kernel has certified it."""
    plan = private(session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY {text}")).plan
    return plan.counts[0].unit_change


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("argument", "never"),
    [
        ("cost", True),
        ("number", True),
        ("rate", True),
        ("natural", True),
        ("small", True),
        ("cost * number + 1", True),
        ("cost * 1.2", True),
        ("number / 2", True),
        ("CASE WHEN debt > 0 THEN cost ELSE 0 END", True),
        ("COALESCE(cost, 0)", True),
        ("abs(debt)", True),
        ("greatest(debt, 0)", True),
        ("CAST(cost AS DOUBLE)", True),
        ("CAST(number AS TINYINT)", True),
        ("debt", False),
        ("cost - 1", False),
        ("-cost", False),
        ("cost * debt", False),
        ("greatest(debt, number)", False),  # number may be NULL
        ("CASE WHEN debt > 0 THEN cost ELSE debt END", False),
    ],
)
def test_sums_of_what_is_never_below_zero_go_one_way(session: Session, argument: str, *, never: bool) -> None:
    low, high = changes_of(session, f"g, SUM({argument}) AS n FROM t GROUP BY g")
    assert high > 0
    assert (low == 0) is never
    inner = f"SELECT g, SUM(x) AS n FROM (SELECT u, g, {argument} AS x FROM t) s GROUP BY g"
    assert (changes_of(session, inner.removeprefix("SELECT "))[0] == 0) is never


@pytest.mark.parametrize(("argument", "never"), [("rate", True), ("rate - 1", False), ("cost", True)])
def test_sums_without_groups_go_one_way_in_their_search_too(
    session: Session, argument: str, *, never: bool
) -> None:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100) SUM({argument}) AS n FROM t"
    plan = private(session.prepare(text)).plan
    (search,) = plan.ladders
    assert search.ladder.signed is not never
    assert (plan.counts[0].unit_change[0] == 0) is never
    release = session.run(text).release
    assert release is not None
    found = release.table.to_pylist()[0]
    exact = {"rate": 599.0, "rate - 1": 199.0, "cost": 1197.0}[argument]
    assert found["n_low"] <= exact <= found["n_high"]


def test_without_the_word_a_sum_may_go_both_ways(opened: Callable[..., Session]) -> None:
    low, high = changes_of(opened(""), "g, SUM(cost) AS n FROM t GROUP BY g")
    assert low == -high


@pytest.mark.parametrize("argument", ["cost", "number", "natural", "rate", "small"])
@pytest.mark.parametrize("group", ["", " GROUP BY g"])
@pytest.mark.sampled(3, rest="longer")
def test_sums_are_what_they_are(session: Session, argument: str, group: str) -> None:
    """With much epsilon the sums are the exact ones, of DOUBLEs to a thousandth."""
    options = "OPTIONS (epsilon = 1e6) " + "g, " * bool(group)
    ours = session.run(
        f"SELECT WITH DIFFERENTIAL_PRIVACY {options}SUM({argument}) AS n FROM t{group}"
    ).table.to_pylist()
    of = dict(zip("ab", SUMS[argument], strict=True))
    for row in ours:
        wanted = of.get(row["g"], 0) if group else sum(of.values())
        assert float(row["n"]) == pytest.approx(wanted, abs=0.5, rel=1e-3)


SUMS = {
    "cost": (sum(i % 7 for i in range(0, 400, 2)), sum(i % 7 for i in range(1, 400, 2))),
    "number": (sum(i % 5 for i in range(0, 400, 2)), sum(i % 5 for i in range(1, 400, 2))),
    "natural": (sum(i % 6 for i in range(0, 400, 2)), sum(i % 6 for i in range(1, 400, 2))),
    "rate": (sum(i % 3 + 0.5 for i in range(0, 400, 2)), sum(i % 3 + 0.5 for i in range(1, 400, 2))),
    "small": (sum(i % 10 for i in range(0, 400, 2)), sum(i % 10 for i in range(1, 400, 2))),
}


def test_no_guarantee_rests_on_it(tmp_path: Path) -> None:
    """Where nobody tests it and it is false, a unit with values below 0 adds 0, and never takes away."""
    more = 'trust_source = true\nnot_negative = ["debt"]'
    with open_world(tmp_path / "false", POLICY.format(more=more), t=ROWS) as session:
        prepared = private(
            session.prepare("SELECT WITH DIFFERENTIAL_PRIVACY g, SUM(debt) AS n FROM t GROUP BY g")
        )
        bounded = prepared.counting.with_bounds((10,))
        assert bounded.plan.counts[0].unit_change == (0, 1024)
        counts = exact_of(bounded.count()).n[0].tolist()
    assert sum(counts) == sum(max(i % 9 - 4, 0) for i in range(400))


def test_it_is_tested_for_each_version_of_the_data(opened: Callable[..., Session], tmp_path: Path) -> None:
    session = opened('not_negative = ["cost", "debt"]')
    with pytest.raises(OperationalError, match="cannot be read as declared"):
        session.run("SELECT WITH DIFFERENTIAL_PRIVACY g, SUM(debt) AS n FROM t GROUP BY g")
    found = [
        each for each in verify(load(tmp_path / "world" / "dpsql.toml")).findings if "negative" in each.place
    ]
    assert [(each.level, each.text) for each in found] == [
        ("ok", "cost is never below 0"),
        ("wrong", f"debt is below 0 in {sum(i % 9 < 4 for i in range(400))} rows: leave it out"),
        (
            "ok",
            'never below 0: not_negative = ["cost", "rate"], if that is so by construction, makes sums '
            "several times more accurate",
        ),
    ]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('not_negative = "cost"', "expected a list"),
        ('not_negative = ["cost", "Cost"]', "names Cost twice"),
        ('not_negative = ["g"]', "g is VARCHAR, and has no values below 0"),
        ('not_negative = ["nothing"]', "there is no column nothing"),
    ],
)
def test_a_wrong_word_is_refused(opened: Callable[..., Session], more: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        opened(more)


A, B = Column("t1", "a"), Column("t1", "b")
ZERO, LESS = Constant(0, BIGINT), Constant(-1, BIGINT)


@pytest.mark.parametrize(
    ("node", "never"),
    [
        (A, True),
        (B, False),
        (Paren(Cast(A, DOUBLE)), True),
        (Binary("+", A, ZERO), True),
        (Binary("+", A, LESS), False),
        (Binary("-", A, A), False),
        (Case(((IsNull(B), A),), None), True),
        (Case(((IsNull(B), A),), B), False),
        (Call("GREATEST", (B, ZERO)), True),
        (Call("GREATEST", (B, A)), False),
        (Call("LEAST", (A, B)), False),
        (Call("abs", (B,)), True),
        (Constant(None, BIGINT), True),
    ],
)
def test_expressions(node: Expr, *, never: bool) -> None:
    assert never_negative(node, "t1.a".__eq__) is never
