"""A real server for real clients: `dpsql serve` on a copy of the shipped clinic, with two users."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpsql.serve.users import User
from tests.serve.process import DPSQL, PASSWORDS, Running, running
from tests.served import clinic, let_in


@dataclass
class Server:
    """A server's process and what a client needs to log in as alice, who is charged without asking."""

    process: Running
    policy: Path
    port: int
    user: str = "alice"
    password: str = PASSWORDS["alice"]
    database: str = "clinic"

    @property
    def certificate(self) -> Path:
        """The self-signed certificate that the server made at its first start."""
        return self.policy.with_name("dpsql-server.pem")

    @property
    def tls(self) -> ssl.SSLContext:
        """What checks the server's certificate."""
        return ssl.create_default_context(cafile=str(self.certificate))

    @property
    def address(self) -> str:
        """The connection string of libpq."""
        secured = f"sslmode=verify-full sslrootcert={self.certificate} channel_binding=require"
        host = f"host=localhost hostaddr=127.0.0.1 port={self.port}"
        return f"{host} user={self.user} dbname={self.database} {secured}"


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    """Serve a copy of the clinic that lies in this folder."""
    policy = clinic(folder, epsilon=10)
    with policy.open("a") as file:
        file.write('\n[serve]\nlisten = ["127.0.0.1:0"]\nname = "clinic"\n')
    for name, password in PASSWORDS.items():
        let_in(folder, password, User(name, name, auto_charge=name == "alice"))
    with running([*DPSQL, "-p", str(policy), "serve"]) as process:
        found = re.search(r"port=(\d+)", process.psql)
        assert found is not None, process.said
        yield Server(process, policy, int(found[1]))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("clinic")) as found:
        yield found
