"""Run an engine's statement in a thread of its own, so that Ctrl-C and `cancel` stop it at once."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

__all__ = ["run"]


def run(
    work: Callable[[], pa.Table], cancel: Callable[[], None], timeout: float | None = None
) -> pa.Table | None:
    """Return what the work returns, None if it failed: no engine error may be seen, whatever it is.

    After `timeout` seconds the work is cancelled, and thereby fails.
    """
    outcome: list[pa.Table] = []
    done = threading.Event()

    def body() -> None:
        try:
            with suppress(Exception):
                outcome.append(work())
        finally:
            done.set()

    worker = threading.Thread(target=body, daemon=True)
    waited = 0.0
    try:
        worker.start()
        # Not join(): before Python 3.13 a Ctrl-C in it marks the running thread as ended.
        while not done.wait(0.05):
            waited += 0.05
            if timeout is not None and waited > timeout:
                cancel()
    except BaseException:
        # Again and again: an interrupt that comes before the statement starts is lost.
        while worker.ident is not None and not done.wait(0.05):
            cancel()
        raise
    return outcome[0] if outcome else None
