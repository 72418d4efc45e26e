"""Select, among many events, those whose probabilities differ most clearly between two inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.event_space import EventFamily, EventSpace
from dpsql.audit.events import Charged, Event
from dpsql.audit.outputs import Outputs
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
    """An event selected as a possible counterexample.

    Attributes
    ----------
    score
        How far its log-ratio of probabilities exceeds the claim, less `caution` standard deviations,
        relative to the claim.
    caution
        Standard deviations subtracted in the score.
    event
        The event.
    swapped
        Whether the event is likelier on the second input.
    epsilon, delta
        What is claimed for it.
    """

    score: float
    caution: float
    event: Event
    swapped: bool
    epsilon: float
    delta: float


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
        for families in _together(space.families())
        for one in _best(families, space.claims, first.trials, epsilon, beside, most)
    ]
    best: list[SelectedEvent] = []
    for caution in CAUTIONS:
        mine = (one for one in found if one.caution == caution)
        best += sorted(mine, key=lambda one: -one.score)[:most]
    return best


def _together(families: Iterator[EventFamily]) -> Iterator[list[EventFamily]]:
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


def _best(
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
            yield SelectedEvent(float(tops[top]), caution, Event(conditions), swapped == 1, claim, delta)
