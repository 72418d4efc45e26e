"""`dpsql mcp`: answers a program that speaks the Model Context Protocol, over standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.exits import ExitCode
from dpsql.cli.options import read_amount

if TYPE_CHECKING:
    from fractions import Fraction

    from mcp.server.mcpserver import MCPServer

    from dpsql.cli.options import CliSettings


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
) -> int:
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
    free = _amount("--free-below", free_below)
    person = None if ask_person_above is None else _amount("--ask-person-above", ask_person_above)
    if url is not None:
        _over_server(url, free, person)
    else:
        _over_policy(settings, free, person)
    return ExitCode.OK


def _over_server(url: str, free: Fraction, person: Fraction | None) -> None:
    from dpsql.remote import RemoteSession, Target, find_password
    from dpsql.serve.mcp_server import serve_one
    from dpsql.serve.statement_service import RemoteService

    target = Target.of(url)
    session = RemoteSession(target, find_password(target))
    try:
        _run(serve_one(RemoteService(session, target.user), free_below=free, ask_person_above=person))
    finally:
        session.close()


def _over_policy(settings: CliSettings, free: Fraction, person: Fraction | None) -> None:
    from dpsql.serve.mcp_server import serve_one
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
        _run(serve_one(LocalService(session), free_below=free, ask_person_above=person))
    finally:
        session.close()


def _run(server: MCPServer[object]) -> None:
    server.run("stdio")


def _amount(option: str, text: str) -> Fraction:
    amount = read_amount(option, text)
    if amount < 0:
        raise click.UsageError(f"{option} must be at least 0")
    return amount
