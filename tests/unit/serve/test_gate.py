"""Each way in which a login ends, by password and by token: no client answers a statement after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from dpsql.serve.gate import Gate, Login
from dpsql.serve.limits import LoginEnded
from dpsql.serve.settings import Settings
from dpsql.serve.users import Account, User, Users, today
from tests.served import clinic, serving

PASSWORD = "correct horse battery"
ASKED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM visits"
ACCOUNT, _, TOKEN = Account(User("bob", "ana")).with_password(PASSWORD).with_token(None, None)
USERS = Users({"bob": ACCOUNT}, b"s" * 32)

ENDS: dict[str, Callable[[Account], Account | None]] = {
    "removed": lambda account: None,
    "disabled": lambda account: replace(account, disabled=True),
    "expired": lambda account: replace(account, user=replace(account.user, expires=today() - timedelta(1))),
    "of another analyst": lambda account: replace(account, user=replace(account.user, analyst="eve")),
}
OF_PASSWORD = {
    **ENDS,
    "another password": lambda account: account.with_password("battery horse correct"),
}
OF_TOKEN = {
    **ENDS,
    "revoked": lambda account: replace(account, tokens=()),
    "token expired": lambda account: replace(
        account, tokens=tuple(replace(each, expires=date(2020, 1, 1)) for each in account.tokens)
    ),
}


def entered(gate: Gate, by: str) -> Login:
    keys = gate.verifier("bob").match(PASSWORD)
    login = gate.by_token(TOKEN) if by == "token" else gate.login("bob", "192.0.2.1", keys, None)
    assert login is not None
    return login


def changed(end: Callable[[Account], Account | None]) -> Users:
    account = end(ACCOUNT)
    return replace(USERS, accounts={} if account is None else {"bob": account})


CASES = [
    *(pytest.param("password", end, id=f"password, {name}") for name, end in OF_PASSWORD.items()),
    *(pytest.param("token", end, id=f"token, {name}") for name, end in OF_TOKEN.items()),
]


@pytest.mark.parametrize(("by", "end"), CASES)
def test_a_login_ends(by: str, end: Callable[[Account], Account | None]) -> None:
    gate = Gate(USERS)
    login = entered(gate, by)
    assert gate.user(login).analyst == "ana"
    gate.users = changed(end)
    assert not gate.holds(login)
    with pytest.raises(LoginEnded, match="no longer valid"):
        gate.user(login)


def test_a_login_outlives_what_is_not_its_own() -> None:
    gate = Gate(USERS)
    by_password, by_token = entered(gate, "password"), entered(gate, "token")
    gate.users = changed(OF_TOKEN["revoked"])
    assert gate.holds(by_password)
    gate.users = changed(lambda account: replace(account, user=replace(account.user, auto_charge=True)))
    assert gate.user(by_token).auto_charge


@pytest.mark.parametrize("protocol", ["wire", "http", "mcp"])
def test_no_open_connection_spends_after_its_login(tmp_path: Path, protocol: str) -> None:
    with serving(clinic(tmp_path), User("bob", "ana")) as service:
        service.gate.users = USERS
        client = service.client(
            entered(service.gate, "token"), 1, Settings("bob", "shop", statement_timeout=300_000)
        )
        client.protocol = protocol
        asyncio.run(client.answer(ASKED))
        spent = service.budget("ana").spent
        for end in OF_TOKEN.values():
            service.gate.users = changed(end)  # without a reload: an expiry comes by itself
            for ask in (client.answer, client.describe, client.price):
                with pytest.raises(LoginEnded):
                    asyncio.run(ask(ASKED))
        assert service.budget("ana").spent == spent


def test_failed_logins_are_slowed_down_and_named_for_the_owner_alone() -> None:
    gate = Gate(USERS)
    for _ in range(6):
        assert gate.login("bob", "192.0.2.1", None, None) is None
    assert gate.delay("bob", "192.0.2.1") > 0
    assert gate.delay("bob", "192.0.2.2") == 0
    assert gate.login("bob", "192.0.2.1", gate.verifier("bob").keys[0], "eve") is None
    assert gate.by_token(TOKEN, certified="eve") is None
    assert gate.log_field("bob") == {"user": "bob"}
    assert gate.log_field("a password") == gate.log_field("") == {}
