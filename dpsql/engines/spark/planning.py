"""Planning with a limit of time: Spark has none of its own, and does not hear a cancel while it plans."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress


class Planner:
    """Plans a few statements at once, each in a thread of its own, and waits for each a limited time.

    A thread whose time is over ends when Spark returns. Until then it counts among those that plan, so that
    statements which take long cannot take all of Spark's cores.
    """

    def __init__(self, seconds: float, threads: int = 4) -> None:
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(threads)

    def run(self, work: Callable[[], bool]) -> bool:
        """Return the result of the work; False if it fails, or if its time is over."""
        if not self._free.acquire(timeout=self._seconds):
            return False
        done, results = threading.Event(), [False]

        def body() -> None:
            with suppress(Exception):
                results.append(work())
            self._free.release()
            done.set()

        thread = threading.Thread(target=body, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are no more threads
            self._free.release()
            return False
        return done.wait(self._seconds) and results[-1]
