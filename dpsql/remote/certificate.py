"""Hashes of a server's certificate: what binds a login to it (RFC 5929), and what a person compares."""

from __future__ import annotations

import hashlib

_SHA256, _SHA384, _SHA512 = "sha256", "sha384", "sha512"
_ALGORITHMS = {
    # RFC 5929: MD5 and SHA-1 are replaced by SHA-256.
    "2a864886f70d010104": _SHA256,  # md5WithRSAEncryption
    "2a864886f70d010105": _SHA256,  # sha1WithRSAEncryption
    "2a864886f70d01010b": _SHA256,
    "2a864886f70d01010c": _SHA384,
    "2a864886f70d01010d": _SHA512,
    "2a8648ce3d0401": _SHA256,  # ecdsa-with-SHA1
    "2a8648ce3d040302": _SHA256,
    "2a8648ce3d040303": _SHA384,
    "2a8648ce3d040304": _SHA512,
}
"""The object identifier of a signature's algorithm -> the hash it uses."""


def end_point(der: bytes) -> bytes | None:
    """Return the `tls-server-end-point` of a certificate; None if its signature has no hash known here."""
    try:
        _, certificate, _ = _element(der)
        _, _, rest = _element(certificate)
        _, algorithm, _ = _element(rest)
        kind, identifier, _ = _element(algorithm)
    except (IndexError, ValueError):
        return None
    name = _ALGORITHMS.get(identifier.hex()) if kind == 0x06 else None
    return None if name is None else hashlib.new(name, der).digest()


def fingerprint(der: bytes) -> str:
    """Return the SHA-256 of a certificate as people compare it: `AB:CD:..`."""
    return hashlib.sha256(der).digest().hex(":").upper()


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the tag and the content of the first DER element, and what follows it."""
    tag, size, begin = data[0], data[1], 2
    if size & 0x80:
        begin += size & 0x7F
        size = int.from_bytes(data[2:begin], "big")
    if begin + size > len(data):
        raise ValueError("the element is cut off")
    return tag, data[begin : begin + size], data[begin + size :]
