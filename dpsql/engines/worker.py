"""Run an engine's statement in a thread of its own, so that Ctrl-C and `cancel` stop it at once."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run"]

_TICK = 0.05
_PATIENCE = 20
"""Ticks for which a second Ctrl-C does not cut the cancelling short: what still runs holds the database."""

_Made = TypeVar("_Made")


def run(
    work: Callable[[], _Made],
    cancel: Callable[[], None],
    timeout: float | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> _Made | None:
    """Return what the work returns, None if it failed: no engine error may be seen, whatever it is.

    After `timeout` seconds, or once `cancelled` says so, the work is cancelled, again and again until it
    ends: what comes before the engine has begun is lost.
    """
    outcome: list[_Made] = []
    done = threading.Event()

    def body() -> None:
        try:
            with suppress(Exception):
                outcome.append(work())
        finally:
            done.set()

    worker = threading.Thread(target=body, daemon=True)
    ticks = 0
    try:
        worker.start()
        # Not join(): before Python 3.13 a Ctrl-C in it marks the running thread as ended.
        while not done.wait(_TICK):
            ticks += 1
            late = timeout is not None and ticks * _TICK > timeout
            if ticks % 4 == 0 and (late or cancelled()):
                cancel()
    except BaseException:
        # A thread whose start was cut short may still have to begin.
        if worker.ident is not None:
            _stop(done, cancel)
        raise
    return outcome[0] if outcome else None


def _stop(done: threading.Event, cancel: Callable[[], None]) -> None:
    """Cancel again and again until the work has ended."""
    ticks = 0
    while not done.is_set():
        try:
            cancel()
            done.wait(_TICK)
        except KeyboardInterrupt:
            if ticks > _PATIENCE:
                raise
        ticks += 1
