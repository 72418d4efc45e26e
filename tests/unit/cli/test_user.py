"""`dpsql user`: accounts are added, changed, disabled, removed and listed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.cli import main
from dpsql.cli.narrate import ExitCode
from dpsql.login.scram import Verifier
from dpsql.serve.users import Users

POLICY = """
[budget]
epsilon = 10
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "VARCHAR" }
[serve]
users = "people.toml"
"""
PASSWORD = "correct horse battery"


@dataclass
class Done:
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    path = tmp_path / "dpsql.toml"
    path.write_text(POLICY)
    (tmp_path / "pages.csv").write_text("page\nhome\n")

    def go(*args: str, stdin: str = "", options: tuple[str, ...] = ()) -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(["-p", str(path), *options, "user", *args])
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return go


@pytest.fixture
def users(tmp_path: Path) -> Callable[[], Users]:
    return lambda: Users.load(tmp_path / "people.toml")


def accepts(users: Users, name: str, password: str) -> bool:
    verifier = users.verifier(name)
    return Verifier.of(password, verifier.salt).keys[0] in verifier.keys


def test_a_user_is_added_with_a_password_of_standard_input(run: Run, users: Callable[[], Users]) -> None:
    done = run("add", "alice", stdin=PASSWORD + "\n")
    assert (done.code, done.out) == (ExitCode.OK, "")
    assert "user alice is added, as analyst alice" in done.err
    assert "SIGHUP" in done.err
    assert "no cap under [analysts]" in done.err
    assert PASSWORD not in done.err
    found = users().user("alice")
    assert found is not None
    assert (found.analyst, found.auto_charge, found.preview) == ("alice", False, "refuse")
    assert accepts(users(), "alice", PASSWORD)
    assert not accepts(users(), "alice", PASSWORD + "x")


def test_every_right_is_set_and_changed(run: Run, users: Callable[[], Users]) -> None:
    rights = ("--analyst", "team", "--auto-charge", "--preview", "empty", "--max-connections", "3")
    run("add", "bot", *rights, "--expires", "2999-01-31", "--free-below", "0.1", stdin=PASSWORD)
    found = users().user("bot")
    assert found is not None
    assert (found.analyst, found.auto_charge, found.preview, found.max_connections) == (
        "team",
        True,
        "empty",
        3,
    )
    assert (found.expires, found.free_below) == (date(2999, 1, 31), Fraction(1, 10))
    assert run("set", "bot", "--no-auto-charge", "--free-below", "1/3").code == 0
    changed = users().user("bot")
    assert changed is not None
    assert (changed.auto_charge, changed.free_below, changed.analyst) == (False, Fraction(1, 3), "team")
    assert accepts(users(), "bot", PASSWORD)


def test_a_password_is_changed(run: Run, users: Callable[[], Users]) -> None:
    run("add", "alice", stdin=PASSWORD)
    salt = users().verifier("alice").salt
    assert run("passwd", "alice", stdin="another long password").code == 0
    assert accepts(users(), "alice", "another long password")
    assert not accepts(users(), "alice", PASSWORD)
    assert users().verifier("alice").salt != salt


def test_a_user_with_a_token(run: Run, users: Callable[[], Users]) -> None:
    done = run("add", "bot", "--token")
    token = done.out.strip()
    assert token.startswith("dpsql_")
    assert len(token) == 49
    assert token not in done.err
    found = users().by_token(token)
    assert found is not None
    assert found[0].name == "bot"
    assert accepts(users(), "bot", token)
    # A password beside it; both go on.
    run("passwd", "bot", stdin=PASSWORD)
    second = run("token", "bot", "--expires", "2999-01-31", "--id", "laptop").out.strip()
    assert all(accepts(users(), "bot", text) for text in (token, PASSWORD, second))
    assert run("token", "bot", "--revoke", "k1").code == 0
    assert users().by_token(token) is None
    assert [accepts(users(), "bot", text) for text in (token, PASSWORD, second)] == [False, True, True]


def test_disable_enable_remove(run: Run, users: Callable[[], Users]) -> None:
    run("add", "alice", stdin=PASSWORD)
    assert run("disable", "alice").code == 0
    assert users().state("alice") == "disabled"
    assert not accepts(users(), "alice", PASSWORD)
    assert run("enable", "alice").code == 0
    assert accepts(users(), "alice", PASSWORD)
    assert run("remove", "alice").code == 0
    assert users().state("alice") == "unknown"


def test_users_are_listed(run: Run) -> None:
    assert "there is no user" in run("list").err
    run("add", "bob", stdin=PASSWORD)
    run("add", "alice", "--token", "--expires", "2000-01-01")
    rows = [json.loads(line) for line in run("list", options=("--format", "jsonl")).out.splitlines()]
    assert [(row["user"], row["state"], row["password"], row["tokens"]) for row in rows] == [
        ("alice", "expired", False, "k1"),
        ("bob", "active", True, ""),
    ]
    shown = run("list").out
    assert "alice" in shown
    assert "SCRAM" not in shown


@pytest.mark.parametrize(
    ("args", "stdin", "problem"),
    [
        (("add", "Alice"), PASSWORD, "1 to 63 of the characters"),
        (("add", "postgres"), PASSWORD, "reserved"),
        (("add", "a" * 64), PASSWORD, "1 to 63 of the characters"),
        (("add", "carol"), "short\n", "12 to 256 characters"),
        (("add", "carol"), "", "12 to 256 characters"),
        (("add", "carol"), "a" * 257, "12 to 256 characters"),
        (("add", "carol"), "a password \U0001f600 with emoji", "emoji"),
        (("add", "alice"), PASSWORD, "there is a user 'alice'"),
        (("add", "carol", "--password", PASSWORD), "", "No such option"),
        (("add", "carol", "--expires", "tomorrow"), PASSWORD, "--expires"),
        (("add", "carol", "--free-below", "x"), PASSWORD, "--free-below: not a finite number"),
        (("add", "carol", "--free-below=-1"), PASSWORD, "at least 0"),
        (("add", "carol", "--max-connections", "0"), PASSWORD, "between 1 and"),
        (("passwd", "alicia"), PASSWORD, "did you mean alice?"),
        (("passwd", "alice"), "short", "12 to 256 characters"),
        (("disable", "nobody"), "", "there is no user 'nobody'"),
        (("remove", "nobody"), "", "there is no user 'nobody'"),
        (("token", "alice", "--revoke", "k1"), "", "there is no token 'k1' (there are: none)"),
        (("token", "alice", "--id", "x" * 64), "", "1 to 63 printable"),
    ],
)
def test_a_mistake_changes_nothing(
    run: Run, tmp_path: Path, args: tuple[str, ...], stdin: str, problem: str
) -> None:
    run("add", "alice", stdin=PASSWORD)
    before = (tmp_path / "people.toml").read_bytes()
    done = run(*args, stdin=stdin)
    assert done.code == ExitCode.USAGE
    assert problem in " ".join(done.err.split())
    assert PASSWORD not in done.err
    assert (tmp_path / "people.toml").read_bytes() == before


def test_a_user_has_few_tokens(run: Run) -> None:
    run("add", "bot", "--token")
    for _ in range(15):
        assert run("token", "bot").code == 0
    done = run("token", "bot")
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert "at most 16 tokens" in done.err


def test_a_damaged_file_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    run("add", "alice", stdin=PASSWORD)
    path = tmp_path / "people.toml"
    path.write_text(path.read_text()[:-20])
    path.chmod(0o600)
    before = path.read_bytes()
    done = run("add", "bob", stdin=PASSWORD)
    assert done.code == ExitCode.USAGE
    assert "people.toml" in done.err
    assert path.read_bytes() == before
