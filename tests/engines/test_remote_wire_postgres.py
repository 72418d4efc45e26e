"""dpsql's connection to a real PostgreSQL: TLS, SCRAM with channel binding, COPY, errors, cancelling."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.servers import binaries, postgres

from dpsql.errors import DataError, OperationalError, QueryRefused, QuerySyntaxError
from dpsql.remote.outgoing_statement import SentText
from dpsql.remote.server_target import Target
from dpsql.remote.server_wire import ServerWire

pytestmark = pytest.mark.postgres

Algorithm = hashes.SHA256 | hashes.SHA384 | hashes.SHA512
PASSWORD = "wonder$land 9\u00e9 \u2168"  # SASLprep changes it
RULES = """
local all owner trust
local all all scram-sha-256
host all mallory 127.0.0.1/32 password
hostssl all all 127.0.0.1/32 scram-sha-256
"""


def certificate(folder: Path, algorithm: Algorithm) -> None:
    """Write a self-signed certificate for localhost, whose signature uses a hash."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, algorithm)
    )
    (folder / "server.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (folder / "server.key").chmod(0o600)


@dataclass
class Store:
    """A PostgreSQL with TLS, and users with passwords."""

    port: int
    socket: Path
    data: Path

    def sql(self, *statements: str) -> str:
        command = [
            shutil.which("psql") or str(binaries() / "psql"),
            "-h",
            str(self.socket),
            "-p",
            str(self.port),
            "-U",
            "owner",
        ]
        command += ["-d", "postgres", "-At"]
        for statement in statements:
            command += ["-c", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def use(self, algorithm: Algorithm) -> None:
        """Change the certificate."""
        certificate(self.data, algorithm)
        owner = self.data.stat()
        if os.geteuid() == 0:
            for name in ("server.crt", "server.key", "pg_hba.conf"):
                os.chown(self.data / name, owner.st_uid, owner.st_gid)
        self.sql("SELECT pg_reload_conf()")
        while self.sql("SHOW ssl") != "on":
            self.sql("SELECT pg_sleep(0.05)")

    @property
    def target(self) -> Target:
        return Target("localhost", self.port, "alice", "postgres")

    @property
    def rootcert(self) -> str:
        return str(self.data / "server.crt")


@pytest.fixture(scope="module")
def server() -> Iterator[Store]:
    with postgres() as address:
        port = int(address.rpartition(":")[2].partition("/")[0])
        made = Store(port, Path(), Path())
        # The folder of the socket is that of the data, which only the address' port tells.
        folder = next(p.parent for p in Path(gettempdir()).glob(f"dpsql-pg-*/.s.PGSQL.{port}"))
        made.socket, made.data = folder, folder / "data"
        made.sql(
            f"CREATE ROLE alice LOGIN PASSWORD '{PASSWORD}'",
            "CREATE ROLE mallory LOGIN PASSWORD 'x'",
            "ALTER SYSTEM SET ssl = on",
        )
        (made.data / "pg_hba.conf").write_text(RULES)
        made.use(hashes.SHA256())
        yield made


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def plain(statement: str) -> SentText:
    return SentText(statement, statement)


@pytest.mark.parametrize("algorithm", [hashes.SHA256(), hashes.SHA384(), hashes.SHA512()])
def test_a_login_is_bound_to_the_certificate(server: Store, algorithm: Algorithm) -> None:
    server.use(algorithm)
    for target in (server.target, replace(server.target, sslrootcert=server.rootcert)):
        wire = ServerWire(target, PASSWORD)
        try:
            rows = wire.ask(plain("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")).rows
            assert rows == [["t", "TLSv1.3"]]
        finally:
            wire.close()


def test_a_unix_socket(server: Store) -> None:
    wire = ServerWire(replace(server.target, host=str(server.socket)), PASSWORD)
    assert wire.ask(plain("SELECT current_user")).rows == [["alice"]]
    wire.close()


def test_a_certificate_is_remembered(server: Store, home: Path) -> None:
    ServerWire(server.target, PASSWORD).close()
    remembered = (home / ".dpsql_known_hosts").read_text()
    assert remembered.startswith(f"localhost:{server.port} ")
    ServerWire(server.target, PASSWORD).close()
    assert (home / ".dpsql_known_hosts").read_text() == remembered
    server.use(hashes.SHA256())  # another key
    with pytest.raises(OperationalError, match="has changed, so nothing was sent"):
        ServerWire(server.target, PASSWORD)


def test_a_certificate_that_is_not_trusted_is_refused(
    server: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate(tmp_path, hashes.SHA256())
    with pytest.raises(OperationalError, match="is not accepted"):
        ServerWire(replace(server.target, sslrootcert=str(tmp_path / "server.crt")), PASSWORD)
    with pytest.raises(OperationalError, match="is not accepted"):  # another name than the certificate's
        ServerWire(replace(server.target, host="127.0.0.1", sslrootcert=server.rootcert), PASSWORD)
    monkeypatch.setattr(Target, "is_local", property(lambda self: False))
    with pytest.raises(OperationalError, match="is not accepted"):
        ServerWire(server.target, PASSWORD)
    with pytest.raises(OperationalError, match="cannot read"):
        ServerWire(replace(server.target, sslrootcert=str(tmp_path / "missing")), PASSWORD)


def test_a_wrong_password_and_a_weak_login_are_refused(server: Store) -> None:
    with pytest.raises(OperationalError, match="password authentication failed") as caught:
        ServerWire(server.target, "wrong")
    assert caught.value.sqlstate == "28P01"
    with pytest.raises(OperationalError, match="another kind of login"):
        ServerWire(replace(server.target, user="mallory"), "x")
    with pytest.raises(OperationalError, match="does not exist") as caught:
        ServerWire(replace(server.target, database="nowhere"), PASSWORD)
    assert caught.value.sqlstate == "3D000"


def test_copy_rows_errors_and_notices(server: Store) -> None:
    wire = ServerWire(server.target, PASSWORD)
    reply = wire.ask(plain("COPY (SELECT repeat('x', 1000) FROM generate_series(1, 5000)) TO STDOUT"))
    assert reply.copied is not None
    assert len(reply.copied) == 5000 * 1001
    reply = wire.ask(plain("SELECT 1 AS a, NULL AS b, 'ä' AS c"))
    assert (reply.columns, reply.rows) == (["a", "b", "c"], [["1", None, "ä"]])
    assert wire.ask(plain("DO $$ BEGIN RAISE NOTICE 'said'; END $$")).notices == ["said"]
    assert wire.ask(plain("")).error is None
    states = {
        "SELEC 1": (QuerySyntaxError, "42601"),
        "SELECT *\nFROM nothing": (QueryRefused, "42P01"),
        "SELECT nothing FROM pg_class": (QueryRefused, "42703"),
        "SELECT 1 / 0": (DataError, "22012"),
    }
    for statement, (kind, state) in states.items():
        error = wire.ask(plain(statement)).error
        assert error is not None
        assert type(error) is kind
        assert error.sqlstate == state
    placed = wire.ask(plain("SELECT *\nFROM nothing")).error
    assert isinstance(placed, QueryRefused)
    assert (placed.line, placed.col, placed.source) == (2, 6, "FROM nothing")
    assert wire.ask(plain("SELECT 1")).rows == [["1"]]
    wire.close()


def test_a_statement_is_cancelled(server: Store) -> None:
    wire = ServerWire(server.target, PASSWORD)
    found = []
    thread = threading.Thread(target=lambda: found.append(wire.ask(plain("SELECT pg_sleep(60)"))))
    thread.start()
    while server.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%'") == "0":
        pass
    wire.cancel()
    thread.join(30)
    assert not thread.is_alive()
    error = found[0].error
    assert type(error) is OperationalError
    assert error.sqlstate == "57014"
    assert wire.ask(plain("SELECT 1")).rows == [["1"]]
    wire.close()


def test_a_connection_that_is_ended_is_lost(server: Store) -> None:
    wire = ServerWire(server.target, PASSWORD)
    pid = wire.ask(plain("SELECT pg_backend_pid()")).rows[0][0]
    server.sql(f"SELECT pg_terminate_backend({pid})")
    with pytest.raises(OperationalError):
        wire.ask(plain("SELECT 1"))
    assert wire.lost
