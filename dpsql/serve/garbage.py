"""The garbage collector of the server: short searches while it serves, a whole one when it is idle.

A search keeps the interpreter, and so the event loop, for about a millisecond for every 1,000 objects. With
Python's thresholds one goes through all modules and all plans that are kept: for a tenth of a second or more.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

THRESHOLDS = (10_000, 5, 1_000_000)
"""New objects before a search of these, and such searches before one of what they left; never of all."""
EVERY = 600.0
"""Seconds between two searches of all that was made since the server was ready."""
LONGEST = 3_000
"""Seconds that such a search waits for a moment in which no statement runs."""


def begin() -> None:
    """Let searches leave out what is there now, which stays, and be short from now on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


async def collect_when_idle(is_idle: Callable[[], bool]) -> None:
    """Search all that was made since `begin`, every ten minutes or, if statements always run, every hour."""
    while True:
        await asyncio.sleep(EVERY)
        for _ in range(LONGEST):
            if is_idle():
                break
            await asyncio.sleep(1)
        gc.collect()
