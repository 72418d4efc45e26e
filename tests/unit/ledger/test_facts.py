"""The hash of the facts that charges rest on: in the chain of events before each of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import BudgetExceeded
from dpsql.kernel.facts import ByColumn, ByRow, Facts, TableFacts
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.ledger import LadderRequest, Ledger, Opening, Request
from dpsql.types import BIGINT, VARCHAR
from tests.support.ledger_streams import open_stream

COLUMNS = (("patient", BIGINT), ("page", VARCHAR))
FACTS = Facts((TableFacts("visits", ByColumn("patient"), COLUMNS, kind="patient"),))
OTHERS = Facts((TableFacts("visits", ByRow(), COLUMNS, kind="visit"),))
CHARGE = Charge(Fraction(1, 4))


def opened(path: Path, epsilon: int = 10, opening: Opening = Opening.USE) -> Ledger:
    total = Charge(Fraction(epsilon))
    return Ledger.open(path, policy_id="p", total=total, max_failures=9, high_water=False, opening=opening)


def reserve(ledger: Ledger, facts: Facts | None, charge: Charge = CHARGE) -> None:
    ledger.reserve_all(analyst="ann", statement="s", requests=[Request("r", "m", charge)], facts=facts)


def told(path: Path) -> list[tuple[str, str | None]]:
    """Return the kind of each event since the ledger was opened first, and the facts that it tells of."""
    with closing(sqlite3.connect(path)) as connection:
        records = [json.loads(text) for (text,) in connection.execute("SELECT record FROM event ORDER BY n")]
    return [(record["event"], record.get("facts")) for record in records][2:]


def test_the_facts_of_a_charge_are_told_before_it(path: Path) -> None:
    with opened(path) as ledger:
        assert ledger.facts is None
        reserve(ledger, FACTS)
        assert ledger.facts == FACTS.digest
        reserve(ledger, FACTS)
        assert ledger.check() == []
    assert told(path) == [("policy", FACTS.digest), ("reserve", None), ("reserve", None)]


def test_each_change_between_sessions_is_an_event(path: Path) -> None:
    """Two sessions on one ledger, whose data have different columns or which read the policy differently."""
    assert FACTS.digest != OTHERS.digest
    with opened(path) as one, opened(path) as other:
        for ledger, facts in ((one, FACTS), (other, OTHERS), (one, FACTS), (one, FACTS)):
            reserve(ledger, facts)
        assert one.check() == []
    policy = [("policy", facts.digest) for facts in (FACTS, OTHERS, FACTS)]
    charge = ("reserve", None)
    assert told(path) == [policy[0], charge, policy[1], charge, policy[2], charge, charge]


def test_it_costs_nothing(path: Path) -> None:
    with opened(path) as ledger:
        reserve(ledger, FACTS)
        reserve(ledger, OTHERS)
        assert ledger.budget().spent == Charge(Fraction(1, 2))


def test_a_charge_that_is_refused_tells_of_no_facts(path: Path) -> None:
    with opened(path) as ledger:
        head = ledger.head()
        with pytest.raises(BudgetExceeded):
            reserve(ledger, FACTS, Charge(Fraction(11)))
        assert (ledger.head(), ledger.facts) == (head, None)


def test_other_caps_are_told_of_without_facts_until_the_next_charge(path: Path) -> None:
    with opened(path) as ledger:
        reserve(ledger, FACTS)
    with opened(path, 20) as ledger:
        assert ledger.facts is None
        reserve(ledger, FACTS)
        assert ledger.check() == []
    kinds = [("policy", FACTS.digest), ("reserve", None)]
    assert told(path) == [*kinds, ("policy", None), *kinds]


def charge_stream(ledger: Ledger) -> None:
    open_stream(ledger, facts=FACTS)


def charge_ladder(ledger: Ledger) -> None:
    asked = LadderRequest("visits", "rows", "v1", "dpsql bounds visits", PrivacyLoss.of(Fraction(1, 16)))
    ledger.reserve_ladders([asked], FACTS)


@pytest.mark.parametrize(("charge", "event"), [(charge_stream, "reserve"), (charge_ladder, "bounds")])
def test_streams_and_ladders_tell_of_them_too(
    path: Path, charge: Callable[[Ledger], None], event: str
) -> None:
    with opened(path) as ledger:
        charge(ledger)
        assert ledger.check() == []
    assert told(path)[:2] == [("policy", FACTS.digest), (event, None)]


def test_a_ledger_that_is_told_no_facts_has_none(path: Path) -> None:
    with opened(path) as ledger:
        reserve(ledger, None)
        assert (ledger.facts, ledger.check()) == (None, [])
    assert told(path) == [("reserve", None)]


def test_other_facts_than_those_of_the_newest_event_are_found(path: Path) -> None:
    with opened(path) as ledger:
        reserve(ledger, FACTS)
        with closing(sqlite3.connect(path)) as connection, connection:
            changed = connection.execute(
                "UPDATE setting SET value = ? WHERE name = 'facts'", (OTHERS.digest,)
            ).rowcount
        assert changed == 1
        assert ledger.check() == ["the facts are not those of the newest event that tells of the policy"]


def test_an_event_with_other_facts_breaks_the_chain(path: Path) -> None:
    with opened(path) as ledger:
        reserve(ledger, FACTS)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER event_is_final")
        change = "UPDATE event SET record = replace(record, ?, ?)"
        connection.execute(change, (FACTS.digest, OTHERS.digest))
        connection.execute("UPDATE setting SET value = ? WHERE name = 'facts'", (OTHERS.digest,))
    with opened(path, opening=Opening.INSPECT) as ledger:
        assert any("is not what it was when it was written" in text for text in ledger.check())
