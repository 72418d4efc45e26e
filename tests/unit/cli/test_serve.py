"""What `dpsql serve` says about how clients connect."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from dpsql.cli.serve import psql
from dpsql.policy import Policy, ServeConfig, load
from dpsql.serve import self_signed, tls
from dpsql.serve.accounts import Users
from dpsql.serve.state import State


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "pages.csv").write_text("page\nhome\n")
    path = tmp_path / "shop.toml"
    path.write_text("""
[budget]
epsilon = 5
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "VARCHAR" }
""")
    return load(path)


def conninfo(state: State, address: str) -> dict[str, str]:
    command, text = shlex.split(psql(state, address, "alice"))
    assert command == "psql"
    parts = [part.partition("=") for part in shlex.split(text)]  # libpq quotes as the shell does here
    return {name: value for name, _, value in parts}


def test_a_made_certificate_is_named(policy: Policy, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    made = tls.load(*self_signed.make(folder))
    state = State(policy, ServeConfig(name="the shop"), Users({}, b""), made, ())
    assert conninfo(state, "127.0.0.1:5433") == {
        "host": "127.0.0.1",
        "port": "5433",
        "dbname": "the shop",
        "user": "alice",
        "sslmode": "verify-full",
        "sslrootcert": str(folder / "dpsql-server.pem"),
        "channel_binding": "require",
    }
    assert conninfo(state, "[::1]:6000")["host"] == "::1"
    assert conninfo(state, "/run/dpsql/.s.PGSQL.6000") == {
        "host": "/run/dpsql",
        "port": "6000",
        "dbname": "the shop",
        "user": "alice",
    }


def test_a_named_certificate_is_known_to_clients(policy: Policy, tmp_path: Path) -> None:
    certificate, key = self_signed.make(tmp_path)
    config = ServeConfig(certificate=certificate, key=key)
    named = conninfo(
        State(policy, config, Users({}, b""), tls.load(certificate, key), ()), "db.example.org:5433"
    )
    assert "sslrootcert" not in named
    assert named["sslmode"] == "verify-full"
    without = conninfo(State(policy, ServeConfig(), Users({}, b""), None, ()), "127.0.0.1:5433")
    assert "sslmode" not in without
