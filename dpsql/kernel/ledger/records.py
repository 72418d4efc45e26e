"""What is asked of the ledger and what it returns: requests, reservations, stored releases and ladders."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from dpsql.kernel.ledger.events import Event
from dpsql.kernel.levels import Level
from dpsql.kernel.loss import Charge, PrivacyLoss


@dataclass(frozen=True, slots=True)
class RefinementStep:
    """The record that a count is released again: after which release, and what all its releases cost."""

    parent: int
    epsilon: Fraction


@dataclass(frozen=True, slots=True)
class Request:
    """A release that a statement asks for: its selection, its mechanism, its price."""

    selection: str
    mechanism: str
    charge: Charge
    """The price by which it is known: the largest epsilon of a statement, and its delta."""
    refines: RefinementStep | None = None
    place: int = 1
    """Its place among the releases of the statement, from 1."""
    places: int = 1
    """How many releases the statement has; some may be stored, and are not asked for."""
    loss: PrivacyLoss | None = None
    """The largest loss that is to be reserved; None: that of one pure mechanism at this price."""

    @property
    def reserved(self) -> PrivacyLoss:
        """The largest loss."""
        return PrivacyLoss.of(self.charge.epsilon, self.charge.delta) if self.loss is None else self.loss


@dataclass(frozen=True, slots=True)
class Settled:
    """How a release ended: its realised loss, its stored form, the key under which it is found again."""

    charge: Charge | PrivacyLoss
    """A `PrivacyLoss` is charged as it is: its mechanisms are settled. A `Charge` is the realised one of a
    single pure mechanism."""
    payload: bytes | None = None
    reuse_key: str | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Permission to run one statement, whose largest charge is durable already."""

    entry: int
    """The entry of its first release."""
    loss: PrivacyLoss
    """The largest loss of all its releases together."""
    parts: tuple[tuple[int, PrivacyLoss], ...] = ()
    """Entry and largest loss of each release; empty: there is one."""
    stream: bool = False
    """Whether it takes its questions one by one."""
    parents: tuple[int | None, ...] = (None,)
    """The release that each release refines; None: none."""

    @property
    def entries(self) -> tuple[tuple[int, PrivacyLoss], ...]:
        """Entry and largest loss of each release."""
        return self.parts or ((self.entry, self.loss),)


@dataclass(frozen=True, slots=True)
class LadderRequest:
    """A ladder that is to be measured and kept: of which measure of a unit, of which data, at which loss."""

    source: str
    """The table."""
    measure: str
    """What is measured of a unit, as text: it finds the ladder again, letter by letter."""
    version: str
    """The fingerprint of the data's version."""
    statement: str
    """The command that asks for it, for the owner."""
    loss: PrivacyLoss
    """Its loss, which is charged in full: one of pure differential privacy."""


@dataclass(frozen=True, slots=True)
class LadderReservation:
    """Permission to measure one ladder, whose loss is charged durably already."""

    number: int
    """The number of the ladder: ladders have a sequence of their own, from 1."""
    request: LadderRequest


@dataclass(frozen=True, slots=True)
class StoredLadder:
    """A ladder that was measured: released to every analyst, and kept for all later statements."""

    number: int
    when: datetime
    source: str
    measure: str
    version: str
    statement: str
    loss: PrivacyLoss
    payload: bytes
    event: Event
    """The event that stored it."""


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A stored answer, which the same analyst gets again at no cost."""

    number: int
    when: datetime
    """When it was asked for, in UTC; not when it was answered, which would tell the run time."""
    analyst: str
    payload: bytes
    event: Event
    """The event that stored it; of a release older than the events, that of the migration."""
    level: Level | None = None
    """The number that a further release may go on from."""
