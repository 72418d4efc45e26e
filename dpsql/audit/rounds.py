"""The search in rounds: from many inputs and arguments to one event, with more and more runs of fewer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.audit.outputs import read
from dpsql.audit.search import best_events, evidence, excess
from dpsql.audit.statistics import uniforms
from dpsql.errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dpsql.audit.inputs import Pair
    from dpsql.audit.outputs import Outputs
    from dpsql.audit.search import Found
    from dpsql.noise import Entropy

__all__ = ["SMALL", "Candidate", "Mechanism", "Search", "searched"]

Mechanism = Callable[..., object]

_DIVISOR = 600
"""The trials by this are the runs of the first rounds."""

SMALL = Fraction(1, 2)
"""Below this events differ so little from those that reach the claim that fewer looks would miss them."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a search goes.

    Attributes
    ----------
    first
        Candidates of the first round; as many again of their likes in the second.
    later
        Of each later round: the divisor of the trials for its runs, for finding events and as many again
        for comparing them; how many candidates take part; and the standard deviations taken off when they
        are compared, many only where the comparison is the last. All rounds have about as many runs, as
        in sequential halving (Karnin, Koren and Somekh, 2013).
    """

    first: int
    later: tuple[tuple[int, int, float], ...]


_PLAN = _Plan(48, ((150, 16, 1.0), (50, 5, 1.5), (15, 2, 3.5)))
_CLOSE = _Plan(64, ((60, 16, 1.0), (20, 6, 1.5), (8, 2, 3.5)))

_DOUBT = 1.0
"""Those of the first round."""

_EVENTS = 6
"""Events of each candidate that are compared, for each degree of caution."""


@dataclass(frozen=True, eq=False, slots=True)
class Candidate:
    """An input pair with arguments, by place, so that its likes can be found."""

    pair: int
    choice: tuple[int, ...]


@dataclass(eq=False, slots=True)
class Search:
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

    def chosen(self, candidate: Candidate) -> dict[str, Any]:
        """Return the candidate's arguments."""
        return {
            name: values[place]
            for (name, values), place in zip(self.arguments.items(), candidate.choice, strict=True)
        }

    def run(self, data: object, arguments: Mapping[str, Any], trials: int) -> Outputs:
        """Run the mechanism."""
        counts = np.array(data, dtype=np.int64) if isinstance(data, tuple) else data
        return read(self.mechanism(counts, trials, self.entropy, **arguments), trials)

    def sides(self, candidate: Candidate, trials: int) -> tuple[tuple[Outputs, Outputs], ...]:
        """Run the mechanism on both of a candidate's inputs; return so many runs, and as many again."""
        pair, arguments = self.pairs[candidate.pair], self.chosen(candidate)
        first, second = (self.run(data, arguments, 2 * trials).halves() for data in (pair.first, pair.second))
        return tuple(zip(first, second, strict=True))

    def look(
        self, candidates: Sequence[Candidate], trials: int, doubt: float
    ) -> list[tuple[float, Candidate, Found]]:
        """Find each candidate's best event; return the best candidate first.

        Events are found in half of the runs and compared in the other half, where none has the luck
        that got it found.
        """

        def one(candidate: Candidate) -> tuple[float, Candidate, Found]:
            found_in, compared_in = self.sides(candidate, trials)
            events = best_events(*found_in, self.epsilon, self.delta, most=_EVENTS)
            scored = []
            for found in events:
                counts = [np.array([found.event.count(side)]) for side in compared_in]
                c1, c2 = counts[::-1] if found.swapped else counts
                score = excess(
                    evidence(c1, c2, trials, found.delta), found.epsilon, max(self.epsilon, 1e-9), doubt
                )
                scored.append((float(score[0]), candidate, found))
            return _best(scored)

        looked = list(self.map(one, candidates))
        self.runs += 4 * trials * len(candidates)
        self.seen.update((candidate.pair, candidate.choice) for candidate in candidates)
        return sorted(looked, key=lambda item: -item[0])


def searched(search: Search, trials: int) -> tuple[Candidate, Found]:
    """Return the best candidate and its event, found in rounds; `trials` sets how many runs they have."""
    every = [
        Candidate(pair, choice)
        for pair in range(len(search.pairs))
        for choice in itertools.product(*(range(len(values)) for values in search.arguments.values()))
    ]
    if len(every) == 1:
        # Nothing to choose from: half as many runs as the test makes, for its events alone.
        _, candidate, found = search.look(every, max(trials // 4, 1), _PLAN.later[-1][2])[0]
        return candidate, found
    plan = _CLOSE if search.epsilon < SMALL else _PLAN
    few = max(trials // _DIVISOR, 50)
    first = _some(every, plan.first, search.entropy)
    looked = search.look(first, few, _DOUBT)
    if len(first) < len(every):
        best = [one for _, one, _ in looked[: plan.later[0][1]]]
        likes = [one for one in every if _new(one, search) and any(_alike(one, other) for other in best)]
        looked += search.look(_some(likes, plan.first, search.entropy), few, _DOUBT)
        looked.sort(key=lambda item: -item[0])
    for divisor, size, doubt in plan.later:
        looked = search.look([one for _, one, _ in looked[:size]], max(trials // divisor, few), doubt)
    _, candidate, found = looked[0]
    return candidate, found


def _best(scored: list[tuple[float, Candidate, Found]]) -> tuple[float, Candidate, Found]:
    if not scored:
        raise ProgrammingError("the mechanism's outputs hold nothing to compare")
    return max(scored, key=lambda item: item[0])


def _new(one: Candidate, search: Search) -> bool:
    return (one.pair, one.choice) not in search.seen


def _alike(one: Candidate, other: Candidate) -> bool:
    """Whether they have the same inputs, or the same arguments."""
    return one.pair == other.pair or one.choice == other.choice


def _some(candidates: list[Candidate], size: int, entropy: Entropy) -> list[Candidate]:
    """Return so many of them at random, or all."""
    if len(candidates) <= size:
        return candidates
    return [candidates[i] for i in np.argsort(uniforms(len(candidates), entropy))[:size]]
