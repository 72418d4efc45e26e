"""Where rows lie says nothing: every mechanism, through SQL, over one table in several physical orders.

Counts in a public order are identical for every copy, and with equal noise so is the release. For the
others the engine may return the groups in any order: then the law of the release must not depend on it. It is
tested on groups of equal counts, which by symmetry must be released equally often, by Pearson's statistic
against 1 - 1e-9 of its law: 1e-9 false alarms a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import InternalError
from dpsql.kernel.counts import Counts
from dpsql.policy import load
from dpsql.session import Session
from tests.given_noise import seeded
from tests.narrow import engine_of, present, private
from tests.support.exact import answer_of, exact_of, with_exact

POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
default_epsilon = 10
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
not_null = ["page", "hall"]
[tables.visits.domain]
page = ["d", "b", "É", "a", "C", "z"]
hall = ["y", "x"]
"""
PAGES = {"d": 9, "b": 9, "É": 9, "a": 9, "C": 2, "z": 0}
"""Users of each page. The domain's order is not the alphabet's, nor is an alphabet's that of the bytes."""

COLUMNS = ("user_id", "page", "hall", "free", "part")
"""No domain is declared for the last two: the page again, and a third of its users."""

N = "COUNT(DISTINCT user_id)"
COPIES = 4
RUNS = 180


def laid_out(copy: int) -> list[tuple[int, str, str, str | None, str | None]]:
    """The same rows in another order; in the last copy a unit of no group comes first, with many rows."""
    rows: list[tuple[int, str, str, str | None, str | None]] = [
        (user, page, "xy"[user % 2], page, f"{page}{user % 3}")
        for page, users in PAGES.items()
        for user in range(users)
    ]
    if copy:
        Random(copy).shuffle(rows)
    if copy == 2:
        rows.sort(key=lambda row: row[0] != 7)
    if copy == 3:
        rows[:0] = [(99, f"else {i}", "none", None, None) for i in range(3000)]
    return rows


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    made = []
    for copy in range(COPIES):
        folder = tmp_path_factory.mktemp(f"copy{copy}")
        columns = zip(*laid_out(copy), strict=True)
        pq.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True))), folder / "visits.parquet")
        (folder / "dpsql.toml").write_text(POLICY, "utf-8")
        made.append(Session(load(folder / "dpsql.toml")))
    yield made
    for session in made:
        session.close()


def prepared(session: Session, rest: str, options: str = "") -> PreparedPrivate:
    text = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE{', ' + options if options else ''}) {rest}"
    )
    return private(session.prepare(text))


def in_order(counts: Counts) -> list[dict[str, object]]:
    """Return the keys of all groups in their public order."""
    rows = exact_of(counts).keys.to_pylist()
    return [rows[i] for i in exact_of(counts).in_order().tolist()]


BY_PAGE = f"page, {N} AS n FROM visits GROUP BY page"
BY_BOTH = f"page, hall, {N} AS n FROM visits GROUP BY page, hall"
ADAPTIVE = "mechanism = ADAPTIVE_SPARSE_VECTOR"
ORDERED = {
    "adaptive sparse vector": (f"{BY_PAGE} HAVING n >= 9 LIMIT 3", ADAPTIVE),
    "sparse vector, whole counts": (
        f"{BY_PAGE} HAVING n >= 9 LIMIT 3",
        "mechanism = SPARSE_VECTOR, noise = GEOMETRIC",
    ),
    "sparse vector, an order of the analyst's": (
        f"{BY_PAGE} HAVING n >= 9 ORDER BY page DESC LIMIT 3",
        ADAPTIVE,
    ),
    "sparse vector, two keys": (
        f"{BY_BOTH} HAVING n >= 4 ORDER BY hall LIMIT 3",
        f"{ADAPTIVE}, noise = LAPLACE",
    ),
    "sparse vector, a computed key": (
        f"upper(page) AS p, {N} AS n FROM visits GROUP BY p HAVING n >= 9 LIMIT 3",
        ADAPTIVE,
    ),
    "the whole domain above a threshold": (f"{BY_PAGE} HAVING n >= 9", ""),
    "the whole domain above a threshold, by key": (f"{BY_PAGE} HAVING n >= 9 ORDER BY page DESC", ""),
    "all groups with one noise": (BY_PAGE, ""),
    "all groups": (BY_PAGE, "mechanism = LAPLACE, max_groups_contributed = 2"),
    "all groups, sorted": (f"{BY_BOTH} ORDER BY hall DESC", "max_groups_contributed = 2"),
    "one count": (f"{N} AS n FROM visits WHERE page = 'a'", ""),
}


@pytest.mark.parametrize("case", ORDERED)
@pytest.mark.sampled(3)
def test_a_public_order_is_that_of_every_copy_and_equal_noise_gives_equal_releases(
    sessions: list[Session], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    rest, options = ORDERED[case]
    keys, released = [], []
    for session in sessions:
        statement = prepared(session, rest, options)
        assert statement.plan.compiled.order is not None
        keys += [in_order(engine_of(session).count(statement.plan.compiled)) for _ in range(2)]
        seeded(monkeypatch, 5)
        released.append(session.execute(statement).release)
    assert all(k == keys[0] for k in keys)
    assert all(
        present(r).table.equals(present(released[0]).table)
        and present(r).charge == present(released[0]).charge
        for r in released
    )


@pytest.mark.parametrize("case", ORDERED)
@pytest.mark.sampled(3, rest="longer")
def test_the_order_in_which_an_engine_returns_groups_reaches_no_mechanism(
    sessions: list[Session], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    statement = prepared(sessions[0], *ORDERED[case])
    counts = engine_of(sessions[0]).count(statement.plan.compiled)
    released = set()
    for seed in range(4):
        came = np.random.default_rng(seed).permutation(len(exact_of(counts).n[0]))
        keys = (
            exact_of(counts).keys.take(came) if exact_of(counts).keys.num_columns else exact_of(counts).keys
        )
        places = {name: place[came] for name, place in exact_of(counts).places.items()}
        other = with_exact(counts, keys=keys, n=tuple(n[came] for n in exact_of(counts).n), places=places)
        seeded(monkeypatch, 5)
        answer = answer_of(statement.method, statement.plan, other)
        rows = exact_of(other).keys.to_pylist()
        estimate = present(answer.counts[0])
        named = [str(rows[i]) for i in answer.rows] if rows else []
        released.add((*named, *estimate.value.tolist(), answer.charge.epsilon))
    assert len(released) == 1


def test_the_order_is_that_of_the_domain_or_of_the_bytes(sessions: list[Session]) -> None:
    for rest, expected in (
        (f"{BY_PAGE} HAVING n >= 9 LIMIT 3", list(PAGES)),
        (f"{BY_PAGE} HAVING n >= 9 ORDER BY page LIMIT 3", ["C", "a", "b", "d", "z", "É"]),
        (
            f"upper(page) AS p, {N} AS n FROM visits GROUP BY p HAVING n >= 9 LIMIT 3",
            ["A", "B", "C", "D", "Z", "É"],
        ),
    ):
        plan = prepared(sessions[1], rest).plan
        found = in_order(engine_of(sessions[1]).count(plan.compiled))
        assert [row["k0"] for row in found] == expected


PARTS = f"part, {N} AS n FROM visits GROUP BY part ORDER BY n DESC LIMIT 2"


@pytest.mark.parametrize("mechanism", ["LIMITED_DOMAIN", "TOP_STABLE", "LIMITED_THEN_STABLE"])
def test_of_equal_groups_every_copy_keeps_the_same_ones(sessions: list[Session], mechanism: str) -> None:
    """Twelve groups of three users and no declared domain: the cut goes through equal counts."""
    found = []
    for session in sessions:
        plan = prepared(session, PARTS, f"mechanism = {mechanism}, delta = 1e-6, candidates = 4").plan
        assert plan.compiled.order is None
        found += [
            exact_of(engine_of(session).count(plan.compiled)).keys.column("k0").to_pylist() for _ in range(5)
        ]
    assert len(found[0]) == 5
    assert all(keys == found[0] for keys in found)


TOP = f"{BY_PAGE} ORDER BY n DESC LIMIT 2"
ABOVE = f"{BY_PAGE} HAVING n >= 4 ORDER BY n DESC LIMIT 2"
UNORDERED = {
    "noisy top-k": (TOP, "", 2),
    "noisy top-k, whole counts": (TOP, "noise = GEOMETRIC", 2),
    "noisy top-k, Laplace": (TOP, "noise = LAPLACE", 2),
    "noisy max": (f"{BY_PAGE} ORDER BY n DESC LIMIT 1", "noise = GEOMETRIC", 1),
    "exponential": (f"{BY_PAGE} ORDER BY n DESC LIMIT 1", "mechanism = EXPONENTIAL", 1),
    "joint": (f"page FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 2", "mechanism = JOINT", 2),
    "box, the largest": (TOP, "mechanism = BOX", 2),
    "hybrid top-k": (ABOVE, "noise = GEOMETRIC", 2),
    "hybrid sparse vector": (ABOVE, "mechanism = HYBRID_SPARSE_VECTOR", 2),
    "hybrid sparse vector, whole counts": (ABOVE, "mechanism = HYBRID_SPARSE_VECTOR, noise = GEOMETRIC", 2),
    "limited domain": (
        f"free, {N} AS n FROM visits GROUP BY free ORDER BY n DESC LIMIT 2",
        "noise = GEOMETRIC, delta = 1e-3",
        2,
    ),
}
TIED = [page for page, users in PAGES.items() if users == 9]
QUANTILE = {4: 45.0, 12: 65.2}
"""At least 1 - 1e-9 of the chi-square laws of one degree of freedom fewer."""


@pytest.mark.parametrize("order", ["as it came", "backwards"])
@pytest.mark.parametrize("case", UNORDERED)
@pytest.mark.sampled(5)
def test_equal_groups_are_released_equally_often_in_any_order_of_the_counts(
    sessions: list[Session], monkeypatch: pytest.MonkeyPatch, case: str, order: str
) -> None:
    rest, options, k = UNORDERED[case]
    statement = prepared(sessions[1], rest, f"epsilon = 30{', ' + options if options else ''}")
    counts = engine_of(sessions[1]).count(statement.plan.compiled)
    assert exact_of(counts).order is None
    keys = exact_of(counts).keys.column("k0").to_pylist()
    if order != "as it came":
        places = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
        counts = with_exact(
            counts,
            keys=exact_of(counts).keys.take(places),
            n=tuple(n[np.array(places)] for n in exact_of(counts).n),
        )
        keys = [keys[i] for i in places]
    seeded(monkeypatch, 11)
    seen = Counter(
        tuple(keys[i] for i in answer_of(statement.method, statement.plan, counts).rows) for _ in range(RUNS)
    )
    outcomes = list(permutations(TIED, k))
    inside = sum(seen[outcome] for outcome in outcomes)
    assert inside > RUNS * 0.9, seen
    expected = inside / len(outcomes)
    statistic = sum((seen[outcome] - expected) ** 2 / expected for outcome in outcomes)
    assert statistic < QUANTILE[len(outcomes)], seen


def test_a_mechanism_that_scans_cannot_run_on_counts_without_a_public_order(sessions: list[Session]) -> None:
    statement = prepared(sessions[0], *ORDERED["adaptive sparse vector"])
    counts = engine_of(sessions[0]).count(statement.plan.compiled)
    with pytest.raises(InternalError, match="public order"):
        answer_of(statement.method, statement.plan, with_exact(counts, order=None))


def test_all_groups_without_another_order_come_by_their_keys(sessions: list[Session]) -> None:
    statement = prepared(sessions[0], *ORDERED["all groups"])
    counts = with_exact(engine_of(sessions[0]).count(statement.plan.compiled), order=None)
    keys = answer_of(statement.method, statement.plan, counts).keys()
    assert keys[0] == sorted(map(str, keys[0]))
