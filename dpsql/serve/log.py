"""The server's log: one JSON object a line on standard error, of a closed list of fields.

No field tells a statement's text, a row, a count, how long a private statement ran, or what an engine said.
A thread of its own writes the lines, so that nobody waits for a reader of the log who does not read.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

FIELDS = (
    *("user", "analyst", "number", "address", "protocol", "tls", "reason", "known", "class"),  # connections
    *("statement", "kind", "price", "outcome", "waited", "shape"),  # statements
    *("text", "listen", "certificate", "sslrootcert", "fingerprint", "version", "database", "users", "count"),
)
"""The fields that a line may have, in their order, behind `time` and `event`. Others are left out."""
_LONGEST = 500
MOST_WAITING = 10_000
"""Lines that may wait to be written; others are dropped, and the next line that is written counts them."""
_LAST = 2.0
"""Seconds for the last lines when the process ends."""


def _now() -> datetime:
    return datetime.now(UTC)


class Log:
    """Writes events, from any thread.

    `secret` makes hashes of statements: they tell which lines are about the same text, and nothing about the
    text to a reader without the users file. `is_user` says which names are those of users: what else clients
    give as a name is left out, since people type passwords there.
    """

    def __init__(
        self,
        secret: bytes,
        is_user: Callable[[str], bool],
        stream: TextIO | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self.secret = secret
        self.is_user = is_user
        self._now = now
        self._lines = _Lines(_sink(sys.stderr if stream is None else stream), self._dropped)

    def __call__(self, event: str, fields: Mapping[str, object] | None = None) -> None:
        """Write an event."""
        self._lines.put(self._line(event, fields or {}))

    def flush(self, seconds: float = _LAST) -> bool:
        """Wait until all lines are written, so long at most; return whether they are."""
        return self._lines.wait(seconds)

    def _dropped(self, count: int) -> str:
        return self._line("dropped", {"count": count, "text": "lines that nobody read in time"})

    def _line(self, event: str, fields: Mapping[str, object]) -> str:
        given = dict(fields)
        if "user" in given and not self.is_user(str(given["user"])):
            del given["user"]
        line: dict[str, object] = {"time": self._now().isoformat(timespec="milliseconds"), "event": event}
        line |= {name: _plain(given[name]) for name in FIELDS if given.get(name) is not None}
        return json.dumps(line, ensure_ascii=True) + "\n"

    def hash_text(self, statement: str) -> str:
        """Return the hash that stands for a statement's text."""
        text = statement.encode(errors="surrogatepass")
        return hmac.new(self.secret, b"log " + text, hashlib.sha256).hexdigest()[:32]

    def warnings(self, texts: Iterable[str]) -> None:
        """Write the owner's warnings, one a line."""
        for text in texts:
            self("warning", {"text": text})


class _Lines:
    """Lines that wait for a thread which writes them; `dropped` makes the line that counts the others.

    The thread begins with the first line and ends with the process: it may wait for a reader for ever.
    """

    def __init__(self, write: Callable[[str], None], dropped: Callable[[int], str]) -> None:
        self._write, self._say_dropped = write, dropped
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._dropped = 0
        self._thread: threading.Thread | None = None
        self._writing = False

    def put(self, line: str) -> None:
        """Take a line, or count it if too many wait."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._dropped += 1
                return
            self._waiting.append(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until no line waits, so long at most; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._waiting or self._writing), seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting)
                lines, self._dropped, count = [*self._waiting], 0, self._dropped
                self._waiting.clear()
                self._writing = True
            if count:
                lines.append(self._say_dropped(count))
            with suppress(OSError, ValueError):  # nobody reads the log; what is served does not depend on it
                self._write("".join(lines))


def _sink(stream: TextIO) -> Callable[[str], None]:
    """Return what writes to a stream: to its file where it has one.

    A thread that waits in the stream itself would hold its lock, for which the interpreter waits as it ends.
    """
    try:
        file = stream.fileno()
    except (OSError, ValueError):

        def write_text(text: str) -> None:
            stream.write(text)
            stream.flush()

        return write_text

    def write(text: str) -> None:
        left = memoryview(text.encode())
        while left:
            left = left[os.write(file, left) :]

    return write


def _plain(value: object) -> object:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return round(value, 3)
    return str(value)[:_LONGEST]
