"""The server's TLS: its certificate, what binds a login to it, and the settings of the protocol."""

from __future__ import annotations

import hashlib
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from dpsql.errors import PolicyError
from dpsql.serve.account_file import check_private

_HASHES = {
    # The hash of a certificate's signature binds it (RFC 5929), and SHA-256 in place of MD5 and SHA-1.
    "1.2.840.113549.1.1.4": "sha256",  # RSA with MD5
    "1.2.840.113549.1.1.5": "sha256",  # RSA with SHA-1
    "1.2.840.113549.1.1.14": "sha224",
    "1.2.840.113549.1.1.11": "sha256",
    "1.2.840.113549.1.1.12": "sha384",
    "1.2.840.113549.1.1.13": "sha512",
    "1.2.840.10045.4.1": "sha256",  # ECDSA with SHA-1
    "1.2.840.10045.4.3.1": "sha224",
    "1.2.840.10045.4.3.2": "sha256",
    "1.2.840.10045.4.3.3": "sha384",
    "1.2.840.10045.4.3.4": "sha512",
}
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Tls:
    """How the server speaks TLS."""

    context: ssl.SSLContext
    binding: bytes
    """The `tls-server-end-point` data of the certificate (RFC 5929); empty if its signature defines none."""
    certificate: Path
    key: Path
    fingerprint: str
    """SHA-256 of the certificate, as browsers show it."""
    authorities: Path | None
    """Certificates of those who sign clients' certificates; None if clients need none."""

    @property
    def clients(self) -> bool:
        """Whether a client needs a certificate, whose common name is that of the user."""
        return self.authorities is not None


def load(certificate: Path, key: Path, clientcert: Path | None = None) -> Tls:
    """Read a certificate with its chain and its key.

    Raises `PolicyError`, also if others than the server's account can read the key.
    """
    der = _read(certificate)
    try:
        with key.open("rb") as file:
            check_private(key, os.fstat(file.fileno()))
    except OSError as problem:
        raise PolicyError(f"{key.name}: cannot be read: {problem.strerror}") from None
    except PolicyError as problem:
        raise PolicyError(f"{key.name}: {problem.message}", hint=problem.hint) from None
    context = _context()
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError):
        raise PolicyError(
            f"{key.name}: is not the key of {certificate.name}, or is encrypted",
            hint="a key in PEM without a password, readable by the server's account alone",
        ) from None
    if clientcert is not None:
        try:
            context.load_verify_locations(clientcert)
        except (ssl.SSLError, OSError):
            raise PolicyError(f"{clientcert.name}: holds no certificates in PEM") from None
        context.verify_mode = ssl.CERT_REQUIRED
    digest = hashlib.sha256(der).hexdigest().upper()
    fingerprint = ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))
    return Tls(context, binding(der), certificate, key, fingerprint, clientcert)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # A resumed session would skip the certificate that logins are bound to; connections of pools are few.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.set_alpn_protocols(["postgresql"])
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted")  # without this OpenSSL would ask on the terminal


def _read(certificate: Path) -> bytes:
    """Return the first certificate of a file: the server's own, in DER."""
    try:
        text = certificate.read_text("ascii")
        start = text.index(_BEGIN)
        return ssl.PEM_cert_to_DER_cert(text[start : text.index(_END, start) + len(_END)])
    except OSError as problem:
        raise PolicyError(f"{certificate.name}: cannot be read: {problem.strerror}") from None
    except ValueError:
        raise PolicyError(f"{certificate.name}: holds no certificate in PEM") from None


def binding(certificate: bytes) -> bytes:
    """Return the `tls-server-end-point` data of a certificate in DER; empty where RFC 5929 defines none.

    Those are certificates whose signature names no hash of its own, Ed25519 for instance. Clients then log in
    without channel binding.
    """
    try:
        _, body, _ = _element(certificate)
        _, _, rest = _element(body)  # what is signed
        _, algorithm, _ = _element(rest)
        tag, identifier, _ = _element(algorithm)
        name = _HASHES.get(_identifier(identifier)) if tag == 6 else None
    except IndexError:
        return b""
    return hashlib.new(name, certificate).digest() if name else b""


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and content of the first DER element, and what follows it."""
    tag, size, start = data[0], data[1], 2
    if size >= 128:
        start += size - 128
        size = int.from_bytes(data[2:start])
    if start + size > len(data):
        raise IndexError
    return tag, data[start : start + size], data[start + size :]


def _identifier(data: bytes) -> str:
    """Return an object identifier in dots.

    >>> _identifier(bytes.fromhex("2a864886f70d01010b"))
    '1.2.840.113549.1.1.11'
    """
    numbers, value = [data[0] // 40, data[0] % 40], 0
    for byte in data[1:]:
        value = value << 7 | byte & 127
        if byte < 128:
            numbers.append(value)
            value = 0
    return ".".join(map(str, numbers))
