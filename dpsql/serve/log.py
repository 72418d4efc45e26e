"""The server's log: one JSON object a line on standard error, of a closed list of fields.

No field tells a statement's text, a row, a count, how long a private statement ran, or what an engine said.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TextIO

FIELDS = (
    *("user", "analyst", "number", "address", "protocol", "tls", "reason", "known", "class"),  # connections
    *("statement", "kind", "price", "outcome", "waited", "shape"),  # statements
    *("text", "listen", "certificate", "sslrootcert", "fingerprint", "version", "database", "users", "count"),
)
"""The fields that a line may have, in their order, behind `time` and `event`. Others are left out."""
_LONGEST = 500


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
        self._stream = sys.stderr if stream is None else stream
        self._now = now
        self._lock = threading.Lock()

    def __call__(self, event: str, fields: Mapping[str, object] | None = None) -> None:
        """Write an event."""
        given = dict(fields or {})
        if "user" in given and not self.is_user(str(given["user"])):
            del given["user"]
        line: dict[str, object] = {"time": self._now().isoformat(timespec="milliseconds"), "event": event}
        line |= {name: _plain(given[name]) for name in FIELDS if given.get(name) is not None}
        text = json.dumps(line, ensure_ascii=True) + "\n"
        with self._lock:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                return  # nobody reads the log; what is served does not depend on it

    def hash_text(self, statement: str) -> str:
        """Return the hash that stands for a statement's text."""
        text = statement.encode(errors="surrogatepass")
        return hmac.new(self.secret, b"log " + text, hashlib.sha256).hexdigest()[:32]

    def warnings(self, texts: Iterable[str]) -> None:
        """Write the owner's warnings, one a line."""
        for text in texts:
            self("warning", {"text": text})


def _plain(value: object) -> object:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return round(value, 3)
    return str(value)[:_LONGEST]
