"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS for both sides (RFC 5802, RFC 7677), without input or output.

The server sees no password, and proves in turn that it knows the verifier. With channel binding the proof
also covers the server's certificate: somebody between client and server cannot pass it on.

Whoever knows what the server stores can check a proof, but not make one; whoever records a login can neither
repeat it nor, with channel binding, have passed it on through a certificate of his own.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable
from itertools import cycle, islice
from typing import Self

from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.login import BINDING, PLAIN, PLUS, derive_keys, draw_text, hash_key, prepare_password, sign, xor

ITERATIONS = 4096
"""Rounds of the password hash, PostgreSQL's number: clients compute them at every login."""
SALT_BYTES = 16
MOST_KEYS = 17
"""The most passwords and tokens of a user. So many are tried at each login, that time tells neither their
number nor whether there is such a user."""

_NONCE = lazy_pattern(r"[!-+\--~]{1,256}")
_VERIFIER = lazy_pattern(r"SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_ATTRIBUTE = lazy_pattern(r"[A-Za-z]=[^\0]*")


class ScramError(Exception):
    """A login that ends here. `reason` is for the owner's log, never for the client."""

    sqlstate: str

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ScramViolationError(ScramError):
    """The client's message is not one of the exchange."""

    sqlstate = "08P01"


class ScramRejectedError(ScramError):
    """The client did not prove that it knows the password."""

    sqlstate = "28P01"


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """The stored keys of one password: they check a client's proof, and prove the server to the client."""

    stored: bytes
    server: bytes


@dataclass(frozen=True, slots=True)
class Verifier:
    """What the server knows of a user's passwords: one salt, and the keys of each password."""

    salt: bytes
    keys: tuple[ScramKeys, ...]
    iterations: int = ITERATIONS

    @classmethod
    def of(cls, password: str, salt: bytes, iterations: int = ITERATIONS) -> Self:
        """Hash a password; `ValueError` if SASLprep refuses it."""
        prepared = prepare_password(password).encode()
        client, server = derive_keys(prepared, salt, iterations)
        return cls(salt, (ScramKeys(hash_key(client), server),), iterations)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read PostgreSQL's form, `SCRAM-SHA-256$4096:<salt>$<stored key>:<server key>`."""
        found = _VERIFIER.fullmatch(text)
        if not found:
            raise ValueError("is no SCRAM-SHA-256 verifier")
        try:
            salt, stored, server = (base64.b64decode(part, validate=True) for part in found.groups()[1:])
        except binascii.Error:
            raise ValueError("is no SCRAM-SHA-256 verifier") from None
        iterations = int(found[1])
        if not salt or iterations < ITERATIONS or len(stored) != 32 or len(server) != 32:
            raise ValueError(f"is no SCRAM-SHA-256 verifier of at least {ITERATIONS} rounds")
        return cls(salt, (ScramKeys(stored, server),), iterations)

    @classmethod
    def join(cls, verifiers: Iterable[Verifier]) -> Self:
        """Return a verifier that accepts each of several passwords, which share salt and rounds."""
        first, *others = verifiers
        if any((other.salt, other.iterations) != (first.salt, first.iterations) for other in others):
            raise ValueError("the passwords and tokens of one user have one salt")
        keys = (*first.keys, *(key for other in others for key in other.keys))
        return cls(first.salt, keys, first.iterations)

    @classmethod
    def mock(cls, secret: bytes, name: str, like: Verifier | None = None) -> Self:
        """Return a verifier that no password passes, the same one each time for one name.

        `like` gives the salt and the rounds that a client of that name has seen before.
        """
        stored, server = (sign(secret, what + name.encode()) for what in (b"stored ", b"server "))
        if like is not None:
            return cls(like.salt, (ScramKeys(stored, server),), like.iterations)
        return cls(sign(secret, b"salt " + name.encode())[:SALT_BYTES], (ScramKeys(stored, server),))

    def match(self, password: str) -> ScramKeys | None:
        """Return the keys of a password that was sent, None if it is wrong; the hash takes a while."""
        try:
            prepared = prepare_password(password).encode()
        except ValueError:
            prepared = password.encode(errors="surrogatepass")
        derived = hash_key(derive_keys(prepared, self.salt, self.iterations)[0])
        found = [keys for keys in self.keys if hmac.compare_digest(keys.stored, derived)]
        return found[0] if found else None

    def __str__(self) -> str:
        keys = self.keys[0]
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, keys.stored, keys.server)
        )
        return f"{PLAIN}${self.iterations}:{salt}${stored}:{server}"

    def __repr__(self) -> str:
        return f"Verifier({len(self.keys)} passwords)"  # never the keys: a log could show them


class ScramServer:
    """One login: `first` answers the client's first message, `final` its proof.

    `binding` is the connection's `tls-server-end-point` data, None without TLS. The user name in the messages
    is not read: libpq leaves it empty and pgjdbc writes `*`. The proof holds for the verifier that is given,
    so for the user of the startup message.
    """

    def __init__(self, verifier: Verifier, binding: bytes | None, *, nonce: str | None = None) -> None:
        self._verifier = verifier
        self._binding = binding
        self._nonce = draw_text(24) if nonce is None else nonce
        self._header = b""
        self._expected: bytes | None = None
        self._signed = b""
        self._ended = False
        self.keys: ScramKeys | None = None
        """What the proof was checked by, once it was right."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms to offer, the better one first."""
        return (PLAIN,) if self._binding is None else (PLUS, PLAIN)

    def first(self, mechanism: str, data: bytes) -> bytes:
        """Return the answer to the client's first message."""
        if self._ended or self._signed:
            raise ScramViolationError("the first message came twice")
        self._ended = True  # until the message has been read without an error
        if mechanism not in self.mechanisms:
            raise ScramViolationError("the mechanism was not offered")
        flag, rest = _split_at_comma(_decode_utf8(data))
        authorization, bare = _split_at_comma(rest)
        if authorization:
            raise ScramViolationError("an authorization identity is not supported")
        self._header = f"{flag},,".encode()
        self._check_flag(mechanism, flag)
        fields = bare.split(",")
        if len(fields) < 2 or not fields[0].startswith("n=") or not fields[1].startswith("r="):
            raise ScramViolationError("the first message is malformed")
        if not _NONCE.fullmatch(fields[1][2:]) or not all(map(_ATTRIBUTE.fullmatch, fields[2:])):
            raise ScramViolationError("the first message is malformed")
        self._nonce = fields[1][2:] + self._nonce
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._expected = self._header + (self._binding or b"" if flag.startswith("p=") else b"")
        self._signed = f"{bare},{answer}".encode()
        self._ended = False
        return answer.encode()

    def _check_flag(self, mechanism: str, flag: str) -> None:
        if mechanism == PLUS and flag != f"p={BINDING}":
            raise ScramViolationError("the mechanism needs channel binding to the certificate")
        if mechanism == PLAIN and flag == "y" and self._binding is not None:
            # Somebody between client and server has taken -PLUS from the list.
            raise ScramViolationError("downgrade: the client supports channel binding and was not offered it")
        if mechanism == PLAIN and flag not in ("n", "y"):
            raise ScramViolationError("channel binding without the mechanism for it")

    def final(self, data: bytes) -> bytes:
        """Check the client's proof and return the server's own."""
        if self._ended or self._expected is None:
            raise ScramViolationError("the final message came at the wrong time")
        self._ended = True
        unproved, comma, proof_field = _decode_utf8(data).rpartition(",")
        fields = unproved.split(",")
        if not comma or len(fields) < 2 or not all(map(_ATTRIBUTE.fullmatch, fields)):
            raise ScramViolationError("the final message is malformed")
        binding, proof = _decode_field(fields[0], "c="), _decode_field(proof_field, "p=")
        if fields[1] != f"r={self._nonce}":
            raise ScramViolationError("the nonce is another login's")
        if len(proof) != 32:
            raise ScramViolationError("the final message is malformed")
        if not hmac.compare_digest(binding, self._expected):
            raise ScramRejectedError("channel binding: the client sees another certificate")
        signed = self._signed + b"," + unproved.encode()
        found = None
        own = self._verifier.keys
        for known in islice(cycle(own), max(MOST_KEYS, len(own))):
            client = xor(proof, sign(known.stored, signed))
            if hmac.compare_digest(hash_key(client), known.stored):
                found = known
        if found is None:
            raise ScramRejectedError("wrong password")
        self.keys = found
        return b"v=" + base64.b64encode(sign(found.server, signed))


def _split_at_comma(text: str) -> tuple[str, str]:
    before, comma, after = text.partition(",")
    if not comma:
        raise ScramViolationError("the first message is malformed")
    return before, after


def _decode_utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ScramViolationError("a message is not UTF-8") from None


def _decode_field(field: str, name: str) -> bytes:
    if not field.startswith(name):
        raise ScramViolationError("the final message is malformed")
    try:
        return base64.b64decode(field[len(name) :], validate=True)
    except ValueError:  # also for text that is not ASCII
        raise ScramViolationError("the final message is malformed") from None


_FIRST = lazy_pattern(
    r"r=([!-+\--~]{1,1024}),s=([A-Za-z0-9+/=]{1,1024}),i=([1-9][0-9]{0,7})(,.*)?", re.DOTALL
)

_LEAST, _MOST = 4096, 2_000_000
"""Rounds of the password hash: fewer make guessing cheap, more only keep the client busy."""


class ScramClientError(Exception):
    """The exchange fails; the text says why, and holds nothing secret."""


class ScramClient:
    """One login; `binding` is the hash of the server's certificate, None without TLS."""

    def __init__(self, password: str, binding: bytes | None, *, nonce: str | None = None) -> None:
        self.mechanism = PLAIN if binding is None else PLUS
        try:
            self._password = prepare_password(password).encode()
        except ValueError:
            self._password = password.encode()  # as libpq: the server may have hashed it as it is
        self._nonce = draw_text(24) if nonce is None else nonce
        header = b"n,," if binding is None else f"p={BINDING},,".encode()
        self._channel = base64.b64encode(header + (binding or b"")).decode()
        # The user is that of the startup message: PostgreSQL's clients leave the name empty here.
        self._bare = f"n=,r={self._nonce}"
        self.first = header + self._bare.encode()
        """The client's first message."""
        self._signature: bytes | None = None

    def final(self, server_first: bytes) -> bytes:
        """Return the client's proof, given the server's first message."""
        found = _FIRST.fullmatch(server_first.decode("ascii", "replace"))
        if found is None or not found[1].startswith(self._nonce) or len(found[1]) == len(self._nonce):
            raise ScramClientError("the server's first message is malformed")
        rounds = int(found[3])
        if not _LEAST <= rounds <= _MOST:
            raise ScramClientError(f"the server asks for {rounds} rounds of the password hash")
        try:
            salt = base64.b64decode(found[2], validate=True)
        except binascii.Error:
            raise ScramClientError("the server's first message is malformed") from None
        client, server = derive_keys(self._password, salt, rounds)
        unproved = f"c={self._channel},r={found[1]}"
        signed = f"{self._bare},".encode() + server_first + f",{unproved}".encode()
        proof = xor(client, sign(hash_key(client), signed))
        self._signature = sign(server, signed)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Check the server's own proof; raises `ScramClientError` if it does not know the verifier."""
        expected = b"" if self._signature is None else b"v=" + base64.b64encode(self._signature)
        if not expected or not hmac.compare_digest(server_final, expected):
            raise ScramClientError("the server does not prove that it knows the password")
