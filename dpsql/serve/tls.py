"""The server's TLS: its certificate and key, and the settings of the protocol."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.login.certificate import binding, fingerprint
from dpsql.serve.account_file import check_private

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


CLIENT = "dpsql_client"
"""Where an application finds, in the state of a request, the common name of the client's certificate."""


def common_name(connection: ssl.SSLObject) -> str | None:
    """Return the common name in the certificate that the client of a connection has shown, if any."""
    certificate = connection.getpeercert() or {}
    names = [part for name in certificate.get("subject", ()) for part in name]
    return next((str(part[1]) for part in names if part[0] == "commonName"), None)


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
    return Tls(context, binding(der), certificate, key, fingerprint(der), clientcert)


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
