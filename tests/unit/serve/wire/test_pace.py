"""An analyst who sends much is read slowly, so that others are read meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from dpsql.serve.wire.channel import Channel
from dpsql.serve.wire.startup import Pace
from tests.serve import frontend as f
from tests.serve.bench import Bench, run


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_is_sent_above_the_rate_is_waited_for() -> None:
    clock = Clock()
    pace = Pace(1000, 2000, clock)
    assert pace.delay("ann", 1936) == 0
    assert pace.delay("ann", 436) == pytest.approx(0.5)
    assert pace.delay("bob", 1936) == 0  # another analyst's burst is his own
    clock.now += 1
    assert pace.delay("ann", 436) == 0  # a second has paid for both
    clock.now += 1000
    assert pace.delay("ann", 1936) == 0
    assert pace.delay("ann", 936) == pytest.approx(1)  # a long silence gives no more than the burst


def test_small_messages_count_too() -> None:
    clock = Clock()
    pace = Pace(1000, 1000, clock)
    waits = [pace.delay("ann", 0) for _ in range(20)]
    assert waits[:15] == [0] * 15
    assert waits[-1] == pytest.approx(0.28)


def test_the_connections_of_an_analyst_are_slowed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    true = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.extend([seconds] if seconds else [])
        await true(0)

    async def test(bench: Bench) -> None:
        alice, ali, bob = [await bench.log_in(user) for user in ("alice", "ali", "bob")]
        bench.context.pace = Pace(1000, 1000, Clock())
        monkeypatch.setattr("dpsql.serve.wire.asyncio.sleep", sleep)
        for client in (alice, ali, bob):
            await client.ask(f.query(f"SELECT '{'x' * 600}'"))
        monkeypatch.undo()

    run(test)
    assert len(slept) == 1
    assert slept[0] == pytest.approx(0.35, abs=0.05)


def test_a_connection_is_read_in_small_pieces() -> None:
    async def serve(channel: Channel) -> None:
        del channel

    async def main() -> int:
        return len(Channel(serve).get_buffer(-1))

    assert asyncio.run(main()) == 1 << 14
