"""The client of `dpsql serve`: `RemoteSession`, an analyst's session on a server, over PostgreSQL's protocol.

It has the methods of a session in this process; cursors and the command line use both alike.

======================  =======================================================================
``server_target``       what a URL or the command line says of the server: host, user, database,
                        certificate; where the password comes from: the environment, ``~/.pgpass``, a
                        prompt; the encrypted socket, remembered certificates, channel binding
``server_wire``         one connection: login by SCRAM, statements, cancel requests
``outgoing_statement``  how a statement is sent; errors of a server as dpsql's own classes
======================  =======================================================================

Each text is sent in a thread of its own, so that a Ctrl-C never leaves half an answer unread. An answer comes
as an Arrow stream with its release in the metadata, a price and a budget with their exact amounts.
"""

from __future__ import annotations

import io
import json
import threading
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from dpsql.errors import Error, InterfaceError, InternalError, ProgrammingError, QueryRefused
from dpsql.kernel.loss import Charge
from dpsql.language import copy_parameters, copy_text, write_name
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Budget, read_parts
from dpsql.release import from_arrow
from dpsql.remote.outgoing_statement import OutgoingStatement, SentText
from dpsql.remote.server_target import Target, find_password
from dpsql.remote.server_wire import Reply, ServerWire
from dpsql.session_api import StatementResult, Turn
from dpsql.uploads import check_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from dpsql.language import Parameters
    from dpsql.release import Release


_TYPES: Final = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "SMALLINT",
    "uint16": "INTEGER",
    "uint32": "BIGINT",
    "uint64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "date32[day]": "DATE",
}
"""What columns of Arrow are called in SQL, where they can be sent as text and read again."""


def write_upload(name: str, rows: pa.Table, key: str | None) -> tuple[str, bytes]:
    """Return the statement that announces rows, and the rows."""
    import pyarrow as pa  # noqa: PLC0415  few sessions upload
    import pyarrow.csv as arrow_csv  # noqa: PLC0415

    rows = check_columns(name, rows)
    wanted = rows.column_names[0] if key is None else key
    if wanted not in rows.column_names:
        raise ProgrammingError(f"{name[:60]} has no column {wanted[:60]}, by which it would be joined")
    columns = []
    for column in rows.schema:
        kind = "TIMESTAMP" if pa.types.is_timestamp(column.type) else _TYPES.get(str(column.type))
        if pa.types.is_decimal(column.type):
            kind = f"DECIMAL({column.type.precision}, {column.type.scale})"
        if kind is None:
            raise ProgrammingError(f"column {column.name[:60]} of {name[:60]} cannot be sent: cast it")
        columns.append(f"{write_name(column.name)} {kind}{' PRIMARY KEY' if column.name == wanted else ''}")
    sink = io.BytesIO()
    arrow_csv.write_csv(rows, sink)
    listed = ", ".join(columns)
    return f"COPY {write_name(name)} ({listed}) FROM STDIN WITH (FORMAT csv, HEADER)", sink.getvalue()


_PATIENCE = 30.0
"""Seconds that a cancelled statement has to end, before its connection is closed."""


@dataclass(frozen=True, slots=True)
class RemotePrepared:
    """A statement with its price, as the server said it."""

    outgoing: OutgoingStatement
    private: bool
    price: Charge
    setting: bool
    full_price: Charge = field(default_factory=Charge)


class RemoteSession:
    """Runs the statements of one analyst on a server; used as `dpsql.session.Session` is.

    Threads may share it: their statements wait for each other. Only `cancel` does not wait.
    """

    policy = None
    """The policy lies on the server."""
    messages: tuple[str, ...] = ()
    """The ledger lies on the server, whose log has what its owner should know."""

    def __init__(self, target: Target, password: str) -> None:
        self.turn = Turn("connection")
        self._wire = ServerWire(target, password)
        self._closed = False
        self._busy = False
        self._set: dict[str, SentText] = {}
        """The SET of each setting that was changed, without those of a block of `pricing`."""
        self._pricing: set[str] | None = None
        """The settings that were changed for pricing only; None outside such a block."""
        self._most: tuple[Fraction | None] | None = None

    @property
    def closed(self) -> bool:
        """Whether the session was closed, or the connection was lost."""
        return self._closed or self._wire.lost

    @property
    def max_epsilon_per_query(self) -> Fraction | None:
        """The largest epsilon of one statement; None without such a cap."""
        if self._most is None:
            self.budget()
        assert self._most is not None  # noqa: S101  `budget` has written it
        return self._most[0]

    def check(self) -> None:
        """Raise `InterfaceError` if the session is closed, or belongs to another process."""
        self.turn.check()
        if self.closed:
            raise InterfaceError("the connection is closed")

    # -- statements

    def run(self, text: str, parameters: Parameters = None, *, most: Charge | None = None) -> StatementResult:
        """Run one statement and return its result; with `most`, it is refused if it costs more than that."""
        outgoing = OutgoingStatement.of(copy_text(text), copy_parameters(parameters))
        with self._hold_turn():
            return self._run(outgoing, most)

    def prepare(self, text: str, parameters: Parameters = None) -> RemotePrepared:
        """Ask for the price of a statement; one that has none runs for its errors, since it is free."""
        outgoing = OutgoingStatement.of(copy_text(text), copy_parameters(parameters))
        setting = outgoing.setting is not None
        with self._hold_turn():
            if outgoing.has_price:
                return self._price(outgoing)
            if outgoing.has_rows:
                self._answer(outgoing.answer())
        return RemotePrepared(outgoing, private=False, price=Charge(), setting=setting)

    def _price(self, outgoing: OutgoingStatement) -> RemotePrepared:
        try:
            facts = _read_facts(self._answer(outgoing.price()).table, "price")
        except QueryRefused:
            # The server prices statements on the policy's tables only; others are free, or refused.
            if not outgoing.on_catalog:
                raise
            return RemotePrepared(outgoing, private=False, price=Charge(), setting=False)
        price, full = (
            Charge(Fraction(each["epsilon"]), Fraction(each["delta"])) for each in (facts, facts["full"])
        )
        return RemotePrepared(outgoing, facts["private"], price, setting=False, full_price=full)

    def execute(self, prepared: RemotePrepared, *, most: Charge | None = None) -> StatementResult:
        """Run a prepared statement; with `most`, the server charges no more than that, or refuses."""
        if prepared.outgoing.on_catalog and not prepared.private:
            most = Charge()  # it was taken for free without the server's word
        with self._hold_turn():
            return self._run(prepared.outgoing, most)

    def together(self, statements: Sequence[RemotePrepared]) -> AbstractContextManager[None]:
        """Do nothing: statements of a batch share counts on this machine alone, a server counts each one."""
        return nullcontext()

    @contextmanager
    def pricing(self) -> Iterator[None]:
        """Undo each SET of the block at its end: prices depend on it, although it has not run yet."""
        self._pricing = set()
        try:
            yield
        finally:
            changed, self._pricing = self._pricing, None
            with suppress(Error) if self.closed else self._hold_turn():
                for name in sorted(changed):
                    reset = f"RESET {name}"
                    self._ask(self._set.get(name, SentText(reset, reset)))

    @contextmanager
    def _hold_turn(self) -> Iterator[None]:
        with self.turn:
            self.check()
            yield

    def _run(self, outgoing: OutgoingStatement, most: Charge | None = None) -> StatementResult:
        if most is not None and outgoing.has_rows:
            limit = f"SET dp_most = '{most.epsilon},{most.delta}'"
            self._ask(SentText(limit, limit))
            try:
                return self._answer(outgoing.answer())
            finally:
                if not self.closed:
                    self._ask(SentText("RESET dp_most", "RESET dp_most"))
        result = self._answer(outgoing.answer())
        name = outgoing.setting
        if name is not None and self._pricing is not None:
            self._pricing.add(name)
        elif name is not None:
            self._set[name] = outgoing.answer()
            if name == "dp_epsilon":
                self._set.pop("dp_error", None)  # the server ends it
        return result

    def _answer(self, sent: SentText) -> StatementResult:
        reply = self._ask(sent)
        if reply.copied is None:
            return StatementResult(_table_of_texts(reply), None, tuple(reply.notices))
        try:
            table, release = from_arrow(reply.copied)
        except (ValueError, KeyError, TypeError, OSError):
            raise InternalError(
                "the server's answer cannot be read: is it a dpsql server?\n"
                "Hint: an answer that was charged is stored there: SHOW RELEASES lists it, free"
            ) from None
        # A release says all that the notices beside it say.
        return StatementResult(table, release, () if release is not None else tuple(reply.notices))

    def _ask(self, sent: SentText) -> Reply:
        """Send a text in a thread of its own, so that a Ctrl-C never leaves half an answer unread."""
        exchange: Future[Reply] = Future()

        def work() -> None:
            try:
                exchange.set_result(self._wire.ask(sent))
            except BaseException as error:  # noqa: BLE001  it is raised in the caller's thread
                exchange.set_exception(error)

        self._busy = True
        try:
            threading.Thread(target=work, name="dpsql-remote", daemon=True).start()
            reply = exchange.result()
        except BaseException:
            if not exchange.done():
                with suppress(Error):
                    self._wire.cancel()
                wait([exchange], _PATIENCE)
                if not exchange.done():
                    self._wire.abort()
            raise
        finally:
            self._busy = False
        if reply.error is not None:
            raise reply.error
        return reply

    # -- the rest

    def budget(self) -> Budget:
        """Return what the analyst may still spend."""
        text = "SHOW PRIVACY BUDGET"
        facts = _read_facts(self.run(text).table, "budget")
        most = facts["max_epsilon_per_query"]
        self._most = (None if most is None else Fraction(most),)
        return Budget.read(facts)

    def budget_by_parts(self) -> Budget:
        """Return what the analyst may still spend, with that of each part of units, if there are any."""
        found = self.budget()
        if not found.by_parts:
            return found
        table = self.run("SHOW PRIVACY BUDGET BY PARTS ALL").table
        if b"dpsql.parts" not in (table.schema.metadata or {}):  # of an older server
            return found
        return replace(found, listed=read_parts(_read_facts(table, "parts")))

    def release(self, number: int) -> Release:
        """Return one of the analyst's own releases, by its number; it costs nothing."""
        found = self.run(f"SHOW RELEASE {int(number)}").release
        if found is None:
            raise InternalError("the server sent no release")
        return found

    def upload(self, name: str, rows: pa.Table, key: str | None = None) -> int:
        """Send a public table for the statements of this connection; return its number of rows."""
        text, data = write_upload(name, rows, key)
        with self._hold_turn():
            self._ask(SentText(text, text, rows=data))
        return int(rows.num_rows)

    def cancel(self) -> None:
        """Stop the statement that runs, from another thread; what was charged stays charged."""
        self.check()
        if self._busy:
            self._wire.cancel()

    def close(self) -> None:
        """End the session; wait for a running statement."""
        with self.turn:
            self._closed = True
            self._wire.close()


def connect(url: str | Target, password: str | None = None) -> RemoteSession:
    """Log in to a server; the password comes from the caller, the environment, `~/.pgpass`, or a prompt."""
    target = Target.of(url, password) if isinstance(url, str) else url
    return RemoteSession(target, find_password(target))


def _read_facts(table: pa.Table, name: str) -> dict[str, Any]:
    """Return the exact amounts that the server puts beside a price or a budget."""
    written = (table.schema.metadata or {}).get(f"dpsql.{name}".encode())
    if written is None:
        raise InternalError(f"the server's answer has no exact {name}: is it a dpsql server?")
    found: dict[str, Any] = json.loads(written)
    return found


def _table_of_texts(reply: Reply) -> pa.Table:
    """Make a table of a command's rows, which are texts."""
    import pyarrow as pa  # noqa: PLC0415  loaded by the time there is an answer

    columns = list(zip(*reply.rows, strict=True)) or [() for _ in reply.columns]
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.table(arrays, names=reply.columns) if reply.columns else pa.table({})
