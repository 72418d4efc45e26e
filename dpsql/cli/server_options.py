"""The options that name a server: `dpsql -h host -p port -U user -d database`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpsql.remote import Target

_Command = TypeVar("_Command", bound="Callable[..., Any]")

_OPTIONS = (
    click.option(
        "-h",
        "--host",
        metavar="HOST",
        is_flag=False,
        flag_value="",
        help="Ask a server instead of a policy on this machine; also a folder with its Unix socket.",
    ),
    click.option("--port", type=click.IntRange(1, 65535), help="The server's port. [default: 5433]"),
    click.option(
        "-U",
        "--user",
        metavar="NAME",
        envvar="DPSQL_USER",
        show_envvar=True,
        help="Who logs in to the server.",
    ),
    click.option("-d", "--database", metavar="NAME", help="The name of the server's database."),
    click.option(
        "--sslrootcert",
        metavar="FILE",
        envvar="DPSQL_SSLROOTCERT",
        show_envvar=True,
        help="The certificate of the server, or of who signed it.",
    ),
)


def server_options(command: _Command) -> _Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def server_of(ctx: click.Context, options: Mapping[str, Any]) -> Target | None:
    """Return the server that the options name; None if they name none."""
    if options["host"] is None:
        given = [name for name in ("port", "user", "database", "sslrootcert") if _given(ctx, name)]
        if given:
            raise click.UsageError(f"--{given[0]} goes with -h HOST")
        return None
    if options["analyst"] is not None:
        raise click.UsageError("a server knows the analyst by the login\nHint: -U NAME in place of --analyst")
    port = options["port"]
    if _given(ctx, "policy"):
        if port is not None or not options["policy"].isascii() or not options["policy"].isdecimal():
            raise click.UsageError("with -h, -p is the server's port: the policy lies on the server")
        port = int(options["policy"])
    from dpsql.errors import InterfaceError
    from dpsql.remote import Target
    from dpsql.remote.target import PORT

    try:
        return Target(
            host=options["host"],
            port=PORT if port is None else port,
            user=options["user"] or _account(),
            database=options["database"] or "",
            sslrootcert=options["sslrootcert"],
        )
    except InterfaceError as problem:
        raise click.UsageError(str(problem)) from None


def _given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _account() -> str:
    """Return the name of the account on this machine, as psql does."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
