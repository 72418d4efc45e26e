"""Ledgers with kept ladders, for tests: how one is asked for, and a ledger that is opened again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from dpsql.ledger import LadderRequest, Ledger, Reservation
from dpsql.privacy import Charge, PrivacyLoss

Open = Callable[..., Ledger]


def cost(epsilon: str) -> Charge:
    return Charge(Fraction(epsilon))


def asked(epsilon: str, measure: str = "rows", version: str = "v1") -> LadderRequest:
    """A ladder as it is measured: a search and bins, of half its epsilon each."""
    loss = PrivacyLoss.of(Fraction(epsilon) / 2, times=2)
    return LadderRequest("visits", measure, version, "dpsql bounds visits", loss)


def keep(ledger: Ledger, epsilon: str, measure: str = "rows", payload: bytes = b"bins") -> int:
    return ledger.settle_ladder(ledger.reserve_ladder(asked(epsilon, measure)), payload).number


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
