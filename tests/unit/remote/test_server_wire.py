"""The connection against servers that follow a script: logins, attacks on logins, broken messages."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpsql.errors import Error, OperationalError, ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.login import message
from dpsql.login.scram import ScramServer, Verifier
from dpsql.remote.outgoing_statement import OutgoingStatement, SentText
from dpsql.remote.server_target import Target
from dpsql.remote.server_wire import ServerWire, write_text

PASSWORD = "correct horse battery"
VERIFIER = Verifier.of(PASSWORD, b"salt" * 4)

Script = Callable[["Server"], None]


def sasl(kind: int, data: bytes = b"") -> bytes:
    return message(b"R", struct.pack("!i", kind) + data)


def error(state: str, said: str, severity: str = "ERROR", **fields: str) -> bytes:
    pairs = {"S": severity, "V": severity, "C": state, "M": said, **fields}
    return message(b"E", b"".join(name.encode() + write_text(value) for name, value in pairs.items()) + b"\0")


READY = message(b"Z", b"I")


class Server:
    """One connection from the server's side."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.startup = b""

    def take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            received = self.connection.recv(size - len(data))
            if not received:
                raise EOFError
            data += received
        return data

    def receive(self) -> tuple[bytes, bytes]:
        kind, size = struct.unpack("!ci", self.take(5))
        return kind, self.take(size - 4)

    def send(self, *messages: bytes) -> None:
        self.connection.sendall(b"".join(messages))

    def begin(self) -> None:
        """Refuse encryption, which on this machine is no attack, and read the startup message."""
        assert self.take(8) == struct.pack("!ii", 8, 80877103)
        self.send(b"N")
        (size,) = struct.unpack("!i", self.take(4))
        self.startup = self.take(size - 4)

    def initial(self, *mechanisms: str) -> tuple[str, bytes]:
        self.send(sasl(10, b"".join(map(write_text, mechanisms)) + b"\0"))
        kind, body = self.receive()
        assert kind == b"p"
        name, _, rest = body.partition(b"\0")
        return name.decode(), rest[4:]

    def log_in(self) -> None:
        self.begin()
        scram = ScramServer(VERIFIER, None)
        self.send(sasl(11, scram.first(*self.initial("SCRAM-SHA-256"))))
        self.send(sasl(12, scram.final(self.receive()[1])), sasl(0))
        self.send(message(b"S", write_text("server_version") + write_text("15.0")))
        self.send(message(b"K", struct.pack("!ii", 7, 8)), READY)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Target]]:
    """Return a function that starts a server with a script for each connection, and returns its address."""
    monkeypatch.setenv("HOME", str(tmp_path))
    listening = socket.create_server(("127.0.0.1", 0))
    failed: list[AssertionError] = []
    threads = []

    def run(scripts: tuple[Script, ...]) -> None:
        for script in scripts:
            connection, _ = listening.accept()
            with connection:
                try:
                    script(Server(connection))
                except (EOFError, ConnectionError):
                    pass
                except AssertionError as problem:
                    failed.append(problem)

    def start(*scripts: Script) -> Target:
        thread = threading.Thread(target=run, args=(scripts,), daemon=True)
        thread.start()
        threads.append(thread)
        return Target("127.0.0.1", listening.getsockname()[1], "alice", "shop")

    yield start
    for thread in threads:
        thread.join(10)
    listening.close()
    assert not failed


def plain(statement: str) -> SentText:
    return SentText(statement, statement)


def test_a_login_and_a_statement(serve: Callable[..., Target]) -> None:
    seen: list[bytes] = []

    def script(server: Server) -> None:
        server.log_in()
        seen.append(server.startup)
        seen.append(server.receive()[1])
        columns = struct.pack("!h", 1) + write_text("a") + bytes(18)
        server.send(message(b"T", columns), message(b"D", struct.pack("!hi", 1, 2) + b"42"))
        server.send(
            message(b"N", b"SNOTICE\0Msaid\0Hdo it\0\0"), message(b"C", write_text("SELECT 1")), READY
        )
        assert server.receive() == (b"X", b"")

    wire = ServerWire(serve(script), PASSWORD)
    assert wire.parameters == {"server_version": "15.0"}
    reply = wire.ask(plain("SELECT 42 AS a"))
    assert (reply.columns, reply.rows, reply.notices) == (["a"], [["42"]], ["said\nHint: do it"])
    wire.close()
    assert b"user\0alice\0database\0shop\0" in seen[0]
    assert b"password" not in seen[0].lower()
    assert seen[1] == b"SELECT 42 AS a\0"


def refused_login(target: Target, match: str, password: str = PASSWORD) -> Error:
    with pytest.raises(OperationalError, match=match) as caught:
        ServerWire(target, password)
    return caught.value


@pytest.mark.parametrize("kind", [0, 3, 5, 7, 9])
def test_no_weaker_login_is_made(serve: Callable[..., Target], kind: int) -> None:
    def script(server: Server) -> None:
        server.begin()
        server.send(sasl(kind, b"salt"), READY)
        assert server.connection.recv(100) == b""  # in particular no password

    refused_login(serve(script), "another kind of login")


def test_a_server_must_prove_that_it_knows_the_password(serve: Callable[..., Target]) -> None:
    def script(server: Server) -> None:
        server.begin()
        scram = ScramServer(VERIFIER, None)
        server.send(sasl(11, scram.first(*server.initial("SCRAM-SHA-256"))))
        server.receive()
        server.send(sasl(12, b"v=" + b"A" * 43 + b"="), sasl(0), READY)

    refused_login(serve(script), "does not prove")


def test_a_server_cannot_leave_its_proof_out(serve: Callable[..., Target]) -> None:
    def script(server: Server) -> None:
        server.begin()
        server.send(sasl(11, ScramServer(VERIFIER, None).first(*server.initial("SCRAM-SHA-256"))))
        server.receive()
        server.send(sasl(0), READY)

    refused_login(serve(script), "another kind of login")


@pytest.mark.parametrize(
    "first",
    [
        b"r={},s=c2FsdA==,i=1",
        b"r={},s=c2FsdA==,i=4095",
        b"r={},s=c2FsdA==,i=99999999",
        b"r={},s=!,i=4096",
        b"r=other,s=c2FsdA==,i=4096",
        b"m=x,r={},s=c2FsdA==,i=4096",
        b"",
        b"\xff",
    ],
)
def test_a_malformed_first_message_ends_the_login(serve: Callable[..., Target], first: bytes) -> None:
    def script(server: Server) -> None:
        server.begin()
        _, said = server.initial("SCRAM-SHA-256")
        nonce = said.rpartition(b"r=")[2] + (b"more" if b"i=1" not in first[-4:] else b"x")
        server.send(sasl(11, first.replace(b"{}", nonce)))
        assert server.connection.recv(100) == b""

    refused_login(serve(script), "login failed")


def test_the_clients_nonce_alone_is_no_nonce(serve: Callable[..., Target]) -> None:
    def script(server: Server) -> None:
        server.begin()
        _, said = server.initial("SCRAM-SHA-256")
        server.send(sasl(11, b"r=" + said.rpartition(b"r=")[2] + b",s=c2FsdA==,i=4096"))

    refused_login(serve(script), "malformed")


def test_a_wrong_password_is_the_servers_error(serve: Callable[..., Target]) -> None:
    def script(server: Server) -> None:
        server.begin()
        server.send(sasl(11, ScramServer(VERIFIER, None).first(*server.initial("SCRAM-SHA-256"))))
        server.receive()
        server.send(error("28P01", 'password authentication failed for user "alice"', "FATAL"))

    failure = refused_login(serve(script), "password authentication failed", "wrong")
    assert failure.sqlstate == "28P01"


def test_encryption_that_was_there_before_is_not_given_up(
    serve: Callable[..., Target], tmp_path: Path
) -> None:
    target = serve(lambda server: server.begin())
    (tmp_path / ".dpsql_known_hosts").write_text(f"{target.label} AB:CD\n")
    refused_login(target, "offers no encryption, so nothing was sent")


def test_only_this_machine_is_spoken_to_without_encryption(
    serve: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = serve(lambda server: server.begin())
    monkeypatch.setattr(Target, "is_local", property(lambda self: False))
    refused_login(target, "offers no encryption, so nothing was sent")


@pytest.mark.parametrize("answer", [b"E", b"H", b""])
def test_what_is_no_server_is_reported(serve: Callable[..., Target], answer: bytes) -> None:
    refused_login(serve(lambda server: server.send(answer)), "is no dpsql server|no encrypted connection")


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    refused_login(Target("127.0.0.1", port, "alice"), f"cannot reach 127.0.0.1:{port}")


@pytest.mark.parametrize("size", [3, 0, -1, -(2**31), 1 << 17, 2**31 - 1])
def test_a_message_of_a_wrong_length_ends_the_login(serve: Callable[..., Target], size: int) -> None:
    def script(server: Server) -> None:
        server.begin()
        server.send(b"R" + struct.pack("!i", size))
        assert server.connection.recv(100) == b""

    refused_login(serve(script), "wrong length")


def logged_in(serve: Callable[..., Target], *replies: bytes) -> ServerWire:
    def script(server: Server) -> None:
        server.log_in()
        server.receive()
        server.send(*replies)
        server.connection.shutdown(socket.SHUT_WR)
        server.connection.recv(100)

    return ServerWire(serve(script), PASSWORD)


@pytest.mark.parametrize(
    "replies",
    [
        (b"",),
        (b"T\0\0",),
        (b"D" + struct.pack("!i", 3),),
        (b"D" + struct.pack("!i", 2**31 - 1),),
        (message(b"T", b"\0\x05a"), READY),
        (message(b"D", b"\0\x01\0\0\xff\xff"), READY),
        (message(b"D", b""), READY),
        (message(b"d", b"data"), READY),  # without a COPY
        (message(b"G", b"\0\0\0"), READY),
        (message(b"R", struct.pack("!i", 3)), READY),
        (message(b"?"), READY),
    ],
)
def test_a_broken_answer_closes_the_connection(
    serve: Callable[..., Target], replies: tuple[bytes, ...]
) -> None:
    wire = logged_in(serve, *replies)
    with pytest.raises(OperationalError):
        wire.ask(plain("SELECT 1"))
    assert wire.lost


def test_the_first_of_several_errors_is_kept(serve: Callable[..., Target]) -> None:
    wire = logged_in(serve, error("0A000", "no"), error("42601", "not this"), READY)
    reply = wire.ask(plain("SELECT 1"))
    assert (type(reply.error), str(reply.error)) == (QueryRefused, "no")
    assert not wire.lost
    wire.close()


def test_a_server_that_ends_says_why(serve: Callable[..., Target]) -> None:
    wire = logged_in(serve, error("57P01", "the server is shutting down", "FATAL"))
    with pytest.raises(OperationalError, match="shutting down") as caught:
        wire.ask(plain("SELECT 1"))
    assert caught.value.sqlstate == "57P01"
    assert wire.lost


@pytest.mark.parametrize(
    ("position", "place"),
    [("1", None), ("7", (1, 1)), ("16", (2, 3)), ("17", (2, 4)), ("99", None), ("x", None)],
)
def test_a_position_is_one_of_the_statement(
    serve: Callable[..., Target], position: str, place: tuple[int, int] | None
) -> None:
    wire = logged_in(serve, error("42601", "wrong", P=position, H="this way"), READY)
    failure = wire.ask(OutgoingStatement.of("SELECT\n\u00e4\u00e4 b", None).answer()).error
    assert isinstance(failure, QuerySyntaxError)
    assert failure.hint == "this way"
    assert (failure.line, failure.col) == (place or (None, None))
    if place is not None:
        assert failure.source == ["SELECT", "ää b"][place[0] - 1]
    wire.close()


def test_a_text_with_a_nul_is_not_sent(serve: Callable[..., Target]) -> None:
    wire = logged_in(serve, message(b"C", write_text("OK")), READY)
    for wrong in ("SELECT '\0'", "SELECT '\ud800'"):
        with pytest.raises(ProgrammingError, match="NUL"):
            wire.ask(plain(wrong))
    assert wire.ask(plain("SELECT 1")).error is None
    wire.close()


def test_a_cancel_request_has_the_key_and_waits_to_be_heard(serve: Callable[..., Target]) -> None:
    heard: list[bytes] = []

    def cancelled(server: Server) -> None:
        server.take(8)
        server.send(b"N")
        heard.append(server.take(16))

    wire = ServerWire(serve(Server.log_in, cancelled), PASSWORD)
    wire.cancel()
    assert heard == [struct.pack("!iiii", 16, 80877102, 7, 8)]
    wire.abort()
