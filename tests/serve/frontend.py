"""A client of the PostgreSQL protocol at the level of messages, for tests of what no driver would send."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from tests.serve.scram_client import ScramClient

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
GSS_REQUEST = struct.pack("!ii", 8, 80877104)
SYNC = b"S\0\0\0\4"
FLUSH = b"H\0\0\0\4"
TERMINATE = b"X\0\0\0\4"
Message = tuple[bytes, bytes]
"""Type and body."""


def message(tag: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return tag + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def startup(parameters: Mapping[str, str], version: int = 3 << 16) -> bytes:
    body = struct.pack("!i", version)
    body += b"".join(text(name) + text(value) for name, value in parameters.items()) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def cancel_request(number: int, secret: bytes) -> bytes:
    return struct.pack("!iii", 12 + len(secret), 80877102, number) + secret


def query(sql: str) -> bytes:
    return message(b"Q", text(sql))


def parse(sql: str, name: str = "", oids: Sequence[int] = ()) -> bytes:
    return message(b"P", text(name), text(sql), struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def bind(
    values: Sequence[bytes | None] = (),
    *,
    statement: str = "",
    portal: str = "",
    codes: Sequence[int] = (),
    columns: Sequence[int] = (),
) -> bytes:
    parts = [text(portal), text(statement), struct.pack(f"!H{len(codes)}h", len(codes), *codes)]
    parts.append(struct.pack("!H", len(values)))
    parts += [struct.pack("!i", -1 if value is None else len(value)) + (value or b"") for value in values]
    parts.append(struct.pack(f"!H{len(columns)}h", len(columns), *columns))
    return message(b"B", *parts)


def describe(kind: bytes, name: str = "") -> bytes:
    return message(b"D", kind, text(name))


def close(kind: bytes, name: str = "") -> bytes:
    return message(b"C", kind, text(name))


def execute(portal: str = "", limit: int = 0) -> bytes:
    return message(b"E", text(portal), struct.pack("!i", limit))


def fields(body: bytes) -> dict[str, str]:
    """Return the fields of an ErrorResponse or NoticeResponse."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def row(body: bytes) -> tuple[bytes | None, ...]:
    """Return the values of a DataRow."""
    count, at = struct.unpack_from("!h", body)[0], 2
    values: list[bytes | None] = []
    for _ in range(count):
        size = struct.unpack_from("!i", body, at)[0]
        at += 4
        values.append(None if size < 0 else body[at : at + size])
        at += max(size, 0)
    assert at == len(body)
    return tuple(values)


def columns(body: bytes) -> list[tuple[str, int, int]]:
    """Return name, OID and format of each column of a RowDescription."""
    found, at = [], 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        end = body.index(b"\0", at)
        _, _, oid, _, _, code = struct.unpack_from("!ihihih", body, end + 1)
        found.append((body[at:end].decode(), oid, code))
        at = end + 19
    return found


@dataclass
class Frontend:
    """One connection; after `log_in` it has what the server said of itself."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int = 0
    secret: bytes = b""
    settings: dict[str, str] = field(default_factory=dict)
    negotiated: bytes | None = None
    binding: bytes | None = None

    async def send(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))
        await self.writer.drain()

    async def receive(self) -> Message:
        head = await self.reader.readexactly(5)
        return head[:1], await self.reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)

    async def until(self, last: bytes = b"Z") -> list[Message]:
        """Return the messages up to the first of a type."""
        found = [await self.receive()]
        while found[-1][0] != last:
            found.append(await self.receive())
        return found

    async def ask(self, *data: bytes) -> list[Message]:
        """Send messages and return the answers up to ReadyForQuery."""
        await self.send(*data)
        return await self.until()

    async def rest(self) -> list[Message]:
        """Return the messages up to the end of the connection."""
        found = []
        try:
            while True:
                found.append(await self.receive())
        except (asyncio.IncompleteReadError, ConnectionError):
            return found

    async def start_tls(self, context: ssl.SSLContext) -> None:
        await self.send(SSL_REQUEST)
        assert await self.reader.readexactly(1) == b"S"
        await self.writer.start_tls(context, server_hostname="localhost")
        certificate = self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self.binding = hashlib.sha256(certificate).digest()

    async def log_in(
        self,
        user: str = "alice",
        password: str = "correct horse",
        version: int = 3 << 16,
        parameters: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        await self.send(startup({"user": user, **parameters}, version))
        return await self.prove(password)

    async def prove(self, password: str) -> Self:
        """Go on with a login behind the startup message."""
        flag = "n" if self.binding is None else "p=tls-server-end-point"
        scram = ScramClient(password, flag=flag, binding=self.binding or b"")
        while True:
            tag, body = await self.receive()
            kind = struct.unpack("!i", body[:4])[0] if tag == b"R" else None
            if tag == b"E":
                raise RefusedError(fields(body))
            if tag == b"v":
                self.negotiated = body
            elif kind == 10:
                assert scram.mechanism.encode() in body[4:].split(b"\0")
                first = scram.first()
                await self.send(message(b"p", text(scram.mechanism), struct.pack("!i", len(first)), first))
            elif kind == 11:
                await self.send(message(b"p", scram.final(body[4:])))
            elif kind == 12:
                assert body[4:] == b"v=" + base64.b64encode(scram.server_signature)
            elif tag == b"S":
                name, value, _ = body.split(b"\0")
                self.settings[name.decode()] = value.decode()
            elif tag == b"K":
                self.number, self.secret = struct.unpack("!i", body[:4])[0], body[4:]
            elif tag == b"Z":
                assert body == b"I"
                return self


class RefusedError(Exception):
    """The server ended the login with an error."""

    def __init__(self, found: dict[str, str]) -> None:
        super().__init__(found["M"])
        self.fields = found
