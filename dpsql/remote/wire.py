"""One connection to a server: login, statements one after the other, cancel requests."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from dpsql.errors import Error, OperationalError
from dpsql.lazy_dataclass import dataclass
from dpsql.login.certificate import binding as binding_of
from dpsql.login.scram import PLAIN, PLUS
from dpsql.remote import messages
from dpsql.remote.failures import error_of
from dpsql.remote.messages import Incoming, message
from dpsql.remote.scram import ScramClient, ScramError
from dpsql.remote.tls import open_socket

if TYPE_CHECKING:
    import socket

    from dpsql.remote.messages import Message
    from dpsql.remote.sending import Sent
    from dpsql.remote.target import Target


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


class Wire:
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
            raise OperationalError(messages.LOST) from None
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
        self._socket.sendall(messages.startup(parameters))
        self._authenticate(password)
        self._incoming.trusted = True
        while (received := self._next()).kind != b"Z":
            if received.kind == b"K":
                self._key = bytes(received.body)
            elif received.kind not in (b"v",):
                raise _unexpected()

    def _authenticate(self, password: str) -> None:
        certificate = getattr(self._socket, "getpeercert", lambda **_: None)(binary_form=True)
        binding = None
        if certificate is not None:
            binding = binding_of(certificate)
            if not binding:
                raise OperationalError("the login cannot be bound to a certificate with this signature")
        scram = ScramClient(password, binding)
        offered = messages.texts(self._sasl(10))
        if scram.mechanism not in offered:
            raise OperationalError(
                "the server offers no login that is bound to its certificate, so nothing was sent to it"
                if PLAIN in offered and scram.mechanism == PLUS
                else "the server offers no login by SCRAM-SHA-256"
            )
        try:
            self._socket.sendall(messages.sasl_initial(scram.mechanism, scram.first))
            self._socket.sendall(message(b"p", scram.final(bytes(self._sasl(11)))))
            scram.verify(bytes(self._sasl(12)))
        except ScramError as problem:
            raise OperationalError(f"login failed: {problem}") from None
        self._sasl(0)

    def _sasl(self, expected: int) -> memoryview:
        """Return the data of the next authentication message, which must be of one kind."""
        received = self._next()
        while received.kind == b"v":  # the server names parameters that it does not know
            received = self._next()
        if received.kind != b"R" or len(received.body) < 4:
            raise _unexpected()
        (kind,) = struct.unpack_from("!i", received.body)
        if kind != expected:
            # No weaker login is tried: a server that asks for the password itself would learn it.
            raise OperationalError("the server asks for another kind of login than SCRAM-SHA-256")
        return received.body[4:]

    def _next(self) -> Message:
        """Return the next message of the login; raises the error that the server reports."""
        while True:
            received = self._incoming.next()
            if received.kind == b"E":
                raise error_of(messages.fields(received.body))
            if not self._noted(received):
                return received

    # -- statements

    def ask(self, sent: Sent) -> Reply:
        """Send a text and return all that is answered to it; raises `OperationalError` when it breaks off."""
        query = message(b"Q", messages.text(sent.text))
        try:
            self._socket.sendall(query)
            return self._reply(sent)
        except (OSError, OperationalError, struct.error, ValueError, IndexError) as problem:
            self.abort()
            raise (
                problem if isinstance(problem, OperationalError) else OperationalError(messages.LOST)
            ) from None
        except BaseException:
            self.abort()
            raise

    def _reply(self, sent: Sent) -> Reply:
        self._notices = []
        reply = Reply(notices=self._notices)
        while (received := self._incoming.next()).kind != b"Z":
            match received.kind:
                case b"d" if reply.copied is not None:
                    reply.copied += received.body
                case b"H":
                    reply.copied = bytearray()
                case b"T":
                    reply.columns, reply.rows = messages.row_description(received.body), []
                case b"D":
                    reply.rows.append(messages.data_row(received.body))
                case b"E":
                    self._failed(reply, received, sent)
                case b"C" | b"c" | b"I":
                    pass
                case _ if not self._noted(received):
                    raise _unexpected()
        return reply

    def _failed(self, reply: Reply, received: Message, sent: Sent) -> None:
        fields = messages.fields(received.body)
        error = error_of(fields, sent)
        if fields.get("V", fields.get("S")) in ("FATAL", "PANIC"):
            raise error  # the server closes the connection behind it
        reply.error = reply.error or error

    def _noted(self, received: Message) -> bool:
        """Take what a server may say at any time; return whether the message was such."""
        if received.kind == b"N":
            fields = messages.fields(received.body)
            hint = f"\nHint: {fields['H']}" if "H" in fields else ""
            self._notices.append(fields.get("M", "") + hint)
        elif received.kind == b"S":
            name, _, value = bytes(received.body).decode("utf-8", "replace").partition("\0")
            self.parameters[name] = value.rstrip("\0")
        elif received.kind != b"A":
            return False
        return True

    # -- from any thread

    def cancel(self) -> None:
        """Ask the server to stop what runs; returns when it has heard."""
        if not self._key:
            return
        request: socket.socket = open_socket(self.target)
        with request, suppress(OSError):
            request.sendall(messages.cancel_request(self._key))
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


def _unexpected() -> OperationalError:
    return OperationalError("the server does not speak the protocol as dpsql does")
