"""Hashes of a server's certificate: what binds a login to it (RFC 5929), and what a person compares."""

from __future__ import annotations

import hashlib

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
"""The object identifier of a signature's algorithm -> the hash that binds its certificate."""


def hash_for_binding(certificate: bytes) -> bytes:
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


def hash_certificate(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate in DER, as browsers show it: `AB:CD:..`."""
    return hashlib.sha256(certificate).digest().hex(":").upper()


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
