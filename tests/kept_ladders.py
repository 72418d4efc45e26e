"""Ledgers with kept ladders, for tests: how one is asked for, and a ledger that is opened again and again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from dpsql.estimates import KeptLadder
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.mechanisms import Bins
from dpsql.ledger import LadderRequest, LadderReservation, Ledger, Reservation, StoredLadder

Open = Callable[..., Ledger]


def cost(epsilon: str) -> Charge:
    return Charge(Fraction(epsilon))


def asked(epsilon: str, measure: str = "rows", version: str = "v1") -> LadderRequest:
    """A ladder as it is measured: a search and bins, of half its epsilon each."""
    loss = PrivacyLoss.of(Fraction(epsilon) / 2, times=2)
    return LadderRequest("visits", measure, version, "dpsql bounds visits", loss)


def reserve_one(ledger: Ledger, request: LadderRequest) -> LadderReservation:
    return ledger.reserve_ladders([request])[0]


def newest_of(ledger: Ledger, source: str, measure: str) -> StoredLadder | None:
    """Return the newest ladder of a table and a measure of a unit in it; None if there is none."""
    found = [each for each in ledger.ladders() if (each.source, each.measure) == (source, measure)]
    return found[-1] if found else None


def numbered(ledger: Ledger, number: int) -> StoredLadder | None:
    """Return the ladder of a number; None if there is none."""
    return next((each for each in ledger.ladders() if each.number == number), None)


def gathered(bins: Bins, ends: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Return the numbers of units in bins, of those in the bins up to a larger size, which has these ends.

    The last of the numbers is that of the units beyond all ends.
    """
    assert set(bins.ends) <= set(ends)
    beyond = [sum(counts[place:]) for place in range(len(counts))]
    above = [beyond[0], *(beyond[ends.index(end) + 1] for end in bins.ends), 0]
    return [before - after for before, after in itertools.pairwise(above)]


def interval_of(
    ladder: KeptLadder, value: float, half_width: float, bound: int, confidence: float | Fraction = 0.95
) -> tuple[float, float]:
    """Return the interval of a total of all units with a bound on each, as answers have it."""
    cut = ladder.cut(bound, largest=True)
    noise = ladder.most_cut(bound, confidence=confidence) - cut
    return value - half_width, value + cut + math.hypot(half_width, noise)


def keep(ledger: Ledger, epsilon: str, measure: str = "rows", payload: bytes = b"bins") -> int:
    return ledger.settle_ladder(reserve_one(ledger, asked(epsilon, measure)), payload).number


def reserve(ledger: Ledger, epsilon: str, analyst: str = "ann") -> Reservation:
    return ledger.reserve(analyst=analyst, statement="s", selection="r", mechanism="m", charge=cost(epsilon))


def spent(ledger: Ledger, analyst: str | None = None) -> Fraction:
    return ledger.budget(analyst).spent.epsilon


@contextmanager
def ledger_in(folder: Path) -> Iterator[Open]:
    """Yield a function that opens the ledger of a folder, under some policy, and closes it before."""
    opened: list[Ledger] = []

    def go(**given: object) -> Ledger:
        for before in opened:
            before.close()
        options: dict[str, object] = {"total": cost("10"), "analysts": {"*": cost("10")}, **given}
        mark = folder / "mark"
        opened.append(
            Ledger.open(folder / "ledger.sqlite", policy_id="p", high_water=mark, **options)  # type: ignore[arg-type]
        )
        return opened[-1]

    yield go
    for each in opened:
        each.close()
