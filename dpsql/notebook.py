"""The notebook extension: `%load_ext dpsql` adds `%%dpsql` cells, and shows refusals alone.

A `%%dpsql` cell shows the price of its statement before it asks it, then the answer with its picture. It
asks over the connection that is named, else over that of jupysql's `%sql`, else over that of the cell before.
Of an error that began as one of dpsql's, also within SQLAlchemy or pandas, only the message with its place
and hint is shown: as HTML in a notebook, as text in a terminal.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

from dpsql import dbapi
from dpsql.dbapi.cursor import read_epsilon
from dpsql.errors import Error, InternalError, ProgrammingError
from dpsql.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from types import TracebackType

_USAGE = "%%dpsql [CONNECTION] [--price] [--at-most EPSILON] [--into NAME]"
_CONNECT = "dpsql.connect(..) makes one: con = dpsql.connect('dpsql.toml', analyst='alice'), then %%dpsql con"


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ProgrammingError(f"{message}\nHint: {_USAGE}")


def _parser() -> argparse.ArgumentParser:
    made = _Arguments(prog="%%dpsql", add_help=False)
    made.add_argument("connection", nargs="?")
    made.add_argument("--price", action="store_true")
    made.add_argument("--at-most")
    made.add_argument("--into")
    return made


class Extension:
    """The magic and the errors of one shell of IPython."""

    def __init__(self, shell: Any) -> None:  # noqa: ANN401  an InteractiveShell of IPython
        self._shell = shell
        self._last: dbapi.Connection | None = None
        self._opened: dict[str, dbapi.Connection] = {}

    def run_cell(self, line: str, cell: str) -> object:
        """Show the price of a statement, then ask it and return the cursor, which a notebook draws.

        Parameters
        ----------
        line
            `CONNECTION` names a variable with a connection, a policy's path or a server's URL. `--price` asks
            nothing. `--at-most EPSILON` asks nothing that costs more. `--into NAME` keeps the cursor.
        cell
            The statement.
        """
        given = _parser().parse_args(shlex.split(line))
        if given.into is not None and not given.into.isidentifier():
            raise ProgrammingError(f"--into takes the name of a variable, not {given.into}\nHint: {_USAGE}")
        connection = self._last = self._connection(given.connection)
        found = None if _COMMAND.match(cell) else connection.explain(cell)
        if given.price:
            return found
        # What is charged is at most the price that was shown, and what shows none is free.
        shown = Fraction(0) if found is None else found.charge.epsilon
        if found is not None:
            print(found.price, flush=True)  # noqa: T201
        at_most = shown if given.at_most is None else min(shown, read_epsilon(given.at_most))
        cursor = connection.sql(cell, at_most=at_most)
        if given.into is not None:
            self._shell.user_ns[given.into] = cursor
        return cursor

    def _connection(self, name: str | None) -> dbapi.Connection:
        if name is None:
            found = _connection_of_jupysql() or self._last
            if found is None:
                raise ProgrammingError(f"there is no connection yet\nHint: {_CONNECT}")
            return found
        known = self._shell.user_ns.get(name)
        if isinstance(known, dbapi.Connection):
            return known
        if name.isidentifier():
            raise ProgrammingError(f"the variable {name} has no connection of dpsql\nHint: {_CONNECT}")
        if name not in self._opened:
            self._opened[name] = dbapi.connect(name)
        return self._opened[name]


def show_error(
    shell: Any,  # noqa: ANN401  an InteractiveShell of IPython
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> list[str]:
    """Show what is dpsql's of an error, and of others all of it; a handler of IPython's `set_custom_exc`."""
    own = own_error(error)
    if own is None or isinstance(own, InternalError):
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return []
    lines = own._render_traceback_()
    if hasattr(shell, "kernel"):
        from IPython import display  # noqa: PLC0415  only in its shells

        show: Any = display.display
        show({"text/html": own._repr_html_(), "text/plain": "\n".join(lines)}, raw=True)
        lines = [""]  # the cell has failed all the same; an empty line keeps the message from a second place
    shell._showtraceback(kind, error, lines)  # noqa: SLF001  as IPython itself does
    return lines


_COMMAND = lazy_pattern(r"\s*(SHOW|SET|RESET|DESCRIBE|EXPLAIN)\b", re.IGNORECASE)
"""What begins a statement without a price."""


def _connection_of_jupysql() -> dbapi.Connection | None:
    """Return the connection that jupysql's `%sql` uses now, if it is one of dpsql's."""
    manager = getattr(sys.modules.get("sql.connection"), "ConnectionManager", None)
    current = getattr(manager, "current", None)
    alchemy = getattr(current, "connection_sqlalchemy", None)
    plain = getattr(current, "_connection", None)
    found = plain if alchemy is None else alchemy.connection.driver_connection
    return found if isinstance(found, dbapi.Connection) else None


_WRAPPERS = ("sqlalchemy.", "pandas.")
"""Packages whose errors wrap those of connectors."""


def own_error(error: BaseException | None) -> Error | None:
    """Return the error of dpsql that SQLAlchemy or pandas has wrapped, or the error itself; else None.

    An error of the user's own code that was raised from one of dpsql's stays what it is.
    """
    while error is not None and type(error).__module__.startswith(_WRAPPERS):
        error = error.__cause__
    return error if isinstance(error, Error) else None


def load(shell: Any) -> None:  # noqa: ANN401  an InteractiveShell of IPython
    """Add the magic to a shell, and the way in which it shows errors of dpsql."""
    made = Extension(shell)
    shell.register_magic_function(made.run_cell, "cell", "dpsql")
    shell.set_custom_exc((Exception,), show_error)
