"""What a test sees of the server from outside: its log, and what runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.serve.clients.shop import Shop


def tls_of(shop: Shop, number: object) -> bool:
    """Tell from the server's log whether a connection is encrypted."""
    shop.process.wait_for("connected")
    with shop.process.news:
        shop.process.news.wait_for(lambda: bool(_connected(shop, number)), timeout=60)
    return bool(_connected(shop, number)[0]["tls"])


def _connected(shop: Shop, number: object) -> list[dict[str, object]]:
    return [line for line in shop.process.log if line["event"] == "connected" and line["number"] == number]


@contextmanager
def when_running(shop: Shop, act: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread, once a statement has been charged: it runs from then on."""
    before = shop.spent()
    failed: list[Exception] = []
    ended = threading.Event()

    def wait() -> None:
        try:
            while shop.spent() == before:
                if ended.wait(0.05):
                    return
            act()
        except Exception as error:  # noqa: BLE001  raised below, in the test's thread
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)
    if failed:
        raise failed[0]
