"""What `dpsql serve` says about how clients connect, and where it serves pages."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from dpsql.cli.serve import psql, run
from dpsql.errors import PolicyError
from dpsql.policy import Address, HttpConfig, Policy, ServeConfig, load
from dpsql.serve import server as process
from dpsql.serve import state as read_files
from dpsql.serve.state import State
from dpsql.serve.users import Users


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
    made = read_files.load_tls(*read_files.make_self_signed(folder))
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
    certificate, key = read_files.make_self_signed(tmp_path)
    config = ServeConfig(certificate=certificate, key=key)
    named = conninfo(
        State(policy, config, Users({}, b""), read_files.load_tls(certificate, key), ()),
        "db.example.org:5433",
    )
    assert "sslrootcert" not in named
    assert named["sslmode"] == "verify-full"
    without = conninfo(State(policy, ServeConfig(), Users({}, b""), None, ()), "127.0.0.1:5433")
    assert "sslmode" not in without


def test_the_command_line_says_where_pages_are(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[HttpConfig] = []

    def serve(path: Path, on_ready: object, http: HttpConfig) -> None:
        given.append(http)

    monkeypatch.setattr(process, "serve", serve)
    assert policy.path is not None
    run(policy.path)
    run(policy.path, http="127.0.0.1:8080", owner_page="[::1]:0")
    assert given == [HttpConfig(), HttpConfig(Address("127.0.0.1", 8080), Address("::1", 0))]
    with pytest.raises(PolicyError, match=r"^--http: 'here' is no address"):
        run(policy.path, http="here")
    with pytest.raises(PolicyError, match=r"^http\.owner: 0\.0\.0\.0:1 is reached from other machines"):
        run(policy.path, owner_page="0.0.0.0:1")


@pytest.mark.parametrize(
    ("missing", "host", "text"),
    [
        (False, "0.0.0.0", "http.listen: 0.0.0.0:0 is reached from other machines, and no certificate"),
        (True, "127.0.0.1", "http: needs the packages starlette and uvicorn"),
    ],
)
def test_pages_that_cannot_be_served(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, missing: bool, host: str, text: str
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, "dpsql.serve.page", None)
    nothing = cast("Any", None)
    state = State(policy, ServeConfig(), Users({}, b""), None, ())
    with pytest.raises(PolicyError, match=f"^{re.escape(text)}"):
        process._make_fronts(state, nothing, HttpConfig(Address(host, 0)), nothing)
