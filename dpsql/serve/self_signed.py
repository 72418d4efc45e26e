"""Make a self-signed certificate for a server that only programs on the same machine reach."""

from __future__ import annotations

import ipaddress
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpsql.serve.account_file import replace_private

CERTIFICATE = "dpsql-server.pem"
KEY = "dpsql-server.key"
_VALID = timedelta(days=3650)


def make(folder: Path) -> tuple[Path, Path]:
    """Return the paths of certificate and key in a folder, and make both if they are not there.

    Raises `ImportError` where the package `cryptography` is not installed.
    """
    certificate, key = folder / CERTIFICATE, folder / KEY
    if not (certificate.exists() and key.exists()):
        signed, private = _pair()
        replace_private(key, private)
        replace_private(certificate, signed)
        certificate.chmod(0o644)  # clients read it
    return certificate, key


def _pair() -> tuple[bytes, bytes]:
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
