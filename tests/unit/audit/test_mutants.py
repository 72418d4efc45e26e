"""The audit accuses dpsql itself as soon as one line of it is wrong.

Each mutant is a module of dpsql with one expression of its source replaced; it runs as dpsql would, in
batches, on inputs at hand. The unchanged module passes the same audit. All are seeded; a correct module
would be accused with probability 1e-9.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql import mechanisms, noise
from dpsql.audit import CHARGE, Pair, Verdict, detect, pairs
from dpsql.audit.detector import outputs_of
from dpsql.audit.runs import LENGTHS
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.public_order import in_public_order
from dpsql.mechanisms import of_any_size

E = Fraction(3, 2)


def module(name: str, **changes: str) -> types.ModuleType:
    """A module of dpsql, made anew with expressions replaced; `module.Class` names where they stand."""
    file, _, within = name.partition(".")
    whole = importlib.import_module(f"dpsql.kernel.mechanisms.{file}")
    source = inspect.getsource(whole)
    part = changed = inspect.getsource(getattr(whole, within)) if within else source
    for old, new in changes.items():
        assert changed.count(old) == 1, f"{old} is not, or not once, in {name}"
        changed = changed.replace(old, new)
    source = source.replace(part, changed)
    made = types.ModuleType(whole.__name__)
    made.__dict__["__file__"] = whole.__file__
    made.__package__ = whole.__package__
    # Dataclasses look their module up by name: it is there, under the same name, and of the same shape.
    exec(compile(source, str(whole.__file__), "exec"), made.__dict__)
    return made


def top_k(changed: types.ModuleType, k: int = 1, **options: Any) -> Callable[..., object]:
    return batches(changed.NoisyTopK.plan, k=k, **options)


def selected(changed: types.ModuleType, **options: Any) -> Callable[..., object]:
    """Top-k with the selection of a changed module, which it imports."""
    with patch.dict(sys.modules, {changed.__name__: changed}):
        made = module("top_k")
    return top_k(made, **options)


def batches(plan: Callable[..., Any], **options: Any) -> Callable[..., dict[str, Any]]:
    """Run a mechanism as the catalogue does."""

    def run(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> dict[str, Any]:
        made, rows = plan(len(counts), epsilon=E, **options), np.tile(counts, (trials, 1))
        return outputs_of(
            made.run(in_public_order(rows) if made.ordered else rows, mechanisms.NoiseSource(entropy))
        )

    return run


def sparse_vector(
    changed: types.ModuleType, k: int = 1, told: bool = True, **options: Any
) -> Callable[..., object]:
    run = batches(changed.AdaptiveSparseVector.plan, k=k, threshold=1, branches=1, **options)
    return run if told else lambda *arguments: {**run(*arguments), CHARGE: E}


def laplace(changed: types.ModuleType) -> Callable[..., object]:
    return batches(changed.Laplace.plan)


def box(changed: types.ModuleType, **options: Any) -> Callable[..., object]:
    return batches(changed.Box.plan, **options)


def gaussian(changed: types.ModuleType, **options: Any) -> Callable[..., object]:
    # The plan of the audit's case: (epsilon, delta)-differential privacy, which an audit can test.
    def approximate(groups: int, *, epsilon: Fraction, **more: Any) -> Mechanism[Any]:
        delta = Fraction(1, 100)
        way = Filter.of(Charge(epsilon, delta), "zcdp", delta).order_way
        assert way is not None
        made = changed.Gaussian.plan(groups, way.limit / way.order, **more)
        return cast("Mechanism[Any]", replace(made, loss=PrivacyLoss.of(epsilon, delta)))

    return batches(approximate, **options)


def exponential(changed: types.ModuleType, **options: Any) -> Callable[..., object]:
    return batches(changed.Exponential.plan, **options)


def quantile(changed: types.ModuleType, **options: Any) -> Callable[..., object]:
    return batches(changed.Quantile.plan, **options)


def extreme(changed: types.ModuleType) -> Callable[..., object]:
    return batches(changed.Extreme.plan)


def ladder(changed: types.ModuleType, **options: Any) -> Callable[..., object]:
    return batches(changed.Ladder.plan, **options)


def bins(changed: types.ModuleType) -> Callable[..., object]:
    def of_size(groups: int, *, epsilon: Fraction) -> Mechanism[Any]:
        sizes = (most for most in count(1) if len(changed.thresholds(most)) == max(groups - 1, 1))
        return cast("Mechanism[Any]", changed.Bins.plan(next(sizes), epsilon))

    return batches(of_size)


def limited_domain(changed: types.ModuleType) -> Callable[..., object]:
    return batches(of_any_size(changed.LimitedDomain.plan), k=1, delta=0.1, candidates=1)


def limited_then_stable(changed: types.ModuleType) -> Callable[..., object]:
    run = batches(of_any_size(changed.LimitedThenStable.plan), k=2, delta=0.1, candidates=2)
    return lambda *arguments: {**run(*arguments), CHARGE: E}


def hybrid(changed: types.ModuleType, k: int = 1, threshold: int = 2) -> Callable[..., object]:
    return batches(changed.HybridTopK.plan, k=k, threshold=threshold)


ONE = [Pair("one above", (1, 1, 1, 1), (2, 1, 1, 1))]
TWO = [Pair("two above", (1, 1, 1, 1, 1), (2, 2, 1, 1, 1))]
APART = [Pair("one above, rest below", (1, 1, 1, 1), (2, 0, 0, 0))]
ALL = [Pair("all above", (0, 0, 0, 0), (1, 1, 1, 1))]
RANGE = [Pair("first by 4, rest by -1", (10, 10, 10), (14, 9, 9))]
NEW = [Pair("a new group", (0,), (1,))]

_SCALE = "scale = paid * moved * (1 if monotone else 2) / budget"
_GAP = "value[..., :-1] - value[..., 1:] - (rank[..., :-1] < rank[..., 1:])"
_ORDER = "ascending(values, ranks)[..., : -k - 2 : -1]"

Made = Callable[..., Callable[..., object]]
Texts = str | tuple[str, ...]
MUTANTS: dict[str, tuple[Made, str, Texts, Texts, Sequence[Pair], dict[str, Any]]] = {
    "top-k: scale halved": (top_k, "top_k.NoisyTopK", _SCALE, f"{_SCALE} / 2", ONE, {}),
    "top-k: noise for one of k": (
        top_k,
        "top_k.NoisyTopK",
        "scale = paid * moved",
        "scale = moved",
        TWO,
        {"k": 2},
    ),
    "top-k: wrong monotone constant": (
        top_k,
        "top_k.NoisyTopK",
        "(1 if monotone else 2)",
        "(1 if not monotone else 1)",
        APART,
        {"monotone": False},
    ),
    "top-k: last gap off by one rank": (
        selected,
        "noisy_order",
        f"order = {_ORDER}",
        "order = np.delete(np.lexsort((ranks, values), axis=-1)[..., : -k - 3 : -1], k, axis=-1)",
        [Pair("one above", (1, 0, 0), (2, 0, 0))],
        {},
    ),
    "top-k: ties by position, gaps as they are": (
        selected,
        "noisy_order",
        (f"order = {_ORDER}", _GAP),
        (
            "order = np.argsort(-values, axis=-1, kind='stable')[..., : k + 1]",
            "value[..., :-1] - value[..., 1:]",
        ),
        [Pair("rest above", (0, 0, 0), (0, 1, 1))],
        {"noise": "geometric"},
    ),
    "top-k: charge halved": (
        top_k,
        "top_k.NoisyTopK",
        "PrivacyLoss.of(budget)",
        "PrivacyLoss.of(budget / 2)",
        ONE,
        {},
    ),
    "sparse vector: threshold without noise": (
        sparse_vector,
        "sparse_vector.AdaptiveSparseVector",
        "level = self.threshold_noise(len(rows), source)",
        "level = 0 * self.threshold_noise(len(rows), source)",
        [Pair("all above", (0,) * 6, (1,) * 6)],
        {"noise": "laplace"},
    ),
    "sparse vector: hits refunded": (
        sparse_vector,
        "sparse_vector.AdaptiveSparseVector",
        "self.released(every, spent, ",
        "self.released(every, spent // 2, ",
        [Pair("all but the last above", (0, 0, 0, 0, 0), (1, 1, 1, 1, 0))],
        {},
    ),
    "sparse vector: more hits than are paid for": (
        sparse_vector,
        "sparse_vector.AdaptiveSparseVector",
        ("spent <= (self.hits - 1)", "self.make_result("),
        (
            "spent <= (self.hits + 2)",
            "__import__('dataclasses').replace(self, hits=self.hits + 3).make_result(",
        ),
        [Pair("X shape", (1, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 1))],
        {"monotone": False, "told": False},
    ),
    "laplace: scale halved": (
        laplace,
        "measure",
        'values += source.draw("laplace", self.scale, ',
        'values += source.draw("laplace", self.scale / 2, ',
        [Pair("one above", (1,), (2,))],
        {},
    ),
    "laplace: charge halved": (
        laplace,
        "measure",
        "PrivacyLoss.of(moved / scale, times=m)",
        "PrivacyLoss.of(moved / scale / 2, times=m)",
        [Pair("one above", (1,), (2,))],
        {},
    ),
    "box: scale halved": (
        box,
        "measure.Box",
        "budget / unit,",
        "2 * budget / unit,",
        [Pair("all above", (0, 0), (1, 1))],
        {},
    ),
    "box: midrange not subtracted": (
        box,
        "measure.Box",
        "(ends.max(1) + ends.min(1))[:, None]",
        "0",
        [Pair("all above", (0, 0), (1, 1))],
        {},
    ),
    "box: steps of the smaller bound for all": (
        box,
        "measure.Box",
        "steps = self.unit // bounds\n",
        "steps = self.unit // bounds.min() + 0 * bounds\n",
        [Pair("the second above", (0, 0), (0, 3))],
        {"sensitivity": (2, 3)},
    ),
    "box: in place of a cube": (
        box,
        "measure.Box",
        "pads(groups) if monotone else 0",
        "pads(groups)",
        [Pair("one above, one below", (1, 1), (2, 0))],
        {"monotone": False},
    ),
    "cube: scale halved": (
        box,
        "measure.Box",
        "source.cube(self.rate, ",
        "source.cube(2 * self.rate, ",
        [Pair("one above, one below", (1, 1), (2, 0))],
        {"monotone": False},
    ),
    "gaussian: half of the deviation": (
        gaussian,
        "gaussian",
        "source.gaussian(self.own, ",
        "source.gaussian(self.own // 4, ",
        [Pair("one above", (1,), (2,))],
        {},
    ),
    "gaussian: shared noise left out": (
        gaussian,
        "gaussian",
        "if self.shared:\n            placed",
        "if self.shared < 0:\n            placed",
        [Pair("all above", (0,) * 6, (1,) * 6)],
        {},
    ),
    "gaussian: shared where counts move both ways": (
        gaussian,
        "gaussian",
        "            if monotone\n",
        "            if monotone or True\n",
        [Pair("half above, half below", (1,) * 6, (2, 0) * 3)],
        {"monotone": False},
    ),
    "exponential mechanism: wrong monotone constant": (
        exponential,
        "exponential.Exponential",
        "(1 if monotone else 2)",
        "(1 if not monotone else 1)",
        APART,
        {"monotone": False},
    ),
    "top-k of sums: half of the range": (
        top_k,
        "top_k.NoisyTopK",
        _SCALE,
        f"{_SCALE} / 2",
        RANGE,
        {"sensitivity": 5},
    ),
    "exponential mechanism of sums: half of the range": (
        exponential,
        "exponential.Exponential",
        "/ budget",
        "/ budget / 2",
        RANGE,
        {"sensitivity": 5},
    ),
    "quantile: half of the scale": (
        quantile,
        "quantile",
        "return 2 * self.rows_per_unit",
        "return self.rows_per_unit",
        [Pair("one more at the end", (10, 0, 0, 1, 0), (10, 0, 0, 1, 1))],
        {"quantiles": ("0.9",)},
    ),
    "extreme: half of the scale": (
        extreme,
        "quantile.Extreme",
        "pick(self.scale, ",
        "pick(self.scale / 2, ",
        [Pair("one more at the end", (0, 2, 2, 3), (0, 2, 2, 4))],
        {},
    ),
    "ladder: half of the scale": (
        ladder,
        "ladder.Ladder",
        "scale = moved / budget",
        "scale = moved / budget / 2",
        [Pair("one above the first", (3, 1, 0, 0), (4, 1, 0, 0))],
        {},
    ),
    "ladder of capped costs: noise for numbers that move one way": (
        ladder,
        "ladder.Ladder",
        "scale *= 1 + capped",
        "scale *= 1",
        [Pair("one above all", (13, 0, 0, 0), (14, 0, 0, 0))],
        {"capped": True},
    ),
    "ladder by excess: noise for scores of 1": (
        ladder,
        "ladder.Ladder",
        "scale = moved / budget",
        "scale = 1 / budget",
        [Pair("one above the first", (2 << 20, 1 << 20, 0, 0), (3 << 20, 1 << 20, 0, 0))],
        {"sensitivity": 1 << 20},
    ),
    "bins: half of the noise": (
        bins,
        "ladder.Bins",
        "scale = 1 / budget",
        "scale = 1 / budget / 2",
        ONE,
        {},
    ),
    "limited domain: bar too low": (
        limited_domain,
        "limited_domain",
        "exponential_cutoff(delta / candidates, ",
        "exponential_cutoff(min(3 * delta / candidates, Fraction(9, 10)), ",
        NEW,
        {},
    ),
    "limited domain, then top stable: more than the rest of delta": (
        limited_then_stable,
        "limited_domain",
        "            most.delta - spent.delta,",
        "            4 * (most.delta - spent.delta),",
        NEW,
        {},
    ),
    "hybrid: threshold refunded": (
        hybrid,
        "top_k.HybridTopK",
        "units=released + threshold_placed",
        "units=released",
        ALL,
        {},
    ),
}


def audit(name: str, *, right: bool) -> Verdict:
    make, where, old, new, inputs, options = MUTANTS[name]
    changes: dict[str, Any] = dict(zip(old, new, strict=True)) if isinstance(old, tuple) else {old: new}
    changed = module(where) if right else module(where, **changes)
    return detect(
        make(changed, **options),
        E,
        inputs=inputs,
        trials=40_000,
        confidence=1 - 1e-9,
        name=name,
        entropy=noise.SeededEntropy(1),
        delta=0.1 if where.startswith("limited") else 0,
    )


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.sampled(4)
def test_a_mutant_is_accused(name: str) -> None:
    verdict = audit(name, right=False)
    assert verdict.violated, verdict.words()


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.sampled(5)
def test_the_module_as_it_is_passes(name: str) -> None:
    verdict = audit(name, right=True)
    assert not verdict.violated, verdict.words()


def test_a_mutant_whose_source_has_gone_is_noticed() -> None:
    with pytest.raises(AssertionError, match="is not, or not once"):
        module("top_k", **{"no such expression": ""})


def test_the_inputs_at_hand_are_among_those_the_search_tries() -> None:
    made = {
        (p.first, p.second)
        for p in pairs("general", drawn=0, lengths=(4, *LENGTHS), entropy=noise.SeededEntropy(1))
    }
    assert {(p.first, p.second) for p in [*ONE, *APART]} <= made
