"""Shows on a terminal that long work goes on: what it does and for how long; on a pipe it writes nothing.

To an analyst it tells the time alone. How many rows or bytes were read, and what part of all, may be private:
only the owner's commands give them.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TextIO

from dpsql.render.cells import escape_controls

_DELAY = 1.0
"""Seconds before work counts as long."""
_TICK = 0.2
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Progress:
    """A line on a terminal that is written again while work goes on, and removed at its end."""

    def __init__(self, words: str, stream: TextIO, delay: float = _DELAY) -> None:
        self._words, self._stream, self._delay = words, stream, delay
        self._first = words
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._drawn = 0

    def show(self, words: str | None, done: int | None = None, total: int | None = None) -> None:
        """Say what is done now; None: what was said first. `done` and `total` are bytes, for the owner."""
        part = "" if total is None else size(total) if done is None else f"{size(done)} of {size(total)}"
        with self._lock:
            self._words = (words or self._first) + (f", {part}" if part else "")

    def line(self) -> str:
        """Return the line that is drawn now: the work and its seconds."""
        seconds = int(time.monotonic() - self._start)
        clock = f"{seconds} s" if seconds < 120 else f"{seconds // 60}:{seconds % 60:02} min"
        return f"dpsql: {escape_controls(self._words)}, {clock}"

    def run(self) -> None:
        """Draw until the work has ended; the body of a thread."""
        pause = self._delay
        while not self._ended.wait(pause):
            with self._lock:
                if not self._ended.is_set():
                    self._draw(self.line())
            pause = _TICK

    def end(self) -> None:
        """Remove the line; nothing is drawn any more."""
        self._ended.set()
        with self._lock:
            self._remove()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Draw nothing in a block, in which somebody is asked."""
        with self._lock:
            self._remove()
            yield

    def _remove(self) -> None:
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def _draw(self, text: str) -> None:
        text = text[: max(1, shutil.get_terminal_size().columns - 1)]
        self._write("\r" + text.ljust(self._drawn))
        self._drawn = max(self._drawn, len(text))

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone, or cannot show a character
            self._ended.set()


_active: list[Progress] = []


@contextmanager
def progress(words: str) -> Iterator[None]:
    """Show on a terminal, if the block takes longer than a second, what is done."""
    if not sys.stderr.isatty():
        yield
        return
    shown = Progress(words, sys.stderr)
    thread = threading.Thread(target=shown.run, daemon=True)
    _active.append(shown)
    thread.start()
    try:
        yield
    finally:
        _active.remove(shown)
        shown.end()


def doing(words: str | None, done: int | None = None, total: int | None = None) -> None:
    """Say what the work does now, if it is shown; see `Progress.show`."""
    if _active:
        _active[-1].show(words, done, total)


@contextmanager
def paused() -> Iterator[None]:
    """Show nothing in a block, in which somebody is asked."""
    with _active[-1].paused() if _active else nullcontext():
        yield


def size(number: int) -> str:
    """Write a number of bytes.

    >>> size(999), size(1_200_000), size(3 * 10**12)
    ('999 B', '1.2 MB', '3.0 TB')
    """
    amount, unit = float(number), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{number} B"
