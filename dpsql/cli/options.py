"""The options that all commands share: policy, output, server; what `-c`, `-f` and `--upload` name."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from dpsql.cli import narrate
from dpsql.cli.output import AnswerOutput
from dpsql.errors import ProgrammingError
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from fractions import Fraction

    import pyarrow as pa

    from dpsql.ledger import Ledger, Opening
    from dpsql.policy import Policy
    from dpsql.remote.server_target import Target
    from dpsql.session_api import AnalystSession


_Command = TypeVar("_Command", bound="Callable[..., Any]")

NARROWEST = 20
"""Cells below which no table can be read."""


@dataclass(frozen=True, slots=True)
class CliSettings:
    """Values of the options that stand before a command: `dpsql [OPTIONS] COMMAND`."""

    policy: str
    analyst: str | None
    format: str | None
    target: str | None
    on_error: str
    intervals: bool = False
    exact_digits: bool = False
    width: int | None = None
    upload: tuple[str, ...] = ()
    server: Target | None = None
    """The server that answers, in place of a policy on this machine."""

    @property
    def go_on(self) -> bool:
        """Whether statements after one that failed run."""
        return self.on_error == "continue"

    def load_policy(self) -> Policy:
        """Load the policy's file; raises `PolicyError`."""
        from dpsql.policy import load

        return load(self.policy)

    def open_ledger(self, opening: Opening | None = None) -> Ledger:
        """Open the policy's ledger alone: reading the budget needs neither the data nor the engine."""
        from dpsql.ledger import Ledger, Opening

        ledger = Ledger.of(self.load_policy(), opening or Opening.USE)
        for text in ledger.messages:
            narrate.note(text)
        return ledger

    @contextmanager
    def answers(self, default: str | None = None) -> Iterator[AnswerOutput]:
        """Check that answers can be written (else `UnwritableError`), and close their file at the end."""
        output = AnswerOutput(
            self.format or default,
            self.target,
            intervals=self.intervals,
            exact_digits=self.exact_digits,
            columns=self.width,
        )
        output.check()
        try:
            yield output
        finally:
            output.close()


class Width(click.ParamType[int]):
    """The value of `--width`: a number of cells, or `full`, which is 0: as many as a table takes."""

    name = "columns"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of cells."""
        text = str(value).strip().lower()
        if text == "full":
            return 0
        if text.isascii() and text.isdigit() and len(text) < 7 and int(text) >= NARROWEST:
            return int(text)
        return self.fail(f"{text[:20]!r} is no width: write a number from {NARROWEST}, or full", param, ctx)


_SERVER = (
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
    """Add the options that name a server to a command: `dpsql -h host -p port -U user -d database`."""
    for option in reversed(_SERVER):
        command = option(command)
    return command


def server_of(ctx: click.Context, options: Mapping[str, Any]) -> Target | None:
    """Return the server that the options name; None if they name none."""
    if options["host"] is None:
        given = [name for name in ("port", "user", "database", "sslrootcert") if _is_given(ctx, name)]
        if given:
            raise click.UsageError(f"--{given[0]} goes with -h HOST")
        return None
    if options["analyst"] is not None:
        raise click.UsageError("a server knows the analyst by the login\nHint: -U NAME in place of --analyst")
    port = options["port"]
    if _is_given(ctx, "policy"):
        if port is not None or not options["policy"].isascii() or not options["policy"].isdecimal():
            raise click.UsageError("with -h, -p is the server's port: the policy lies on the server")
        port = int(options["policy"])
    from dpsql.errors import InterfaceError
    from dpsql.remote.server_target import PORT, Target

    try:
        return Target(
            host=options["host"],
            port=PORT if port is None else port,
            user=options["user"] or _account_name(),
            database=options["database"] or "",
            sslrootcert=options["sslrootcert"],
        )
    except InterfaceError as problem:
        raise click.UsageError(str(problem)) from None


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _account_name() -> str:
    """Return the name of the account on this machine, as psql does."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def read_amount(option: str, text: str) -> Fraction:
    """Return the number that an option has, which may be a fraction; raise `click.UsageError` for others."""
    from dpsql.kernel.loss import exact

    try:
        return exact(text)
    except ValueError as problem:
        raise click.UsageError(f"{option}: {problem}") from None


_COMMENTS = lazy_pattern(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)

META = "dpsql.sources"
"""Key in click's context that holds the values of -c and -f, in order."""


@dataclass(frozen=True, slots=True)
class GivenSql:
    """The SQL of one `-c SQL` (`file` is None) or of one `-f FILE`; the file `-` is standard input."""

    text: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement and its place: the file and the line its text starts in, or "-c"."""

    text: str
    origin: str
    line: int

    @property
    def where(self) -> str:
        """The place of a statement as FILE:LINE, where it begins behind the comments before it; or `-c`."""
        if self.origin == "-c":
            return self.origin
        comments = _COMMENTS.match(self.text)
        return f"{self.origin}:{self.line + (comments[0].count(chr(10)) if comments else 0)}"


class InOrder(click.Group):
    """A click group that keeps the common order of `-c` and `-f`, which click separates."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line as click does, and once more for the order of `-c` and `-f`."""
        given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        waiting = {name: iter(given.get(name) or ()) for name in ("command", "file")}
        ctx.meta[META] = [(param.name, next(waiting[param.name])) for param in order if param.name in waiting]
        return super().parse_args(ctx, args)


def read_sources(given: Sequence[tuple[str, str]]) -> list[GivenSql]:
    """Return the SQL of each `-c` and of each `-f` file; raises `click.UsageError` if one is unreadable."""
    return [GivenSql(value) if kind == "command" else _read_file(value) for kind, value in given]


def _read_file(name: str) -> GivenSql:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return GivenSql(data.decode("utf-8-sig"), "stdin" if name == "-" else name)
    except OSError as problem:
        raise click.UsageError(f"cannot read {name}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"cannot read {name}: it is no UTF-8 text") from None


def split_sources(sources: Sequence[GivenSql]) -> list[Piece]:
    """Return the single statements of the texts and files of a command line."""
    from dpsql.language import split_script_with_places

    return [
        Piece(text, source.file or "-c", source.text.count("\n", 0, start) + 1)
        for source in sources
        for start, text in split_script_with_places(source.text)
    ]


def send_uploads(session: AnalystSession, given: Sequence[str]) -> None:
    """Keep the tables of files in a session, each under its name; the key is its first column."""
    for text in given:
        name, equal, path = text.partition("=")
        if not equal or not name.isidentifier() or not path:
            raise click.UsageError("--upload takes NAME=FILE, a CSV file with a header or a Parquet file")
        session.upload(name, _read_upload(Path(path)))


def _read_upload(path: Path) -> pa.Table:
    """Read a file of the analyst's own."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path) if path.suffix == ".parquet" else arrow_csv.read_csv(path)
    except (OSError, pa.ArrowException) as problem:
        what = "cannot be read" if isinstance(problem, OSError) else "is no CSV or Parquet file"
        raise ProgrammingError(f"the upload {path} {what}") from None
