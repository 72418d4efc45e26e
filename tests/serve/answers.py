"""A service for tests of the protocol: DuckDB answers, and some words fail, wait or count."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Container, Sequence
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from dpsql.engines import Cancelled
from dpsql.language import StatementText
from dpsql.serve.answers import Answer, AnswerColumn, Described, Notice
from dpsql.serve.catalog import CursorRow, PreparedRow

_T = TypeVar("_T")
_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "float8": pa.float64(), "text": pa.string()}
_DUMMIES: dict[pa.DataType, object] = {pa.string(): "", pa.float64(): 0.5}
_PARAMETER = re.compile(r"\$(\d+)(?:::(\w+))?")


class AnsweringClient:
    """Answers any SQL of DuckDB. A word in the text makes it do something else.

    `oops` is refused at its place, `secret` fails with an error that is not dpsql's, `wait` waits until it is
    cancelled, `pause` until `resumed` is set, `noticed` says something beside its rows, `changed` gives other
    columns than it describes.
    """

    def __init__(self, service: AnsweringService, login: Any, number: int, settings: Any) -> None:
        self.service = service
        self.login = login
        self.number = number
        self.settings = settings
        self.asked: list[tuple[str, tuple[object, ...]]] = []
        self.closed = False
        self.waiting: asyncio.Event | None = None
        self.on_terminate: Callable[[], None] | None = None
        self.on_cancel: Callable[[], None] | None = None
        self.prepared: Callable[[], Sequence[PreparedRow]] = tuple
        self.cursors: Callable[[], Sequence[CursorRow]] = tuple
        self.in_transaction: Callable[[], bool] = bool
        self.policy: object = None
        self._engine = service.engine.cursor()

    async def describe(
        self,
        text: str,
        types: Sequence[pa.DataType | None] = (),
        parameters: Sequence[object] | None = None,
    ) -> Described:
        found = {
            int(number): _TYPES.get(kind or "text", pa.string()) for number, kind in _PARAMETER.findall(text)
        }
        for number, given in enumerate(types, 1):
            if given is not None and number in found:
                found[number] = given
        kinds = tuple(found.get(number, pa.string()) for number in range(1, max(found, default=0) + 1))
        return Described(kinds, _columns(self._empty(text, kinds)), ())

    def _empty(self, text: str, kinds: Sequence[pa.DataType]) -> pa.Table:
        """Answer with made-up values for the parameters: their values decide no type."""
        return self._table(text, [_DUMMIES.get(kind, 0) for kind in kinds])

    async def answer(
        self, text: str, parameters: Sequence[object] = (), types: Sequence[pa.DataType | None] = ()
    ) -> Answer:
        self.asked.append((text, tuple(parameters)))
        self.service.asked.append(text)
        if "wait" in text:
            self.waiting = asyncio.Event()
            self.service.began.set()
            await self.waiting.wait()
            raise Cancelled("the statement was cancelled; nothing was charged")
        if "pause" in text:
            self.service.began.set()
            await self.service.resumed.wait()
        table = self._table(text, parameters)
        if types:
            table = table.cast(self._empty(text, [kind or pa.string() for kind in types]).schema)
        if "changed" in text:
            table = table.append_column("more", [[1] * table.num_rows])
        notices = (
            Notice("NOTICE", "epsilon 0.5 charged", None),
            Notice("WARNING", "few rows", "ask for more"),
        )
        return Answer(_columns(table), table, notices if "noticed" in text else (), None)

    async def beside(self, size: int, work: Callable[[], _T]) -> _T:
        return work()

    def _table(self, text: str, parameters: Sequence[object]) -> pa.Table:
        if "oops" in text:
            raise StatementText(text).refuse("this shows single patients", text.index("oops"), "count them")
        if "secret" in text:
            raise ValueError("patient 17 has Asthma")
        if re.match(r"(?i)\s*show tables", text):
            return pa.table({"name": ["patients", "visits"]})
        try:
            return self._engine.sql(text, params=list(parameters)).to_arrow_table()
        except duckdb.Error:
            raise StatementText(text).syntax("this does not parse") from None

    def cancel(self) -> None:
        self.service.cancelled.append(self.number)
        if self.waiting is not None:
            self.waiting.set()

    def close(self) -> None:
        self.closed = True
        self._engine.close()


class AnsweringService:
    """Makes clients that answer from one database in memory."""

    def __init__(self) -> None:
        self.engine = duckdb.connect()
        self.asked: list[str] = []
        self.cancelled: list[int] = []
        self.began = asyncio.Event()
        """Set when a statement waits."""
        self.resumed = asyncio.Event()
        """Lets statements go on that pause."""
        self.clients: dict[int, AnsweringClient] = {}
        self.gate: Any = None

    def client(self, login: Any, number: int, settings: Any) -> AnsweringClient:
        self.clients[number] = AnsweringClient(self, login, number, settings)
        return self.clients[number]

    async def begin_anew(self) -> None:
        """Note that no statement waits."""
        self.began.clear()

    def forget(self, live: Container[int]) -> None:
        """Drop what was asked, and the clients of connections that have ended."""
        self.asked.clear()
        self.cancelled.clear()
        self.clients = {number: client for number, client in self.clients.items() if number in live}


def _columns(table: pa.Table) -> tuple[AnswerColumn, ...]:
    return tuple(AnswerColumn(field.name, field.type) for field in table.schema)
