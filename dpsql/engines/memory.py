"""How much memory this process may take: the machine's, or that of its control group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def available(root: Path = _ROOT, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Return the bytes of the machine's memory, or the least limit of the control groups of this process."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(root, membership)])


def _limits(root: Path, membership: Path) -> Iterator[int]:
    """Yield the limits of the process's group, and of those around it."""
    text = ""
    with suppress(OSError):
        text = membership.read_text()
    for line in text.splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        top = root if controllers == "" else root / "memory"
        file = "memory.max" if controllers == "" else "memory.limit_in_bytes"
        folder = top / name.lstrip("/")
        for each in (folder, *folder.parents):
            with suppress(OSError, ValueError):
                yield int((each / file).read_text())
            if each == top:
                break
