"""Distances of questions: 0 on both sides where answers differ, moved by at most c; the step that asks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsql.errors import InternalError
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.counts import Exact
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import FirstStable, NoiseSource, StableAnswers, StableStream
from dpsql.kernel.release import Run
from dpsql.kernel.stable_questions import StableAbove, StableQuantile, StableTop, ask_stable
from dpsql.noise import SeededEntropy
from tests.support.exact import ample, made_up

PUBLIC = UnitChanges((NumberChange(0, 3),))
UNKNOWN = UnitChanges((NumberChange(0, 3),), public=False, declared=False, decides=0)
CELLS = UnitChanges((None, NumberChange(0, 3, 3), NumberChange(0, 3, 3)))


def own(numbers: Sequence[int], changes: UnitChanges = PUBLIC) -> Exact:
    keys = pa.table({"k0": [f"g{i}" for i in range(len(numbers))]})
    return Exact(keys, (np.array(numbers, dtype=np.int64),), changes, None)


def cells_of(rows: Sequence[int]) -> Exact:
    """All rows in one group, by their cells."""
    number, cell = np.array(rows, dtype=np.int64), np.arange(len(rows))
    return Exact(pa.table({"k0": ["x"] * len(rows)}).select([]), (cell, number, number), CELLS, None)


QUESTIONS = [
    StableTop(1),
    StableTop(2),
    StableTop(2, listed=True),
    StableTop(3),
    StableTop(3, listed=True),
    StableTop(1, lowest=True),
    StableTop(2, listed=True, lowest=True),
    StableAbove(2),
    StableAbove(4),
]


def answers(question: Any, numbers: Sequence[int], c: int, changes: UnitChanges) -> tuple[int, Any]:
    """The distance, and what is released of a stable answer: groups that are not there have no name."""
    kept = numbers if changes.declared else [n for n in numbers if n]
    names = [i for i, n in enumerate(numbers) if changes.declared or n]
    distance, at = question.answer(own(kept, changes), 0, c)
    shown = [names[i] for i in at.tolist()]
    return distance, shown if getattr(question, "listed", False) else sorted(shown)


def pairs(c: int, most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for numbers in itertools.product(range(most + 1), repeat=3):
        for more in itertools.product(range(c + 1), repeat=3):
            yield numbers, tuple(n + m for n, m in zip(numbers, more, strict=True))


OF_UNKNOWN_GROUPS = [each for each in QUESTIONS if isinstance(each, StableTop) and not each.lowest]
"""The others are asked of a public domain alone."""


@pytest.mark.parametrize("c", [1, 2, pytest.param(3, marks=pytest.mark.longer)])
@pytest.mark.parametrize(
    ("question", "changes"),
    [*((each, PUBLIC) for each in QUESTIONS), *((each, UNKNOWN) for each in OF_UNKNOWN_GROUPS)],
)
@pytest.mark.sampled(3, rest="longer")
def test_all_databases_of_three_groups(question: Any, changes: UnitChanges, c: int) -> None:
    asked = cache(lambda numbers: answers(question, numbers, c, changes))
    different, moved, stable = 0, 0, 0
    for one, other in pairs(c, 4 * c + 2):
        (d, shown), (e, again) = asked(one), asked(other)
        assert min(d, e) >= 0
        assert abs(d - e) <= c
        if shown != again:
            assert (d, e) == (0, 0)
            different += 1
        moved, stable = max(moved, abs(d - e)), stable + (d > 0)
    if isinstance(question, StableTop) and question.k == 3 and not question.listed and changes.declared:
        assert not different  # all groups there are, whatever the numbers
        return
    assert different
    assert stable
    assert moved == c or question.k == 3


@pytest.mark.parametrize("c", [1, 2, pytest.param(3, marks=pytest.mark.longer)])
@pytest.mark.parametrize("rank", ["1/2", "1/4", "4/5", "1/3"])
@pytest.mark.sampled(5, rest="longer")
def test_all_small_histograms(rank: str, c: int) -> None:
    question, found = StableQuantile(Fraction(rank)), set()

    @cache
    def asked(rows: tuple[int, ...]) -> tuple[int, int]:
        distance, (cell,) = question.answer(cells_of(rows), 0, c)
        if sum(rows):
            values = np.repeat(range(3), rows)
            assert cell == np.quantile(values, float(Fraction(rank)), method="inverted_cdf")
        return distance, int(cell)

    for one, other in pairs(c, 9):
        if sum(other) - sum(one) <= c:
            (d, cell), (e, again) = asked(one), asked(other)
            assert abs(d - e) <= c
            if cell != again or not sum(one):
                assert (d, e) == (0, 0) or (not sum(one) and d == 0)
            found.add((d > 0, cell != again))
    assert found == {(True, False), (False, False), (False, True)}


@pytest.mark.parametrize("c", [1, 2, 3])
def test_leads_without_c_and_lists_by_their_last_lead_are_found(c: int) -> None:
    """The wrong variants of the contract break what is tested above."""

    class Last(StableTop):
        def answer(self, own: Exact, place: int, moved: int) -> Any:
            return StableTop.answer(replace(self, listed=False), own, place, moved)

    def broken(question: Any, lower: int) -> bool:
        asked = cache(lambda numbers: answers(question, numbers, c - lower, PUBLIC))
        for one, other in pairs(c, 2 * c + 2):
            (d, shown), (e, again) = asked(one), asked(other)
            if shown != again and (d or e):
                return True
        return False

    assert broken(StableTop(1), c)
    assert broken(Last(2, listed=True), 0)
    assert broken(StableAbove(3), 1)
    assert not broken(StableTop(1), 0)


def run_on(numbers: Sequence[int], changes: UnitChanges, limit: PrivacyLoss | None = None) -> Run:
    keys = pa.table({"k0": [f"g{i}" for i in range(len(numbers))]})
    counts = made_up(keys, [np.array(numbers, dtype=np.int64)], changes)
    return Run(counts, ample() if limit is None else Spending(limit))


def first(seed: int = 0, **more: Any) -> StableStream:
    plan = FirstStable.plan(1, 1, "1e-6", **more)
    return StableStream(plan, NoiseSource(SeededEntropy(seed)))


class TestAsking:
    @pytest.mark.parametrize("changes", [PUBLIC, UNKNOWN], ids=["public", "unknown"])
    def test_a_stable_answer_is_released_and_paid(self, changes: UnitChanges) -> None:
        run, stream = run_on([5, 9_000, 7_000, 3], changes), first()
        found = ask_stable(run, stream, 0, StableTop(2, listed=True))
        assert found.stable
        assert run.keys(found.rows)[0].to_pylist() == ["g1", "g2"]
        assert run.loss.charge == stream.plan.loss.charge
        assert stream.exhausted

    def test_an_unstable_one_costs_the_threshold_and_delta(self) -> None:
        run, stream = run_on([5, 9_000, 9_000, 3], PUBLIC), first()
        found = ask_stable(run, stream, 0, StableTop(1))
        assert not found.stable
        assert len(found.rows) == 0
        assert run.loss.charge.epsilon == stream.plan.tests.threshold_epsilon == Fraction(3, 20)
        assert run.loss.charge.delta == Fraction(1, 10**6)

    def test_a_set_comes_by_its_keys(self) -> None:
        run = run_on([5, 7_000, 9_000, 3], PUBLIC)
        found = ask_stable(run, first(), 0, StableTop(2))
        assert run.keys(found.rows)[0].to_pylist() == ["g1", "g2"]

    def test_what_the_noise_is_not_for_is_refused(self) -> None:
        stream = first()
        stream.plan = replace(stream.plan, tests=replace(stream.plan.tests, scale=Fraction(1)))
        with pytest.raises(InternalError, match="noise is for less"):
            ask_stable(run_on([5, 9_000], PUBLIC), stream, 0, StableTop(1))

    @pytest.mark.parametrize("c", [1, 3])
    def test_the_same_noise_is_c_times_as_large(self, c: int) -> None:
        """So answers with c times the lead, less c, are as often stable, whatever c is."""
        changes = UnitChanges((NumberChange(0, c),))
        lead, plan, seeds = 40, FirstStable.plan(1, 1, "1e-6"), range(60)

        def stream(seed: int) -> StableStream:
            return StableStream(plan, NoiseSource(SeededEntropy(seed)))

        numbers = [5, 500 + c * (lead + 1), 500]
        passed = [ask_stable(run_on(numbers, changes), stream(seed), 0, StableTop(1)) for seed in seeds]
        alone = [stream(seed).test(Fraction(lead)) for seed in seeds]
        assert [each.stable for each in passed] == alone
        assert 0 < sum(alone) < 60

    def test_what_costs_more_than_is_reserved_is_refused(self) -> None:
        run = run_on([5, 9_000], PUBLIC, PrivacyLoss.of(Fraction(1)))
        with pytest.raises(InternalError, match="more than what is reserved"):
            ask_stable(run, first(), 0, StableTop(1))

    @pytest.mark.parametrize(
        ("question", "changes", "why"),
        [
            (StableTop(1), UnitChanges((NumberChange(-1, 2),)), "up and others down"),
            (StableAbove(3), UNKNOWN, "is private"),
            (StableAbove(0), PUBLIC, "is private"),
            (StableTop(1, lowest=True), UNKNOWN, "is private"),
            (StableTop(1), replace(UNKNOWN, decides=None), "another number decides"),
            (StableTop(2), replace(UNKNOWN, listed=2), "too few"),
            (StableAbove(3), replace(PUBLIC, declared=False), "is private"),
            (StableQuantile(Fraction(1, 2)), UnitChanges((None, NumberChange(0, 1))), "nothing is proved"),
            (StableTop(1), UnitChanges((None,)), "nothing is proved"),
        ],
    )
    def test_questions_of_other_numbers_are_refused(
        self, question: Any, changes: UnitChanges, why: str
    ) -> None:
        with pytest.raises(InternalError, match=why):
            ask_stable(run_on([5, 9_000], changes), first(), 0, question)

    def test_a_stream_pays_for_what_is_unstable(self) -> None:
        plan = StableAnswers.plan(6, 2, 1, "1e-6")
        stream = StableStream(plan, NoiseSource(SeededEntropy(3)))
        stable, close = [90_000, 5], [90_000, 90_000]
        said = []
        for numbers in (stable, close, stable, stable, close):
            run = run_on(numbers, PUBLIC)
            said.append(ask_stable(run, stream, 0, StableTop(1)).stable)
        assert said == [True, False, True, True, False]
        assert (stream.used, stream.asked, stream.exhausted) == (2, 5, True)
        assert stream.charge == plan.loss.charge
        with pytest.raises(RuntimeError, match="used up"):
            stream.test(Fraction(10**6))

    def test_a_stream_answers_no_more_questions_than_delta_is_for(self) -> None:
        plan = StableAnswers.plan(2, 2, 1, "1e-6")
        stream = StableStream(plan, asked=1)
        assert stream.test(Fraction(10**6))
        with pytest.raises(RuntimeError, match="used up"):
            stream.test(Fraction(10**6))


@pytest.mark.parametrize("listed", [False, True])
def test_all_groups_of_a_large_domain_are_no_answer(listed: bool) -> None:
    """Those without rows are not listed, so the set of all would tell which have rows."""
    for size, refused in ((2, True), (3, True), (4, False)):
        domain: Any = SimpleNamespace(size=size)
        found = replace(own([5, 1]), domain=domain, positions=np.array([0, 1]))
        question = StableTop(3, listed=listed)
        if refused:
            with pytest.raises(InternalError, match="have rows is private"):
                question.answer(found, 0, 1)
        else:
            assert question.answer(found, 0, 1)[0] == 0
