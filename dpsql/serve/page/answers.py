"""What a user asks over HTTP, and the answers as JSON: exact rows for programs, texts and bars for people."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.responses import Response

from dpsql.errors import ProgrammingError
from dpsql.kernel.loss import Charge
from dpsql.language.options import KEYWORDS, OPTION_VALUES, OPTIONS
from dpsql.release import told
from dpsql.render.charts import release_svg
from dpsql.render.data import write_csv, write_parquet
from dpsql.render.grid import Style
from dpsql.render.readable import assumptions, ordering, orders, places, summary
from dpsql.render.table import public_columns, release_columns
from dpsql.render.values import text, values
from dpsql.serve import json_facts
from dpsql.serve.confirm import ConfirmedStatements
from dpsql.serve.json_facts import MOST_ROWS, Facts
from dpsql.serve.page.requests import RefusedError, body, fields

if TYPE_CHECKING:
    import pyarrow as pa
    from starlette.requests import Request

    from dpsql.release import Release
    from dpsql.render.grid import TextColumn
    from dpsql.serve.answer import Answer
    from dpsql.serve.client import Client
    from dpsql.serve.confirm import SpendingRule
    from dpsql.serve.gate import Login
    from dpsql.sessions import StatementResult

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
MOST_BYTES = 4 << 20
"""Bytes of the rows in one answer, which are written several times over."""
MOST_BARS = 60
"""Bars that are drawn; the table has the other rows."""


class UserRequest:
    """A request of a user about statements: reads it, asks, answers. Raises `Error`, or `RefusedError`.

    What is free has a client of its own, so that prices are told while a statement runs.
    """

    def __init__(
        self, request: Request, login: Login, free: Client, asks: Client, rule: SpendingRule
    ) -> None:
        self._request, self._login = request, login
        self._free, self._asks, self._rule = free, asks, rule

    async def who(self) -> Facts:
        """Return who asks."""
        return {"user": self._login.user.name, "analyst": self._login.analyst}

    async def language(self) -> Facts:
        """Return the words that an editor completes."""
        options = {name: list(OPTION_VALUES.get(name, ())) for name in OPTIONS}
        return {"keywords": list(KEYWORDS), "options": options}

    async def tables(self) -> Facts:
        """Return tables, units, columns, declared values, and the limits that hold for everybody."""
        return await json_facts.describe_policy(self._free)

    async def budget(self) -> Facts:
        """Return what may be spent, is spent and is left."""
        return json_facts.budget_facts(await self._free.budget())

    async def explain(self) -> Facts:
        """Return the price of a statement, the error to expect, how it is answered; read no data."""
        given = await fields(self._request, sql=str)
        statements = ConfirmedStatements(self._free, self._rule)
        price, said, private = await json_facts.explain(statements, given["sql"] or "")
        return {**said, **price, "private": private}

    async def query(self) -> bytes:
        """Answer a statement; above the free price only with the confirmation of its price."""
        given = await fields(self._request, sql=str, confirm=str)
        statements = ConfirmedStatements(self._asks, self._rule)
        found = await statements.run(given["sql"] or "", given["confirm"])
        budget = await self._free.budget()

        def write() -> bytes:
            with told(found.release):
                return body({**answer_facts(found, 0, budget.total), "left": json_facts.left_of(budget)})

        return await self._beside(write)

    async def cancel(self) -> Facts:
        """Stop what the user asks over HTTP now; what was charged stays charged."""
        running = self._asks.running
        self._asks.cancel()
        return {"cancelled": running}

    async def releases(self) -> bytes:
        """List the analyst's own releases, the newest last."""
        latest = await json_facts.latest_releases(self._free)
        return await self._beside(lambda: body({"releases": json_facts.records(latest)}))

    async def release(self) -> bytes:
        """Return one of the analyst's own releases again, from a row on."""
        text = self._request.query_params.get("first_row", "0")
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise RefusedError(400, "first_row is the number of a row, from 0")
        release = await self._find()
        return await self._beside(lambda: body(released_facts(release, int(text))))

    async def file(self) -> Response:
        """Return one of the analyst's own releases as a file; CSV for a spreadsheet has no formulas."""
        wanted = self._request.query_params.get("spreadsheet", "false")
        if wanted not in ("true", "false"):
            raise RefusedError(400, "spreadsheet is true or false")
        release, form = await self._find(), self._request.url.path.rpartition("/")[2]
        data = await self._beside(lambda: write_file(release, form, spreadsheet=wanted == "true"))
        name = f"release-{release.number}.{form.rpartition('.')[2]}"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(data, headers=headers, media_type=FORMS[form])

    async def _beside(self, work: Callable[[], bytes]) -> bytes:
        """Write an answer in turn with other analysts; a long one would hold the event loop."""
        return await self._free.beside(_LONG, work)

    async def _find(self) -> Release:
        written = self._request.path_params["number"]
        # Python refuses to read thousands of digits, as an error of its own.
        number = int(written) if written.isascii() and written.isdigit() and len(written) < 20 else -1
        if not 0 <= number < _LARGEST_NUMBER:
            raise RefusedError(404, "there is no such release of yours")
        try:
            return await self._free.release(number)
        except ProgrammingError:
            raise RefusedError(
                404, "there is no such release of yours", "GET /v1/releases lists them"
            ) from None


def answer_facts(found: Answer | StatementResult, first: int = 0, total: Charge | None = None) -> Facts:
    """Return what a statement is answered; `total` is the whole budget, for "epsilon 1 of 10"."""
    if found.release is None:
        rows = _count_fitting_rows(found.table, first)
        shown = public_columns(found.table.slice(first, rows), Style())
        return {
            **_rows_facts(found.table, first, rows),
            "shown": _texts_facts(shown),
            "epsilon": 0.0,
            "delta": 0.0,
        }
    return released_facts(found.release, first, total)


def released_facts(release: Release, first: int = 0, total: Charge | None = None) -> Facts:
    """Return a release: its rows from one on with their intervals, its price, what is said below it."""
    rows = _count_fitting_rows(release.table, first)
    part = _slice(release, first, rows)
    return {
        **_rows_facts(release.table, first, rows),
        "keys": list(release.keys),
        "counts": list(release.counts),
        "shown": _texts_facts(release_columns(part, Style(), none="")),
        "chart": chart_facts(release),
        **json_facts.release_facts(release),
        "selection": release.selection,
        "guarantee": release.guarantee,
        "below": [" · ".join(summary(release, total)), *assumptions(release)],
    }


def _count_fitting_rows(table: pa.Table, first: int) -> int:
    """Return how many rows an answer has, from one on: fewer if they are long, but one at least."""
    rows = MOST_ROWS
    while rows > 1 and table.slice(first, rows).nbytes > MOST_BYTES:
        rows //= 2
    return rows


def _rows_facts(table: pa.Table, first: int, rows: int) -> Facts:
    part = table.slice(first, rows)
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    listed = [list(row) for row in zip(*(values(column) for column in part.columns), strict=True)]
    return {"columns": columns, "rows": listed, "first_row": first, "rows_in_all": table.num_rows}


def _texts_facts(columns: list[TextColumn]) -> list[Facts]:
    """Return columns of texts as people read them; blanks align numbers in a terminal only."""
    return [
        {
            "name": column.name,
            "number": column.right,
            "cells": [" ".join(cell.split()) if column.right else cell for cell in column.cells],
            "nulls": sorted(column.nulls),
        }
        for column in columns
    ]


def _slice(release: Release, first: int, rows: int) -> Release:
    """Return so many rows of a release, from one on."""
    return replace(release, rows=release.rows.slice(first, rows), table=release.table.slice(first, rows))


def chart_facts(release: Release) -> Facts | None:
    """Return the bars of a release: labels, numbers, ends of intervals, free gaps; None if it has none."""
    number, found_at = orders(release), places(release)
    if number is None or not release.rows.num_rows:
        return None
    name = release.rows.column_names[number.place]
    drawn = _slice(release, 0, MOST_BARS)
    rows, table = drawn.rows, drawn.table
    keys = [values(rows.column(key)) for key in found_at.keys]
    labels = [_label(row) for row in zip(*keys, strict=True)]
    gaps = [] if found_at.gap is None else values(table.column(found_at.gap))
    written = _gap_texts(drawn, found_at.gap)
    bars = [
        {
            "label": label,
            "value": None if estimate is None else estimate.value,
            "low": None if estimate is None else estimate.low,
            "high": None if estimate is None else estimate.high,
            "text": "NULL" if estimate is None else " ".join(estimate.text()).strip(),
            "gap": gap,
            "gap_text": gap_text,
        }
        for label, estimate, gap, gap_text in zip(
            labels or [name] * rows.num_rows,
            ordering(drawn),
            gaps or [None] * rows.num_rows,
            written or [""] * rows.num_rows,
            strict=True,
        )
    ]
    return {"of": name, "bars": bars, "confidence": float(release.confidence)}


def _label(keys: tuple[object, ...]) -> str:
    return ", ".join("NULL" if part is None else text(part) for part in keys)


def _gap_texts(release: Release, place: int | None) -> list[str]:
    """Return the gaps to the next group, as precise as their noise; none if the release has no gaps."""
    columns = release_columns(release, Style(), none="")
    shown = release.rows.num_columns
    if place is None or (place >= shown and len(columns) == shown):
        return []
    return [cell.strip() for cell in columns[min(place, shown)].cells]


def write_file(release: Release, form: str, *, spreadsheet: bool = False) -> bytes:
    """Return a release as a file."""
    if form == "chart.svg":
        try:
            drawn = release_svg(_slice(release, 0, _MOST_DRAWN))
        except ProgrammingError:
            raise RefusedError(404, "the release has no number to draw") from None
        return drawn.encode("utf-8", "backslashreplace")
    out = io.BytesIO()
    if form == "rows.csv":
        write_csv(release.table, out, spreadsheet=spreadsheet)
    else:
        write_parquet(release.table, out)
    return out.getvalue()
