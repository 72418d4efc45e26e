"""The server's TLS: its certificate and key, and the settings of the protocol.

A server that only programs on the same machine reach can make a self-signed certificate.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.login.certificate import hash_certificate, hash_for_binding
from dpsql.serve.account_file import check_private, replace_private

CERTIFICATE = "dpsql-server.pem"
KEY = "dpsql-server.key"
_VALID = timedelta(days=3650)
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
    return Tls(context, hash_for_binding(der), certificate, key, hash_certificate(der), clientcert)


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


def make_self_signed(folder: Path) -> tuple[Path, Path]:
    """Return the paths of certificate and key in a folder, and make both if they are not there.

    Raises `ImportError` where the package `cryptography` is not installed.
    """
    certificate, key = folder / CERTIFICATE, folder / KEY
    if not (certificate.exists() and key.exists()):
        signed, private = _make_pair()
        replace_private(key, private)
        replace_private(certificate, signed)
        certificate.chmod(0o644)  # clients read it
    return certificate, key


def _make_pair() -> tuple[bytes, bytes]:
    """Return a new certificate for this machine's names, and its key, in PEM."""
    from cryptography import x509  # noqa: PLC0415  of the extra `dpsql[serve]`
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dpsql server")])
    names: list[x509.GeneralName] = [
        x509.DNSName(each) for each in dict.fromkeys(["localhost", host]) if each.isascii() and each
    ]
    names += [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "::1")]
    now = datetime.now(UTC)
    absent = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment"), False)
    absent |= dict.fromkeys(("key_agreement", "key_cert_sign", "crl_sign"), False)
    usage = x509.KeyUsage(digital_signature=True, encipher_only=False, decipher_only=False, **absent)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return signed.public_bytes(serialization.Encoding.PEM), private
