"""`dpsql user`: the owner says who may log in to the server."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode
from dpsql.cli.options import read_amount
from dpsql.cli.serve import check_system

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date, datetime

    from dpsql.cli.options import CliSettings
    from dpsql.policy import Policy
    from dpsql.serve.users import Account, User


_RELOAD = "a running server reads the users again on SIGHUP (systemctl reload dpsql)"
_DAY = click.DateTime(["%Y-%m-%d"])


def _add_rights_options(command: Any) -> Any:  # noqa: ANN401  a click command
    """Add the options that say what a user may do."""
    for option in (
        click.option("--analyst", metavar="NAME", help="Whose budget is used. [default: the name]"),
        click.option(
            "--auto-charge/--no-auto-charge",
            default=None,
            help="Whether a statement that names no epsilon is charged the policy's default_epsilon.",
        ),
        click.option(
            "--preview",
            type=click.Choice(["refuse", "empty"]),
            help="What `SELECT * FROM t LIMIT n` gives: a refusal, or the columns without rows.",
        ),
        click.option("--max-connections", type=int, metavar="N", help="Connections at the same time."),
        click.option("--expires", type=_DAY, metavar="YYYY-MM-DD", help="The last day of the login."),
        click.option(
            "--free-below",
            metavar="EPSILON",
            help="The price that an agent may pay unasked, by MCP. [default: 0]",
        ),
    ):
        command = option(command)
    return command


@click.group("user")
def user_command() -> None:
    """For the owner: say who may log in to `dpsql serve`.

    Passwords are asked for, or read from standard input; they are never given on the command line.
    """
    check_system()


@user_command.command("add")
@click.argument("name")
@click.option("--token", is_flag=True, help="Give a token, which is printed once, in place of a password.")
@_add_rights_options
@click.pass_obj
def add_command(settings: CliSettings, /, *, name: str, token: bool, **rights: Any) -> None:  # noqa: ANN401  as declared above
    """Add a user of the server, with a password or a token."""
    from dpsql.serve.users import Account, User

    policy, text = settings.load_policy(), ""
    account = Account(_with_rights(User(name, name), rights))
    if name in _read_accounts(policy):
        raise click.UsageError(f"there is a user {name!r}: see `dpsql user set` and `dpsql user passwd`")
    password = "" if token else _read_password()
    with _change_accounts(policy) as accounts:
        if token:
            account, _, text = account.with_token(None, None)
        else:
            account = account.with_password(password)
        accounts[name] = account
    _print_token(text)
    _narrate_change(policy, f"user {name} is added, as analyst {account.user.analyst}", account)


@user_command.command("set")
@click.argument("name")
@_add_rights_options
@click.pass_obj
def set_command(settings: CliSettings, /, *, name: str, **rights: Any) -> None:  # noqa: ANN401  as declared above
    """Change what a user may do."""
    policy = settings.load_policy()
    with _change_accounts(policy) as accounts:
        account = _find_account(accounts, name)
        account = accounts[name] = replace(account, user=_with_rights(account.user, rights))
    _narrate_change(policy, f"user {name} is changed", account)


@user_command.command("passwd")
@click.argument("name")
@click.pass_obj
def passwd_command(settings: CliSettings, /, *, name: str) -> None:
    """Give a user another password."""
    policy = settings.load_policy()
    _find_account(_read_accounts(policy), name)
    password = _read_password()
    with _change_accounts(policy) as accounts:
        accounts[name] = _find_account(accounts, name).with_password(password)
    _narrate_change(
        policy, f"user {name} has another password; who logged in by the one before is disconnected"
    )


@user_command.command("token")
@click.argument("name")
@click.option("--id", "identifier", metavar="ID", help="The token's name. [default: k1, k2, ..]")
@click.option("--expires", type=_DAY, metavar="YYYY-MM-DD", help="The last day of the token.")
@click.option("--revoke", metavar="ID", help="Take a token away.")
@click.pass_obj
def token_command(
    settings: CliSettings,
    /,
    *,
    name: str,
    identifier: str | None,
    expires: datetime | None,
    revoke: str | None,
) -> None:
    """Give a user a token, which is printed once, or take one away."""
    policy, text = settings.load_policy(), ""
    with _change_accounts(policy) as accounts:
        account = _find_account(accounts, name)
        if revoke is not None:
            accounts[name], done = account.without_token(revoke), f"token {revoke} is taken away"
        else:
            accounts[name], made, text = account.with_token(identifier, _date_of(expires))
            done = f"user {name} has a token {made}"
    _print_token(text)
    _narrate_change(policy, done)


@user_command.command("disable")
@click.argument("name")
@click.pass_obj
def disable_command(settings: CliSettings, /, *, name: str) -> int:
    """Let a user not log in, until `enable`."""
    return _set_disabled(settings, name, disabled=True)


@user_command.command("enable")
@click.argument("name")
@click.pass_obj
def enable_command(settings: CliSettings, /, *, name: str) -> int:
    """Let a user log in again."""
    return _set_disabled(settings, name, disabled=False)


def _set_disabled(settings: CliSettings, name: str, *, disabled: bool) -> int:
    policy = settings.load_policy()
    with _change_accounts(policy) as accounts:
        accounts[name] = replace(_find_account(accounts, name), disabled=disabled)
    _narrate_change(policy, f"user {name} is {'disabled' if disabled else 'enabled'}")
    return ExitCode.OK


@user_command.command("remove")
@click.argument("name")
@click.pass_obj
def remove_command(settings: CliSettings, /, *, name: str) -> None:
    """Remove a user. What the analyst has spent stays spent."""
    policy = settings.load_policy()
    with _change_accounts(policy) as accounts:
        del accounts[_find_account(accounts, name).user.name]
    _narrate_change(policy, f"user {name} is removed")


@user_command.command("list")
@click.pass_obj
def list_command(settings: CliSettings) -> None:
    """List the users of the server, with their analysts and rights."""
    import pyarrow as pa

    from dpsql.serve.users import today

    accounts = _read_accounts(settings.load_policy())
    rows = [
        {
            "user": name,
            "analyst": account.user.analyst,
            "state": account.state(today()),
            "password": account.password is not None,
            "tokens": ", ".join(token.id for token in account.live_tokens(today())),
            "expires": None if account.user.expires is None else account.user.expires.isoformat(),
            "auto_charge": account.user.auto_charge,
            "preview": account.user.preview,
            "free_below": str(account.user.free_below),
            "max_connections": account.user.max_connections,
        }
        for name, account in sorted(accounts.items())
    ]
    with settings.answers("table") as out:
        if rows:
            out.write(pa.Table.from_pylist(rows), None)
        else:
            narrate.note("there is no user: `dpsql user add NAME`")


@contextmanager
def _change_accounts(policy: Policy) -> Iterator[dict[str, Account]]:
    """Give the accounts to a block that changes them; a `ValueError` of it is a mistake of the caller."""
    from dpsql.serve import users
    from dpsql.serve.state import users_path

    try:
        with users.change_accounts(users_path(policy)) as accounts:
            yield accounts
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None


def _read_accounts(policy: Policy) -> Mapping[str, Account]:
    """Return the accounts that there are, by name."""
    from dpsql.serve.state import users_path
    from dpsql.serve.users import Users

    path = users_path(policy)
    return Users.load(path).accounts if path.exists() else {}


def _find_account(accounts: Mapping[str, Account], name: str) -> Account:
    if name not in accounts:
        from dpsql.policy.names import suggest

        raise click.UsageError(f"there is no user {name!r}\nHint: {suggest(name, accounts, 'users')}")
    return accounts[name]


def _with_rights(user: User, rights: Mapping[str, Any]) -> User:
    """Return the user with the options that were given."""
    given = {name: value for name, value in rights.items() if value is not None}
    if "expires" in given:
        given["expires"] = _date_of(given["expires"])
    if "free_below" in given:
        given["free_below"] = read_amount("--free-below", given["free_below"])
    return replace(user, **given)


def _date_of(when: datetime | None) -> date | None:
    return None if when is None else when.date()


def _read_password() -> str:
    """Ask for a password on the terminal, twice, or read a line of standard input."""
    if sys.stdin.isatty():
        asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    return sys.stdin.readline().rstrip("\r\n")


def _print_token(text: str) -> None:
    if text:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        narrate.note("this is the token; it is stored nowhere and not shown again")


def _narrate_change(policy: Policy, done: str, account: Account | None = None) -> None:
    """Say what was done, and what the policy has to say about the user."""
    from dpsql.serve.state import warn_of_users
    from dpsql.serve.users import Users

    narrate.note(f"{done}; {_RELOAD}")
    if account is not None:
        for text in warn_of_users(policy, Users({account.user.name: account}, b"")):
            narrate.warning(text)
