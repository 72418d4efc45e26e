"""The client's side of a SCRAM login, for the tests of the server's side and for a client of messages."""

from __future__ import annotations

import base64
import hashlib
import hmac


class ScramClient:
    """The client's side of SCRAM, written from the RFC and apart from the server's code."""

    def __init__(self, password: str, *, flag: str = "n", binding: bytes = b"", name: str = "") -> None:
        self.password = password
        self.mechanism = "SCRAM-SHA-256-PLUS" if flag.startswith("p=") else "SCRAM-SHA-256"
        self.header = f"{flag},,"
        self.bare = f"n={name},r=fyko+d2lbbFgONRv9qkxdawL"
        self.binding = binding if flag.startswith("p=") else b""
        self.server_signature = b""

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, server_first: bytes) -> bytes:
        text = server_first.decode()
        fields = dict(field.split("=", 1) for field in text.split(","))
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), salt, rounds)
        client = hmac.digest(salted, b"Client Key", "sha256")
        bound = base64.b64encode(self.header.encode() + self.binding).decode()
        unproved = f"c={bound},r={fields['r']}"
        signed = f"{self.bare},{text},{unproved}".encode()
        signature = hmac.digest(hashlib.sha256(client).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(client, signature, strict=True))
        server = hmac.digest(salted, b"Server Key", "sha256")
        self.server_signature = hmac.digest(server, signed, "sha256")
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()
