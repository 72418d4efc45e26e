"""The largest groups of each partition: privacy by enumeration, charges, and predictions that hold.

Noise is seeded, so that no run differs from another; for fresh seeds the bounds stated would fail once in
1e5 runs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.analysis import Plan
from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import InternalError, QueryRefused
from dpsql.estimates import Combined
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.parted import Parted
from dpsql.kernel.release import Run, released_at
from dpsql.noise import SeededEntropy
from dpsql.planning import Method, NoisyResult, Quote
from dpsql.planning.divided_methods import LargestOfPartitions, plan_of_partition
from dpsql.session import Session
from tests.narrow import engine_of, of_type, present, private
from tests.support.exact import ample, answer_of, counts_of, exact_of, made_up
from tests.support.world import open_world

CITIES, PAGES = 150, 12
POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = [{pages}]
page.complete = true
[tables.users]
source = "users.parquet"
unit = "user_id"
unique = [["user_id"]]
[tables.users.domain]
city.values = [{cities}]
city.complete = true
[tables.pages]
source = "pages.parquet"
public = true
unique = [["page"]]
"""
N = "COUNT(DISTINCT v.user_id) AS n"
FROM = "FROM visits v JOIN users u USING (user_id)"
BY_CITY = f"u.city, v.page, {N} {FROM} GROUP BY 1, 2 QUALIFY RANK() OVER (PARTITION BY city ORDER BY n DESC)"
BY_PAGE = f"v.page, u.city, {N} {FROM} GROUP BY 1, 2 QUALIFY RANK() OVER (PARTITION BY page ORDER BY n DESC)"
BY_KIND = (
    f"p.kind, p.page, {N} FROM visits v JOIN pages p USING (page) GROUP BY 1, 2 "
    "QUALIFY RANK() OVER (PARTITION BY kind ORDER BY n DESC)"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("partitions")
    rng = np.random.default_rng(5)
    users = np.arange(6_000)
    page = (rng.integers(0, PAGES, 20_000) * rng.random(20_000)).astype(int)
    pq.write_table(
        pa.table({"user_id": rng.choice(users, 20_000), "page": [f"p{i}" for i in page]}),
        folder / "visits.parquet",
    )
    pq.write_table(
        pa.table({"user_id": users, "city": [f"c{i % CITIES}" for i in users]}), folder / "users.parquet"
    )
    kinds = ["odd" if i % 2 else "even" for i in range(PAGES - 1)] + ["last"]
    pq.write_table(
        pa.table({"page": [f"p{i}" for i in range(PAGES)], "kind": kinds}), folder / "pages.parquet"
    )
    listed = [", ".join(f'"{letter}{i}"' for i in range(n)) for letter, n in (("p", PAGES), ("c", CITIES))]
    with open_world(folder, POLICY.format(pages=listed[0], cities=listed[1])) as made:
        yield made


def prepared(session: Session, text: str, options: str = "epsilon = 1") -> PreparedPrivate:
    return private(session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {text}"))


def seeded(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    entropy = SeededEntropy(seed)
    for name, module in list(sys.modules.items()):
        if name.startswith("dpsql.kernel.noise") and hasattr(module, "SystemEntropy"):
            monkeypatch.setattr(module, "SystemEntropy", lambda: entropy)


@dataclass(frozen=True)
class Coin:
    """Says of two groups which is larger, the truth with odds of 2^epsilon to 1; its coins are given.

    One unit moves the counts of a partition by at most one, so that each is private at epsilon ln 2.
    """

    plan: Plan
    coins: Iterator[bool]
    seen: list[Fraction]

    @property
    def quote(self) -> Quote:
        return Quote(Charge(self.plan.epsilon), "coin", 1.0, "", None, None, None)

    def run(self, run: Run) -> NoisyResult:
        lies, counts = next(self.coins), exact_of(run.counts)
        odds = Fraction(2) ** int(self.plan.epsilon)
        self.seen.append((Fraction(1) if lies else odds) / (1 + odds))
        larger = int(counts.n[0][1] > counts.n[0][0]) ^ lies
        run.spending.admit(PrivacyLoss.of(self.plan.epsilon))
        run.spending.add(PrivacyLoss.of(self.plan.epsilon))
        return NoisyResult(released_at(run.counts, np.array([larger])), (Combined.empty(),))


def law(made: PreparedPrivate, counts: tuple[int, ...]) -> Counter[tuple[int, ...]]:
    """Return the exact law of what two partitions of two groups release together."""
    keys = pa.table(
        {"k0": pa.chunked_array([["a", "a", "b", "b"]]), "k1": pa.chunked_array([["x", "y"] * 2])}
    )
    plan = made.plan
    found: Counter[tuple[int, ...]] = Counter()
    for coins in product((False, True), repeat=2):
        waiting, seen = iter(coins), list[Fraction]()

        def choose(one: Plan, waiting: Iterator[bool] = waiting, seen: list[Fraction] = seen) -> Method:
            return Coin(one, waiting, seen)

        partitions = replace(present(plan.partitions), number=2, size=2)
        method = LargestOfPartitions.of(replace(plan, partitions=partitions), choose)
        result = answer_of(method, plan, counts_of(plan, keys, (np.array(counts),)))
        assert result.charge == Charge(Fraction(2))
        found[tuple(result.rows.tolist())] += seen[0] * seen[1]  # type: ignore[assignment]  # an exact weight
    return found


def ratio(made: PreparedPrivate, moves: Callable[[tuple[int, ...]], Iterator[tuple[int, ...]]]) -> Fraction:
    """Return the largest ratio of probabilities of an outcome on neighbours, over all small counts."""
    worst = Fraction(0)
    for counts in product((1, 2), repeat=4):
        whole = law(made, counts)
        assert sum(whole.values()) == 1
        for other in moves(counts):
            less = law(made, other)
            worst = max(worst, *(Fraction(p) / Fraction(less[o]) for o, p in whole.items()))
            worst = max(worst, *(Fraction(p) / Fraction(whole[o]) for o, p in less.items()))
    return worst


def in_one(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield what is left without a unit whose rows lie in one partition of two groups."""
    for gone in [*product((0, 1), (0, 1), (0,), (0,)), *product((0,), (0,), (0, 1), (0, 1))]:
        yield tuple(n - g for n, g in zip(counts, gone, strict=True))


def in_both(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield what is left without a unit whose rows lie in any of the four groups."""
    for gone in product((0, 1), repeat=4):
        yield tuple(n - g for n, g in zip(counts, gone, strict=True))


@pytest.mark.longer
def test_partitions_are_as_private_as_one_of_them_or_as_those_of_a_unit_together(session: Session) -> None:
    """With epsilon 2 in units of ln 2, no outcome is more than 4 times as likely on a neighbour."""
    fact = prepared(session, f"{BY_CITY} <= 1", "epsilon = 2")
    assert present(fact.plan.partitions).per_unit == 1
    assert ratio(fact, in_one) == 4
    event = prepared(session, f"{BY_PAGE} <= 1", "epsilon = 2, max_groups_contributed = 2")
    assert present(event.plan.partitions).per_unit == 2
    assert ratio(event, in_both) == 4
    # All of epsilon in each of two partitions that a unit may be in: what the rule for facts prevents.
    assert ratio(fact, in_both) == 16


def test_each_partition_has_its_part_of_epsilon_and_delta(session: Session) -> None:
    for text, options, most, bounded in [
        (BY_CITY, "epsilon = 1, delta = 1e-6", 1, False),
        (BY_PAGE, "epsilon = 1, delta = 1e-6", PAGES, False),
        (BY_PAGE, "epsilon = 1, delta = 1e-6, max_groups_contributed = 3", 3, True),
    ]:
        made = prepared(session, f"{text} <= 2", options)
        one = plan_of_partition(made.plan, 5)
        assert one.epsilon == Fraction(1, most)
        assert one.options.delta == Fraction(1, 10**6) / most
        assert made.method.quote.charge == Charge(Fraction(1))
        assert ("hash" in made.plan.compiled.sql) == bounded
        assert answer_of(
            made.method, made.plan, engine_of(session).count(made.plan.compiled)
        ).charge == Charge(Fraction(1))


def test_the_groups_of_a_unit_lie_in_the_partitions_that_are_kept(session: Session) -> None:
    made = prepared(session, f"{BY_PAGE} <= 2", "epsilon = 1, max_groups_contributed = 1")
    whole = prepared(session, f"{BY_PAGE} <= 2")
    counts, all_of_them = (
        exact_of(engine_of(session).count(each.plan.compiled)).n[0] for each in (made, whole)
    )
    pages = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT v.user_id) AS n {FROM}"
    users = exact_of(engine_of(session).count(private(session.prepare(pages)).plan.compiled)).n[0]
    assert counts.sum() == users[0] < all_of_them.sum()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{BY_CITY} <= 3", "epsilon = 1"),
        (f"{BY_CITY} <= 3", "epsilon = 1, mechanism = BOX"),
        (f"{BY_PAGE} <= 30", "epsilon = 1, max_groups_contributed = 2"),
    ],
)
def test_predictions_hold_in_every_partition(
    text: str, options: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 360 or 450 rows 87% are covered at least, and their error is within a tenth of the predicted one."""
    seeded(monkeypatch, 7)
    made = prepared(session, text, options)
    counts = engine_of(session).count(made.plan.compiled)
    answer = answer_of(made.method, made.plan, counts)
    found = present(answer.counts[0])
    exact = exact_of(counts).n[0][answer.rows]
    assert len(exact) in (3 * CITIES, 30 * PAGES)
    assert ((found.low <= exact) & (exact <= found.high)).mean() >= 0.87
    error = float(np.sqrt(np.mean((found.value - exact) ** 2)))
    assert error <= 1.1 * present(made.method.quote.predicted_stddev)
    assert error >= 0.6 * present(made.method.quote.predicted_stddev)
    assert float((found.high - found.low).max()) / 2 <= present(made.method.quote.half_width) * 1.0001


def test_the_largest_groups_of_every_partition_come_in_order(session: Session) -> None:
    text = BY_CITY.replace(N, f"{N}, DP_RANK() AS r")
    found = session.run(
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6) {text} <= 2"
    ).table.to_pydict()
    assert found["city"] == [f"c{i}" for i in range(CITIES) for _ in range(2)]
    assert found["r"] == [1, 2] * CITIES
    made = prepared(session, f"{BY_CITY} <= 2")
    counts = engine_of(session).count(made.plan.compiled)
    exact: dict[str, list[int]] = {}
    cities = exact_of(counts).keys.column("k0").to_pylist()
    for city, n in zip(cities, exact_of(counts).n[0].tolist(), strict=True):
        exact.setdefault(city, []).append(n)
    for i in range(CITIES):
        best = sorted(exact[f"c{i}"], reverse=True)[:2]
        assert [round(n) for n in found["n"][2 * i : 2 * i + 2]] == best


def test_partitions_have_groups_of_their_own_number(session: Session) -> None:
    made = prepared(session, f"{BY_KIND} <= 4", "epsilon = 1e6, max_groups_contributed = 1")
    partitions = present(made.plan.partitions)
    assert (partitions.number, partitions.size) == (3, 6)
    answer = answer_of(made.method, made.plan, engine_of(session).count(made.plan.compiled))
    assert present(answer.rank).tolist() == [1, 2, 3, 4, 1, 1, 2, 3, 4]


def test_a_partition_without_rows_is_run_as_well(session: Session) -> None:
    """Over keys without a domain, a partition that were left out would show that it is empty."""
    made = prepared(
        session,
        f"v.page, u.user_id % 7 + length(v.page) AS x, {N} {FROM} WHERE page IN ('p0', 'p1', 'nobody') "
        "GROUP BY 1, 2 QUALIFY ROW_NUMBER() OVER (PARTITION BY v.page ORDER BY n DESC) <= 2",
        "epsilon = 8, delta = 1e-6",
    )
    method = of_type(made.method, LargestOfPartitions)
    partitions = present(made.plan.partitions)
    assert (partitions.number, partitions.size) == (3, None)
    sizes = []
    inner = method.methods[None]

    class Counted:
        quote = inner.quote

        def run(self, run: Run) -> NoisyResult:
            sizes.append(len(exact_of(run.counts).n[0]))
            return inner.run(run)

    counts = engine_of(session).count(made.plan.compiled)
    answer = answer_of(replace(method, methods={None: Counted()}), made.plan, counts)
    assert sorted(sizes) == [0, 7, 7]
    assert answer.charge == Charge(Fraction(8), Fraction(1, 10**6))
    assert len(answer.rows) == 4


def test_an_answer_comes_where_no_partition_has_rows(session: Session) -> None:
    """A failure would show that nobody is there."""
    made = prepared(
        session,
        f"v.page, u.user_id % 7 AS x, {N} {FROM} WHERE page IN ('nobody', 'none') "
        "GROUP BY 1, 2 QUALIFY ROW_NUMBER() OVER (PARTITION BY v.page ORDER BY n DESC) <= 2",
        "epsilon = 1, delta = 1e-6",
    )
    answer = answer_of(made.method, made.plan, engine_of(session).count(made.plan.compiled))
    assert answer.charge.fits(made.price)
    assert len(answer.rows) == 0


def test_partitions_that_where_leaves_out_are_refused(session: Session) -> None:
    with pytest.raises(QueryRefused, match="no value in the public domain"):
        prepared(
            session,
            f"v.page, u.user_id % 7 AS x, {N} {FROM} WHERE v.page = 'p0' AND v.page <> 'p0' "
            "GROUP BY 1, 2 QUALIFY ROW_NUMBER() OVER (PARTITION BY v.page ORDER BY n DESC) <= 2",
            "epsilon = 1, delta = 1e-6",
        )


def test_partitions_of_keys_without_a_domain_are_listed(session: Session) -> None:
    """Whether a group is in one of them follows from its keys: no list makes a statement fail."""
    made = prepared(
        session,
        f"v.page, u.user_id % 7 AS x, {N} {FROM} WHERE page IN ('p0', 'p1', 'nobody') "
        "GROUP BY 1, 2 QUALIFY ROW_NUMBER() OVER (PARTITION BY v.page ORDER BY n DESC) <= 2",
        "epsilon = 1, delta = 1e-6",
    )
    method, own = made.method, present(made.plan.partitions)
    assert isinstance(method, LargestOfPartitions)
    listed = present(own.listed)
    assert sorted(listed.column(0).to_pylist()) == ["nobody", "p0", "p1"]
    counts = engine_of(session).count(made.plan.compiled)
    for names, most in ((["p1"], 2), (["nobody"], 0), (["p1", "p0", "others"], 4)):
        other = replace(own, listed=pa.table({"k0": pa.array(names, pa.string())}))
        answer = answer_of(replace(method, partitions=other), made.plan, counts)
        assert len(answer.rows) <= most


def test_the_largest_loss_of_a_partition_is_charged_for_each_that_a_unit_is_in() -> None:
    def charged(losses: list[PrivacyLoss], times: int) -> Charge:
        """Return what partitions with one group each cost that cost so much."""
        keys = pa.table({"k0": [f"p{i}" for i in range(len(losses))]})
        changes = UnitChanges((NumberChange(0, 1),), grouped=((frozenset({"k0"}), times),))
        run = Run(made_up(keys, (np.arange(len(losses)),), changes), ample())
        parted = Parted.of(run, (0,), 1, times)
        for part, loss in zip(parted.runs, losses, strict=True):
            part.spending.add(loss)
        parted.join_rows([part.every() for part in parted.runs])
        return run.loss.charge

    one, other = PrivacyLoss.of(Fraction(1)), PrivacyLoss.of(Fraction(1, 2), Fraction(1, 100))
    assert charged([one, PrivacyLoss()], 1) == Charge(Fraction(1))
    assert charged([one, other], 2) == Charge(Fraction(2), Fraction(2, 100))
    assert charged([PrivacyLoss()], 1) == Charge()
    with pytest.raises(InternalError, match="more partitions than are charged"):
        Parted.of(
            Run(
                made_up(
                    pa.table({"k0": ["a", "b"]}),
                    (np.arange(2),),
                    UnitChanges((NumberChange(0, 1),), grouped=((frozenset({"k0"}), 2),)),
                ),
                ample(),
            ),
            (0,),
            1,
            1,
        )


def test_explain_and_the_release_say_what_a_partition_uses(session: Session) -> None:
    notes = {
        BY_CITY: "each unit is in one partition: every partition uses all of epsilon",
        BY_PAGE: "one unit can be in all 12 partitions: each has epsilon / 12",
    }
    for text, note in notes.items():
        made = prepared(session, f"{text} <= 2")
        assert made.method.quote.notes[0] == note
        assert made.method.quote.mechanism.endswith(
            f", in each of {present(made.plan.partitions).number} partitions"
        )
    bounded = prepared(session, f"{BY_PAGE} <= 2", "epsilon = 1, max_groups_contributed = 2")
    assert bounded.method.quote.notes[0] == (
        "of each unit at most 2 partitions counted, chosen by a hash, each with epsilon / 2"
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT city, page, n FROM ({block}) WHERE rk <= 2 ORDER BY city, n",
        "WITH r AS ({block}) SELECT page, rk FROM r WHERE rk < 3",
        "{block} QUALIFY rk <= 2 ORDER BY 1 DESC, rk LIMIT 9",
        "{block} QUALIFY 2 >= DENSE_RANK() OVER (PARTITION BY u.city ORDER BY n DESC, page)",
    ],
)
@pytest.mark.sampled(3)
def test_a_rank_is_read_as_a_selection_however_it_is_written(text: str, session: Session) -> None:
    rank = "ROW_NUMBER() OVER (PARTITION BY u.city ORDER BY COUNT(DISTINCT v.user_id) DESC) AS rk"
    block = f"SELECT u.city, v.page, {N}, {rank} {FROM} GROUP BY 1, 2"
    found = session.run(f"EXPLAIN {text.format(block=block)}").table
    shown = dict(zip(*(c.to_pylist() for c in found.columns), strict=True))
    assert shown["selection"] == "top-2 of each partition"
    assert len(session.run(text.format(block=block)).table) == (9 if "LIMIT 9" in text else 2 * CITIES)


def test_a_rank_by_other_columns_than_keys_is_no_partition(session: Session) -> None:
    text = BY_CITY.replace("PARTITION BY city", "PARTITION BY v.user_id % 2")
    with pytest.raises(QueryRefused, match="neither a group key nor a count"):
        prepared(session, f"{text} <= 2")
