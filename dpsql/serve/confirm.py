"""What a program may spend: confirmations of a price, and the rule that asks for them, whatever the protocol.

A program is shown the price of a statement before it can be charged: with the price it gets a confirmation,
without which nothing above a free limit is spent. A confirmation is an HMAC over the analyst, the question,
the price, the time of its end and a number of its own. So it holds for that question at that price alone, for
ten minutes, and once. Its key is new in every process: after a restart no confirmation of before is accepted,
although nobody remembers which of them were used.
"""

from __future__ import annotations

import base64
import hmac
import itertools
import json
import re
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.errors import PriceNotAgreed, ProgrammingError
from dpsql.kernel.loss import Charge
from dpsql.lazy_dataclass import dataclass
from dpsql.login.entropy import draw_key

if TYPE_CHECKING:
    from dpsql.serve.answer import Answer
    from dpsql.serve.statement_service import Priced, StatementService
    from dpsql.sessions import StatementResult

LIFETIME = 600
"""Seconds for which a confirmation holds."""

_FORM = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([A-Za-z0-9_-]{43})", re.ASCII)


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
        """Raise `PriceNotAgreed` unless the confirmation was issued for this and can be used now."""
        with self._lock:
            self._verify(confirm, question)

    def redeem(self, confirm: str, question: PricedQuestion) -> None:
        """Use a confirmation up; raises `PriceNotAgreed` as `check` does."""
        with self._lock:
            end, number = self._verify(confirm, question)
            self._used = {each: until for each, until in self._used.items() if until > self._clock()}
            self._used[number] = end

    def _verify(self, confirm: str, question: PricedQuestion) -> tuple[int, int]:
        found = _FORM.fullmatch(confirm)
        if found is None:
            raise _again("this is no confirmation")
        end, number = int(found[1]), int(found[2])
        if not hmac.compare_digest(found[3], self._signature(question, end, number)):
            raise _again("the confirmation is not for this statement at its present price")
        if end <= self._clock():
            raise _again("the confirmation has expired")
        if number in self._used:
            raise _again("the confirmation was used")
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
        """Whether a person is asked as well, where that is possible."""
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
            self.confirmations.check(_required(question, confirm), question)

    def agree(self, question: PricedQuestion, confirm: str | None) -> Charge:
        """Return the largest charge that the question may cause now, and use its confirmation up.

        The price may rise before the charge: the caller has to run the statement at no more than this.
        Raises `PriceNotAgreed`.
        """
        if not self.needs_confirmation(question.price):
            return Charge(self._limit)
        self.confirmations.redeem(_required(question, confirm), question)
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


def _required(question: PricedQuestion, confirm: str | None) -> str:
    if confirm is None:
        raise PriceNotAgreed(
            f"the statement costs epsilon {_format(question.price.epsilon)}"
            + (f" and delta {_format(question.price.delta)}" if question.price.delta else "")
            + ", and this price was not confirmed",
            hint="call explain with this statement, then ask with the `confirm` that it returns",
        )
    return confirm


def _again(message: str) -> PriceNotAgreed:
    return PriceNotAgreed(message, hint="call explain with this statement for its price and a new `confirm`")


def _format(amount: Fraction) -> str:
    return f"{float(amount):g}"
