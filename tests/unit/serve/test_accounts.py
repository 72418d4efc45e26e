"""The users file: what it holds, who can log in, and how it is replaced."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import PolicyError
from dpsql.login import PLAIN
from dpsql.login.scram import ScramRejectedError, ScramServer, Verifier
from dpsql.serve import users as users_file
from dpsql.serve.users import Account, Token, User, Users, token_hash

SALT = b"0123456789abcdef"
PASSWORD = Verifier.of("correct horse battery", SALT)
TODAY = date(2026, 11, 23)


def token(text: str, expires: date | None = None) -> Token:
    return Token("k1", token_hash(text), Verifier.of(text, SALT), expires)


ALICE = Account(User("alice", "alice"), PASSWORD)


def users(*accounts: Account) -> Users:
    return Users({account.user.name: account for account in accounts}, b"s" * 32, lambda: TODAY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql-users.toml"


def test_what_is_written_is_read(path: Path) -> None:
    everything = Account(
        User("agent-7.x", 'Zoë "the" analyst', True, "empty", 3, date(2027, 6, 30), Fraction(1, 3)),
        PASSWORD,
        (token("dpsql_one"), replace(token("dpsql_two", date(2027, 1, 31)), id="k2")),
        disabled=True,
    )
    with users_file.change_accounts(path) as accounts:
        accounts["alice"] = ALICE
        accounts["agent-7.x"] = everything
    read = Users.load(path)
    assert dict(read.accounts) == {"alice": ALICE, "agent-7.x": everything}
    assert len(read.secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert [user.name for user in read] == ["alice", "agent-7.x"]


def test_the_secret_stays_when_users_change(path: Path) -> None:
    with users_file.change_accounts(path) as accounts:
        accounts["alice"] = ALICE
    secret = Users.load(path).secret
    with users_file.change_accounts(path) as accounts:
        del accounts["alice"]
    assert Users.load(path).secret == secret
    assert len(Users.load(path)) == 0


def test_nothing_is_written_if_the_change_fails(path: Path) -> None:
    with users_file.change_accounts(path) as accounts:
        accounts["alice"] = ALICE
    before = path.read_bytes()
    with pytest.raises(KeyError), users_file.change_accounts(path) as accounts:
        del accounts["alice"], accounts["bob"]
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_changes_at_the_same_time_are_all_kept(path: Path) -> None:
    def add(name: str) -> None:
        with users_file.change_accounts(path) as accounts:
            accounts[name] = Account(User(name, name), PASSWORD)

    threads = [threading.Thread(target=add, args=(f"user{i}",)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Users.load(path)) == 12


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o602, 0o700])
def test_a_file_that_others_can_read_is_refused(path: Path, mode: int) -> None:
    with users_file.change_accounts(path) as accounts:
        accounts["alice"] = ALICE
    path.chmod(mode)
    if os.geteuid() == 0 and mode == 0o640:  # allowed for root's files: systemd hands out such credentials
        assert len(Users.load(path)) == 1
        return
    with pytest.raises(PolicyError, match=r"dpsql-users.toml: others may read or change it \(mode 0\d+\)"):
        Users.load(path)


def test_a_missing_file_names_the_command(path: Path) -> None:
    with pytest.raises(PolicyError, match="no such file") as caught:
        Users.load(path)
    assert "dpsql user add" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("version = 1", "version = 2", "version: is not 1"),
        ("secret = ", "secret = 'short' #", "secret: is not 32 bytes"),
        ("secret = ", "#", "secret: is not 32 bytes"),
        ("[users.alice]", "[users.Alice]", "a-z 0-9"),
        ("[users.alice]", "[users.postgres]", "reserved"),
        ("[users.alice]", "[users.alice]\nroot = true", "users.alice.root: unknown key"),
        ('scram = "SCRAM', 'scram = "XCRAM', "no SCRAM-SHA-256 verifier"),
        ('analyst = "alice"', 'analyst = ""', "printable characters"),
        ('analyst = "alice"', "analyst = 5", "expected text, found an integer"),
        ("auto_charge = false", "auto_charge = 1", "expected a boolean"),
        ('preview = "refuse"', 'preview = "rows"', "users.alice.preview: expected one of refuse, empty"),
        ("max_connections = 20", "max_connections = 0", "between 1 and"),
        ('free_below = "0"', 'free_below = "-1"', "at least 0"),
        ('free_below = "0"', 'free_below = "x"', "not a finite number"),
        ('free_below = "0"', "expires = 2027-01-01T00:00:00", "expected a date"),
        ('free_below = "0"', "tokens = [{ id = 'k' }]", "sha256: is required"),
        ('free_below = "0"', "tokens = 1", "expected a list"),
        ("[users.alice]", "[users.alice", "is damaged"),
    ],
)
def test_a_wrong_file_is_refused(path: Path, old: str, new: str, problem: str) -> None:
    with users_file.change_accounts(path) as accounts:
        accounts["alice"] = ALICE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(PolicyError, match=problem) as caught:
        Users.load(path)
    assert str(caught.value).startswith("dpsql-users.toml: ")
    assert PASSWORD.__str__() not in str(caught.value)


def test_two_users_cannot_have_one_token(path: Path) -> None:
    with users_file.change_accounts(path) as accounts:
        accounts["a"] = Account(User("a", "a"), tokens=(token("dpsql_one"),))
        accounts["b"] = Account(User("b", "b"), tokens=(token("dpsql_one"),))
    with pytest.raises(PolicyError, match="same token"):
        Users.load(path)


CANNOT = {
    "disabled": replace(ALICE, disabled=True),
    "expired": replace(ALICE, user=replace(ALICE.user, expires=date(2026, 11, 22))),
    "no password": replace(ALICE, password=None),
}


@pytest.mark.parametrize("state", CANNOT)
def test_who_may_not_log_in_fails_as_with_a_wrong_password(
    scram_client: Callable[[str], Any], state: str
) -> None:
    listed = users(CANNOT[state])
    assert listed.state("alice") == state
    assert listed.user("alice") is None
    server, client = ScramServer(listed.verifier("alice"), None), scram_client("correct horse battery")
    first = server.first(PLAIN, client.first())
    with pytest.raises(ScramRejectedError, match="wrong password"):
        server.final(client.final(first))


def test_salt_and_rounds_do_not_show_that_a_user_was_disabled() -> None:
    before, after = users(ALICE).verifier("alice"), users(CANNOT["disabled"]).verifier("alice")
    assert (before.salt, before.iterations) == (after.salt, after.iterations)
    assert before.keys != after.keys


def test_an_unknown_user_has_a_verifier() -> None:
    listed = users(ALICE)
    assert listed.state("bob") == "unknown"
    assert listed.user("bob") is None
    assert listed.verifier("bob") == listed.verifier("bob") != listed.verifier("carol")
    assert len(listed.verifier("bob").salt) == len(listed.verifier("alice").salt)


def test_the_last_day_is_included() -> None:
    listed = users(replace(ALICE, user=replace(ALICE.user, expires=TODAY)))
    assert listed.user("alice") is not None


def test_a_token_logs_in_by_itself_and_as_a_password(scram_client: Callable[[str], Any]) -> None:
    listed = users(replace(ALICE, tokens=(token("dpsql_live"), token("dpsql_old", date(2026, 11, 22)))))
    assert (listed.by_token("dpsql_live") or [None])[0] == ALICE.user
    assert listed.by_token("dpsql_old") is None
    assert listed.by_token("correct horse battery") is None
    assert listed.by_token("") is None
    for password, passes in (("dpsql_live", True), ("correct horse battery", True), ("dpsql_old", False)):
        server, client = ScramServer(listed.verifier("alice"), None), scram_client(password)
        final = client.final(server.first(PLAIN, client.first()))
        if passes:
            assert server.final(final).startswith(b"v=")
        else:
            with pytest.raises(ScramRejectedError):
                server.final(final)


def test_a_disabled_user_has_no_token() -> None:
    account = replace(ALICE, tokens=(token("dpsql_live"),), disabled=True)
    assert users(account).by_token("dpsql_live") is None
    only = Account(User("bot", "bot"), tokens=(token("dpsql_old", date(2026, 11, 22)),))
    assert users(only).state("bot") == "expired"
