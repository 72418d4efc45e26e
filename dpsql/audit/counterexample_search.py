"""Search inputs and arguments by sequential halving; select the event that tells two inputs apart best."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.events import Charged, EventFamily, EventSpace, OutputEvent
from dpsql.audit.runs import Outputs, Pair, read
from dpsql.audit.statistics import draw_uniforms
from dpsql.errors import ProgrammingError
from dpsql.kernel.noise import Entropy
from dpsql.lazy_dataclass import dataclass

CAUTIONS = (2.5, 4.5)
"""Standard deviations subtracted from a log-ratio: few, to find rare events with a high ratio, and as many as
the best of 10^5 events exceeds its mean by chance."""

_RAREST = 0.001
"""Rarer events are ignored, as in the dissertation: the test would have too little power."""

_HOPELESS = 100.0

_AT_ONCE = 1 << 16
"""Events scored in one call, chosen so that they fit into the cache."""

_LEAST_CLAIM = 0.05
"""Claims below this share of epsilon are scored relative to that share instead."""


@dataclass(frozen=True, slots=True)
class SelectedEvent:
    """An event selected as a possible counterexample."""

    score: float
    """How far its log-ratio of probabilities exceeds the claim, less `caution` standard deviations, relative
    to the claim."""
    caution: float
    """Standard deviations subtracted in the score."""
    event: OutputEvent
    """The event."""
    swapped: bool
    """Whether the event is likelier on the second input."""
    epsilon: float
    delta: float
    """What is claimed for it."""


def evidence(
    c1: NDArray[np.int64], c2: NDArray[np.int64], trials: int, delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log-ratio of events' probabilities, after delta, and its standard deviation.

    It guides the search only: the selected event is tested afterwards, on fresh runs.
    """
    beside = delta * trials
    rare = c1 + c2 < _RAREST * trials
    a, b = np.maximum(c1 - beside, 0.0) + 0.5, c2 + 0.5
    # b + 1, for with 1/b an event that never happened would get far too large a variance.
    variance = (a + 2 * min(beside, trials / 4)) / a**2 + 1 / (b + 1) - 2 / (trials + 1)
    return np.where(rare, -_HOPELESS, np.log(a / b)), np.sqrt(np.maximum(variance, 0.0))


def excess(
    found: tuple[NDArray[np.float64], NDArray[np.float64]],
    claim: NDArray[np.float64] | float,
    epsilon: float,
    caution: float,
) -> NDArray[np.float64]:
    """Score log-ratios from `evidence`: their excess over the claim, less `caution` standard deviations.

    The excess is relative to the claim, so that claims of different size compare, but at least to some share
    of epsilon.
    """
    ratio, deviation = found
    return np.asarray((ratio - caution * deviation - claim) / np.maximum(claim, _LEAST_CLAIM * epsilon))


def best_events(
    first: Outputs, second: Outputs, epsilon: float, delta: float, *, most: int
) -> list[SelectedEvent]:
    """Find the events that violate the claim most clearly in two samples of outputs.

    Parameters
    ----------
    first, second
        Outputs on the two inputs, as many of each.
    epsilon, delta
        The claim, for outputs that do not report their charge.
    most
        How many events at each of `CAUTIONS`, of different families or directions.
    """
    space, beside = EventSpace(first, second, epsilon), first.delta if first.delta is not None else delta
    found = [
        one
        for families in _group_families(space.families())
        for one in _choose_events(families, space.claims, first.trials, epsilon, beside, most)
    ]
    best: list[SelectedEvent] = []
    for caution in CAUTIONS:
        mine = (one for one in found if one.caution == caution)
        best += sorted(mine, key=lambda one: -one.score)[:most]
    return best


def _group_families(families: Iterator[EventFamily]) -> Iterator[list[EventFamily]]:
    """Group families that are scored in one call: many small ones, or a few large ones."""
    gathered, size = [], 0
    for family in families:
        if family.c1.size:
            gathered.append(family)
            size += family.c1.size
        if size > _AT_ONCE:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


def _choose_events(
    families: list[EventFamily],
    charges: NDArray[np.float64],
    trials: int,
    epsilon: float,
    delta: float,
    most: int,
) -> Iterator[SelectedEvent]:
    """Yield the best events of each caution, at most one of each family and direction."""
    c1 = np.concatenate([family.c1.ravel() for family in families])
    c2 = np.concatenate([family.c2.ravel() for family in families])
    claims = np.concatenate([np.repeat(family.claims, family.c1.shape[1]) for family in families])
    ends = np.cumsum([family.c1.size for family in families])
    starts = ends - [family.c1.size for family in families]
    directions = [evidence(*pair, trials, delta) for pair in ((c1, c2), (c2, c1))]
    for caution in CAUTIONS:
        scores = [excess(one, claims, max(epsilon, 1e-9), caution) for one in directions]
        # By family, then by direction.
        tops = np.stack([np.maximum.reduceat(score, starts) for score in scores], axis=1).ravel()
        for top in np.argsort(-tops, kind="stable")[:most]:
            place, swapped = divmod(int(top), 2)
            family = families[place]
            at = int(np.argmax(scores[swapped][starts[place] : ends[place]]))
            level, conditions = family.event(*divmod(at, family.c1.shape[1]))
            claim = float(charges[level])
            if len(charges) > 1:
                conditions = (Charged(claim), *conditions)
            yield SelectedEvent(
                float(tops[top]), caution, OutputEvent(conditions), swapped == 1, claim, delta
            )


Mechanism = Callable[..., object]

_DIVISOR = 600
"""The first rounds have the number of trials divided by this as runs of each point."""

SMALL_EPSILON = Fraction(1, 2)
"""Below this epsilon, violations are so small that the search needs more rounds and runs."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The rounds of a search."""

    first: int
    """Points of the first round; the second round has as many neighbours of the best of them."""
    later: tuple[tuple[int, int, float], ...]
    """For each later round: the divisor of the trials for its runs, to find events and as many again to
    compare them; the number of points; and the standard deviations subtracted in the comparison, which are
    many in the last one only. All rounds have about the same number of runs, as in sequential halving
    (Karnin, Koren and Somekh, 2013)."""


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


class SearchCandidate(NamedTuple):
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

    def arguments_at(self, point: SearchPoint) -> dict[str, Any]:
        """Return the arguments of the mechanism at a search point, by name."""
        return {
            name: values[place]
            for (name, values), place in zip(self.arguments.items(), point.choice, strict=True)
        }

    def run(self, data: object, arguments: Mapping[str, Any], trials: int) -> Outputs:
        """Run the mechanism and read its outputs."""
        counts = np.array(data, dtype=np.int64) if isinstance(data, tuple) else data
        return read(self.mechanism(counts, trials, self.entropy, **arguments), trials)

    def evaluate(self, points: Sequence[SearchPoint], trials: int, caution: float) -> list[SearchCandidate]:
        """Find the best event of each point; return the points with it, best first.

        Events are found in half of the runs and compared in the other half, so that the comparison is free
        of selection bias. Points that share their first input and the arguments share the runs on it.
        """
        shared: dict[object, Outputs] = {}

        def one(point: SearchPoint) -> SearchCandidate:
            pair, arguments = self.pairs[point.pair], self.arguments_at(point)
            key = (_identity(pair.first), point.choice)
            if key not in shared:
                shared[key] = self.run(pair.first, arguments, 2 * trials)
            first, second = shared[key], self.run(pair.second, arguments, 2 * trials)
            found_in, compared_in = zip(first.halves(), second.halves(), strict=True)
            events = best_events(*found_in, self.epsilon, self.delta, most=_EVENTS)
            return _choose_candidate(
                [self._compare(point, found, compared_in, caution) for found in _drop_duplicates(events)]
            )

        ranked = list(self.map(one, points))
        self.runs += 2 * trials * (len(points) + len(shared))
        self.seen.update((point.pair, point.choice) for point in points)
        return sorted(ranked, key=lambda candidate: -candidate.score)

    def _compare(
        self, point: SearchPoint, found: SelectedEvent, sides: tuple[Outputs, Outputs], caution: float
    ) -> SearchCandidate:
        """Score an event on other runs than those in which it was found."""
        counts = [np.array([found.event.count(side)]) for side in sides]
        c1, c2 = counts[::-1] if found.swapped else counts
        seen = evidence(c1, c2, sides[0].trials, found.delta)
        scores = [excess(seen, found.epsilon, max(self.epsilon, 1e-9), each) for each in (caution, _CERTAIN)]
        return SearchCandidate(float(scores[0][0]), float(scores[1][0]) > 0, point, found)


def search(state: SearchState, trials: int) -> SearchCandidate:
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
    first = _sample_points(every, plan.first, state.entropy)
    ranked = state.evaluate(first, few, _FIRST_CAUTION)
    if len(first) < len(every) and not ranked[0].certain:
        best = [one.point for one in ranked[: plan.later[0][1]]]
        neighbours = [
            one for one in every if _is_new(one, state) and any(_is_adjacent(one, other) for other in best)
        ]
        ranked += state.evaluate(_sample_points(neighbours, plan.first, state.entropy), few, _FIRST_CAUTION)
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


def _choose_candidate(candidates: list[SearchCandidate]) -> SearchCandidate:
    if not candidates:
        raise ProgrammingError("the mechanism's outputs contain no labels and no numbers to compare")
    return max(candidates, key=lambda one: one.score)


def _drop_duplicates(events: list[SelectedEvent]) -> list[SelectedEvent]:
    """Return each event once in each direction; it may be among the best for several cautions."""
    return list({(one.event, one.swapped, one.epsilon): one for one in events}.values())


def _is_new(one: SearchPoint, state: SearchState) -> bool:
    return (one.pair, one.choice) not in state.seen


def _is_adjacent(one: SearchPoint, other: SearchPoint) -> bool:
    """Return whether two points have the same inputs or the same arguments."""
    return one.pair == other.pair or one.choice == other.choice


def _sample_points(points: list[SearchPoint], size: int, entropy: Entropy) -> list[SearchPoint]:
    """Return `size` random points, or all if there are no more."""
    if len(points) <= size:
        return points
    return [points[i] for i in np.argsort(draw_uniforms(len(points), entropy))[:size]]
