"""`dpsql serve`, the server of `dpsql demo --serve`; `dpsql mcp`, which answers a program on its stdin."""

from __future__ import annotations

import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode
from dpsql.cli.options import read_amount

if TYPE_CHECKING:
    from fractions import Fraction

    from mcp.server.mcpserver import MCPServer

    from dpsql.cli.options import CliSettings
    from dpsql.serve.state import State

_USERS = ("alice", "bob")
_PORT = 5433
_DEMO = """
[serve]
listen = ["127.0.0.1:{port}"]
"""
_PAGES = """
[http]
listen = "127.0.0.1:{page}"
owner = "127.0.0.1:{owner}"
"""


_PAGE_PORT, _OWNER_PORT = 8080, 8081
_PAGE, _OWNER = f"127.0.0.1:{_PAGE_PORT}", f"127.0.0.1:{_OWNER_PORT}"


@click.command("serve")
@click.option(
    "--http",
    metavar="[ADDRESS]",
    is_flag=False,
    flag_value=_PAGE,
    help=f"Serve a page for analysts too, and JSON for programs.  [without ADDRESS: {_PAGE}]",
)
@click.option(
    "--owner-page",
    metavar="[ADDRESS]",
    is_flag=False,
    flag_value=_OWNER,
    help=f"Serve the owner's page, on this machine alone.  [without ADDRESS: {_OWNER}]",
)
@click.pass_obj
def serve_command(settings: CliSettings, /, *, http: str | None, owner_page: str | None) -> int:
    """For the owner: let analysts ask from other machines, with PostgreSQL's clients or a browser.

    The policy's [serve] says where; without it, at 127.0.0.1:5433. Users are added by `dpsql user add`.
    SIGHUP reads policy, users and certificate again; SIGTERM ends the server when what runs has ended.

    The log is written to standard error as JSON, without statements and answers. How long a private
    statement takes can depend on the data and is not hidden, unless the policy has time_steps = true.
    """
    return run(Path(settings.policy), http=http, owner_page=owner_page)


def run(
    policy: Path,
    passwords: dict[str, str] | None = None,
    *,
    http: str | None = None,
    owner_page: str | None = None,
) -> int:
    """Serve until told to stop; say on standard output how clients connect."""
    check_system()
    from dpsql.policy import Address, HttpConfig
    from dpsql.serve.server import serve

    pages = HttpConfig(
        None if http is None else Address.parse(http, "--http"),
        None if owner_page is None else Address.parse(owner_page, "--owner-page"),
    )
    serve(policy, lambda state, addresses: _say_addresses(state, addresses, passwords or {}), pages)
    return ExitCode.OK


def check_system() -> None:
    """Raise a usage error where the server and its users file cannot work."""
    if os.name != "posix":
        raise click.UsageError("the server needs Linux, macOS or another POSIX system")


def serve_demo(folder: Path, policy: Path) -> int:
    """Serve the demo's data to two users, whose passwords are printed."""
    from dpsql.login import draw_text
    from dpsql.policy import load
    from dpsql.serve import users
    from dpsql.serve.state import users_path
    from dpsql.serve.users import Account, User

    with policy.open("a", encoding="utf-8") as file:
        file.write(_DEMO.format(port=_free_port(_PORT)))
        if all(map(find_spec, ("starlette", "uvicorn"))):
            file.write(_PAGES.format(page=_free_port(_PAGE_PORT), owner=_free_port(_OWNER_PORT)))
    passwords = {name: draw_text(12) for name in _USERS}
    with users.change_accounts(users_path(load(policy))) as accounts:
        for name, password in passwords.items():
            accounts[name] = Account(User(name, name)).with_password(password)
    narrate.note(f"data, policy, ledger and users are in {folder}; Ctrl-C ends the server")
    return run(policy, passwords)


def _free_port(customary: int) -> int:
    """Return the customary port, or another one if that is taken."""
    for port in (customary, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as probe:
                return int(probe.getsockname()[1])
        except OSError:
            continue
    return 0


def _say_addresses(state: State, addresses: list[str], passwords: dict[str, str]) -> None:
    """Print the addresses of a started server, with a command of each client."""
    lines = [f"dpsql serves the database {state.config.name}:"]
    lines += [f"  {_show_address(state, address)}" for address in addresses]
    if state.tls is not None:
        lines.append(f"certificate {state.tls.certificate}, SHA-256 {state.tls.fingerprint}")
    for name, password in passwords.items():
        lines.append(f"user {name}, password {password}")
    if passwords:
        name, password = next(iter(passwords.items()))
        lines.append(f"  PGPASSWORD={password} {psql(state, addresses[0], name)}")
    lines.append("ready; SIGHUP reloads, SIGTERM or Ctrl-C ends")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _show_address(state: State, address: str) -> str:
    """Return how a client connects to an address; the owner's key is shown on a terminal alone."""
    if "://" not in address:
        return psql(state, address)
    if not address.endswith("/owner"):
        return address
    from dpsql.serve.page.owner import link_file

    link = link_file(state.config.users)
    return link.read_text().strip() if sys.stdout.isatty() else f"{address}, by the link in the file {link}"


def psql(state: State, address: str, user: str = "NAME") -> str:
    """Return the command by which psql connects to an address."""
    local = address.startswith("/")
    host, _, port = address.rpartition("/.s.PGSQL." if local else ":")
    parts = {"host": host.strip("[]"), "port": port, "dbname": state.config.name, "user": user}
    if state.tls is not None and not local:
        parts["sslmode"] = "verify-full"
        if not state.is_trusted:
            parts["sslrootcert"] = str(state.tls.certificate)
        if state.tls.binding:
            parts["channel_binding"] = "require"
    return f'psql "{" ".join(f"{name}={_quote(value)}" for name, value in parts.items())}"'


def _quote(value: str) -> str:
    """Return a value as libpq reads it between the shell's double quotes."""
    plain = value and all(c.isalnum() or c in "/._:-" for c in value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return value if plain else f"'{escaped}'"


@click.command("mcp")
@click.option(
    "--url", metavar="URL", help="Ask a server: dpsql://USER@HOST:PORT; the token is in DPSQL_PASSWORD."
)
@click.option(
    "--free-below",
    metavar="EPSILON",
    default="0",
    show_default=True,
    help="The price up to which a statement needs no confirmation.",
)
@click.option(
    "--ask-person-above",
    metavar="EPSILON",
    help="The price above which a person is asked, where the program can ask one. [default: the policy's]",
)
@click.pass_obj
def mcp_command(
    settings: CliSettings, /, *, url: str | None, free_below: str, ask_person_above: str | None
) -> None:
    """Let a program ask by the Model Context Protocol, over standard input and output.

    Without --url: over the policy on this machine, for the owner's trials, since whoever runs this can
    read the data. With --url: over a server of `dpsql serve`, on the program's own machine.
    """
    try:
        import mcp.server  # noqa: F401
    except ImportError:
        raise click.UsageError(
            "the Model Context Protocol needs the package mcp\nHint: pip install 'dpsql[mcp]'"
        ) from None
    free = _read_price("--free-below", free_below)
    person = None if ask_person_above is None else _read_price("--ask-person-above", ask_person_above)
    if url is not None:
        _over_server(url, free, person)
    else:
        _over_policy(settings, free, person)


def _over_server(url: str, free: Fraction, person: Fraction | None) -> None:
    from dpsql.remote import RemoteSession
    from dpsql.remote.server_target import Target, find_password
    from dpsql.serve.mcp.tools import serve_one
    from dpsql.serve.statement_service import RemoteService

    target = Target.of(url)
    session = RemoteSession(target, find_password(target))
    try:
        _run_on_stdio(
            serve_one(RemoteService(session, target.user), free_below=free, ask_person_above=person)
        )
    finally:
        session.close()


def _over_policy(settings: CliSettings, free: Fraction, person: Fraction | None) -> None:
    from dpsql.serve.mcp.tools import serve_one
    from dpsql.serve.statement_service import LocalService
    from dpsql.session import Session

    policy = settings.load_policy()
    if person is None and policy.serve is not None:
        person = policy.serve.mcp.ask_person_above
    narrate.warning("for the owner's trials: the program runs on the machine that holds the data")
    session = Session(policy, settings.analyst)
    try:
        for text in session.messages:
            narrate.note(text)
        _run_on_stdio(serve_one(LocalService(session), free_below=free, ask_person_above=person))
    finally:
        session.close()


def _run_on_stdio(server: MCPServer[object]) -> None:
    server.run("stdio")


def _read_price(option: str, text: str) -> Fraction:
    amount = read_amount(option, text)
    if amount < 0:
        raise click.UsageError(f"{option} must be at least 0")
    return amount
