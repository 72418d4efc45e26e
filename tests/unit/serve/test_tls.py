"""Certificates: those that the server makes, those that it is given, and what binds a login to one."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpsql.errors import PolicyError
from dpsql.login import hash_for_binding
from dpsql.serve import state

pytest.importorskip("cryptography")
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import NameOID

NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
NOW = datetime.now(UTC)
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def signed(key: Key, algorithm: hashes.HashAlgorithm | None, *, pss: bool = False) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
    )
    if pss:
        assert isinstance(key, rsa.RSAPrivateKey)
        chosen = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
        return builder.sign(key, hashes.SHA256(), rsa_padding=chosen)
    return builder.sign(key, algorithm)  # type: ignore[arg-type]  # one of those that the key signs with


RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize("key", [RSA, EC], ids=["rsa", "ec"])
@pytest.mark.parametrize("algorithm", [hashes.SHA224(), hashes.SHA256(), hashes.SHA384(), hashes.SHA512()])
def test_the_hash_of_the_signature_binds(key: Key, algorithm: hashes.HashAlgorithm) -> None:
    der = signed(key, algorithm).public_bytes(serialization.Encoding.DER)
    assert hash_for_binding(der) == hashlib.new(algorithm.name, der).digest()


def test_a_signature_without_a_hash_binds_nothing() -> None:
    for certificate in (signed(ed25519.Ed25519PrivateKey.generate(), None), signed(RSA, None, pss=True)):
        assert hash_for_binding(certificate.public_bytes(serialization.Encoding.DER)) == b""


@pytest.mark.parametrize("der", [b"", b"\x30", b"\x30\x82\xff\xff", b"\x30\x03\x30\x01\x00", b"\xff" * 40])
def test_what_is_no_certificate_binds_nothing(der: bytes) -> None:
    assert hash_for_binding(der) == b""


def test_a_certificate_is_made_once(tmp_path: Path) -> None:
    certificate, key = state.make_self_signed(tmp_path)
    before = certificate.read_bytes(), key.read_bytes()
    assert state.make_self_signed(tmp_path) == (certificate, key)
    assert (certificate.read_bytes(), key.read_bytes()) == before
    assert key.stat().st_mode & 0o777 == 0o600
    assert certificate.stat().st_mode & 0o777 == 0o644
    loaded = state.load_tls(certificate, key)
    der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    assert loaded.fingerprint.replace(":", "").lower() == hashlib.sha256(der).hexdigest()
    assert loaded.binding == hashlib.sha256(der).digest()
    assert not loaded.clients


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> tuple[str | None, str | None]:
    """Return the version and the application protocol that both agree on."""
    ours, theirs = socket.socketpair()
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            with server.wrap_socket(ours, server_side=True) as wrapped:
                wrapped.recv(1)
        except (OSError, ssl.SSLError) as problem:
            failed.append(problem)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs, server_hostname=name) as wrapped:
            return wrapped.version(), wrapped.selected_alpn_protocol()
    finally:
        theirs.close()
        thread.join()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_clients_verify_the_made_certificate_fully(tmp_path: Path, name: str) -> None:
    loaded = state.load_tls(*state.make_self_signed(tmp_path))
    client = ssl.create_default_context(cafile=loaded.certificate)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.set_alpn_protocols(["postgresql"])
    assert handshake(loaded.context, client, name) == ("TLSv1.3", "postgresql")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(loaded.context, client, "db.example.org")


def test_tls_before_1_2_is_refused(tmp_path: Path) -> None:
    loaded = state.load_tls(*state.make_self_signed(tmp_path))
    assert loaded.context.minimum_version == ssl.TLSVersion.TLSv1_2
    client = ssl.create_default_context(cafile=loaded.certificate)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert handshake(loaded.context, client, "localhost")[0] == "TLSv1.2"


def test_clients_with_certificates(tmp_path: Path) -> None:
    certificate, key = state.make_self_signed(tmp_path)
    loaded = state.load_tls(certificate, key, clientcert=certificate)
    assert loaded.clients
    assert loaded.context.verify_mode == ssl.CERT_REQUIRED


def test_files_that_do_not_serve_are_refused(tmp_path: Path) -> None:
    certificate, key = state.make_self_signed(tmp_path)
    other = tmp_path / "other.key"
    private = EC.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    other.write_bytes(private)
    other.chmod(0o600)
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for paths, problem in (
        ((certificate, other), "other.key: is not the key of dpsql-server.pem, or is encrypted"),
        ((tmp_path / "none.pem", key), "none.pem: cannot be read: No such file"),
        ((certificate, tmp_path / "none.key"), "none.key: cannot be read: No such file"),
        ((text, key), "text.pem: holds no certificate"),
        ((key, key), "dpsql-server.key: holds no certificate"),
        ((certificate, key, text), "text.pem: holds no certificates"),
        ((certificate, tmp_path), "cannot be read"),
    ):
        with pytest.raises(PolicyError, match=problem):
            state.load_tls(*paths)
    key.chmod(0o644)
    with pytest.raises(PolicyError, match=r"dpsql-server.key: others may read or change it \(mode 0644\)"):
        state.load_tls(certificate, key)
    assert os.path.exists(key)
