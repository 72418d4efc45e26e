"""One connection to a server: login, statements one after the other, cancel requests.

The login is SCRAM-SHA-256, with channel binding where the connection has TLS.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from dpsql.errors import Error, OperationalError, ProgrammingError
from dpsql.lazy_dataclass import dataclass
from dpsql.login import CANCEL, PLAIN, PLUS, VERSION, MessageBody, message
from dpsql.login import hash_for_binding as binding_of
from dpsql.login.scram import ScramClient, ScramClientError
from dpsql.remote.outgoing_statement import error_of
from dpsql.remote.server_target import open_socket

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from dpsql.remote.outgoing_statement import SentText
    from dpsql.remote.server_target import Target


_BEFORE_LOGIN = 1 << 16
_LARGEST = 1 << 30
"""The most bytes of a message, before the server has proved itself and after."""
_CHUNK = 1 << 18
_LOST = "the server closed the connection"


def write_text(value: str) -> bytes:
    """Write a text, which ends with a NUL and so can hold none."""
    if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        raise ProgrammingError("a text has a NUL or an invalid Unicode character")
    return value.encode() + b"\0"


def write_startup(parameters: Mapping[str, str]) -> bytes:
    """Return the first message of a client to the server: protocol version, user and database."""
    pairs = (write_text(name) + write_text(value) for name, value in parameters.items() if value)
    return message(b"", struct.pack("!i", VERSION), *pairs, b"\0")


class Incoming:
    """Reads messages; the length of one is checked before its body is read."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._buffer = bytearray()
        self.trusted = False
        """Whether the server has proved itself: only then are long messages read."""

    def next(self) -> tuple[bytes, MessageBody]:
        """Return type and body of the next message; raises `OperationalError` when the connection ends."""
        kind, size = struct.unpack("!ci", self._take(5))
        if not 4 <= size <= (_LARGEST if self.trusted else _BEFORE_LOGIN):
            raise OperationalError("the server does not speak the protocol: a message has a wrong length")
        return kind, MessageBody(self._take(size - 4))

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            received = self._source.recv(_CHUNK)
            if not received:
                raise OperationalError(_LOST)
            self._buffer += received
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


@dataclass(slots=True)
class Reply:
    """What a server has answered to one text."""

    copied: bytearray | None = None
    """The data of a COPY; None if there was none."""
    columns: list[str] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)
    """Rows of a result in text form."""
    notices: list[str] = field(default_factory=list)
    error: Error | None = None


_PIECE = 1 << 16
"""Bytes of an upload in one message."""


class ServerWire:
    """A connection that is logged in; used by one thread at a time, but for `cancel` and `abort`."""

    def __init__(self, target: Target, password: str) -> None:
        """Connect and log in; raises `OperationalError`."""
        self.target = target
        self.lost = False
        """Whether the connection can no longer be used."""
        self.parameters: dict[str, str] = {}
        """What the server says of itself and of the session."""
        self._key = b""
        self._notices: list[str] = []
        self._socket = open_socket(target)
        try:
            self._incoming = Incoming(self._socket)
            self._login(password)
            self._socket.settimeout(None)
        except TimeoutError:
            self.abort()
            raise OperationalError(f"{target.label} does not answer") from None
        except OSError:
            self.abort()
            raise OperationalError(_LOST) from None
        except BaseException:
            self.abort()
            raise

    # -- login

    def _login(self, password: str) -> None:
        target = self.target
        options = " ".join(f"-c {name}={value}" for name, value in target.settings)
        parameters = {
            "user": target.user,
            "database": target.database,
            "client_encoding": "UTF8",
            "application_name": "dpsql",
            "options": options,
            "_pq_.dpsql_errors": "1",
        }
        self._socket.sendall(write_startup(parameters))
        self._authenticate(password)
        self._incoming.trusted = True
        while (received := self._next())[0] != b"Z":
            kind, body = received
            if kind == b"K":
                self._key = body.rest()
            elif kind != b"v":
                raise _protocol_error()

    def _authenticate(self, password: str) -> None:
        certificate = getattr(self._socket, "getpeercert", lambda **_: None)(binary_form=True)
        binding = None
        if certificate is not None:
            binding = binding_of(certificate)
            if not binding:
                raise OperationalError("the login cannot be bound to a certificate with this signature")
        scram = ScramClient(password, binding)
        offered = _read_texts(self._next_sasl(10))
        if scram.mechanism not in offered:
            raise OperationalError(
                "the server offers no login that is bound to its certificate, so nothing was sent to it"
                if PLAIN in offered and scram.mechanism == PLUS
                else "the server offers no login by SCRAM-SHA-256"
            )
        try:
            first = struct.pack("!i", len(scram.first)) + scram.first
            self._socket.sendall(message(b"p", write_text(scram.mechanism), first))
            self._socket.sendall(message(b"p", scram.final(self._next_sasl(11).rest())))
            scram.verify(self._next_sasl(12).rest())
        except ScramClientError as problem:
            raise OperationalError(f"login failed: {problem}") from None
        self._next_sasl(0)

    def _next_sasl(self, expected: int) -> MessageBody:
        """Return the next authentication message behind its kind, which must be the one that is expected."""
        kind, body = self._next()
        while kind == b"v":  # the server names parameters that it does not know
            kind, body = self._next()
        if kind != b"R":
            raise _protocol_error()
        if body.int32() != expected:
            # No weaker login is tried: a server that asks for the password itself would learn it.
            raise OperationalError("the server asks for another kind of login than SCRAM-SHA-256")
        return body

    def _next(self) -> tuple[bytes, MessageBody]:
        """Return the next message of the login; raises the error that the server reports."""
        while True:
            kind, body = self._incoming.next()
            if kind == b"E":
                raise error_of(_read_fields(body))
            if not self._note(kind, body):
                return kind, body

    # -- statements

    def ask(self, sent: SentText) -> Reply:
        """Send a text and return all that is answered to it; raises `OperationalError` when it breaks off."""
        query = message(b"Q", write_text(sent.text))
        try:
            self._socket.sendall(query)
            return self._reply(sent)
        except (OSError, ValueError, IndexError):
            self.abort()
            raise OperationalError(_LOST) from None
        except BaseException:
            self.abort()
            raise

    def _reply(self, sent: SentText) -> Reply:
        self._notices = []
        reply = Reply(notices=self._notices)
        while (received := self._incoming.next())[0] != b"Z":
            kind, body = received
            match kind:
                case b"d" if reply.copied is not None:
                    reply.copied += body.rest()
                case b"H":
                    reply.copied = bytearray()
                case b"G" if sent.rows:
                    self._send_rows(sent.rows)
                case b"T":
                    reply.columns, reply.rows = [_read_column(body) for _ in range(body.int16())], []
                case b"D":
                    values = (body.value() for _ in range(body.int16()))
                    reply.rows.append([v if v is None else v.decode("utf-8", "replace") for v in values])
                case b"E":
                    fields = _read_fields(body)
                    error = error_of(fields, sent)
                    if fields.get("V", fields.get("S")) in ("FATAL", "PANIC"):
                        raise error  # the server closes the connection behind it
                    reply.error = reply.error or error
                case b"C" | b"c" | b"I":
                    pass
                case _ if not self._note(kind, body):
                    raise _protocol_error()
        return reply

    def _send_rows(self, rows: bytes) -> None:
        """Send the rows of an upload in pieces, and say that these were all."""
        for start in range(0, len(rows), _PIECE):
            self._socket.sendall(message(b"d", rows[start : start + _PIECE]))
        self._socket.sendall(message(b"c"))

    def _note(self, kind: bytes, body: MessageBody) -> bool:
        """Read a notice, setting or notification, which may come at any time; return whether it was one."""
        if kind == b"N":
            fields = _read_fields(body)
            hint = f"\nHint: {fields['H']}" if "H" in fields else ""
            self._notices.append(fields.get("M", "") + hint)
        elif kind == b"S":
            name = body.text()
            self.parameters[name] = body.text()
        return kind in (b"N", b"S", b"A")

    # -- from any thread

    def cancel(self) -> None:
        """Ask the server to stop the running statement; returns when the server has taken the request."""
        if not self._key:
            return
        request: socket.socket = open_socket(self.target)
        with request, suppress(OSError):
            request.sendall(message(b"", struct.pack("!i", CANCEL), self._key))
            request.recv(1)  # the server closes the connection: that is its answer

    def abort(self) -> None:
        """Close the connection without a word, also while another thread waits for an answer."""
        self.lost = True
        with suppress(OSError):
            self._socket.shutdown(2)
        with suppress(OSError):
            self._socket.close()

    def close(self) -> None:
        """Say goodbye and close the connection."""
        if not self.lost:
            with suppress(OSError):
                self._socket.sendall(message(b"X"))
        self.abort()


def _read_texts(body: MessageBody) -> list[str]:
    """Read the texts that are left, but empty ones."""
    found = []
    while body.more:
        found.append(body.text())
    return [each for each in found if each]


def _read_fields(body: MessageBody) -> dict[str, str]:
    """Read the fields of an ErrorResponse or a NoticeResponse, by their letters."""
    return {each[0]: each[1:] for each in _read_texts(body)}


def _read_column(body: MessageBody) -> str:
    """Read the description of a column; return its name."""
    name = body.text()
    body.take(18)
    return name


def _protocol_error() -> OperationalError:
    return OperationalError("the server does not speak the protocol as dpsql does")
