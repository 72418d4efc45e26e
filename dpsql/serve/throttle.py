"""Delays after failed logins by name and network, which slow down guessing and lock nobody out."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

FREE = 5
"""Failures in a row that cost no delay."""
WINDOW = 60.0
"""Seconds without a failure after which failures are forgotten."""
LONGEST = 30.0
"""The longest delay, in seconds."""
_ENTRIES = 100_000
_NAME = 64
"""Characters of a name that count: more than any user's name has, and few enough to be kept."""


class Throttle:
    """Failed logins of the last minute. Not for several threads: the event loop's alone.

    A name is delayed only where its failures come from: its user, elsewhere, logs in at once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def delay(self, name: str, address: str) -> float:
        """Return the seconds to wait before a login is answered, whether its proof is right or wrong.

        The wait comes before the proof is checked, else an early answer would tell that it was right.
        """
        count = self._count(_key(name, address))
        return 0.0 if count < FREE else min(LONGEST, 2.0 ** (count - FREE))

    def failed(self, name: str, address: str) -> None:
        """Count a failure."""
        key = _key(name, address)
        count = self._count(key)
        self._failures[key] = (count + 1, self._clock())
        self._failures.move_to_end(key)
        self._forget()

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures of a name from there."""
        self._failures.pop(_key(name, address), None)

    def __len__(self) -> int:
        return len(self._failures)

    def _count(self, key: tuple[str, str]) -> int:
        count, last = self._failures.get(key, (0, 0.0))
        return count if self._clock() - last < WINDOW else 0

    def _forget(self) -> None:
        """Drop what is too old, and the oldest of too many."""
        while self._failures:
            key, (_, last) = next(iter(self._failures.items()))
            if self._clock() - last < WINDOW and len(self._failures) <= _ENTRIES:
                return
            del self._failures[key]


def _key(name: str, address: str) -> tuple[str, str]:
    return name[:_NAME], network(address)


def network(address: str) -> str:
    """Return the network that an address counts for: an IPv6 /64, else the address itself.

    >>> network("2001:db8:1:2:3::4"), network("::ffff:192.0.2.7"), network("192.0.2.7"), network("")
    ('2001:db8:1:2::/64', '192.0.2.7', '192.0.2.7', '')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address  # a Unix socket has none
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
