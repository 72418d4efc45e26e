"""The chain of events: what each one tells, and that no change of the file agrees with it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import OperationalError
from dpsql.kernel.ledger import events
from dpsql.kernel.loss import Charge
from dpsql.ledger import GroupCap, Ledger, Opening, RefinementStep, Request, Reservation, Settled

TENTH = Charge(Fraction(1, 10))


def open_at(path: Path, **given: object) -> Ledger:
    settings = {"policy_id": "p", "total": Charge(Fraction(10)), "high_water": False, **given}
    return Ledger.open(path, **settings)  # type: ignore[arg-type]  # any keyword


def reserve(ledger: Ledger, analyst: str = "ann", refines: RefinementStep | None = None) -> Reservation:
    return ledger.reserve(
        analyst=analyst, statement="s", selection="r", mechanism="m", charge=TENTH, refines=refines
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with every kind of event."""
    path = tmp_path / "ledger.sqlite"
    with open_at(path) as ledger:
        number = ledger.settle(reserve(ledger), TENTH, release=b"rows", reuse_key="k")
        ledger.fail(reserve(ledger))
        ledger.cancel(reserve(ledger, "bob"))
        ledger.share(["k"], "bob")
        two = [Request("r", "m", TENTH, place=i, places=2) for i in (1, 2)]
        held = ledger.reserve_all(analyst="ann", statement="two", requests=two)
        ledger.settle_all(held, [Settled(TENTH, b"a", "a"), Settled(Charge(Fraction(1, 20)), b"b")])
        refined = reserve(ledger, refines=RefinementStep(number, Fraction(1, 5)))
        ledger.settle(refined, TENTH, release=b"finer")
        ledger.clear_failures("ann")
        reserve(ledger)
    open_at(path, groups={"team": GroupCap(("ann", "bob"), TENTH)}).close()
    return path


def records(path: Path) -> list[dict[str, object]]:
    with closing(sqlite3.connect(path)) as connection:
        return [json.loads(text) for (text,) in connection.execute("SELECT record FROM event ORDER BY n")]


def test_every_change_is_an_event(path: Path) -> None:
    kinds = "new policy reserve settle reserve fail reserve cancel share reserve settle reserve settle"
    found = records(path)
    assert [record["event"] for record in found] == [*kinds.split(), "clear-failures", "reserve", "policy"]
    settled = found[3]
    assert settled["totals"] == {
        "policy": ["1/10", "0/1", None, None],
        "analyst ann": ["1/10", "0/1", None, None],
    }
    assert settled["releases"] == [
        {
            "entry": 1,
            "release": 1,
            "charged_loss": "pure 1/10",
            "reuse_key": "k",
            "payload": events.digest(b"rows"),
        }
    ]


def test_each_hash_is_of_all_before_it(path: Path) -> None:
    import hashlib

    before = "0" * 64
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT n, record, hash FROM event ORDER BY n").fetchall()
        for _, record, found in rows:
            before = hashlib.sha256((before + record).encode()).hexdigest()
            assert found == before
            assert record == json.dumps(json.loads(record), sort_keys=True, separators=(",", ":"))
    with open_at(path, groups={"team": GroupCap(("ann", "bob"), TENTH)}) as ledger:
        n = len(rows)
        assert str(ledger.head()) == f"{n}-{before[:16]}", "an unchanged policy is no event"
        assert ledger.event(n) == ledger.head()
        assert ledger.event(n + 1) is None
        assert ledger.check() == []


def test_two_new_ledgers_have_no_hash_in_common(tmp_path: Path) -> None:
    with open_at(tmp_path / "a.sqlite") as one, open_at(tmp_path / "b.sqlite") as other:
        assert one.head().n == other.head().n
        assert one.head().hash != other.head().hash


def test_a_release_has_the_event_that_stored_it(path: Path) -> None:
    with open_at(path) as ledger:
        for number, owner, kind in ((1, "ann", "settle"), (2, "bob", "share"), (4, "ann", "settle")):
            event = ledger.release(number, owner).event
            assert ledger.event(event.n) == event
            assert records(path)[event.n - 1]["event"] == kind
        assert ledger.release(3, "ann").event == ledger.release(4, "ann").event


def edited(path: Path, *changes: str) -> None:
    """Change the file as somebody does who removes its triggers and puts them back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in found:
            connection.execute(f"DROP TRIGGER {name}")
        for change in changes:
            connection.execute(change)
        for _, text in found:
            connection.execute(text)


def test_the_events_are_append_only(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for change in (
            "DELETE FROM event WHERE n = 3",
            "UPDATE event SET record = '{}'",
            "INSERT INTO event SELECT n + 2, record, hash FROM event ORDER BY n DESC LIMIT 1",
            "INSERT OR REPLACE INTO event SELECT n, '{}', hash FROM event WHERE n = 3",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(change)


HALF = "replace(epsilon, '/', '/2')"

SEEN_AT_ONCE: list[tuple[str, ...]] = [
    (f"UPDATE total SET epsilon = {HALF} WHERE name = 'policy'",),
    ("UPDATE event SET record = replace(record, 'event', 'Event') WHERE n = (SELECT max(n) FROM event)",),
    ("UPDATE event SET hash = lower(hex(zeroblob(32))) WHERE n = (SELECT max(n) FROM event)",),
    ("DELETE FROM event WHERE n = (SELECT max(n) - 1 FROM event)",),
    # The end is cut off, with nothing else.
    ("DELETE FROM event WHERE n > 11",),
    ("DELETE FROM event",),
]


@pytest.mark.parametrize("changes", SEEN_AT_ONCE)
def test_what_the_newest_event_shows_is_seen_when_the_file_is_opened(
    path: Path, changes: tuple[str, ...]
) -> None:
    edited(path, *changes)
    with pytest.raises(OperationalError, match=r"is damaged: .*; restore it from a backup"):
        open_at(path)
    with open_at(path, opening=Opening.INSPECT) as ledger:
        assert ledger.check() != []


SEEN_BY_CHECK: list[tuple[tuple[str, ...], str]] = [
    (("UPDATE entry SET statement = 'other' WHERE entry = 2",), "event 5: entry 2 is not what it was"),
    (("UPDATE entry SET analyst = 'bob' WHERE entry = 2",), "event 5: entry 2 is not what it was"),
    (("UPDATE entry SET at = '2020-01-01T00:00:00+00:00' WHERE entry = 2",), "entry 2 is not what it was"),
    (("UPDATE entry SET state = 'cancelled' WHERE entry = 2",), "event 6: entry 2 has not failed"),
    (("UPDATE entry SET state = 'failed' WHERE entry = 8",), "that have not ended"),
    (("UPDATE release SET payload = x'00' WHERE number = 1",), "event 4: entry 1 or its release"),
    (("UPDATE release SET reuse_key = 'other' WHERE number = 1",), "event 4: entry 1 or its release"),
    (("DELETE FROM release WHERE number = 1",), "event 4: the release of entry 1 is missing"),
    (("UPDATE part SET places = 3",), "event 10: entry 5 is not what it was"),
    (("UPDATE refinement SET epsilon = '1/7'",), "event 12: entry 7 is not what it was"),
    (
        ("UPDATE event SET record = replace(record, '1/10', '1/20') WHERE n = 4",),
        "event 4 is not what it was",
    ),
    (("UPDATE event SET hash = lower(hex(zeroblob(32))) WHERE n = 4",), "event 5 is not what it was"),
    (("DELETE FROM event WHERE n IN (5, 6)",), "one before it is missing"),
    (("UPDATE event SET record = 'nothing' WHERE n = 4",), "no JSON"),
    # A charge is made smaller everywhere but in the events.
    (
        (
            "UPDATE entry SET charged_loss = 'pure 1/20' WHERE entry = 1",
            "UPDATE total SET epsilon = '11/20' WHERE name = 'policy'",
            "UPDATE total SET epsilon = '1/2' WHERE name = 'analyst ann'",
        ),
        "event 4: entry 1 or its release is not what it was",
    ),
    # An entry is cut out, with all that refers to it.
    (
        (
            "DELETE FROM entry WHERE entry = 3",
            "UPDATE total SET epsilon = '1/2' WHERE name = 'policy'",
            "UPDATE total SET epsilon = '1/10' WHERE name = 'analyst bob'",
            "DELETE FROM event WHERE n IN (7, 8)",
        ),
        "one before it is missing",
    ),
    (
        (
            "INSERT INTO entry SELECT 99, at, analyst, statement, reading, mechanism, reserved_loss,"
            " charged_loss, state, release, shared, holder FROM entry WHERE entry = 2",
        ),
        "the table entry has 9 rows, and the events tell of 8",
    ),
]


@pytest.mark.parametrize(("changes", "says"), SEEN_BY_CHECK)
def test_any_change_is_seen_by_the_check(path: Path, changes: tuple[str, ...], says: str) -> None:
    edited(path, *changes)
    with open_at(path, opening=Opening.INSPECT) as ledger:
        found = ledger.check()
    assert any(says in problem for problem in found), found


def test_opening_looks_at_the_newest_events_alone(path: Path, tmp_path: Path) -> None:
    """The number of SQLite's steps does not grow with the events."""

    def counted(check: Callable[[sqlite3.Connection], None]) -> Iterator[int]:
        for file in (path, tmp_path / "long.sqlite"):
            with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                made = [0]

                def step(made: list[int] = made) -> None:
                    made[0] += 1

                connection.set_progress_handler(step, 1)
                check(connection)
            yield made[0]

    with open_at(tmp_path / "long.sqlite", max_failures=100, total=Charge(Fraction(100))) as ledger:
        for _ in range(300):
            ledger.settle(reserve(ledger), TENTH)
    steps = [*counted(events.check_newest)]
    assert 0 < steps[1] <= steps[0] + 20
