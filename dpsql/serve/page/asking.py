"""`Analyst`: what a user asks over HTTP: tables, prices, answers, earlier releases."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpsql.errors import ProgrammingError
from dpsql.language.completed_words import KEYWORDS, VALUES
from dpsql.language.options import OPTIONS
from dpsql.prepared import PreparedCommand
from dpsql.release import told
from dpsql.render.charts import release_svg
from dpsql.render.data import write_csv, write_parquet
from dpsql.serve.agent import MOST_ROWS, Tools, amounts, budget_facts, left_of
from dpsql.serve.confirm import LIFETIME
from dpsql.serve.page.answers import beginning, released, result
from dpsql.serve.page.requests import RefusedError, body
from dpsql.serve.public_facts import described_policy, records

if TYPE_CHECKING:
    from dpsql.release import Release
    from dpsql.serve.confirm import SpendingRule
    from dpsql.serve.page.answers import Facts
    from dpsql.serve.served_backend import ServedBackend

_HIDDEN = ("compiled_sql", "outer_sql", "epsilon", "delta", "budget_left")
"""Fields of EXPLAIN that are said otherwise, or that nobody reads on a page."""
_LARGEST_NUMBER = 1 << 53
_LONG = 1 << 16
"""The size, in characters, that the writing of an answer counts for."""

_MOST_DRAWN = 500
"""Rows in the file of a chart."""

FORMS = {
    "rows.csv": "text/csv; charset=utf-8",
    "rows.parquet": "application/vnd.apache.parquet",
    "chart.svg": "image/svg+xml",
}
"""The files that a release is downloaded as, with their media types."""


def words() -> Facts:
    """Return the words that an editor completes."""
    return {"keywords": list(KEYWORDS), "options": {name: list(VALUES.get(name, ())) for name in OPTIONS}}


class Analyst:
    """One user's questions. Raises `Error`, or `RefusedError`.

    What is free has a backend of its own, so that prices are told while a statement runs.
    """

    def __init__(self, free: ServedBackend, asks: ServedBackend, rule: SpendingRule) -> None:
        self._free = free
        self._asks = asks
        self._rule = rule
        self._tools = Tools(free, rule)

    async def tables(self) -> Facts:
        """Return tables, units, columns, declared values, and the limits that hold for everybody."""
        return await described_policy(self._free)

    async def budget(self) -> Facts:
        """Return what may be spent, is spent and is left."""
        return budget_facts(await self._free.budget())

    async def explain(self, sql: str) -> Facts:
        """Return the price of a statement, the error to expect, how it is answered; read no data."""
        asked, question = await self._tools.question(sql)
        budget = await self._free.budget()
        priced = {**amounts(asked.price), "left": left_of(budget)}
        if isinstance(asked.prepared, PreparedCommand):
            return {**priced, "private": False, "selection": "a command, which costs nothing"}
        facts = await self._free.explained(asked, budget)
        confirm = self._rule.offer(question) if asked.private else None
        offered = {} if confirm is None else {"confirm": confirm, "confirm_holds_seconds": LIFETIME}
        shown = {name: value for name, value in facts.items() if value is not None and name not in _HIDDEN}
        return {**shown, **priced, **offered, "private": asked.private}

    async def query(self, sql: str, confirm: str | None) -> bytes:
        """Answer a statement, as JSON; above the free price only with the confirmation of its price."""
        found = await Tools(self._asks, self._rule).answered(sql, confirm)
        budget = await self._free.budget()

        def written() -> bytes:
            with told(found.release):
                return body({**result(found, 0, budget.total), "left": left_of(budget)})

        return await self._beside(written)

    def cancel(self) -> Facts:
        """Stop what the user asks over HTTP now; what was charged stays charged."""
        running = self._asks.client.running
        self._asks.client.cancel()
        return {"cancelled": running}

    async def releases(self) -> bytes:
        """List the analyst's own releases as JSON, the newest last."""
        table = (await self._free.free("SHOW RELEASES")).table
        latest = table.slice(max(0, table.num_rows - MOST_ROWS))
        return await self._beside(lambda: body({"releases": records(latest)}))

    async def release(self, number: int, first: int) -> bytes:
        """Return one of the analyst's own releases again as JSON, from a row on."""
        release = await self._own(number)
        return await self._beside(lambda: body(released(release, first)))

    async def file(self, number: int, form: str, *, spreadsheet: bool = False) -> bytes:
        """Return one of the analyst's own releases as a file; CSV for a spreadsheet has no formulas."""
        release = await self._own(number)
        return await self._beside(lambda: _written(release, form, spreadsheet=spreadsheet))

    async def _beside(self, work: Callable[[], bytes]) -> bytes:
        """Write an answer in turn with other analysts; a long one would hold the event loop."""
        return await self._free.client.beside(_LONG, work)

    async def _own(self, number: int) -> Release:
        if number >= _LARGEST_NUMBER:
            raise RefusedError(404, "there is no such release of yours")
        try:
            return await self._free.release(number)
        except ProgrammingError:
            raise RefusedError(
                404, "there is no such release of yours", "GET /v1/releases lists them"
            ) from None


def _written(release: Release, form: str, *, spreadsheet: bool = False) -> bytes:
    """Return a release as a file."""
    if form == "chart.svg":
        try:
            drawn = release_svg(beginning(release, _MOST_DRAWN))
        except ProgrammingError:
            raise RefusedError(404, "the release has no number to draw") from None
        return drawn.encode("utf-8", "backslashreplace")
    out = io.BytesIO()
    if form == "rows.csv":
        write_csv(release.table, out, spreadsheet=spreadsheet)
    else:
        write_parquet(release.table, out)
    return out.getvalue()
