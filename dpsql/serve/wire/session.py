"""`WireSession`: runs the statements of one connection, commands and questions alike; its transaction.

There is nothing to write, so a transaction holds no data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from typing import TYPE_CHECKING

import pyarrow as pa

from dpsql.lazy_dataclass import dataclass
from dpsql.release import tell_opening
from dpsql.serve.answers import AnswerColumn
from dpsql.serve.limits import MemoryAccount
from dpsql.serve.wire import command_words as c
from dpsql.serve.wire.command_words import Transaction
from dpsql.serve.wire.messages import WireError
from dpsql.serve.wire.portals import Cursors, Portals, PreparedStatements
from dpsql.serve.wire.results import (
    Description,
    LocatedError,
    SentStatement,
    WireResult,
    check_length,
    split_plain,
    split_statements,
)
from dpsql.serve.wire.types import parameter_oid

if TYPE_CHECKING:
    from dpsql.serve.answers import Answer
    from dpsql.serve.client import Client
    from dpsql.serve.settings import Changes, Settings, Values

_NONE = ("25P01", "there is no transaction in progress")
_ALREADY = ("25001", "there is already a transaction in progress")
ABORTED = "the transaction has failed: statements are ignored until ROLLBACK or COMMIT"
_MOST_SAVEPOINTS = 1_000


@dataclass(frozen=True, slots=True)
class TransactionChange:
    """What a command of transactions did."""

    tag: str
    ended: bool | None = None
    """None: no transaction ended; True: it was committed; False: it was rolled back."""
    changes: Changes = ()
    """The reported settings that changed."""
    warning: tuple[str, str] | None = None
    """SQLSTATE and text."""


class Transactions:
    """Whether a transaction is open, whether it has failed, and the settings at its savepoints."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._savepoints: list[tuple[str, Values]] = []
        self.status = "I"
        """As ReadyForQuery says it: I (none), T (open), E (failed)."""

    @property
    def open(self) -> bool:
        """Whether a transaction is open, even if it has failed."""
        return self.status != "I"

    def note_failure(self) -> None:
        """Note that a statement failed: an open transaction fails with it."""
        if self.status == "T":
            self.status = "E"

    def check(self, command: object) -> None:
        """Raise if the transaction has failed and the command does not end it."""
        if self.status == "E" and not (
            isinstance(command, Transaction) and command.kind in ("COMMIT", "ROLLBACK", "ROLLBACK TO")
        ):
            raise WireError(ABORTED, "25P02")

    def run(self, command: Transaction) -> TransactionChange:
        """Run a command of transactions."""
        match command.kind:
            case "BEGIN" | "START TRANSACTION":
                if self.open:
                    return TransactionChange(command.tag, warning=_ALREADY)
                self.status = "T"
                self._settings.begin()
                return TransactionChange(command.tag)
            case "COMMIT":
                committed = self.status != "E"
                return self._end(command.tag if committed else "ROLLBACK", command.chain, committed)
            case "ROLLBACK":
                return self._end(command.tag, command.chain, committed=False)
        if not self.open:
            raise WireError("savepoints need a transaction", "25P01", "begin one with BEGIN")
        match command.kind:
            case "SAVEPOINT":
                if len(self._savepoints) >= _MOST_SAVEPOINTS:
                    raise WireError(f"a transaction has at most {_MOST_SAVEPOINTS:,} savepoints", "54000")
                self._savepoints.append((command.name, self._settings.values))
            case "RELEASE":
                del self._savepoints[self._place(command.name) :]
            case _:
                del self._savepoints[self._place(command.name) + 1 :]
                self.status = "T"
                return TransactionChange(command.tag, changes=self._settings.restore(self._savepoints[-1][1]))
        return TransactionChange(command.tag)

    def _end(self, tag: str, chain: bool, committed: bool) -> TransactionChange:
        if not self.open:
            if chain:
                raise WireError(*_NONE[::-1])
            return TransactionChange(tag, warning=_NONE)
        self._savepoints.clear()
        self.status = "T" if chain else "I"
        changes = self._settings.end(committed=committed)
        if chain:
            self._settings.begin()
        return TransactionChange(tag, committed, changes)

    def _place(self, name: str) -> int:
        for place in reversed(range(len(self._savepoints))):
            if self._savepoints[place][0] == name:
                return place
        raise WireError(f'there is no savepoint "{name}"', "3B001")


MOST_OF_ANALYST = 256 << 20
"""Bytes of results that the connections of an analyst may keep when another statement is asked."""


class WireSession:
    """What a connection knows between its statements: settings, transaction, cursors."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        held_by_analyst: Callable[[], int] = lambda: 0,
        note_held: Callable[[], None] = lambda: None,
        account: MemoryAccount | None = None,
    ) -> None:
        self.client = client
        self._held_by_analyst = held_by_analyst
        """Returns the bytes of results that all connections of the analyst keep."""
        self._note_held = note_held
        """Says that this connection gets a result, which it may keep."""
        self._sending = 0
        self._stoppable = self._stopped = False
        """Whether rows are being sent, and whether the client has cancelled that."""
        self.settings = settings
        self.account = account or MemoryAccount()
        """Counts what is decoded and kept for the client."""
        self.cursors = Cursors()
        self.prepared = PreparedStatements(self.account)
        self.portals = Portals(self.account)
        self.transactions = Transactions(settings)
        self.asking = False
        """Whether the client's question is being described or answered, which can be cancelled."""

    async def statements(self, text: str, longest: int) -> Sequence[SentStatement]:
        """Split what a client sent into its statements; raise if it is too long."""
        check_length(text, longest)
        found = split_plain(text)
        return await self.client.beside(len(text), lambda: split_statements(text)) if found is None else found

    # -- describing

    @property
    def form(self) -> object:
        """The settings and the policy, on which an answer's columns depend besides the statement."""
        return self.settings.values, self.client.policy

    async def describe(
        self, statement: SentStatement, types: Sequence[pa.DataType | None] = (), oids: Sequence[int] = ()
    ) -> Description:
        """Return the types of a statement's parameters and its columns; run and charge nothing.

        `types` and `oids` are those of the parameters whose types the client announced.
        """
        with _locate_errors(statement):
            command = await self._command_of(statement)
            self.transactions.check(command)
            question = statement.question(command)
            if question is None:
                if types:
                    raise WireError("this statement takes no parameters", "42P02")
                return Description(columns=self._columns(command))
        with _locate_errors(question), self._cancellable():
            found = await self.client.describe(question.text, types)
        known = zip(
            found.parameters, chain(oids, repeat(0)), chain(found.parameter_oids, repeat(0)), strict=False
        )
        announced = [oid or other or parameter_oid(kind) for kind, oid, other in known]
        return Description(tuple(announced), found.parameters, found.columns if command is None else ())

    async def _command_of(self, statement: SentStatement) -> c.Command | None:
        if not statement.may_be_command:
            return None
        return await self.client.beside(len(statement.text), lambda: statement.command)

    def _columns(self, command: c.Command | None) -> tuple[AnswerColumn, ...]:
        """Return the columns of a command's rows."""
        match command:
            case c.ShowSetting(name=None):
                return _ALL
            case c.ShowSetting(name=str(name)):
                return (AnswerColumn(self.settings.show(name)[0], pa.string()),)
            case c.Fetch() if not command.move:
                return self.cursors.columns(command.name)
        return ()

    # -- running

    async def run(
        self, statement: SentStatement, parameters: Sequence[object] = (), types: Sequence[pa.DataType] = ()
    ) -> WireResult:
        """Run a statement and return what it gives; raises `LocatedError`."""
        with _locate_errors(statement):
            command = await self._command_of(statement)
            self.transactions.check(command)
            question = statement.question(command)
            if question is None:
                return self._command(command)
            if isinstance(command, c.Declare):
                self.cursors.check(command, in_transaction=self.transactions.open)
            self._check_held()
        with _locate_errors(question), self._cancellable():
            answer = await self.client.answer(question.text, parameters, types)
        with _locate_errors(statement), tell_opening(answer.release):
            return self._result_of(command, answer)

    def _result_of(self, command: c.Command | None, answer: Answer) -> WireResult:
        self._note_held()
        changes: tuple[tuple[str, str], ...] = ()
        for name, value, local in answer.changes:
            changes += self.settings.set(name, value, local=local)
        if isinstance(command, c.Declare):
            opened = self.transactions.open
            self.cursors.declare(command, answer.columns, answer.table, in_transaction=opened)
            return WireResult(command.tag, notices=answer.notices, changes=changes)
        options = command.options if isinstance(command, c.Copy) else None
        return WireResult(
            answer.tag if options is None else "COPY",
            answer.columns,
            answer.table,
            answer.notices,
            changes=changes,
            copy=options,
            encoded=answer.encoded,
            release=answer.release,
        )

    def _command(self, command: c.Command | None) -> WireResult:
        match command:
            case c.ShowSetting(name=None):
                return _result_of_texts([column.name for column in _ALL], self.settings.show_all())
            case c.ShowSetting(name=str(name)):
                name, value = self.settings.show(name)
                return _result_of_texts([name], [(value,)])
            case c.SetSetting():
                changes = self.settings.set(command.name, command.value, local=command.local)
                alone = command.local and not self.transactions.open
                return WireResult(command.tag, changes=changes, warnings=(_LOCAL_ALONE,) if alone else ())
            case c.ResetSetting():
                return WireResult(command.tag, changes=self.settings.reset(command.name))
            case c.Fetch():
                return self.cursors.fetch(command)
            case c.CloseCursor():
                self.cursors.close(command.name)
            case c.Deallocate():
                self.prepared.deallocate(command.name)
            case c.Discard():
                return self._discard(command)
            case c.NoOperation():
                return WireResult(command.tag)
            case c.Transaction():
                return self._transaction(command)
            case c.CopyIn():
                return WireResult(command.tag, upload=command)
            case _:
                raise WireError("this command is not known here", "0A000")
        return WireResult(command.tag)

    def _transaction(self, command: c.Transaction) -> WireResult:
        change = self.transactions.run(command)
        if change.ended is not None:
            self.portals.clear()
            self.cursors.end_transaction(committed=change.ended)
        warnings = () if change.warning is None else (change.warning,)
        return WireResult(change.tag, warnings=warnings, changes=change.changes)

    def _discard(self, command: c.Discard) -> WireResult:
        changes: tuple[tuple[str, str], ...] = ()
        if command.what == "ALL":
            if self.transactions.open:
                raise WireError("DISCARD ALL cannot run in a transaction", "25001")
            self.portals.clear()
            self.cursors.close(None)
            changes = self.settings.reset(None)
        if command.what in ("ALL", "PLANS"):
            self.prepared.deallocate(None)
        return WireResult(command.tag, changes=changes)

    # -- memory

    @property
    def held_bytes(self) -> int:
        """Bytes of the results that a connection keeps: of cursors, of portals, and of the one being sent."""
        return self.cursors.held_bytes + self.portals.held_bytes + self._sending

    @contextmanager
    def count_while_sending(self, result: WireResult | None = None) -> Iterator[Callable[[], None]]:
        """Count a result's bytes as held in a block that sends it; yield a check for cancellation.

        Nothing that was charged is given back.
        """
        self._sending = 0 if result is None else result.held_bytes
        self._stoppable = True
        try:
            yield self._check_stopped
        finally:
            self._sending, self._stoppable, self._stopped = 0, False, False

    def _check_stopped(self) -> None:
        if self._stopped:
            raise WireError(
                "sending the rows was cancelled; what was charged stays charged",
                "57014",
                "ask again: an answer that was stored costs nothing",
            )

    def _check_held(self) -> None:
        """Raise if the analyst's connections keep too much, before anything is asked and charged."""
        if self._held_by_analyst() > MOST_OF_ANALYST:
            raise WireError(
                "the results that your connections have not read or not closed are too large together",
                "54000",
                "read them, or close cursors, portals and connections that you do not use",
            )

    def clear(self) -> None:
        """Forget portals, cursors and prepared statements, and give back their memory."""
        self.portals.clear()
        self.cursors.close(None)
        self.prepared.clear()
        self.account.close()

    def cancel(self) -> None:
        """Stop the question that is being answered, or the rows that are being sent, if there are any."""
        self.stop_sending()
        if self.asking:
            self.client.cancel()

    def stop_sending(self) -> None:
        """Stop the rows that are being sent, if there are any; from any thread."""
        self._stopped = self._stoppable

    @contextmanager
    def _cancellable(self) -> Iterator[None]:
        self.asking = True
        try:
            yield
        finally:
            self.asking = False


_LOCAL_ALONE = ("25P01", "SET LOCAL ends with its transaction, and none is open")
_ALL = (
    AnswerColumn("name", pa.string()),
    AnswerColumn("setting", pa.string()),
    AnswerColumn("description", pa.string()),
)


def _result_of_texts(names: Sequence[str], rows: Sequence[Sequence[str]]) -> WireResult:
    """Return what SHOW answers."""
    arrays = [pa.array([row[place] for row in rows], pa.string()) for place in range(len(names))]
    columns = tuple(AnswerColumn(name, pa.string()) for name in names)
    return WireResult("SHOW", columns, pa.Table.from_arrays(arrays, names=list(names)))


@contextmanager
def _locate_errors(part: SentStatement) -> Iterator[None]:
    """Say of an error in this block in which text its positions count."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  whatever it is, it belongs to this text
        raise LocatedError(error, part.text, part.offset) from None
