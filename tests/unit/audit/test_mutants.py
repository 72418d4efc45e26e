"""The audit accuses dpsql itself as soon as one line of it is wrong.

Each mutant is a module of dpsql with one expression of its source replaced; it runs as dpsql would, in
batches, on inputs at hand. The unchanged module passes the same audit. All are seeded; a correct module
would be accused with probability 1e-9.
"""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql import noise
from dpsql.audit import CHARGE, Pair, Verdict, detect, pairs
from dpsql.audit.inputs import LENGTHS
from dpsql.order import in_public_order

E = Fraction(3, 2)


def module(name: str, **changes: str) -> types.ModuleType:
    """A module of dpsql, made anew with expressions replaced."""
    whole = importlib.import_module(f"dpsql.mechanisms.{name}")
    source = inspect.getsource(whole)
    for old, new in changes.items():
        assert source.count(old) == 1, f"{old} is not, or not once, in {name}"
        source = source.replace(old, new)
    made = types.ModuleType(whole.__name__)
    made.__dict__["__file__"] = whole.__file__
    made.__package__ = whole.__package__
    # Dataclasses look their module up by name: it is there, under the same name, and of the same shape.
    exec(compile(source, str(whole.__file__), "exec"), made.__dict__)
    return made


def top_k(changed: types.ModuleType, k: int = 1, **options: Any) -> Callable[..., object]:
    def run(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> dict[str, object]:
        done = changed.noisy_top_k(np.tile(counts, (trials, 1)), k, E, entropy=entropy, **options)
        return {"index": done.index, "gap": done.gap, CHARGE: done.charge}

    return run


def sparse_vector(
    changed: types.ModuleType, k: int = 1, threshold: int = 1, told: bool = True, **options: Any
) -> Callable[..., object]:
    def run(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> dict[str, object]:
        rows = np.tile(counts, (trials, 1))
        done = changed.sparse_vector_runs(in_public_order(rows), threshold, k, E, entropy=entropy, **options)
        charge = [float(spent) for spent in done.epsilon] if told else E
        return {"branch": done.branch, "gap": done.gap, CHARGE: charge}

    return run


def laplace(changed: types.ModuleType) -> Callable[..., object]:
    def run(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> dict[str, object]:
        done = changed.laplace(np.tile(counts, trials), len(counts) / E, entropy=entropy)
        return {"value": done.value.reshape(trials, -1), CHARGE: float(done.charge.epsilon / trials)}

    return run


def exponential(changed: types.ModuleType, **options: Any) -> Callable[..., object]:
    def run(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> dict[str, object]:
        done = changed.exponential(np.tile(counts, (trials, 1)), E, entropy=entropy, **options)
        return {"index": done.index, "gap": done.gap, CHARGE: done.charge}

    return run


def limited_domain(changed: types.ModuleType, delta: float = 0.1) -> Callable[..., object]:
    def run(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> dict[str, object]:
        plan = changed.limited_domain_plan(1, E, delta, candidates=1)
        position, kept = changed.largest_groups(counts, 1)
        _, _, released = changed.runs(kept, len(position), plan, trials, entropy)
        return {"groups": released, CHARGE: E}

    return run


def hybrid(changed: types.ModuleType, k: int = 1, threshold: int = 2) -> Callable[..., object]:
    """One run at a time: the function has no batches."""

    def run(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> dict[str, object]:
        index, charges = np.full(trials, -1), np.zeros(trials)
        for i in range(trials):
            done = changed.hybrid_top_k(counts, threshold, k, E, entropy=entropy)
            index[i] = done.index[0] if len(done.index) else -1
            charges[i] = float(done.charge.epsilon)
        return {"index": index, CHARGE: charges}

    return run


ONE = [Pair("one above", (1, 1, 1, 1), (2, 1, 1, 1))]
TWO = [Pair("two above", (1, 1, 1, 1, 1), (2, 2, 1, 1, 1))]
APART = [Pair("one above, rest below", (1, 1, 1, 1), (2, 0, 0, 0))]
ALL = [Pair("all above", (0, 0, 0, 0), (1, 1, 1, 1))]
NEW = [Pair("a new group", (0,), (1,))]

_SCALE = "scale = paid * moved * (1 if monotone else 2) / epsilon"
_GAP = "value[..., :-1] - value[..., 1:] - (rank[..., :-1] < rank[..., 1:])"
_ORDER = "np.lexsort((ranks, values), axis=-1)[..., : -k - 2 : -1]"

Made = Callable[..., Callable[..., object]]
Texts = str | tuple[str, ...]
MUTANTS: dict[str, tuple[Made, str, Texts, Texts, Sequence[Pair], dict[str, Any]]] = {
    "top-k: scale halved": (top_k, "top_k", _SCALE, f"{_SCALE} / 2", ONE, {}),
    "top-k: noise for one of k": (top_k, "top_k", "scale = paid * moved", "scale = moved", TWO, {"k": 2}),
    "top-k: wrong monotone constant": (
        top_k,
        "top_k",
        "(1 if monotone else 2)",
        "(1 if not monotone else 1)",
        APART,
        {"monotone": False},
    ),
    "top-k: last gap off by one rank": (
        top_k,
        "top_k",
        f"order: NDArray[np.int64] = {_ORDER}",
        "order = np.delete(np.lexsort((ranks, values), axis=-1)[..., : -k - 3 : -1], k, axis=-1)",
        [Pair("one above", (1, 0, 0), (2, 0, 0))],
        {},
    ),
    "top-k: ties by position, gaps as they are": (
        top_k,
        "top_k",
        (f"order: NDArray[np.int64] = {_ORDER}", _GAP),
        (
            "order = np.argsort(-values, axis=-1, kind='stable')[..., : k + 1]",
            "value[..., :-1] - value[..., 1:]",
        ),
        [Pair("rest above", (0, 0, 0), (0, 1, 1))],
        {"noise": "geometric"},
    ),
    "top-k: charge halved": (top_k, "top_k", "Charge(epsilon))", "Charge(epsilon / 2))", ONE, {}),
    "sparse vector: threshold without noise": (
        sparse_vector,
        "sparse_vector",
        "values -= draw(plan.noise, plan.threshold_scale, plan.bits, (len(array), 1), entropy)",
        "values -= 0",
        [Pair("all above", (0,) * 6, (1,) * 6)],
        {"noise": "laplace"},
    ),
    "sparse vector: hits refunded": (
        sparse_vector,
        "sparse_vector",
        "tuple(plan.spent(spent) for spent in units.tolist())",
        "tuple(plan.spent(spent // 2) for spent in units.tolist())",
        [Pair("all but the last above", (0, 0, 0, 0, 0), (1, 1, 1, 1, 0))],
        {},
    ),
    "sparse vector: more hits than are paid for": (
        sparse_vector,
        "sparse_vector",
        "before <= (plan.hits - 1)",
        "before <= (plan.hits + 2)",
        [Pair("X shape", (1, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 1))],
        {"monotone": False, "told": False},
    ),
    "laplace: scale halved": (
        laplace,
        "measure",
        'values += draw("laplace", width, bits, len(array), entropy)',
        'values += draw("laplace", width / 2, bits, len(array), entropy)',
        [Pair("one above", (1,), (2,))],
        {},
    ),
    "laplace: charge halved": (
        laplace,
        "measure",
        "Charge(len(array) * moved / width))\n\n\ndef anchor",
        "Charge(len(array) * moved / width / 2))\n\n\ndef anchor",
        [Pair("one above", (1,), (2,))],
        {},
    ),
    "exponential mechanism: wrong monotone constant": (
        exponential,
        "exponential",
        "(1 if monotone else 2)",
        "(1 if not monotone else 1)",
        APART,
        {"monotone": False},
    ),
    "limited domain: bar too low": (
        limited_domain,
        "limited_domain",
        "exponential_cutoff(delta / many, ",
        "exponential_cutoff(min(3 * delta / many, Fraction(9, 10)), ",
        NEW,
        {},
    ),
    "hybrid: threshold refunded": (
        hybrid,
        "hybrid",
        "budget * (len(index) + (rest is not None)) / paid",
        "budget * len(index) / paid",
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
        trials=3_000 if where == "hybrid" else 40_000,
        confidence=1 - 1e-9,
        name=name,
        entropy=noise.SeededEntropy(1),
        delta=0.1 if where == "limited_domain" else 0,
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_accused(name: str) -> None:
    verdict = audit(name, right=False)
    assert verdict.violated, verdict.words()


@pytest.mark.parametrize("name", MUTANTS)
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
