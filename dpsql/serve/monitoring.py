"""What the server tells its owner: a log, counts as Prometheus reads them, `/health` and `/ready`.

Log: one JSON object a line on standard error, of a closed list of fields. No field tells a statement's text,
a row, a count, how long a private statement ran, or what an engine said. A thread of its own writes the
lines, so that nobody waits for a reader of the log who does not read.

Counts: none tells how long a private statement ran.

Pages: a small HTTP server has those for the owner's tools, and nothing else.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from http import HTTPStatus
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.kernel.loss import Charge

FIELDS = {
    *("user", "analyst", "number", "address", "protocol", "tls", "reason", "known", "class"),  # connections
    *("statement", "kind", "price", "outcome", "waited", "shape"),  # statements
    *("text", "listen", "certificate", "sslrootcert", "fingerprint", "version", "database", "users", "count"),
}
"""The fields that a line may have, behind `time` and `event`. Others are left out."""
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
        self._lines = _Lines(_find_writer(sys.stderr if stream is None else stream), self._dropped_line)

    def __call__(self, event: str, fields: Mapping[str, object] | None = None) -> None:
        """Write one event of the server as a line of the log."""
        self._lines.put(self._line(event, fields or {}))

    def flush(self, seconds: float = _LAST) -> bool:
        """Wait until all lines are written, for so many seconds at most; return whether they are."""
        return self._lines.wait(seconds)

    def _dropped_line(self, count: int) -> str:
        return self._line("dropped", {"count": count, "text": "lines that nobody read in time"})

    def _line(self, event: str, fields: Mapping[str, object]) -> str:
        line: dict[str, object] = {"time": self._now().isoformat(timespec="milliseconds"), "event": event}
        for name, value in fields.items():
            if value is not None and name in FIELDS and (name != "user" or self.is_user(str(value))):
                line[name] = _to_json_value(value)
        return json.dumps(line, ensure_ascii=True) + "\n"

    def hash_text(self, statement: str) -> str:
        """Return the hash that stands for a statement's text."""
        text = statement.encode(errors="surrogatepass")
        return hmac.digest(self.secret, b"log " + text, "sha256").hex()[:32]

    def warnings(self, texts: Iterable[str]) -> None:
        """Write the owner's warnings, one a line."""
        for text in texts:
            self("warning", {"text": text})


class _Lines:
    """Lines of the log that wait for a thread to write them; `dropped` writes how many found no room.

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
        """Wait until no line waits, for a given number of seconds at most; return whether none does."""
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
            time.sleep(0.005)  # lines that come meanwhile are written together: each time wakes the thread up


def _find_writer(stream: TextIO) -> Callable[[str], None]:
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


def _to_json_value(value: object) -> object:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return round(value, 3)
    return str(value)[:_LONGEST]


BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the classes of times, in seconds."""
_REASONS = {
    "wrong password": "password",
    "channel binding: the client sees another certificate": "binding",
    "downgrade: the client supports channel binding and was not offered it": "downgrade",
    "timeout": "timeout",
    "08P01": "protocol",
    "28000": "authorization",
    "28P01": "password",
    "3D000": "database",
    "53300": "full",
    "57P03": "closing",
}
"""Reasons of failed logins, and their labels; others count as `other`, so that labels are few."""

REFUSED = "handshake refused"
"""The event of a client that is refused because too many log in: counted, and not logged one by one."""

Sample = tuple[str, Mapping[str, str], float]
"""A value with the ending of its name and its labels."""


class LoginCounts:
    """Counts logins, and failed ones by reason; used by the event loop alone, read from any thread."""

    def __init__(self) -> None:
        self.connected = 0
        self.failed: Counter[str] = Counter()
        self.started = time.time()
        self._lock = threading.Lock()

    def count_event(self, name: str, fields: Mapping[str, object]) -> None:
        """Count an event of the log, if it is about a login."""
        with self._lock:
            if name == "connected":
                self.connected += 1
            elif name == "handshake failed":
                reasons = (str(fields.get("reason")), str(fields.get("outcome")))
                self.failed[next((_REASONS[each] for each in reasons if each in _REASONS), "other")] += 1
            elif name == REFUSED:
                self.failed["full"] += 1

    def read(self) -> tuple[int, dict[str, int]]:
        """Return how many clients have logged in, and how many logins have failed, by reason."""
        with self._lock:
            return self.connected, dict(self.failed)


@dataclass(frozen=True, slots=True)
class StatementRecord:
    """One statement that has ended, for the log. Its text may only be hashed."""

    analyst: str
    user: str
    number: int
    protocol: str
    text: str
    kind: str
    """`private`, `stored`, `public`, `probe`, `catalogue`, `command`, or `data` if it was refused."""
    price: Charge | None
    outcome: str
    """The SQLSTATE: `00000` for an answer."""
    waited: float
    """Seconds for which it waited for its turn."""
    shape: str | None = None
    """The shape of a question that the catalogue did not know."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of statements at one moment."""

    waiting: int
    """Private statements that wait."""
    running: int
    """Private statements that run."""
    statements: Mapping[tuple[str, str], int]
    """Statements that have ended, by kind and SQLSTATE."""
    free_counts: tuple[int, ...]
    """Statements that cost nothing, by class of their times; the last class has no bound."""
    free_seconds: float
    """The sum of their times."""

    @property
    def stored_hits(self) -> int:
        """How many answers came from stored releases."""
        return self.statements.get(("stored", "00000"), 0)


class Counters:
    """Counts statements; any thread may."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statements: Counter[tuple[str, str]] = Counter()
        self._free = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def count(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a statement; its time only if it read nothing private."""
        with self._lock:
            self._statements[kind, outcome] += 1
            if kind != "private":
                self._free[bisect_left(BOUNDS, seconds)] += 1
                self._seconds += seconds

    def figures(self, *, waiting: int, running: int) -> Figures:
        """Return the numbers of statements until now."""
        with self._lock:
            return Figures(waiting, running, dict(self._statements), tuple(self._free), self._seconds)


def render_metrics(
    logins: LoginCounts,
    figures: Figures,
    *,
    connections: int,
    handshakes: int,
    remaining: Mapping[str | None, Fraction],
) -> str:
    """Return the counts as Prometheus reads them; `remaining` is the epsilon left, of the policy by None."""
    connected, failed = logins.read()
    lines: list[str] = []

    def add(name: str, kind: str, meaning: str, samples: Iterable[Sample], of: str = "dpsql") -> None:
        lines.extend(_metric_lines(f"{of}_{name}", kind, meaning, samples))

    add("connections", "gauge", "Clients that are logged in.", [("", {}, connections)])
    add("handshakes", "gauge", "Clients that are logging in.", [("", {}, handshakes)])
    add("logins_total", "counter", "Clients that have logged in.", [("", {}, connected)])
    by_reason = [("", {"reason": reason}, count) for reason, count in sorted(failed.items())]
    add("failed_logins_total", "counter", "Logins that failed, by reason.", by_reason)
    ended = sorted(figures.statements.items())
    by_outcome = [("", {"kind": kind, "outcome": outcome}, count) for (kind, outcome), count in ended]
    add("statements_total", "counter", "Statements that have ended, by kind and SQLSTATE.", by_outcome)
    add("statements_waiting", "gauge", "Private statements that wait.", [("", {}, figures.waiting)])
    add("statements_running", "gauge", "Private statements that run.", [("", {}, figures.running)])
    add("stored_answers_total", "counter", "Answers from stored releases.", [("", {}, figures.stored_hits)])
    times = _histogram_samples(figures)
    add("free_statement_seconds", "histogram", "Times of statements that cost nothing.", times)
    left: list[Sample] = [
        ("", {} if analyst is None else {"analyst": analyst}, float(epsilon))
        for analyst, epsilon in remaining.items()
    ]
    add("epsilon_remaining", "gauge", "What is left of the budget's epsilon.", left)
    add("start_time_seconds", "gauge", "When it started.", [("", {}, logins.started)], "process")
    if (memory := _read_memory()) is not None:
        add("resident_memory_bytes", "gauge", "Memory in use.", [("", {}, memory)], "process")
    return "\n".join(lines) + "\n"


def _metric_lines(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for ending, labels, value in samples:
        shown = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels.items())
        yield f"{name}{ending}{f'{{{shown}}}' if shown else ''} {_format_number(value)}"


def _histogram_samples(figures: Figures) -> Iterator[Sample]:
    counts = list(accumulate(figures.free_counts))
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
        yield "_bucket", {"le": bound}, count
    yield "_sum", {}, figures.free_seconds
    yield "_count", {}, counts[-1]


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _format_number(value: float) -> str:
    return str(value) if isinstance(value, int) else format(value, ".10g")


def _read_memory() -> int | None:
    """Return the bytes of memory that the process holds; None where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None


Page = Callable[[], Awaitable[tuple[int, str]]]
"""Makes the page of a path: its status and its text."""

CONNECTIONS = 3
"""How many requests are read at the same time."""
_LONGEST_REQUEST = 8192
_SECONDS = 10.0


class Health:
    """Answers one HTTP request on each connection, and closes it."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._open = 0

    def protocol(self) -> asyncio.StreamReaderProtocol:
        """Return the protocol of one connection."""
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_LONGEST_REQUEST), self.serve)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the request of one connection and close it."""
        if self._open >= CONNECTIONS:
            writer.transport.abort()
            return
        self._open += 1
        try:
            async with asyncio.timeout(_SECONDS):
                writer.write(_make_response(*await self._answer(reader)))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._open -= 1

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, str, bool]:
        request = await _read_request(reader)
        if request is None:
            return 400, "", False
        method, path = request
        head = method == "HEAD"
        if method not in ("GET", "HEAD"):
            return 405, "", head
        page = self._pages.get(path)
        if page is None:
            return 404, "", head
        status, text = await page()
        return status, text, head


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str] | None:
    """Return the method and the path of a request; None if it is malformed. Its headers mean nothing here."""
    size = 0
    first = b""
    with suppress(ValueError, asyncio.LimitOverrunError):
        while True:
            line = await reader.readuntil(b"\n")
            first = first or line
            size += len(line)
            if size > _LONGEST_REQUEST:
                return None
            if line in (b"\r\n", b"\n"):
                break
        method, target, version = first.decode("ascii").split()
        if version in ("HTTP/1.0", "HTTP/1.1"):
            return method, target.partition("?")[0]
    return None


def _make_response(status: int, text: str, head: bool) -> bytes:
    phrase = HTTPStatus(status).phrase
    body = (text or f"{phrase}\n").encode()
    lines = (
        f"HTTP/1.1 {status} {phrase}",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + (b"" if head else body)
