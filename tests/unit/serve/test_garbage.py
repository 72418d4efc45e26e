"""The server's garbage collector searches what is new in short steps, and all of it when nothing runs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from dpsql.serve import server


@pytest.fixture
def collector() -> Iterator[None]:
    """Leave the collector as the tests have it."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collector")
def test_what_is_there_when_the_server_is_ready_is_never_searched_again() -> None:
    kept = [[place] for place in range(1_000)]
    server.shorten_collections()
    known = {id(each) for each in gc.get_objects()}
    assert not known & {id(each) for each in kept}
    assert gc.get_threshold() == server.THRESHOLDS


@pytest.mark.parametrize(
    ("busy", "waited"), [(0, [600.0]), (2, [600.0, 1, 1]), (9_999, [600.0] + [1] * 3_000)]
)
def test_all_is_searched_when_nothing_runs_and_within_the_hour_in_any_case(
    monkeypatch: pytest.MonkeyPatch, busy: int, waited: list[float]
) -> None:
    slept: list[float] = []
    left = iter([False] * busy)
    true = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await true(0)

    def collect() -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(gc, "collect", collect)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(server.collect_when_idle(lambda: next(left, True)))
    assert slept == waited
