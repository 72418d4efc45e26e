"""Delays after failed logins."""

from __future__ import annotations

import pytest

from dpsql.serve import gate
from dpsql.serve.gate import Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def failing(clock: Clock, times: int, name: str = "alice", address: str = "192.0.2.7") -> Throttle:
    made = Throttle(clock)
    for _ in range(times):
        made.count_failure(name, address)
    return made


def test_delays_double_behind_five_failures(clock: Clock) -> None:
    delays = [failing(clock, times).delay("alice", "192.0.2.7") for times in range(12)]
    assert delays == [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30]


def test_a_minute_without_a_failure_forgets(clock: Clock) -> None:
    made = failing(clock, 8)
    clock.now += 59
    assert made.delay("alice", "192.0.2.7") == 8
    made.count_failure("alice", "192.0.2.7")
    clock.now += 59
    assert made.delay("alice", "192.0.2.7") == 16
    clock.now += 1
    assert made.delay("alice", "192.0.2.7") == 0


def test_a_login_forgets(clock: Clock) -> None:
    made = failing(clock, 8)
    made.forget_failures("alice", "192.0.2.7")
    assert (made.delay("alice", "192.0.2.7"), len(made)) == (0, 0)


@pytest.mark.parametrize(
    ("name", "address", "delayed"),
    [
        ("alice", "2001:db8:0:1::ffff", True),
        ("alice", "2001:db8:0:1:2:3:4:5%eth0", True),
        ("alice", "2001:db8:0:2::1", False),
        ("alice", "192.0.2.7", False),
        ("bob", "2001:db8:0:1::1", False),
    ],
)
def test_nobody_is_locked_out_elsewhere(clock: Clock, name: str, address: str, delayed: bool) -> None:
    made = failing(clock, 8, address="2001:db8:0:1::1")
    assert bool(made.delay(name, address)) == delayed


def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_ENTRIES", 100)
    made = Throttle(clock)
    for i in range(1000):
        made.count_failure(f"name{i}", "192.0.2.7")
    assert len(made) == 100
    assert made.delay("name999", "192.0.2.7") == 0
    clock.now += 61
    made.count_failure("alice", "192.0.2.7")
    assert len(made) == 1


def test_a_long_name_takes_little_memory(clock: Clock) -> None:
    made = failing(clock, 6, name="x" * 9_000)
    ((name, _),) = made._failures
    assert len(name) < 100
    assert made.delay("x" * 9_000, "192.0.2.7") == 2
    assert made.delay("x" * 63, "192.0.2.7") == 0  # the longest name of a user
