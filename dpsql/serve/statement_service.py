"""`StatementService`: prices and runs the statements of one analyst; confirmations of prices, for programs.

Services: on a server it is a `Client`; of a program on this machine it is a session, in this process or on a
server.

Confirmations: whatever the protocol, one rule (`SpendingRule`) says what a program may spend without showing
one. A program is shown the price of a statement before it can be charged: with the price it gets a
confirmation, without which nothing above a free limit is spent. A confirmation is an HMAC over the analyst,
the question, the price, the time of its end and a number of its own. So it holds for that question at that
price alone, for ten minutes, and once. Its key is new in every process: after a restart no confirmation of
before is accepted, although nobody remembers which of them were used.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dpsql.composition.prepared import question_key
from dpsql.errors import Error, PriceNotAgreed, ProgrammingError
from dpsql.kernel.loss import Charge
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.ledger import Budget
from dpsql.login import draw_key

if TYPE_CHECKING:
    from dpsql.policy import Policy
    from dpsql.release import Release
    from dpsql.remote import RemotePrepared, RemoteSession
    from dpsql.serve.answers import Answer
    from dpsql.session import Session
    from dpsql.session_api import StatementResult

_T = TypeVar("_T")
_Session = TypeVar("_Session", bound="Session | RemoteSession")


@dataclass(frozen=True, slots=True)
class Priced:
    """A statement that was prepared: nothing is charged, nothing private was read."""

    sql: str
    key: str
    """What distinguishes its question (`question_key`)."""
    statement: Any
    """The statement as it was prepared (a `PricedStatement`), for the service that did it."""

    @property
    def price(self) -> Charge:
        """The most that the statement can charge."""
        charge: Charge = self.statement.price
        return charge


class StatementService(ABC):
    """The statements of one analyst; `price` and `run` are its own, the rest are statements by these."""

    @property
    @abstractmethod
    def policy(self) -> Policy | None:
        """The policy that is open now; None where it lies on a server."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Who asks: a confirmation is for this name alone."""

    @abstractmethod
    async def price(self, sql: str) -> Priced:
        """Parse, analyse and price a statement; `run` runs the result."""

    @abstractmethod
    async def run(self, priced: Priced, most: Charge) -> Answer | StatementResult:
        """Run a statement; somebody has agreed to a charge of `most`, and no more is charged."""

    async def free(self, sql: str) -> Answer | StatementResult:
        """Run a statement that costs nothing, such as SHOW TABLES."""
        return await self.run(await self.price(sql), Charge())

    async def explain(self, priced: Priced, budget: Budget) -> dict[str, Any]:
        """Return what EXPLAIN says of a query; `budget` is what the analyst may still spend."""
        table = (await self.free(f"EXPLAIN (FORMAT JSON)\n{priced.sql}")).table
        facts: dict[str, Any] = json.loads(table.column(0)[0].as_py())
        return facts

    async def budget(self) -> Budget:
        """Return what the analyst may still spend: the exact amounts beside the rows of the statement."""
        table = (await self.free("SHOW PRIVACY BUDGET")).table
        return Budget.read(json.loads((table.schema.metadata or {})[b"dpsql.budget"]))

    async def release(self, number: int) -> Release:
        """Return one of the analyst's own releases."""
        found = (await self.free(f"SHOW RELEASE {int(number)}")).release
        assert found is not None  # noqa: S101  the statement answers with a release, or an error
        return found


class _SessionService(StatementService, Generic[_Session]):
    """The statements of a session, each in a thread, one at a time."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def run(self, priced: Priced, most: Charge) -> StatementResult:
        """Run a statement, charging no more than `most`."""
        return await self._in_thread(lambda: self._session.execute(priced.statement, most=most))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await in_thread(work, self._session.cancel)


class LocalService(_SessionService["Session"]):
    """The statements of a session in this process."""

    @property
    def name(self) -> str:
        """The name of the analyst that the session is opened for."""
        return self._session.analyst

    @property
    def policy(self) -> Policy:
        """The policy that the session answers under."""
        return self._session.policy

    async def price(self, sql: str) -> Priced:
        """Parse, analyse and price a statement."""
        prepared = await self._in_thread(lambda: self._session.prepare(sql))
        return Priced(sql, question_key(prepared), prepared)


class RemoteService(_SessionService["RemoteSession"]):
    """The statements of a session on a server, where prepared statements are their texts."""

    policy = None
    name = ""

    def __init__(self, session: RemoteSession, name: str) -> None:
        super().__init__(session)
        self.name = name

    async def price(self, sql: str) -> Priced:
        """Parse, analyse and price a statement."""
        prepared: RemotePrepared = await self._in_thread(lambda: self._session.prepare(sql))
        return Priced(sql, hashlib.sha256(prepared.outgoing.text.encode()).hexdigest(), prepared)

    async def free(self, sql: str) -> StatementResult:
        """Run a statement that costs nothing; the server knows what is free of those that have a price."""
        return await self._in_thread(lambda: self._session.run(sql, most=Charge()))

    async def budget(self) -> Budget:
        """Return what the analyst may still spend."""
        return await self._in_thread(self._session.budget)


async def in_thread(work: Callable[[], _T], cancel: Callable[[], None]) -> _T:
    """Run work in a thread; when the caller gives up, what runs is cancelled."""
    import anyio.to_thread  # noqa: PLC0415  of the extra `dpsql[mcp]`

    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True), suppress(Error):
            await anyio.to_thread.run_sync(cancel)
        raise


LIFETIME = 600
"""Seconds for which a confirmation holds."""

_FORM = lazy_pattern(r"([0-9]{1,18})-([0-9]{1,18})-([A-Za-z0-9_-]{43})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PricedQuestion:
    """A statement that was analysed and priced for an analyst; nothing is charged."""

    analyst: str
    key: str
    """What distinguishes it: two statements with one key are answered by the same releases."""
    price: Charge


class Confirmations:
    """Issues confirmations and accepts each of them once; threads may share it."""

    def __init__(
        self, secret: bytes, *, lifetime: int = LIFETIME, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._key = hmac.digest(secret, b"dpsql confirm 1 " + draw_key(32), "sha256")
        self._lifetime = lifetime
        self._clock = clock
        """A clock that nobody sets back: confirmations do not outlive this process."""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._used: dict[int, int] = {}
        """The number of each confirmation that was used -> when it ends."""

    def issue(self, question: PricedQuestion) -> str:
        """Return a confirmation for a question, to be shown with its price."""
        end, number = int(self._clock()) + self._lifetime, next(self._numbers)
        return f"{end}-{number}-{self._signature(question, end, number)}"

    def check(self, confirm: str, question: PricedQuestion) -> None:
        """Raise `PriceNotAgreed` unless a confirmation was issued for this statement and can be used now."""
        with self._lock:
            self._verify(confirm, question)

    def redeem(self, confirm: str, question: PricedQuestion) -> None:
        """Use a confirmation up; raise `PriceNotAgreed` unless it is for this statement and can be used."""
        with self._lock:
            end, number = self._verify(confirm, question)
            self._used = {each: until for each, until in self._used.items() if until > self._clock()}
            self._used[number] = end

    def _verify(self, confirm: str, question: PricedQuestion) -> tuple[int, int]:
        found = _FORM.fullmatch(confirm)
        if found is None:
            raise _ask_again("this is no confirmation")
        end, number = int(found[1]), int(found[2])
        if not hmac.compare_digest(found[3], self._signature(question, end, number)):
            raise _ask_again("the confirmation is not for this statement at its present price")
        if end <= self._clock():
            raise _ask_again("the confirmation has expired")
        if number in self._used:
            raise _ask_again("the confirmation was used")
        return end, number

    def _signature(self, question: PricedQuestion, end: int, number: int) -> str:
        price = (str(question.price.epsilon), str(question.price.delta))
        # JSON, so that no two lists of fields are written alike.
        signed = json.dumps([question.analyst, question.key, *price, end, number]).encode()
        return base64.urlsafe_b64encode(hmac.digest(self._key, signed, "sha256")).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class SpendingRule:
    """Decides what a program may charge without a confirmation, with one, and when a person is asked."""

    confirmations: Confirmations
    free_below: Fraction = Fraction(0)
    """The largest epsilon of one statement that needs no confirmation."""
    ask_person_above: Fraction | None = None
    """The largest epsilon of one statement for which no person is asked; None: no person is ever asked."""

    def needs_confirmation(self, price: Charge) -> bool:
        """Whether a price needs a confirmation; a delta always does."""
        return price.epsilon > self._limit or price.delta > 0

    def needs_person(self, price: Charge) -> bool:
        """Whether a person must agree to a price, too, if the program that asks can ask one."""
        return self.ask_person_above is not None and price.epsilon > self.ask_person_above

    @property
    def _limit(self) -> Fraction:
        # What a person is asked about is confirmed, so that his answer holds once.
        if self.ask_person_above is None:
            return self.free_below
        return min(self.free_below, self.ask_person_above)

    def offer(self, question: PricedQuestion) -> str | None:
        """Return the confirmation that goes with a price; None if none is needed."""
        return self.confirmations.issue(question) if self.needs_confirmation(question.price) else None

    def check(self, question: PricedQuestion, confirm: str | None) -> None:
        """Raise `PriceNotAgreed` unless the question may be charged now; nothing is used up."""
        if self.needs_confirmation(question.price):
            self.confirmations.check(_require_confirmation(question, confirm), question)

    def agree(self, question: PricedQuestion, confirm: str | None) -> Charge:
        """Return the largest charge that the question may cause now, and use its confirmation up.

        The price may rise before the charge: the caller has to run the statement at no more than this.
        Raises `PriceNotAgreed`.
        """
        if not self.needs_confirmation(question.price):
            return Charge(self._limit)
        self.confirmations.redeem(_require_confirmation(question, confirm), question)
        return question.price


class ConfirmedStatements:
    """A program's statements: above the free price, each runs only with the confirmation of its price."""

    def __init__(self, service: StatementService, rule: SpendingRule) -> None:
        self.service = service
        self.rule = rule

    async def question(self, sql: str) -> tuple[Priced, PricedQuestion]:
        """Price a statement; raises `Error` if it is refused."""
        priced = await self.service.price(sql)
        if priced.statement.setting:
            raise ProgrammingError(
                "settings do not hold from one call to the next\n"
                "Hint: write them in it: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) .."
            )
        return priced, PricedQuestion(self.service.name, priced.key, priced.price)

    async def run(self, sql: str, confirm: str | None) -> Answer | StatementResult:
        """Run a statement, charging no more than was confirmed or is free; raises `Error`."""
        priced, question = await self.question(sql)
        most = self.rule.agree(question, confirm) if priced.statement.private else Charge()
        return await self.service.run(priced, most)


def _require_confirmation(question: PricedQuestion, confirm: str | None) -> str:
    if confirm is None:
        raise PriceNotAgreed(
            f"the statement costs epsilon {_format(question.price.epsilon)}"
            + (f" and delta {_format(question.price.delta)}" if question.price.delta else "")
            + ", and this price was not confirmed",
            hint="call explain with this statement, then ask with the `confirm` that it returns",
        )
    return confirm


def _ask_again(message: str) -> PriceNotAgreed:
    return PriceNotAgreed(message, hint="call explain with this statement for its price and a new `confirm`")


def _format(amount: Fraction) -> str:
    return f"{float(amount):g}"
