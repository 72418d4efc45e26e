"""Tell systemd about the server's state (`Type=notify`)."""

from __future__ import annotations

import os
import socket
import time


def notify(*lines: str) -> bool:
    """Send lines such as `READY=1` to the service manager; False if there is none."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto("\n".join(lines).encode(), address)
    except OSError:
        return False
    return True


def reloading() -> bool:
    """Say that a reload has begun; `READY=1` ends it."""
    return notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
