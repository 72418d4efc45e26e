"""URLs of servers, and where passwords come from."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from dpsql.errors import InterfaceError, OperationalError
from dpsql.remote.server_target import Target, find_password


def test_a_url_is_read() -> None:
    target = Target.of(
        "dpsql://alice@db.example:6000/shop?sslrootcert=/a%20b.pem&dp_epsilon=0.5&connect_timeout=2.5"
    )
    assert (target.host, target.port, target.user, target.database) == ("db.example", 6000, "alice", "shop")
    assert (target.sslrootcert, target.connect_timeout) == ("/a b.pem", 2.5)
    assert target.settings == (("dp_epsilon", "0.5"),)
    assert not target.is_local
    short = Target.of("dpsql://a%40b@[::1]")
    assert (short.port, short.user, short.database, short.is_local) == (5433, "a@b", "", True)
    assert short.label == "[::1]:5433"
    unix = Target.of("dpsql://alice@:5434/shop?host=/run/dpsql")
    assert (unix.host, unix.port, unix.is_socket, unix.is_local) == ("/run/dpsql", 5434, True, True)


def test_a_password_in_a_url_is_not_shown() -> None:
    target = Target.of("dpsql://alice:se%2Fcret@h")
    assert target.password == "se/cret"
    assert "se/cret" not in repr(target)
    assert Target.of("dpsql://alice:other@h", "given").password == "given"


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("dpsql://alice@h/shop?password=x", "hold no password"),
        ("dpsql://alice@h/shop?PWD=x", "hold no password"),
        ("dpsql:///dpsql.toml", "names no host"),
        ("dpsql://h", "who logs in"),
        ("dpsql://a@h:99999", "cannot be read"),
        ("dpsql://a@h:0", "port"),
        ("dpsql://a@h?x", "cannot be read"),
        ("dpsql://a@h?x=1", "no parameter x"),
        ("dpsql://a@h?connect_timeout=0", "number of seconds"),
        ("dpsql://a@h?sslrootcert=a&sslrootcert=b", "twice"),
        ("dpsql://a@h?dp_epsilon=1%20-c%20x", "number or a word"),
        ("dpsql://a%00b@h", "control character"),
    ],
)
def test_a_wrong_url_is_refused(url: str, match: str) -> None:
    with pytest.raises(InterfaceError, match=match):
        Target.of(url)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", "/run"])
def test_names_of_this_machine(host: str) -> None:
    assert Target(host, user="a").is_local


@pytest.mark.parametrize("host", ["localhost.example", "10.0.0.1", "0.0.0.0", "host"])
def test_names_of_others(host: str) -> None:
    assert not Target(host, user="a").is_local


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    monkeypatch.delenv("DPSQL_PASSWORD", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    made = tmp_path / "pgpass"
    made.write_text(
        "# localhost:*:*:*:commented\n\nhost:1:only:four\n"
        "db.example:5433:shop:alice:first\\:one\n"
        "*:*:*:alice:any\\\\one\n"
        "localhost:*:*:*:local\n"
    )
    made.chmod(0o600)
    return made


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (Target("db.example", user="alice", database="shop"), "first:one"),
        (Target("db.example", user="alice"), "any\\one"),
        (Target("/run/dpsql", user="bob"), "local"),
    ],
)
def test_the_first_line_that_fits_counts(file: Path, target: Target, found: str) -> None:
    assert find_password(target) == found


def test_the_environment_comes_before_the_file_and_the_caller_before_both(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_PASSWORD", "of the environment")
    assert find_password(Target("h", user="alice")) == "of the environment"
    assert find_password(Target("h", user="alice", password="given")) == "given"


def test_a_file_that_others_can_read_is_not_used(file: Path) -> None:
    file.chmod(0o640)
    with pytest.raises(OperationalError, match="no password for alice on h") as caught:
        find_password(Target("h", user="alice"))
    assert "DPSQL_PASSWORD" in str(caught.value)


def test_without_any_source_the_places_are_named(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    os.remove(file)
    with pytest.raises(OperationalError, match="pgpass"):
        find_password(Target("h", user="carol"))
