"""Search inputs and arguments by sequential halving: each round has fewer points and more runs of each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpsql.audit.event_selection import SelectedEvent, best_events, evidence, excess
from dpsql.audit.inputs import Pair
from dpsql.audit.outputs import Outputs, read
from dpsql.audit.statistics import uniforms
from dpsql.errors import ProgrammingError
from dpsql.kernel.noise import Entropy
from dpsql.lazy_dataclass import dataclass

Mechanism = Callable[..., object]

_DIVISOR = 600
"""The first rounds have the number of trials divided by this as runs of each point."""

SMALL_EPSILON = Fraction(1, 2)
"""Below this epsilon, violations are so small that the search needs more rounds and runs."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The rounds of a search.

    Attributes
    ----------
    first
        Points of the first round; the second round has as many neighbours of the best of them.
    later
        For each later round: the divisor of the trials for its runs, to find events and as many again to
        compare them; the number of points; and the standard deviations subtracted in the comparison, which
        are many in the last one only. All rounds have about the same number of runs, as in sequential
        halving (Karnin, Koren and Somekh, 2013).
    """

    first: int
    later: tuple[tuple[int, int, float], ...]


_PLAN = _Plan(48, ((150, 16, 1.0), (50, 5, 1.5), (15, 2, 3.5)))
_SMALL_EPSILON_PLAN = _Plan(64, ((60, 16, 1.0), (20, 6, 1.5), (8, 2, 3.5)))

_FIRST_CAUTION = 1.0
"""Standard deviations subtracted in the comparison of the first two rounds."""

_CERTAIN = 6.0
"""Standard deviations by which an event must exceed the claim to count as certain to violate it."""

_EVENTS = 6
"""Events of each point that are compared, for each of `CAUTIONS`."""


@dataclass(frozen=True, eq=False, slots=True)
class SearchPoint:
    """One input pair with one choice of arguments, as indices into the search grid."""

    pair: int
    choice: tuple[int, ...]


class Candidate(NamedTuple):
    """A search point with its best event."""

    score: float
    certain: bool
    """Whether the event alone is almost certain to violate the claim."""
    point: SearchPoint
    event: SelectedEvent


@dataclass(eq=False, slots=True)
class SearchState:
    """The mechanism under audit, its search grid, and what was run until now."""

    mechanism: Mechanism
    epsilon: float
    delta: float
    pairs: Sequence[Pair]
    arguments: Mapping[str, Sequence[Any]]
    entropy: Entropy
    map: Callable[..., Iterable[Any]]
    runs: int = 0
    seen: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def chosen(self, point: SearchPoint) -> dict[str, Any]:
        """Return the arguments of the mechanism at a search point, by name."""
        return {
            name: values[place]
            for (name, values), place in zip(self.arguments.items(), point.choice, strict=True)
        }

    def run(self, data: object, arguments: Mapping[str, Any], trials: int) -> Outputs:
        """Run the mechanism and read its outputs."""
        counts = np.array(data, dtype=np.int64) if isinstance(data, tuple) else data
        return read(self.mechanism(counts, trials, self.entropy, **arguments), trials)

    def evaluate(self, points: Sequence[SearchPoint], trials: int, caution: float) -> list[Candidate]:
        """Find the best event of each point; return the points with it, best first.

        Events are found in half of the runs and compared in the other half, so that the comparison is free
        of selection bias. Points that share their first input and the arguments share the runs on it.
        """
        shared: dict[object, Outputs] = {}

        def one(point: SearchPoint) -> Candidate:
            pair, arguments = self.pairs[point.pair], self.chosen(point)
            key = (_identity(pair.first), point.choice)
            if key not in shared:
                shared[key] = self.run(pair.first, arguments, 2 * trials)
            first, second = shared[key], self.run(pair.second, arguments, 2 * trials)
            found_in, compared_in = zip(first.halves(), second.halves(), strict=True)
            events = best_events(*found_in, self.epsilon, self.delta, most=_EVENTS)
            return _best([self._compare(point, found, compared_in, caution) for found in _distinct(events)])

        ranked = list(self.map(one, points))
        self.runs += 2 * trials * (len(points) + len(shared))
        self.seen.update((point.pair, point.choice) for point in points)
        return sorted(ranked, key=lambda candidate: -candidate.score)

    def _compare(
        self, point: SearchPoint, found: SelectedEvent, sides: tuple[Outputs, Outputs], caution: float
    ) -> Candidate:
        """Score an event on other runs than those in which it was found."""
        counts = [np.array([found.event.count(side)]) for side in sides]
        c1, c2 = counts[::-1] if found.swapped else counts
        seen = evidence(c1, c2, sides[0].trials, found.delta)
        scores = [excess(seen, found.epsilon, max(self.epsilon, 1e-9), each) for each in (caution, _CERTAIN)]
        return Candidate(float(scores[0][0]), float(scores[1][0]) > 0, point, found)


def search(state: SearchState, trials: int) -> Candidate:
    """Return the best point with its event; `trials` sets the number of runs.

    Once an event almost certainly violates the claim, the rounds before the last are left out.
    """
    every = [
        SearchPoint(pair, choice)
        for pair in range(len(state.pairs))
        for choice in itertools.product(*(range(len(values)) for values in state.arguments.values()))
    ]
    if len(every) == 1:
        # A single point: half as many runs as the final test has, to find its event.
        return state.evaluate(every, max(trials // 4, 1), _PLAN.later[-1][2])[0]
    plan = _SMALL_EPSILON_PLAN if state.epsilon < SMALL_EPSILON else _PLAN
    few = max(trials // _DIVISOR, 50)
    first = _some(every, plan.first, state.entropy)
    ranked = state.evaluate(first, few, _FIRST_CAUTION)
    if len(first) < len(every) and not ranked[0].certain:
        best = [one.point for one in ranked[: plan.later[0][1]]]
        neighbours = [
            one for one in every if _new(one, state) and any(_adjacent(one, other) for other in best)
        ]
        ranked += state.evaluate(_some(neighbours, plan.first, state.entropy), few, _FIRST_CAUTION)
        ranked.sort(key=lambda one: -one.score)
    for divisor, size, caution in plan.later:
        if ranked[0].certain and size != plan.later[-1][1]:
            continue
        ranked = state.evaluate([one.point for one in ranked[:size]], max(trials // divisor, few), caution)
    return ranked[0]


def _identity(data: object) -> object:
    """Return a key that two inputs share only if they are equal: by value for counts, else by identity."""
    if not isinstance(data, tuple):
        return id(data)
    counts = np.array(data, dtype=np.int64)
    return counts.shape, counts.tobytes()


def _best(candidates: list[Candidate]) -> Candidate:
    if not candidates:
        raise ProgrammingError("the mechanism's outputs contain no labels and no numbers to compare")
    return max(candidates, key=lambda one: one.score)


def _distinct(events: list[SelectedEvent]) -> list[SelectedEvent]:
    """Return each event once in each direction; it may be among the best for several cautions."""
    return list({(one.event, one.swapped, one.epsilon): one for one in events}.values())


def _new(one: SearchPoint, state: SearchState) -> bool:
    return (one.pair, one.choice) not in state.seen


def _adjacent(one: SearchPoint, other: SearchPoint) -> bool:
    """Return whether two points have the same inputs or the same arguments."""
    return one.pair == other.pair or one.choice == other.choice


def _some(points: list[SearchPoint], size: int, entropy: Entropy) -> list[SearchPoint]:
    """Return `size` random points, or all if there are no more."""
    if len(points) <= size:
        return points
    return [points[i] for i in np.argsort(uniforms(len(points), entropy))[:size]]
