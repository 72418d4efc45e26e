"""What a program can spend: nothing above the free price without a confirmation of that very price."""

from __future__ import annotations

import base64
import threading
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import PriceNotAgreed
from dpsql.kernel.loss import Charge
from dpsql.serve.statement_service import LIFETIME, Confirmations, PricedQuestion, SpendingRule

HALF = Charge(Fraction(1, 2))
ASKED = PricedQuestion("agent7", "key of a statement", HALF)


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def confirmations(clock: Clock) -> Confirmations:
    return Confirmations(b"the server's secret", clock=clock)


def test_a_confirmation_is_accepted_once(confirmations: Confirmations) -> None:
    confirm = confirmations.issue(ASKED)
    confirmations.check(confirm, ASKED)
    confirmations.redeem(confirm, ASKED)
    for use in (confirmations.check, confirmations.redeem):
        with pytest.raises(PriceNotAgreed, match="was used"):
            use(confirm, ASKED)


def test_each_one_that_is_issued_is_another(confirmations: Confirmations) -> None:
    first, second = confirmations.issue(ASKED), confirmations.issue(ASKED)
    confirmations.redeem(first, ASKED)
    confirmations.redeem(second, ASKED)


@pytest.mark.parametrize(
    "other",
    [
        PricedQuestion("agent8", ASKED.key, HALF),
        PricedQuestion("agent7", "another statement", HALF),
        PricedQuestion("agent7", ASKED.key, Charge(Fraction(1, 2) + Fraction(1, 10**30))),
        PricedQuestion("agent7", ASKED.key, Charge(Fraction(1, 4))),
        PricedQuestion("agent7", ASKED.key, Charge(Fraction(1, 2), Fraction(1, 10**9))),
        # Fields are never read across their borders.
        PricedQuestion("agent7key of", " a statement", HALF),
        PricedQuestion('agent7", "key', ASKED.key, HALF),
    ],
)
def test_it_is_for_one_analyst_statement_and_price(
    confirmations: Confirmations, other: PricedQuestion
) -> None:
    confirm = confirmations.issue(ASKED)
    with pytest.raises(PriceNotAgreed, match="not for this statement at its present price"):
        confirmations.redeem(confirm, other)
    confirmations.redeem(confirm, ASKED)  # the attempt has used nothing up


def test_it_expires(confirmations: Confirmations, clock: Clock) -> None:
    confirm = confirmations.issue(ASKED)
    clock.now += LIFETIME - 1
    confirmations.check(confirm, ASKED)
    clock.now += 1
    with pytest.raises(PriceNotAgreed, match="has expired"):
        confirmations.redeem(confirm, ASKED)


def test_its_end_cannot_be_moved(confirmations: Confirmations, clock: Clock) -> None:
    end, number, signature = confirmations.issue(ASKED).split("-", 2)
    for forged in (f"{int(end) + 1}-{number}-{signature}", f"{end}-{int(number) + 1}-{signature}"):
        with pytest.raises(PriceNotAgreed, match="not for this statement"):
            confirmations.redeem(forged, ASKED)


def test_what_was_used_is_forgotten_only_when_it_has_expired(
    confirmations: Confirmations, clock: Clock
) -> None:
    used = confirmations.issue(ASKED)
    confirmations.redeem(used, ASKED)
    clock.now += LIFETIME - 1
    confirmations.redeem(confirmations.issue(ASKED), ASKED)
    with pytest.raises(PriceNotAgreed, match="was used"):
        confirmations.redeem(used, ASKED)
    clock.now += 1
    confirmations.redeem(confirmations.issue(ASKED), ASKED)
    assert len(confirmations._used) == 2
    with pytest.raises(PriceNotAgreed, match="has expired"):
        confirmations.redeem(used, ASKED)


def test_another_process_accepts_none_of_before(clock: Clock) -> None:
    before, after = (Confirmations(b"the server's secret", clock=clock) for _ in range(2))
    with pytest.raises(PriceNotAgreed, match="not for this statement"):
        after.redeem(before.issue(ASKED), ASKED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "1-1",
        "-1--1-x",
        "1-1-" + "A" * 43,
        "１-1-" + "A" * 43,
        "1-1-" + "A" * 44,
        "\x00",
        "9" * 10_000,
    ],
)
def test_what_is_no_confirmation_is_refused(confirmations: Confirmations, text: str) -> None:
    with pytest.raises(PriceNotAgreed):
        confirmations.redeem(text, ASKED)


@given(place=st.integers(0, 1000), to=st.characters(min_codepoint=32, max_codepoint=126))
def test_a_changed_character_is_refused(place: int, to: str) -> None:
    confirmations = Confirmations(b"secret", clock=lambda: 0.0)
    confirm = confirmations.issue(ASKED)
    at = place % len(confirm)
    changed = confirm[:at] + to + confirm[at + 1 :]
    if changed == confirm:
        return
    # The last character of 43 carries 4 bits, but other spellings of them are refused too.
    with pytest.raises(PriceNotAgreed):
        confirmations.redeem(changed, ASKED)


def test_the_signature_has_256_bits(confirmations: Confirmations) -> None:
    signature = confirmations.issue(ASKED).split("-", 2)[2]
    assert len(base64.urlsafe_b64decode(signature + "=")) == 32


def test_of_many_threads_one_uses_it(confirmations: Confirmations) -> None:
    confirm, gate = confirmations.issue(ASKED), threading.Barrier(8)
    accepted: list[bool] = []

    def use() -> None:
        gate.wait()
        try:
            confirmations.redeem(confirm, ASKED)
        except PriceNotAgreed:
            accepted.append(False)
        else:
            accepted.append(True)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(accepted) == [False] * 7 + [True]


# -- the rule


def question(epsilon: str, delta: str = "0") -> PricedQuestion:
    return PricedQuestion("agent7", "key", Charge(Fraction(epsilon), Fraction(delta)))


def test_without_a_free_price_everything_charged_is_confirmed(confirmations: Confirmations) -> None:
    rule = SpendingRule(confirmations)
    assert rule.offer(question("0")) is None
    assert rule.agree(question("0"), None) == Charge()  # and no more than nothing is charged
    for asked in (question("1/1000000"), question("0", "1/1000000000")):
        with pytest.raises(PriceNotAgreed, match="was not confirmed") as caught:
            rule.agree(asked, None)
        assert "call explain" in str(caught.value)
        confirm = rule.offer(asked)
        assert confirm is not None
        assert rule.agree(asked, confirm) == asked.price


def test_below_the_free_price_nothing_is_confirmed(confirmations: Confirmations) -> None:
    rule = SpendingRule(confirmations, free_below=Fraction(1, 10))
    assert rule.agree(question("1/10"), None) == Charge(Fraction(1, 10))
    assert rule.agree(question("0"), "whatever") == Charge(Fraction(1, 10))
    for asked in (question("0.1000000001"), question("1/10", "1/1000000000")):
        with pytest.raises(PriceNotAgreed):
            rule.agree(asked, None)


def test_a_person_is_asked_above_a_price_which_is_confirmed_too(confirmations: Confirmations) -> None:
    rule = SpendingRule(confirmations, free_below=Fraction(2), ask_person_above=Fraction(1, 2))
    assert not rule.needs_person(question("1/2").price)
    assert rule.needs_person(question("0.51").price)
    with pytest.raises(PriceNotAgreed):
        rule.check(question("0.51"), None)
    rule.check(question("1/2"), None)
    assert rule.agree(question("0"), None) == Charge(Fraction(1, 2))
    assert not SpendingRule(confirmations).needs_person(question("100").price)
