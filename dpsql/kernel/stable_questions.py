"""Questions whose exact answer is released where no unit could change it, and how far each is from that.

A distance is a whole number that is 0 on both of two neighbours wherever their answers differ, and moves by
at most c, by which one unit moves the numbers, or the rows of a quantile. So the stability tests of
`kernel.mechanisms.stable_queries` hold for it. All is a function of exact numbers; nothing here is released.

*The k largest groups.* Let one unit more add 0 to c to each number, h being the numbers in descending order.
Then each h_i rises by 0 to c, and so the lead h_i - h_(i+1) moves by at most c. If the sets of the i largest
groups differ on two neighbours, some g is in one of them alone and some g' in the other: on each side the
one is at least as large as the other, so both leads are at most c. The distance of a set is its lead less c,
or 0; that of a list is the least one of its first i groups, for i up to k: lists that differ have a first i
at which those sets differ. Where a public domain has only k groups, they are the set on every database, and
there is no lead beyond them. Ties are broken by positions: they have leads of 0. Numbers that all fall by 0
to c, or the smallest groups of a public domain, are the same with other signs. Of a large domain the groups
without rows are not listed; so it has more than k groups, or the set of all would tell which have rows.

*All groups of a public domain that reach t.* n >= t becomes n' < t only if n - t <= c - 1, and then also t -
1 - n' <= c - 1; so the least of n - t, or t - 1 - n below t, less c - 1, or 0, is 0 on both sides.

*The quantile of rank p*, v: the least value with p N <= A + E, of N rows, A below it and E at it. One row
more or less moves p N - A, and A + E - p N, by at most m = max(p, 1 - p). So v stays for any j changes of
rows with j m < p N - A and j m <= A + E - p N, and s = min(ceil((p N - A)/m) - 1, floor((A + E - p N)/m)) is
the number of changes that v surely outlasts. s moves by at most 1 with each row: while v stays both terms
do, and where it changes s is 0 on both sides, since it would be 1 or more only if v outlasted that row. One
unit changes at most c rows, one after the other; so s - (c - 1), or 0, is a distance.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql.errors import InternalError
from dpsql.kernel.changes import NumberChange, Taken
from dpsql.kernel.counts import exact
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.mechanisms import StableStream
from dpsql.kernel.noise import STEP_LIMIT
from dpsql.kernel.release import released_at
from dpsql.kernel.sealed import without_frames
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.kernel.changes import UnitChanges
    from dpsql.kernel.counts import Exact
    from dpsql.kernel.release import Rows, Run

    Found = tuple[int, NDArray[np.int64]]
    """A distance, and the positions of the groups, or the cell, that are the answer."""

_CELL, _NUMBER = 0, 1
"""The places of the cell and of its number, where a query counts cells."""


@dataclass(frozen=True, slots=True)
class StableTop:
    """Which are the k largest groups, or the smallest: as a set, or as a list."""

    k: int
    listed: bool = False
    lowest: bool = False

    @property
    def reads(self) -> int:
        """How many of the largest groups it reads."""
        return self.k + 1

    def bound_change(self, changes: UnitChanges, place: int) -> int:
        """Return c, for which the distance is proved; refuse numbers that move up and down."""
        if self.lowest and not changes.declared:
            raise InternalError("which groups there are is private")
        return _one_way(changes, place)

    def answer(self, own: Exact, place: int, moved: int) -> Found:
        """Return the distance of the groups, and their positions, in the order of their numbers."""
        numbers = np.clip(own.n[place], -STEP_LIMIT, STEP_LIMIT)
        groups = None  # of a domain that nobody knows, further groups are there, with numbers of 0
        if own.domain is not None:
            groups = own.domain.size
            if groups <= self.k:  # they would all be the answer, and those without rows are not listed
                raise InternalError("which groups of the domain have rows is private")
        elif own.changes.declared:
            groups = len(numbers)
        order = np.argsort(numbers if self.lowest else -numbers, kind="stable")[: self.k + 1]
        # Two missing groups have a lead of 0, so that no more of them are needed.
        kept = np.zeros(min(self.k, len(numbers) + 1) + 1, dtype=np.int64)
        kept[: len(order)] = numbers[order]
        leads = np.abs(kept[:-1] - kept[1:])
        if groups is not None and groups <= self.k:
            leads = leads[: max(groups - 1, 0)] if self.listed else leads[:0]
        elif not self.listed:
            leads = leads[-1:]
        distance = int(leads.min(initial=STEP_LIMIT)) - moved
        at = order[: self.k]
        return max(distance, 0), at if own.positions is None else own.positions[at]


@dataclass(frozen=True, slots=True)
class StableAbove:
    """Which groups of a public domain have numbers that reach a threshold, which is above 0."""

    threshold: int

    @property
    def reads(self) -> int:
        """How many of the largest groups it reads: all."""
        return 0

    def bound_change(self, changes: UnitChanges, place: int) -> int:
        """Return c, for which the distance is proved; refuse groups that may not be known."""
        if not changes.public or self.threshold < 1:  # a group without a row is none that reaches it
            raise InternalError("which groups there are is private")
        return _one_way(changes, place)

    def answer(self, own: Exact, place: int, moved: int) -> Found:
        """Return the distance of all groups, and the positions of those that reach the threshold."""
        if not own.changes.declared and own.domain is None:
            raise InternalError("which groups of the domain have rows is private")
        numbers = np.clip(own.n[place], -STEP_LIMIT, STEP_LIMIT)
        level = min(self.threshold, STEP_LIMIT)
        if own.domain is not None and len(numbers) < own.domain.size:
            numbers = np.append(numbers, 0)  # one that has no row
        reached = numbers >= level
        room = np.where(reached, numbers - level, level - 1 - numbers)
        at = np.flatnonzero(reached)
        distance = int(room.min(initial=STEP_LIMIT)) - (moved - 1)
        return max(distance, 0), at if own.positions is None else own.positions[at]


@dataclass(frozen=True, slots=True)
class StableQuantile:
    """What the quantile of a rank is: the least cell with so large a share of all rows up to it."""

    rank: Fraction

    @property
    def reads(self) -> int:
        """How many of the largest groups it reads: all."""
        return 0

    def bound_change(self, changes: UnitChanges, place: int) -> int:
        """Return how many rows one unit changes at most, in all cells of the one group."""
        del place
        if not changes.public:
            raise InternalError("which groups there are is private")
        found = changes.number(_NUMBER)
        total = found.most if changes.one_row else found.total
        if total is None:
            raise InternalError("nothing is proved of how many rows one unit has")
        return max(total, 1)

    def answer(self, own: Exact, place: int, moved: int) -> Found:
        """Return the distance of the quantile, and its cell."""
        del place
        if own.keys.num_columns:
            raise InternalError("a quantile is of the rows of one group")
        cells, which = np.unique(own.n[_CELL], return_inverse=True)
        rows = [0] * len(cells)
        for at, number in zip(which.tolist(), own.n[_NUMBER].tolist(), strict=True):
            rows[at] += max(number, 0)  # exact, however large
        part, whole, every = self.rank.numerator, self.rank.denominator, sum(rows)
        most, below = max(part, whole - part), 0
        for cell, number in zip(cells.tolist(), rows, strict=True):
            if whole * (below + number) >= part * every and number:
                before, behind = part * every - whole * below, whole * (below + number) - part * every
                kept = min(-(-before // most) - 1, behind // most)
                return max(min(kept - (moved - 1), STEP_LIMIT), 0), np.array([cell])
            below += number
        return 0, np.zeros(1, dtype=np.int64)


StableQuestion = StableTop | StableAbove | StableQuantile


def _one_way(changes: UnitChanges, place: int) -> int:
    """Return by how much one unit moves a number, up or down alone; 0 counts as 1."""
    change = changes.number(place)
    if change.low and change.high:
        raise InternalError("one unit may move some of these numbers up and others down")
    return max(change.most, 1)


@dataclass(frozen=True, slots=True, eq=False)
class StableAnswer:
    """What a question released: whether its answer is stable, and then its groups, or its cell.

    Groups of a set, and those above a threshold, come by their keys; those of a list in order.
    """

    stable: bool
    rows: Rows
    cell: NDArray[np.int64]


def ask_stable(run: Run, asked: StableStream, place: int, question: StableQuestion) -> StableAnswer:
    """Release the answer of a question if it is stable: the next one of a list, or of a stream.

    The steps are those of `kernel.release`. Distances are divided by c, which is certified of the numbers, so
    that one noise serves questions with different ones: where a distance is 0, so is that, and it moves by at
    most 1.
    """
    changes, plan, before = run.changes, asked.plan, asked.charge
    moved = question.bound_change(changes, place)
    if not changes.public and changes.decides != place:
        raise InternalError("another number decides which groups there are")
    if not changes.public and changes.listed is not None and not 0 < question.reads <= changes.listed:
        raise InternalError("too few of the largest groups are counted")
    if not plan.admits(Taken((NumberChange(-1, 1),), 1)):  # of distances over c
        raise InternalError("the noise is for less than one unit is known to change")
    delta = Fraction(0) if before.delta else plan.loss.delta  # that of all questions is spent by the first
    run.spending.admit(PrivacyLoss.of(plan.loss.charge.epsilon - before.epsilon, delta))

    def ask() -> tuple[bool, NDArray[np.int64]]:
        own = exact(run.counts)
        distance, found = question.answer(own, place, moved)
        if not asked.test(Fraction(distance, moved)):
            return False, found[:0]
        keyed = isinstance(question, StableAbove) or (isinstance(question, StableTop) and not question.listed)
        return True, found[own.key_order(found)] if keyed else found

    stable, found = without_frames(ask)
    run.spending.add(PrivacyLoss.of(asked.charge.epsilon - before.epsilon, delta))
    if isinstance(question, StableQuantile):
        return StableAnswer(stable, released_at(run.counts, np.zeros(int(stable), dtype=np.int64)), found)
    return StableAnswer(stable, released_at(run.counts, found), found[:0])
