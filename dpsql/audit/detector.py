"""The counterexample detector: search for inputs, arguments and an event, then test them on fresh runs."""

from __future__ import annotations

import itertools
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.audit.inputs import LENGTHS, pairs
from dpsql.audit.outputs import read
from dpsql.audit.search import best_events, evidence, excess
from dpsql.audit.statistics import lower_bound, p_value, strata, uniforms
from dpsql.audit.verdict import Counterexample, Tested, Verdict
from dpsql.charge import exact
from dpsql.errors import ProgrammingError
from dpsql.noise import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dpsql.audit.inputs import Adjacency, Pair
    from dpsql.audit.outputs import Outputs
    from dpsql.audit.search import Found
    from dpsql.charge import Number
    from dpsql.noise import Entropy

    Mechanism = Callable[..., object]

__all__ = ["detect"]

_BLOCK = 1 << 16
"""Runs of one call in the final test: what the cache holds."""

_FIRST = 64
"""Candidates of the first round; as many again of their likes in the second."""

_FEWEST = 600
_ROUNDS = ((60, 12), (12, 4))
"""Divisors of the trials: runs of the first round, and of the later ones with how many candidates take
part; for finding events, and as many again for comparing them."""

_EVENTS = 4
"""Events of each candidate that are compared, for each degree of caution."""

_DOUBT = 3.0
"""Standard deviations taken off when they are compared."""

_HARD = 0.5
"""Below this epsilon the search makes more runs: events differ less."""


@dataclass(frozen=True, eq=False, slots=True)
class _Candidate:
    """An input pair with arguments, by place, so that its likes can be found."""

    pair: int
    choice: tuple[int, ...]


@dataclass(eq=False, slots=True)
class _Search:
    """One audit's state."""

    mechanism: Mechanism
    epsilon: float
    delta: float
    pairs: Sequence[Pair]
    arguments: Mapping[str, Sequence[Any]]
    entropy: Entropy
    map: Callable[..., Iterable[Any]]
    runs: int = 0
    seen: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def chosen(self, candidate: _Candidate) -> dict[str, Any]:
        """Return the candidate's arguments."""
        return {
            name: values[place]
            for (name, values), place in zip(self.arguments.items(), candidate.choice, strict=True)
        }

    def run(self, data: Any, arguments: Mapping[str, Any], trials: int) -> Outputs:
        """Run the mechanism."""
        counts = np.array(data, dtype=np.int64) if isinstance(data, tuple) else data
        return read(self.mechanism(counts, trials, self.entropy, **arguments), trials)

    def sides(self, candidate: _Candidate, trials: int) -> tuple[Outputs, Outputs]:
        """Run the mechanism on both of a candidate's inputs."""
        pair, arguments = self.pairs[candidate.pair], self.chosen(candidate)
        return self.run(pair.first, arguments, trials), self.run(pair.second, arguments, trials)

    def look(self, candidates: Sequence[_Candidate], trials: int) -> list[tuple[float, _Candidate, Found]]:
        """Find each candidate's best event; return the best candidate first.

        Events are found in half of the runs and compared in the other half, where none has the luck
        that got it found.
        """

        def one(candidate: _Candidate) -> tuple[float, _Candidate, Found]:
            first, second = self.sides(candidate, trials)
            events = best_events(first, second, self.epsilon, self.delta, most=_EVENTS)
            first, second = self.sides(candidate, trials)
            scored = []
            for found in events:
                counts = [np.array([found.event.count(side)]) for side in (first, second)]
                c1, c2 = counts[::-1] if found.swapped else counts
                score = excess(evidence(c1, c2, trials, found.delta), found.epsilon, _DOUBT)
                scored.append((float(score[0]), candidate, found))
            return _best(scored)

        looked = list(self.map(one, candidates))
        self.runs += 4 * trials * len(candidates)
        self.seen.update((candidate.pair, candidate.choice) for candidate in candidates)
        return sorted(looked, key=lambda item: -item[0])


def detect(
    mechanism: Mechanism,
    epsilon: Number,
    *,
    delta: Number = 0,
    adjacency: Adjacency = "general",
    sensitivity: int = 1,
    lengths: Sequence[int] = LENGTHS,
    inputs: Sequence[Pair] | None = None,
    arguments: Mapping[str, Sequence[Any]] | None = None,
    trials: int = 500_000,
    confidence: float = 0.999,
    epsilons: Sequence[float] | None = None,
    name: str = "the mechanism",
    entropy: Entropy | None = None,
) -> Verdict:
    """Look for a counterexample to a mechanism's claim of differential privacy.

    Parameters
    ----------
    mechanism
        Called as `mechanism(counts, trials, entropy, **arguments)`: `counts` an int64 array, `trials`
        the number of independent runs it is to make on them, `entropy` a source of randomness it may
        use. What it returns is read by `dpsql.audit.read`: an array, a mapping of arrays, or a
        sequence of outputs.
    epsilon, delta
        The claim. Where the mechanism tells its charge, that is the claim instead.
    adjacency
        How one unit changes the counts: "general", "monotone" (all the same way) or "one" of them.
    sensitivity
        By how much.
    lengths
        Numbers of counts to try.
    inputs
        Adjacent inputs instead of generated ones; of any type the mechanism takes (tuples become
        arrays of counts).
    arguments
        For each further argument of the mechanism the values to try; those that tell most are found.
    trials
        Runs of the final test on each input; the search makes about as many.
    confidence
        1 - the chance that a correct mechanism is accused.
    epsilons
        Where p-values are computed; by default a range around the claim and the bound found.
    name
        What the verdict calls the mechanism.
    entropy
        Where all randomness comes from; the operating system by default, in two threads.

    Raises
    ------
    ProgrammingError
        If an argument is out of range or the mechanism's output cannot be read.

    Notes
    -----
    Dissertation, Algorithm 1. The search (input generator, arguments, event selector) goes in rounds,
    each with more runs of fewer candidates. It ends with one event on one pair of inputs in one
    direction. That alone is tested, on fresh runs, so the p-value needs no correction for the search;
    and as the hypotheses for different epsilon are nested, all that the curve rejects is rejected at
    once. A mechanism that passes is not proved private.
    """
    started = time.perf_counter()
    claim, beside = float(exact(epsilon)), float(exact(delta))
    if claim < 0 or not 0 <= beside < 1 or not 0 < confidence < 1 or trials < 100:
        raise ProgrammingError("epsilon, delta, confidence or trials is out of range")
    source = SystemEntropy() if entropy is None else entropy
    known = (
        pairs(adjacency, sensitivity=sensitivity, lengths=lengths, entropy=source)
        if inputs is None
        else list(inputs)
    )
    grid = dict(arguments or {})
    if not known or not all(len(values) for values in grid.values()):
        raise ProgrammingError("there is nothing to try: inputs or arguments are empty")
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        # In several threads the order of draws, and so a seeded audit, would not be the same again.
        spread = pool.map if entropy is None else map
        search = _Search(mechanism, claim, beside, known, grid, source, spread)
        candidate, found = _searched(search, trials)
        pair, chosen = known[candidate.pair], search.chosen(candidate)
        order = (pair.second, pair.first) if found.swapped else (pair.first, pair.second)
        c1, c2 = _counts(search, found, order, chosen, trials)
    at, alpha = strata(source), 1 - confidence
    least = lower_bound(c1, c2, trials, alpha, at, delta=found.delta)
    p = p_value(c1, c2, trials, found.epsilon, at, delta=found.delta)
    tested = epsilons if epsilons is not None else _range(found.epsilon, least)
    return Verdict(
        name=name,
        epsilon=found.epsilon,
        delta=found.delta,
        violated=p <= alpha,
        p_value=p,
        lower_bound=least,
        confidence=confidence,
        counterexample=Counterexample(
            pair.name, *order, chosen, found.event, found.epsilon, found.delta, c1, c2, trials
        ),
        curve=tuple(
            Tested(
                float(e),
                p_value(c1, c2, trials, float(e), at, delta=found.delta),
                p_value(c2, c1, trials, float(e), at, delta=found.delta),
            )
            for e in tested
        ),
        trials=trials,
        runs=search.runs,
        candidates=len(search.seen),
        seconds=time.perf_counter() - started,
    )


def _searched(search: _Search, trials: int) -> tuple[_Candidate, Found]:
    """Return the best candidate and its event, found in rounds of more and more runs."""
    every = [
        _Candidate(pair, choice)
        for pair in range(len(search.pairs))
        for choice in itertools.product(*(range(len(values)) for values in search.arguments.values()))
    ]
    trials = round(trials * min(max(_HARD / max(search.epsilon, 1e-9), 1.0), 3.0))
    few = max(trials // _FEWEST, 50)
    first = _some(every, _FIRST, search.entropy)
    looked = search.look(first, few)
    if len(first) < len(every):
        best = [one for _, one, _ in looked[: _ROUNDS[0][1]]]
        likes = [one for one in every if _new(one, search) and any(_alike(one, other) for other in best)]
        looked += search.look(_some(likes, _FIRST, search.entropy), few)
        looked.sort(key=lambda item: -item[0])
    for divisor, size in _ROUNDS:
        looked = search.look([one for _, one, _ in looked[:size]], max(trials // divisor, few))
    _, candidate, found = looked[0]
    return candidate, found


def _best(scored: list[tuple[float, _Candidate, Found]]) -> tuple[float, _Candidate, Found]:
    if not scored:
        raise ProgrammingError("the mechanism's outputs hold nothing to compare")
    return max(scored, key=lambda item: item[0])


def _new(one: _Candidate, search: _Search) -> bool:
    return (one.pair, one.choice) not in search.seen


def _alike(one: _Candidate, other: _Candidate) -> bool:
    """Whether they have the same inputs, or the same arguments."""
    return one.pair == other.pair or one.choice == other.choice


def _some(candidates: list[_Candidate], size: int, entropy: Entropy) -> list[_Candidate]:
    """Return so many of them at random, or all."""
    if len(candidates) <= size:
        return candidates
    return [candidates[i] for i in np.argsort(uniforms(len(candidates), entropy))[:size]]


def _counts(
    search: _Search, found: Found, order: tuple[Any, Any], arguments: Mapping[str, Any], trials: int
) -> tuple[int, int]:
    """Count the event in fresh runs on each input."""
    sizes = [min(_BLOCK, trials - start) for start in range(0, trials, _BLOCK)]

    def one(task: tuple[int, int]) -> int:
        return found.event.count(search.run(order[task[0]], arguments, task[1]))

    counts = list(search.map(one, [(side, size) for size in sizes for side in (0, 1)]))
    search.runs += 2 * trials
    return sum(counts[0::2]), sum(counts[1::2])


def _range(claim: float, least: float) -> list[float]:
    """Return 24 values of epsilon from near 0 to beyond both the claim and the bound."""
    top = 1.5 * max(claim, min(least, 4 * claim), 0.05)
    step = 10.0 ** math.floor(math.log10(top / 24))
    step *= min(m for m in (1, 2, 2.5, 5, 10) if m * step * 24 >= top)
    return [round(step * i, 12) for i in range(1, 25)]
