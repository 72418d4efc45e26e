"""Pools that are fair to analysts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import partial

import pytest

from dpsql.serve.limits import QueueFull, ShuttingDown
from dpsql.serve.shared import FairPool


class Gate:
    """Work that says that it has begun, and waits to be let go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.go.wait(60)


@pytest.fixture
def pools() -> Iterator[Callable[..., FairPool]]:
    made: list[FairPool] = []

    def make(threads: int = 1, **limits: int) -> FairPool:
        made.append(FairPool("test", threads, **limits))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def test_analysts_take_turns_whoever_sent_more(pools: Callable[..., FairPool]) -> None:
    pool, gate, order = pools(), Gate(), list[str]()
    first = pool.submit("ann", gate)
    assert gate.begun.wait(60)
    names = ("ann", "ann", "ann", "bob", "eve", "bob")
    waiting = [pool.submit(name, partial(order.append, name)) for name in names]
    gate.go.set()
    for each in (first, *waiting):
        each.result(60)
    assert order == ["ann", "bob", "eve", "ann", "bob", "ann"]


def test_one_analyst_has_one_thread_at_a_time(pools: Callable[..., FairPool]) -> None:
    pool, hers, second, his = pools(3), Gate(), Gate(), Gate()
    pool.submit("ann", hers)
    later = pool.submit("ann", second)
    other = pool.submit("bob", his)
    assert hers.begun.wait(60)
    assert his.begun.wait(60)
    assert not second.begun.is_set()
    assert (pool.running_count, pool.waiting_count) == (2, 1)
    hers.go.set()
    assert second.begun.wait(60)
    for gate in (second, his):
        gate.go.set()
    later.result(60)
    other.result(60)
    assert (pool.running_count, pool.waiting_count) == (0, 0)


def test_more_than_may_wait_is_refused(pools: Callable[..., FairPool]) -> None:
    pool, gate = pools(waiting=3, waiting_each=2), Gate()
    pool.submit("ann", gate)
    assert gate.begun.wait(60)
    waiting = [pool.submit("ann", int) for _ in range(2)]
    with pytest.raises(QueueFull, match="2 statements of yours"):
        pool.submit("ann", int)
    waiting.append(pool.submit("bob", int))
    with pytest.raises(QueueFull, match="of all analysts"):
        pool.submit("eve", int)
    assert waiting[0].cancel()
    waiting.append(pool.submit("eve", int))
    gate.go.set()
    assert [each.result(60) for each in waiting[1:]] == [0, 0, 0]


def test_what_can_begin_at_once_does_not_wait(pools: Callable[..., FairPool]) -> None:
    pool, gate = pools(2, waiting=1, waiting_each=1), Gate()
    pool.submit("ann", gate)
    assert gate.begun.wait(60)
    pool.submit("ann", int)  # it waits, since she has a thread
    assert pool.submit("bob", int).result(60) == 0
    gate.go.set()


def test_what_waits_can_be_cancelled_and_never_runs(pools: Callable[..., FairPool]) -> None:
    pool, gate, ran = pools(), Gate(), list[int]()
    pool.submit("ann", gate)
    assert gate.begun.wait(60)
    waiting = pool.submit("bob", lambda: ran.append(1))
    assert waiting.cancel()
    assert pool.waiting_count == 0
    gate.go.set()
    pool.submit("bob", lambda: ran.append(2)).result(60)
    assert ran == [2]
    with pytest.raises(CancelledError):
        waiting.result()


def test_an_error_is_the_futures_and_the_thread_goes_on(pools: Callable[..., FairPool]) -> None:
    pool = pools()
    with pytest.raises(ZeroDivisionError):
        pool.submit("ann", lambda: 1 // 0).result(60)
    assert pool.submit("ann", int).result(60) == 0


def test_a_closed_pool_finishes_what_waits_and_takes_nothing(pools: Callable[..., FairPool]) -> None:
    pool, gate = pools(), Gate()
    pool.submit("ann", gate)
    waiting = pool.submit("ann", int)
    assert not pool.close(within=0)
    with pytest.raises(ShuttingDown):
        pool.submit("bob", int)
    gate.go.set()
    assert waiting.result(60) == 0
