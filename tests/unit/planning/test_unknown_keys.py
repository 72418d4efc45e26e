"""Keys without a declared domain: which mechanism answers, what it releases, and what EXPLAIN says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.kernel.changes import UnitChanges
from dpsql.language import TopK
from dpsql.planning.mechanism_choice import quote_candidates
from dpsql.planning.result_table import build_details, build_rows
from dpsql.planning.top_k_selection import LargestGroups
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, of_type, present, private
from tests.support.exact import Answered, answer_of, exact_of, made_up, with_exact
from tests.support.world import write_world
from tests.unit.planning.test_predictions import explained

POLICY = """
[budget]
epsilon = 1000
delta = 0.9
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
"""
N = "COUNT(DISTINCT user_id)"
Open = Callable[..., Session]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    made: list[Session] = []

    def session(more: str = "", users: int = 3) -> Session:
        folder: Path = tmp_path_factory.mktemp("unknown")
        table = pa.table({"user_id": range(users), "word": ["x"] * users, "ms": [1] * users})
        write_world(folder, POLICY + more, visits=table)
        made.append(Session(load(folder / "dpsql.toml")))
        return made[-1]

    yield session
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def session(opened: Open) -> Session:
    return opened()


def statement(options: str, k: int = 10, shown: str = "word", having: str = "") -> str:
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {shown}, {N} AS n FROM visits GROUP BY word "
        f"{having} ORDER BY n DESC LIMIT {k}"
    )


def keys_alone(options: str, k: int = 10, count: str = N) -> str:
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) word FROM visits GROUP BY word "
        f"ORDER BY {count} DESC LIMIT {k}"
    )


def top_k(session: Session, text: str) -> tuple[PreparedPrivate, TopK]:
    prepared = private(session.prepare(text))
    return prepared, of_type(prepared.plan.selection, TopK)


LIMITED, BOTH, STABLE = (
    "limited-domain top-k with gap",
    "limited-domain top-k with gap, then Top Stable",
    "Top Stable",
)


class TestRule:
    @pytest.mark.parametrize("bound", [1, 3])
    def test_the_bar_decides(self, session: Session, bound: int) -> None:
        """The figures around the cut: the bar is c + (k c/epsilon) ln(candidates/(2 delta)), on the grid."""
        count = f"COUNT(*, contribution_bounds_per_group => (0, {bound}))"
        for k, epsilon, delta, more in (
            (50, 0.4, 1 / 29858, ""),
            (50, 1, 1 / 88162, ""),
            (10, 0.8, 1 / 5766, ""),
            (10, 0.4, 1 / 5766, ", candidates = 10"),
            (10, 0.4, 1 / 5766, ", noise = GEOMETRIC"),
        ):
            text = keys_alone(f"epsilon = {epsilon}, delta = {delta:.6e}{more}", k, count)
            facts = explained(session, text)
            candidates = 10 if "candidates" in more else 10 * k
            bar = bound + k * bound / epsilon * math.log(candidates / (2 * delta))
            both = bar * delta > 1 / 25
            assert facts["mechanism"] == (BOTH if both else LIMITED)
            half = k * bound / epsilon * math.log(2) if both else 0.0
            assert facts["bar"] == pytest.approx(bar + half, abs=2, rel=0.001)
            assert f"LIMIT {candidates + 1}" in facts["compiled_sql"]
            assert (facts["epsilon"], facts["delta"]) == (epsilon, pytest.approx(delta, rel=1e-5))

    def test_the_epsilon_that_selects_decides(self, session: Session) -> None:
        low, high = ("epsilon = 1, delta = 3e-4, measure = " + share for share in ("0.5", "0.05"))
        assert explained(session, statement(low))["mechanism"] == BOTH
        assert explained(session, statement(high))["mechanism"] == LIMITED
        assert explained(session, keys_alone("epsilon = 1, delta = 3e-4"))["mechanism"] == LIMITED

    def test_the_policy_may_say_how_many_units_there_are(self, opened: Open) -> None:
        text = keys_alone("epsilon = 1, delta = 1e-12")
        bar = 1 + 10 * math.log(100 / 2e-12)
        for units, mechanism in ((24.9 * bar, BOTH), (25.1 * bar, LIMITED), (10**9, LIMITED)):
            session = opened(f"units_at_least = {round(units)}\n")
            assert explained(session, text)["mechanism"] == mechanism

    @pytest.mark.parametrize(
        ("text", "mechanism"),
        [
            (keys_alone("delta = 0.5", 1), LIMITED),
            (statement("delta = 0.5", shown="word, DP_RANK() AS r"), LIMITED),
            (statement("delta = 0.5", shown="word, DP_GAP() AS r"), LIMITED),
            (statement("delta = 0.5", shown="word, DP_PVALUE() AS r"), LIMITED),
            (statement("delta = 0.5", having=f"HAVING {N} >= 5"), LIMITED),
            (statement("delta = 0.5, measure_strategy = ANCHOR"), LIMITED),
            (statement("delta = 0.5"), BOTH),
            (statement("delta = 0.5, noise = LAPLACE"), STABLE),
            (statement("delta = 0.5, mechanism = TOP_STABLE"), STABLE),
            (statement("delta = 0.5, mechanism = LIMITED_DOMAIN"), LIMITED),
            (statement("delta = 1e-30, mechanism = LIMITED_THEN_STABLE"), BOTH),
        ],
    )
    def test_what_only_one_of_them_can_do(self, session: Session, text: str, mechanism: str) -> None:
        facts = explained(session, text.replace("(delta", "(epsilon = 1, delta"))
        assert facts["mechanism"] == mechanism
        assert ("without a gap" in "".join(facts["warnings"])) == (mechanism == BOTH)
        assert ("bar" in facts, "lead" in facts) == (mechanism != STABLE, mechanism != LIMITED)

    @pytest.mark.parametrize(
        ("text", "message", "hint"),
        [
            (
                statement("mechanism = M", having="HAVING n >= 5"),
                "a threshold needs groups",
                "LIMITED_DOMAIN",
            ),
            (statement("mechanism = M", shown="word, DP_RANK() AS r"), "r needs groups", "LIMITED_DOMAIN"),
            (statement("mechanism = M", 1), "a single group leaves no epsilon", "LIMITED_DOMAIN"),
            (statement("mechanism = M, noise = LAPLACE"), "exponential noise only", "leave noise out"),
            (statement("mechanism = M, measure_strategy = ANCHOR"), "ANCHOR needs groups", "LIMITED_DOMAIN"),
        ],
    )
    def test_refused(self, session: Session, text: str, message: str, hint: str | None) -> None:
        asked = text.replace("mechanism = M", "epsilon = 1, delta = 1e-3, mechanism = LIMITED_THEN_STABLE")
        with pytest.raises(QueryRefused, match=message) as caught:
            session.prepare(asked)
        if hint is not None:
            assert hint in (caught.value.hint or "")
            mended = asked.replace("LIMITED_THEN_STABLE", "LIMITED_DOMAIN").replace(", noise = LAPLACE", "")
            session.prepare(mended)

    @pytest.mark.parametrize(
        "shown", ["word, DP_GAP() AS g", "word, DP_RANK() AS r", "word, DP_PVALUE() AS p"]
    )
    def test_the_order_of_a_stable_set_is_bought(self, session: Session, shown: str) -> None:
        text = statement("epsilon = 1, delta = 1e-3, mechanism = TOP_STABLE", shown=shown)
        with pytest.raises(QueryRefused, match="without order") as caught:
            session.prepare(text)
        assert "order_share" in (caught.value.hint or "")
        bought = text.replace("TOP_STABLE", "TOP_STABLE, order_share = 0.25")
        facts = explained(session, bought)
        assert facts["epsilon"] == 1
        assert "epsilon 0.125 of it orders the rows" in facts["warnings"]
        assert facts["tells_apart"] > 0

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            (statement("epsilon = 1, delta = 1e-3, order_share = 0.25"), "mechanism = TOP_STABLE"),
            (
                statement("epsilon = 1, delta = 1e-3, mechanism = LIMITED_DOMAIN, order_share = 0"),
                "mechanism = TOP_STABLE",
            ),
        ],
    )
    def test_an_order_share_is_for_top_stable(self, session: Session, text: str, hint: str) -> None:
        with pytest.raises(QueryRefused, match="order_share orders the set of Top Stable") as caught:
            session.prepare(text)
        assert hint in (caught.value.hint or "")

    def test_no_private_count_enters(self, opened: Open) -> None:
        """EXPLAIN is the same on any two databases of one policy."""
        texts = [keys_alone("epsilon = 1, delta = 3e-4", k) for k in (2, 10, 50)]
        few, many = opened(users=3), opened(users=4000)
        for text in texts:
            assert explained(few, text) == explained(many, text)


class TestConsidered:
    def test_each_has_its_figures(self, session: Session) -> None:
        for delta, chosen in (("1e-3", "LIMITED_THEN_STABLE"), ("1e-6", "LIMITED_DOMAIN")):
            prepared, selection = top_k(session, statement(f"epsilon = 1, delta = {delta}"))
            found = {each.mechanism.split(" + ")[0]: each for each in quote_candidates(prepared.plan)}
            assert set(found) == {"LIMITED_DOMAIN", "LIMITED_THEN_STABLE", "TOP_STABLE"}
            for name, each in found.items():
                named = replace(prepared.plan, options=replace(prepared.plan.options, mechanism=name))
                quote = LargestGroups.of(named, selection).quote
                assert (each.stddev, each.half_width) == (quote.predicted_stddev, quote.half_width)
                assert each.charge == quote.charge
                assert (each.why == "chosen") == (name == chosen)
                assert (each.tells_apart is None) == (name == "TOP_STABLE")
            assert found["TOP_STABLE"].why == "only by name"
            other = {"LIMITED_THEN_STABLE": "LIMITED_DOMAIN"}.get(chosen, "LIMITED_THEN_STABLE")
            assert found[other].why.startswith("bar ")
            assert prepared.method.quote.mechanism == {"LIMITED_DOMAIN": LIMITED}.get(chosen, BOTH)

    def test_what_cannot_answer_has_no_figures(self, session: Session) -> None:
        for text, names in (
            (statement("delta = 0.5", having="HAVING n >= 5"), {"LIMITED_DOMAIN"}),
            (statement("delta = 0.5", 1), {"LIMITED_DOMAIN", "TOP_STABLE"}),
            (statement("delta = 0.5, noise = LAPLACE"), {"TOP_STABLE"}),
        ):
            found = quote_candidates(plan_of(session, text.replace("(delta", "(epsilon = 1, delta"))[0])
            assert {each.mechanism.split(" + ")[0] for each in found if each.stddev is not None} == names


def plan_of(session: Session, text: str) -> Any:
    prepared, selection = top_k(session, text)
    return prepared.plan, selection


@pytest.mark.parametrize(
    ("column", "order"),
    [
        (pa.array(["b", "a", "c"]), [1, 0, 2]),
        (pa.DictionaryArray.from_arrays(pa.array([1, 0, 2], pa.uint8()), ["z", "m", "a"]), [1, 0, 2]),
    ],
)
def test_keys_are_sorted_and_an_enum_as_it_was_declared(column: pa.Array, order: list[int]) -> None:
    counts = made_up(pa.table({"k0": column}), (np.zeros(3, dtype=np.int64),), UnitChanges((None,)))
    assert exact_of(counts).key_order(np.arange(3)).tolist() == order
    assert exact_of(counts).key_order(np.array([0, 1])).tolist() == [1, 0]


class TestAnswer:
    NAMES = ("m", "c", "x", "k", "b", "z", "a", "y", *(f"r{i:03}" for i in range(200)))
    COUNTS = np.array([5000, 4000, 3000, 280, 270, 260, 260, 250, *[3] * 200], dtype=np.int64)
    TEXT = "epsilon = 1, delta = 1e-6, mechanism = LIMITED_THEN_STABLE, candidates = 48, measure = 0.5"

    def run(self, session: Session, text: str) -> tuple[PreparedPrivate, Answered]:
        """Limited domain's cutoff stands near 450 and a set needs a lead of 130, at half of epsilon."""
        prepared = private(session.prepare(text))
        counts = engine_of(session).count(prepared.plan.compiled)
        counts = with_exact(
            counts,
            keys=pa.table({"k0": self.NAMES[:49]}),
            n=tuple(self.COUNTS[:49] for _ in exact_of(counts).n),
        )
        return prepared, answer_of(prepared.method, prepared.plan, counts)

    def test_rows_in_order_then_by_key(self, session: Session) -> None:
        text = statement(self.TEXT, 12)
        runs = [self.run(session, text) for _ in range(12)]
        full = [each for each in runs if len(each[1].rows) == 8]
        assert len(full) > 6  # about 2% of runs place a fourth group before the cutoff, and may end there
        for prepared, answer in full:
            shown = [self.NAMES[i] for i in answer.rows]
            ordered = int((~np.isnan(present(answer.gap))).sum())
            assert shown[:3] == ["m", "c", "x"]
            assert shown[ordered:] == sorted(shown[ordered:])
            assert answer.charge.epsilon <= prepared.price.epsilon == 1
            found, _ = build_details(
                prepared.plan, answer.result, build_rows(prepared.plan, answer.result, answer.run)
            )
            table = found.to_pydict()
            assert [g is None for g in table["gap"]] == [i >= ordered for i in range(8)]
            assert [p is None for p in table["p_value"]] == [i >= ordered for i in range(8)]
            assert all(
                low <= n <= high
                for n, low, high in zip(table["n"], table["n_low"], table["n_high"], strict=True)
            )

    @pytest.mark.parametrize(("runs", "off"), [(40, 0.17), pytest.param(300, 0.0625, marks=pytest.mark.slow)])
    def test_the_counts_of_both_parts_are_measured(self, session: Session, runs: int, off: float) -> None:
        """The coverage of 300 runs has a standard error of at most .0125 (40: .035), five are allowed."""
        text = statement(self.TEXT, 12)
        covered: list[bool] = []
        spread: dict[int, list[float]] = {}
        for _ in range(runs):
            prepared, answer = self.run(session, text)
            estimate = present(answer.counts[0])
            exact = self.COUNTS[answer.rows]
            covered += ((estimate.low <= exact) & (exact <= estimate.high)).tolist()
            if len(answer.rows) == 8:
                for place, error in enumerate((estimate.value - exact).tolist()):
                    spread.setdefault(place, []).append(error)
                assert estimate.stddev.max() <= present(prepared.method.quote.predicted_stddev)
        assert np.mean(covered) == pytest.approx(0.95, abs=off)
        deviations = [float(np.sqrt(np.mean(np.square(errors)))) for errors in spread.values()]
        assert runs < 300 or max(deviations) < 1.4 * min(deviations)

    def test_a_stable_set_in_order(self, session: Session) -> None:
        """The set of eight, with gaps that estimate the counts beside their measurements."""
        options = "epsilon = 1, delta = 1e-6, mechanism = TOP_STABLE, order_share = 0.25, measure = 0.5"
        more = options.replace("order_share = 0.25", "order_share = 0")
        ordered, unordered = (
            [self.run(session, statement(o, 12)) for _ in range(30)] for o in (options, more)
        )
        for prepared, answer in ordered:
            assert [self.NAMES[i] for i in answer.rows][:3] == ["m", "c", "x"]
            gap = present(answer.gap)
            assert len(answer.rows) == 8
            assert np.isnan(gap).tolist() == [False] * 7 + [True]
            assert answer.charge.epsilon == prepared.price.epsilon == 1
            assert len(present(present(answer.counts[0]).value)) == 8
        for _, answer in unordered:
            assert [self.NAMES[i] for i in answer.rows] == sorted(self.NAMES[:8])
            assert answer.gap is None

    def test_what_is_not_spent_is_not_charged(self, session: Session) -> None:
        release = present(session.run(keys_alone(self.TEXT.replace(", measure = 0.5", ""), 12)).release)
        assert release.charge.epsilon == Fraction(1, 12) + Fraction(11, 12) * Fraction(15, 100)
        assert release.charge.delta == Fraction(1, 10**6)
        assert release.rows.num_rows == 0
