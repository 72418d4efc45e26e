"""No cycle holds a result: with the cyclic garbage collector off, each is freed when its reader lets go."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.errors import ResultTooLarge
from dpsql.serve.client import Client
from dpsql.serve.service import Service
from dpsql.serve.shared import FairPool
from tests.serve import frontend as f
from tests.serve.bench import Bench, Real
from tests.serve.bench import run as run_bench
from tests.served import client_of, run, serving
from tests.unit.serve.test_service import COUNT, POLICY

ROWS = "SELECT i, i * 2 AS j, 'text number ' || i AS t FROM range({}) AS r(i)"


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    duckdb.sql(f"COPY (SELECT i AS user_id FROM range(500) t(i)) TO '{tmp_path}/visits.parquet'")
    (tmp_path / "pages.csv").write_text("page\na\nb\n")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    with serving(tmp_path / "dpsql.toml", max_rows=100_000) as made:
        yield made


class Large:
    """A result that can be looked for."""


class LargeError(Exception):
    """An error that can be looked for."""


def never() -> Any:
    raise LargeError


@pytest.mark.parametrize("fails", [False, True])
def test_a_pool_holds_no_result_and_no_error(fails: bool) -> None:
    pool = FairPool("test", 1)
    try:
        for _ in range(3):
            future = pool.submit("ann", never if fails else Large)
            found: Any = weakref.ref(future.exception(60) if fails else future.result(60))
            future = pool.submit("ann", int)  # the thread has let go of the work before
            future.result(60)
            del future
            assert found() is None
    finally:
        pool.close()


async def left(kept: list[weakref.ref[Any]]) -> int:
    """Return how many are still there once the thread and the event loop let go of what they did last."""
    for _ in range(500):
        if all(each() is None for each in kept):
            break
        await asyncio.sleep(0.01)
    return sum(each() is not None for each in kept)


def answers(service: Service, text: str, times: int) -> int:
    """Ask again and again on one connection; return how many tables are still there."""
    kept: list[weakref.ref[Any]] = []

    async def main() -> int:
        client: Client = client_of(service)
        for _ in range(times):
            answer = await client.answer(text)
            kept.append(weakref.ref(answer.table))
            del answer
        return await left(kept)

    return run(main())


def test_an_answer_is_freed_when_it_was_read(service: Service) -> None:
    assert answers(service, ROWS.format(90_000), 4) == 0


def test_a_private_answer_is_freed_when_it_was_read(service: Service) -> None:
    assert answers(service, COUNT, 1) == 0


def test_an_answer_that_is_too_large_is_freed(service: Service) -> None:
    async def main() -> None:
        client = client_of(service)
        kept: list[weakref.ref[BaseException]] = []
        for _ in range(3):
            try:
                await client.answer(ROWS.format(100_001))
            except ResultTooLarge as error:
                kept.append(weakref.ref(error))  # its frames hold the rows
        assert await left(kept) == 0

    run(main())


def over_the_wire(service: Service, text: str, times: int) -> list[float]:
    """Ask again and again on one connection, with rows and by COPY; return the MiB of memory behind each."""
    bench, sizes = Real(), list[float]()
    bench.real = service

    async def main(_: Bench) -> None:
        alice = await bench.log_in()
        for number in range(times):
            await alice.send(f.query(text if number % 2 else f"COPY ({text}) TO STDOUT"))
            last = b""
            while not last.endswith(b"Z\0\0\0\5I"):  # its messages are not taken apart, for that takes long
                last = (last + await alice.reader.read(1 << 20))[-6:]
            sizes.append(memory())

    run_bench(main, bench, seconds=3_600)
    return sizes


def test_what_was_sent_is_freed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[weakref.ref[Any]] = []
    true = Client.answer

    async def answer(*given: Any, **options: Any) -> Any:
        found = await true(*given, **options)
        kept.append(weakref.ref(found.table))
        return found

    monkeypatch.setattr(Client, "answer", answer)
    over_the_wire(service, ROWS.format(2_000), 6)
    assert len(kept) == 6
    assert run(left(kept)) == 0


def memory() -> float:
    """Return the MiB that the process has in memory."""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


@pytest.mark.slow
def test_the_memory_is_flat_over_a_thousand_answers(service: Service) -> None:
    """One connection reads 1,000 answers of 90,000 rows."""
    sizes = over_the_wire(service, ROWS.format(90_000), 1_000)
    print("MiB behind every 100th answer:", [round(size) for size in sizes[::100]], round(sizes[-1]))
    assert sizes[-1] - sizes[50] < 32, sizes[::100]
