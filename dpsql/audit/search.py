"""The event selector: among many events, the one that most clearly tells two inputs apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.audit.cells import binned, grouped, interval
from dpsql.audit.events import Charged, Event, Labelled
from dpsql.audit.features import label_features, number_features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dpsql.audit.cells import Bins, Groups
    from dpsql.audit.events import Condition
    from dpsql.audit.outputs import Outputs

__all__ = ["CAUTIONS", "Found", "best_events", "evidence", "excess"]

_UNION = 6
"""Most labels in one event: people have to read it."""

_BINS = 28
_QUICK_BINS = 12
_CONTEXTS = 8
_QUICK_CONTEXTS = 3
_LEVELS = 6
_QUICK = 1 << 12
"""Samples up to this size are looked at less finely: they have less to show."""

_SEEN = 24
"""Labels that occurred less often in both samples together are passed over."""

CAUTIONS = (2.5, 4.5)
"""Standard deviations of doubt: few, for rare events with a high ratio, and as many as the best of 10^5
events is off by chance."""

_RAREST = 0.001
"""Events less frequent than this are passed over, as in the dissertation: the test would not settle them."""

_HOPELESS = 100.0

_LEAST_CLAIM = 0.05
"""Claims smaller than this part of epsilon are scored in units of that part."""


@dataclass(frozen=True, slots=True)
class Found:
    """An event that may be a counterexample.

    Attributes
    ----------
    score
        How far its probability's log-ratio is above the claim, less what chance may explain, relative
        to the claim.
    caution
        Standard deviations that chance may explain.
    event
        The event.
    swapped
        Whether it is likelier on the second input.
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

    A guide for the search alone: what it picks is tested afterwards, on fresh runs.
    """
    beside = delta * trials
    rare = c1 + c2 < _RAREST * trials
    a, b = np.maximum(c1 - beside, 0.0) + 0.5, c2 + 0.5
    # One more where it never happened: 1/b is far too wary there.
    variance = (a + 2 * min(beside, trials / 4)) / a**2 + 1 / (b + 1) - 2 / (trials + 1)
    return np.where(rare, -_HOPELESS, np.log(a / b)), np.sqrt(np.maximum(variance, 0.0))


def excess(
    found: tuple[NDArray[np.float64], NDArray[np.float64]],
    claim: NDArray[np.float64] | float,
    epsilon: float,
    caution: float,
) -> NDArray[np.float64]:
    """Score what `evidence` gives: how far it is above the claim, less so many standard deviations.

    In units of the claim, for claims of different size to compare, but at least some part of epsilon.
    """
    ratio, deviation = found
    return np.asarray((ratio - caution * deviation - claim) / np.maximum(claim, _LEAST_CLAIM * epsilon))


def best_events(first: Outputs, second: Outputs, epsilon: float, delta: float, *, most: int) -> list[Found]:
    """Find events that clearly violate the claim in two samples of outputs.

    Parameters
    ----------
    first, second
        Outputs on the two inputs, as many of each.
    epsilon, delta
        The claim, where the outputs do not tell their charge.
    most
        How many events at each of `CAUTIONS`.

    Notes
    -----
    The search space is that of the dissertation (section 4.3.3) and more: values of each label, of all
    labels together, how often one occurs; sets of such values; intervals of each number, of their
    least, greatest and average; and every pairing of a label with an interval. Where runs charge
    different amounts, events are looked for among runs of equal charge, each against its own claim.
    """
    space = _Space(first, second, epsilon, first.delta if first.delta is not None else delta)
    return space.best(most)


@dataclass(frozen=True, eq=False, slots=True)
class _Kind:
    """Events of one kind: how often each happened in the two samples, and how to name one.

    `c1` and `c2` have a row for each claim of `claims`.
    """

    c1: NDArray[np.int64]
    c2: NDArray[np.int64]
    claims: NDArray[np.float64]
    event: Callable[[int, int], tuple[int, tuple[Condition, ...]]]
    """Given row and column, the place of the event's charge, and its conditions."""


class _Space:
    """All events that two samples are searched for."""

    def __init__(self, first: Outputs, second: Outputs, epsilon: float, delta: float) -> None:
        quick = first.trials <= _QUICK
        self.trials, self.epsilon, self.delta = first.trials, max(epsilon, 1e-9), delta
        self.claims, self.level = _levels(first, second, epsilon)
        self.groups = [grouped(feature, first, second) for feature in label_features(first, second)]
        numbers = number_features(first, second)
        self.bins = [binned(number, first, second, _QUICK_BINS if quick else _BINS) for number in numbers]
        count = _QUICK_CONTEXTS if quick else _CONTEXTS
        self.contexts: list[Groups | None] = [None, *self.groups[::-1][:count]]

    def best(self, most: int) -> list[Found]:
        """Return the best events of different kinds and directions, so many for each caution."""
        kinds = [kind for kind in self._kinds() if kind.c1.size]
        if not kinds:
            return []
        c1, c2 = (
            np.concatenate([part.ravel() for part in parts])
            for parts in ([kind.c1 for kind in kinds], [kind.c2 for kind in kinds])
        )
        claims = np.concatenate([np.repeat(kind.claims, kind.c1.shape[1]) for kind in kinds])
        ends = np.cumsum([kind.c1.size for kind in kinds])
        starts = ends - [kind.c1.size for kind in kinds]
        found = []
        directions = [evidence(c1, c2, self.trials, self.delta), evidence(c2, c1, self.trials, self.delta)]
        for caution in CAUTIONS:
            scores = [excess(one, claims, self.epsilon, caution) for one in directions]
            # By kind, then by direction.
            tops = np.stack([np.maximum.reduceat(score, starts) for score in scores], axis=1).ravel()
            for top in np.argsort(-tops, kind="stable")[:most]:
                place, direction = divmod(int(top), 2)
                kind = kinds[place]
                at = int(np.argmax(scores[direction][starts[place] : ends[place]]))
                level, conditions = kind.event(*divmod(at, kind.c1.shape[1]))
                claim = float(self.claims[level])
                if len(self.claims) > 1:
                    conditions = (Charged(claim), *conditions)
                found.append(
                    Found(float(tops[top]), caution, Event(conditions), direction == 1, claim, self.delta)
                )
        return found

    def _kinds(self) -> Iterator[_Kind]:
        if len(self.claims) > 1:
            c1, c2 = (counts.reshape(-1, 1) for counts in self._counts(None, None, 1))
            yield _Kind(c1, c2, self.claims, lambda row, _: (row, ()))
        yield from self._labels()
        for bin_ in self.bins:
            for context in self.contexts:
                yield self._intervals(bin_, context)

    def _labels(self) -> Iterator[_Kind]:
        """Look at the labels of each feature, and at sets of them."""
        if not self.groups:
            return
        wide = max(len(group.values) for group in self.groups)
        # By sample, feature, charge and label; where a feature has fewer labels, there is nothing to count.
        alone = np.zeros((2, len(self.groups), len(self.claims), wide), dtype=np.int64)
        none = np.ones((len(self.groups), 1, wide), dtype=np.bool_)
        for place, group in enumerate(self.groups):
            size = len(group.values)
            none[place, :, :size] = False
            for side, counts in enumerate(self._counts(group, None, 1)):
                # Behind each other: the labels of one charge, then the rest of that charge.
                alone[side, place, :, :size] = counts.reshape(-1, size + 1)[:, :size]
        ratio = np.log((alone[1] + 0.5) / (alone[0] + 0.5))
        sets = []
        for sign in (1, -1):
            order = np.argsort(np.where(none, np.inf, sign * ratio), axis=-1)[..., :_UNION]
            sets.append((order, np.cumsum(np.take_along_axis(alone, order[None], axis=-1), axis=-1)))
        for place, group in enumerate(self.groups):
            for order, sums in sets:
                yield _Kind(sums[0, place], sums[1, place], self.claims, _set_of(group, order[place]))
            single = alone[:, place, :, : len(group.values)]
            yield _Kind(single[0], single[1], self.claims, _one_of(group))

    def _intervals(self, bin_: Bins, context: Groups | None) -> _Kind:
        """Look at intervals of a number, beside each label of a context."""
        width = len(bin_.edges) + 2
        start, end = np.triu_indices(width, 1)
        c1, c2 = (part.reshape(-1, width)[:, :-1] for part in self._counts(context, bin_, width))
        size = len(context.values) + 1 if context is not None else 1
        rows = np.arange(len(c1))
        seen = c1.sum(axis=1) + c2.sum(axis=1) >= _SEEN
        rows = rows[seen & ((rows % size < size - 1) | (context is None))]
        sums = []
        for part in (c1, c2):
            running = np.zeros((len(rows), width), dtype=np.int64)
            np.cumsum(part[rows], axis=1, out=running[:, 1:])
            sums.append(running[:, end] - running[:, start])

        def event(row: int, pair: int) -> tuple[int, Any]:
            level, label = divmod(int(rows[row]), size)
            within = interval(bin_, int(start[pair]), int(end[pair]))
            return level, (within,) if context is None else (
                Labelled(context.feature, (context.values[label],)),
                within,
            )

        return _Kind(sums[0], sums[1], self.claims[rows // size], event)

    def _counts(
        self, group: Groups | None, bin_: Bins | None, width: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count each sample's runs by charge, label and bin."""
        labels = 1 if group is None else len(group.values) + 1
        counts = []
        for side in (0, 1):
            cell = self.level[side]
            if group is not None:
                cell = group.sides[side] if cell is None else cell * labels + group.sides[side]
            if bin_ is not None:
                cell = bin_.sides[side] if cell is None else cell * width + bin_.sides[side]
            size = len(self.claims) * labels * width
            if cell is None:
                counts.append(np.full(1, self.trials))
            else:
                # Runs of a charge beyond those looked at count behind all others.
                counts.append(np.bincount(cell, minlength=size)[:size])
        return counts[0], counts[1]


def _set_of(group: Groups, order: NDArray[np.intp]) -> Callable[[int, int], tuple[int, Any]]:
    """Name the sets of a row's first labels."""
    return lambda row, column: (
        row,
        (Labelled(group.feature, tuple(group.values[i] for i in order[row, : column + 1])),),
    )


def _one_of(group: Groups) -> Callable[[int, int], tuple[int, Any]]:
    """Name single labels."""
    return lambda row, column: (row, (Labelled(group.feature, (group.values[column],)),))


def _levels(
    first: Outputs, second: Outputs, epsilon: float
) -> tuple[NDArray[np.float64], tuple[NDArray[np.intp] | None, NDArray[np.intp] | None]]:
    """Return the charges that occur, the most frequent ones, and the place of each run's among them."""
    if first.epsilon is None or second.epsilon is None:
        return np.array([epsilon]), (None, None)
    charges = [np.round(outputs.epsilon, 9) for outputs in (first, second) if outputs.epsilon is not None]
    seen, count = np.unique(np.concatenate(charges), return_counts=True)
    if len(seen) == 1:
        return seen, (None, None)
    kept = np.sort(seen[np.argsort(-count, kind="stable")[:_LEVELS]])
    places = []
    for charge in charges:
        place = np.minimum(np.searchsorted(kept, charge), len(kept) - 1)
        places.append(np.where(kept[place] == charge, place, len(kept)))
    return kept, (places[0], places[1])
