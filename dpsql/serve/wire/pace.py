"""How fast an analyst may send: bytes of messages a second, over all connections of that analyst."""

from __future__ import annotations

import time
from collections.abc import Callable

RATE = 4 << 20
"""Bytes a second that are read of an analyst in the long run."""
BURST = 4 << 20
"""Bytes that an analyst who sent nothing for a while may send at once."""
_MESSAGE = 64
"""Bytes that each message counts beside its own."""


class Pace:
    """Tells how long to wait before more is read of an analyst, so that others are read meanwhile.

    Used by the thread of the event loop alone.
    """

    def __init__(
        self, rate: int = RATE, burst: int = BURST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._clock = rate, clock
        self._ahead = burst / rate
        self._paid: dict[str, float] = {}
        """The time by which what each analyst has sent would have come at the rate."""

    def delay(self, analyst: str, size: int) -> float:
        """Count a message of so many bytes; return the seconds to wait, 0 within the burst.

        >>> pace = Pace(100, 200, lambda: 7.0)
        >>> pace.delay("ann", 36), pace.delay("ann", 136), pace.delay("bob", 100)
        (0.0, 1.0, 0.0)
        """
        now = self._clock()
        begun = max(self._paid.get(analyst, 0.0), now - self._ahead)
        self._paid[analyst] = paid = begun + (size + _MESSAGE) / self._rate
        return max(0.0, paid - now)
