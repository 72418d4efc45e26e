"""The Python connector, as PEP 249 specifies it.

`connect` opens a policy's database for one analyst, or a connection to a server; the `Connection` returns
by `explain` the price of a statement before it runs (`Explanation`). Its `Cursor` (``cursor``) runs
statements and returns rows, Arrow data and the `Release`. ``named_streams`` has streams of checks,
boards and holdouts, ``rows`` PEP 249's types, and the rows of a result.
"""

from __future__ import annotations

import atexit
import gc
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from dpsql import errors
from dpsql.dbapi.cursor import Cursor
from dpsql.dbapi.rows import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    TypeObject,
)
from dpsql.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004  PEP 249 fixes the name
)
from dpsql.kernel.loss import Charge
from dpsql.lazy_dataclass import dataclass
from dpsql.old_objects import made_old

if TYPE_CHECKING:
    import os

    import pyarrow as pa

    from dpsql.database import Database
    from dpsql.dbapi.named_streams import NamedBoard, NamedHoldout, NamedStream, UnnamedStream
    from dpsql.kernel.loss import Number
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.policy import Policy
    from dpsql.release import Release
    from dpsql.session_api import AnalystSession

__all__ = [  # noqa: RUF022  grouped: what connects, PEP 249's constants, types, constructors, exceptions
    "connect",
    "Connection",
    "Cursor",
    "Explanation",
    "apilevel",
    "threadsafety",
    "paramstyle",
    "TypeObject",
    "STRING",
    "BINARY",
    "NUMBER",
    "DATETIME",
    "ROWID",
    "Date",
    "Time",
    "Timestamp",
    "DateFromTicks",
    "TimeFromTicks",
    "TimestampFromTicks",
    "Binary",
    "Warning",
    "Error",
    "InterfaceError",
    "DatabaseError",
    "DataError",
    "OperationalError",
    "IntegrityError",
    "InternalError",
    "ProgrammingError",
    "NotSupportedError",
]

apilevel = "2.0"
"""The version of PEP 249."""
threadsafety = 2
"""Threads may share the module and connections (a lock keeps statements apart), but not cursors."""
paramstyle = "qmark"
"""Markers are `?`; `$name` with a mapping is understood too."""

# The interpreter's last search for garbage looks through every object of dpsql and its libraries, which takes
# about a tenth of the processor time of a program that asks one statement.
atexit.register(gc.freeze)


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What a statement would cost, and how it is read; nothing was charged. `Connection.explain` makes it."""

    private: bool
    """Whether the statement reads private tables."""
    charge: Charge
    """The most that the statement would charge now, exact: nothing if its answer is stored."""
    remaining: Charge
    """What is left of the budget, exact."""
    table: pa.Table
    """The rows of EXPLAIN: the columns `property` and `value`, both VARCHAR."""

    @classmethod
    def of(cls, table: pa.Table, remaining: Charge) -> Explanation:
        """Read the price that EXPLAIN puts into the metadata of its table."""
        price = json.loads(table.schema.metadata[b"dpsql.price"])
        charge = Charge(Fraction(price["epsilon"]), Fraction(price["delta"]))
        if "left" in price:  # of the parts of units that the statement reads
            remaining = Charge(Fraction(price["left"]["epsilon"]), Fraction(price["left"]["delta"]))
        return cls(price["private"], charge, remaining, table.replace_schema_metadata(None))

    @property
    def fits(self) -> bool:
        """Whether the budget that is left pays for the statement; a policy's cap on one statement may not."""
        return self.charge.fits(self.remaining)

    @property
    def price(self) -> str:
        """The price in words: `epsilon 0.5; epsilon 8.5 is left`."""
        from dpsql.render.readable import amounts, price  # noqa: PLC0415  imported where it is drawn

        if not self.private:
            return "costs nothing: it reads no private table"
        if not self.charge.epsilon and not self.charge.delta:
            return f"costs nothing; {amounts(self.remaining)} is left"
        left = f"{amounts(self.remaining)} is left"
        return f"costs {price(self.charge)}; {left}" + ("" if self.fits else ", which does not pay for it")

    def __repr__(self) -> str:
        from dpsql.render.grid import style_of  # noqa: PLC0415
        from dpsql.render.table import as_table  # noqa: PLC0415

        return f"<Explanation: {self.price}>\n{as_table(self.table, None, style_of(None))}".rstrip("\n")

    def _repr_html_(self) -> str:
        """Show the price in a notebook, above how the statement is read."""
        from dpsql.render.html import explanation_html  # noqa: PLC0415

        return explanation_html(self.price, self.table)


def connect(
    policy: str | os.PathLike[str] | Policy | Database = "dpsql.toml",
    *,
    analyst: str | None = None,
    password: str | None = None,
) -> Connection:
    """Open the database that a policy describes, or log in to a server of `dpsql serve`.

    Parameters
    ----------
    policy
        Path of the owner's policy file, or a `Policy`; or a `Database`, which many connections may share and
        which stays open when they close. Or the URL of a server,
        `dpsql://alice@host:5433/shop?sslrootcert=FILE`.
    analyst
        Name of the analyst; the ledger records it with each charge. dpsql does not verify names: whoever
        runs this process may give any. Where the policy lists its analysts, others are refused. A server
        knows the analyst by the login.
    password
        The password or token for a server. Without it, it comes from the environment's DPSQL_PASSWORD, from
        `~/.pgpass`, or from a prompt.

    Raises
    ------
    PolicyError
        The policy cannot be read or is wrong, or lists its analysts without this one.
    OperationalError
        The server cannot be reached, its certificate is not accepted, or the login fails.
    """
    # Imported here: the engine and the parser take a third of a second, and `import dpsql` needs neither.
    if isinstance(policy, str) and policy.startswith("dpsql://"):
        from dpsql.remote import connect as log_in  # noqa: PLC0415

        if analyst is not None:
            raise errors.InterfaceError(
                "a server knows the analyst by the login\nHint: dpsql://USER@host:5433/shop"
            )
        return Connection(log_in(policy, password))
    if password is not None:
        raise errors.InterfaceError("a password is for a server; a policy on this machine needs none")
    with made_old():
        from dpsql.session import Session  # noqa: PLC0415

        return Connection(Session(policy, analyst))


class Connection:
    """The connection of one analyst; `dpsql.connect` opens it.

    Threads may share it (their statements wait for each other), each with cursors of its own. Processes may
    not: after a fork a child opens its own. PEP 249's exceptions are its attributes too.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    messages: list[tuple[type[errors.Warning], errors.Warning]]
    """What the user should know of the connection, in PEP 249's form: pairs of a class and a warning. That a
    ledger was made stands here. Nothing clears it but the user: `del connection.messages[:]`.
    """

    def __init__(self, session: AnalystSession) -> None:
        self._session = session
        self._unnamed: list[UnnamedStream] = []
        self.messages = [(errors.Warning, errors.Warning(text)) for text in session.messages]

    def cursor(self) -> Cursor:
        """Make a cursor, which runs statements."""
        self._session.check()
        return Cursor(self, self._session)

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """Run one statement on a new cursor, and return the cursor."""
        return self.cursor().execute(operation, parameters)

    def sql(self, operation: str, parameters: Parameters = None, *, at_most: Number | None = None) -> Cursor:
        """Run one statement at once, as `execute` does, and return the cursor with its result.

        A private statement is charged by this call, not by `df()` or `show()`; those cost nothing, however
        often they are called. `explain` tells the price before. With `at_most`, a statement that would be
        charged a larger epsilon raises `PriceNotAgreed` and is charged nothing. Raises what `Cursor.execute`
        raises.
        """
        if at_most is None:
            return self.execute(operation, parameters)
        return self.cursor().execute_within(operation, parameters, at_most)

    def explain(self, operation: str, parameters: Parameters = None) -> Explanation:
        """Return what a statement would cost and how it is read; nothing is charged, no private row is read.

        Parameters
        ----------
        operation, parameters
            As for `Cursor.execute`, without EXPLAIN.

        Raises
        ------
        QuerySyntaxError, QueryRefused
            It does not parse, or cannot be proved private.
        """
        # Imported here: `import dpsql` needs no parser.
        from dpsql.language import copy_text  # noqa: PLC0415

        try:
            found = self._session.run(f"EXPLAIN {copy_text(operation)}", parameters)
        except (errors.QueryRefused, errors.QuerySyntaxError):
            # The statement alone has the same errors, and their places in it.
            self._session.prepare(operation, parameters)
            raise
        return Explanation.of(found.table, self._session.budget().remaining)

    def checked(
        self, *, tolerance: Number, epsilon: Number, misses: int, **options: Number | str
    ) -> UnnamedStream:
        """Open a stream of checks without a name, which is closed with the connection or a `with` block.

        Parameters
        ----------
        tolerance
            A number is as expected if its error is smaller (up to noise); a check may say another one.
        epsilon, misses, options
            As for `checks`.
        """
        from dpsql.dbapi.named_streams import open_unnamed  # noqa: PLC0415  seldom

        found = open_unnamed(self._session, epsilon, misses, {"tolerance": tolerance, **options})
        self._unnamed.append(found)
        return found

    def checks(
        self, name: str, *, epsilon: Number | None = None, misses: int | None = None, **options: Number | str
    ) -> NamedStream:
        """Open a stream of checks, which lasts until it is closed; without options, return one that is open.

        Parameters
        ----------
        name
            Its name, among those of the analyst.
        epsilon
            What it costs at most, charged now; what is not used is given back by `close`.
        misses
            How many checks may be off.
        options
            Others of OPEN CHECKS: `answers`, `sides`, `tolerance`, `at_once`, `rows`, `models`, `scales`.
        """
        from dpsql.dbapi.named_streams import open_named  # noqa: PLC0415  seldom

        return open_named(self._session, name, epsilon, misses, options)

    def stable(
        self,
        name: str,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        unstable: int | None = None,
        questions: int = 1000,
    ) -> NamedStream:
        """Open a stream of exact answers (`NamedStream.ask`); without options, return one that is open.

        Parameters
        ----------
        name
            Its name, among the streams of the analyst.
        epsilon, delta
            What it costs at most, charged now; what is not used of epsilon is given back by `close`.
        unstable
            How many questions may be unstable: these alone use a part of epsilon.
        questions
            How many are asked at most, for all of which delta is.
        """
        from dpsql.dbapi.named_streams import open_named  # noqa: PLC0415  seldom

        given = {} if delta is None else {"delta": delta, "questions": questions}
        return open_named(self._session, name, epsilon, unstable, given)

    def board(self, name: str, **options: Number | str) -> NamedBoard:
        """Open a board, on which scores are compared with the best; without options, return one that is open.

        Parameters
        ----------
        name
            Its name, among those of the analyst's streams.
        options
            Those of OPEN BOARD: `epsilon`, `improvements`, `step`, `best` ("LOWEST" or "HIGHEST"), `start`,
            `rows`.
        """
        from dpsql.dbapi.named_streams import open_board  # noqa: PLC0415  seldom

        return open_board(self._session, name, options)

    def holdout(
        self, name: str, *, table: str | None = None, where: str | None = None, **options: Number | str
    ) -> NamedHoldout:
        """Open a holdout, on which training scores are checked; without options, return one that is open.

        Parameters
        ----------
        name
            Its name, among those of the analyst's streams.
        table, where
            The table that has its rows, and a condition of them, for `NamedHoldout.score`.
        options
            Those of OPEN HOLDOUT: `epsilon`, `misses`, `training` ("other units" or "private"), `answers`,
            `at_once`, `rows`.
        """
        from dpsql.dbapi.named_streams import open_holdout  # noqa: PLC0415  seldom

        return open_holdout(self._session, name, options, table, where)

    def upload(self, name: str, data: object, *, key: str | None = None) -> int:
        """Keep a public table, such as a model's predictions, for the statements of this connection.

        It costs nothing. Return its number of rows.

        Parameters
        ----------
        name
            What statements call it; no table of the policy has this name.
        data
            An Arrow table, a DataFrame, or a mapping of columns: numbers, texts, BOOLEAN, dates and times.
        key
            The column by which statements join it, which has each value once; None: the first one.
        """
        from dpsql.uploads import to_table  # noqa: PLC0415  seldom

        return self._session.upload(name, to_table(data), key)

    def release(self, number: int) -> Release:
        """Read one of the analyst's own releases back, by its number in SHOW RELEASES; it costs nothing."""
        return self._session.release(number)

    def budget(self) -> Budget:
        """Return what may be spent in total, what is spent and what is left, each an exact `Charge`.

        Where each part of units has the whole budget, these are of the fullest part; `budget().parts` has the
        budget of each, and `budget().of("2026-W48")` is that of one.
        """
        return self._session.budget_by_parts()

    def cancel(self) -> None:
        """Stop the running statement, from another thread or a signal handler; what was charged stays so."""
        self._session.cancel()

    def commit(self) -> None:
        """Do nothing: dpsql writes no data, and a charge is durable before its answer is given."""
        self._session.check()

    def rollback(self) -> None:
        """Do nothing: there is no data to take back, and what was spent stays spent.

        It does not raise, since pools and pandas call it on every connection they hand back.
        """
        self._session.check()

    def close(self) -> None:
        """Close the connection. Closing twice is an error, as PEP 249's compliance suite wants."""
        self._session.check()
        try:
            for stream in self._unnamed:
                stream.close()
        finally:
            self._session.close()

    def __enter__(self) -> Self:
        self._session.check()
        return self

    def __exit__(self, *error: object) -> None:
        # A child of a fork leaves the block as well; the connection is its parent's.
        if self._session.turn.in_own_process and not self._session.closed:
            self.close()
